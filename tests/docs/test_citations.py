"""The papers are cited by their titles, everywhere by the same ones."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TITLES = re.findall(r'^    title: "?(.+?)"?$', (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_three_papers_have_the_titles_they_were_published_under() -> None:
    assert TITLES == [
        "Chain and Causal Attention for Efficient Entity Tracking",
        "Improving Length-Generalization in Transformers via Task Hinting",
        "Seq-VCR: Preventing Collapse in Intermediate Transformer Representations for Enhanced Reasoning",
    ]


def test_the_docs_name_the_papers_by_these_titles() -> None:
    for page in ("docs/index.md", "docs/concepts/models.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert [title for title in TITLES if title not in text] == [], page


def test_no_page_notebook_or_docstring_makes_up_a_title() -> None:
    made_up = "Task hinting and " + "tempered softmax"
    files = [
        path
        for folder in ("workbench", "probes", "app", "docs", "notebooks", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".ipynb", ".html")
    ]
    assert len(files) > 300
    assert [path.name for path in files if made_up in path.read_text(encoding="utf-8")] == []
