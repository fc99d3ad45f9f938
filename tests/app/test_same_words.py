"""The same claim on the same run has the same words in terminal, HTML page, story and explorer.

A notebook shows the report's summary and the story, which are the first and the third of these.
"""

from __future__ import annotations

import html
import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.conftest import APP
from tests.app.support import ask, page
from workbench.app import state
from workbench.app.panels import background, how_it_works
from workbench.inspection import inspect_run
from workbench.inspection.found import BESIDE, Found
from workbench.judgement.claim import JudgedClaim, Judgement
from workbench.judgement.words import claims
from workbench.judgement.words.findings import MOST_CLAIMS, how_sure, statements
from workbench.mechanisms import MECHANISMS
from workbench.report import write
from workbench.report.story import story
from workbench.runs import load_run
from workbench.util.words import capitalised

ZOO = Path(__file__).parents[2] / "app" / "zoo"
FEW = 20  # sequences of all the task's conditions together: enough for a word on how often a claim holds


@pytest.fixture(scope="module", params=sorted(path.parent.name for path in ZOO.glob("*/config.json")))
def measured(request: pytest.FixtureRequest) -> Found:
    """A model that comes along, measured on few sequences: the words are what is looked at here."""
    run = load_run(ZOO / request.param)
    settings: dict[str, Any] = {"n": max(4, FEW // len(run.task().conditions)), "seed": 0}
    settings["only"] = [*BESIDE, *MECHANISMS]
    return Found(inspect_run(run, **settings), settings)


def groups(found: Found) -> list[tuple[JudgedClaim, tuple[Judgement, ...]]]:
    return [(claim, group) for claim in found.findings.claims for group in claim.alike]


def has(text: str, words: str) -> bool:
    """Whether a text has these words, or begins a sentence with them."""
    return words in text or capitalised(words) in text


def test_the_same_claim_has_the_same_words_everywhere(
    measured: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding = [claims.holding(group) for _, group in groups(measured)]
    needing = [needs for _, group in groups(measured) if (needs := claims.needing(group))]
    needing += [claims.needed_set(claim.needed_set) for claim in measured.findings.claims if claim.needed_set]
    report = write([measured.inspected], tmp_path)
    on_page = html.unescape(report.html.read_text(encoding="utf-8"))
    for text in (report.says, on_page):
        assert [words for words in (*holding, *needing) if words not in text] == []

    chapters = story(measured.inspected)
    told = [chapter.statement for chapter in chapters]
    said = statements(measured.findings)
    assert [one for one in told if one in said] == said and told[-1].text == how_sure([measured.findings])
    assert [words for words in holding if not has("\n".join(one.text for one in said), words)] == []
    assert all(one.text in report.says and one.text in on_page for one in said[: MOST_CLAIMS + 1])

    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(ZOO)])
    monkeypatch.setattr(background, "_jobs", {})
    opened = state.opened(load_run(ZOO / measured.inspected.name))
    ask(opened.key, lambda: measured).future.result(30)
    explorer = page(AppTest.from_file(str(APP), default_timeout=60), "canvas", run=measured.inspected.name)
    above = "\n".join(one.value for one in explorer.markdown).replace("\\", "")
    assert [one.text for one in said[: how_it_works.MOST] if one.shorter not in above] == []
    explorer = page(AppTest.from_file(str(APP), default_timeout=60), "story", run=measured.inspected.name)
    beside = "\n".join(explorer.radio(key="chapter").proto.captions).replace("\\", "")
    listed = [one.brief or capitalised(one.rest) for one in said if one.brief or "absent" in one.chips]
    assert [words for words in listed if words not in beside] == []
    shown = "\n".join(one.value for one in explorer.markdown).replace("\\", "")
    first = next((one for one in said if one.brief), None)
    parts = [] if first is None else [first.brief, *first.parts]
    assert first is None or " ".join(first.parts) == first.rest
    assert [part for part in parts if not has(shown, part)] == [], "and the one that is chosen is told whole"
