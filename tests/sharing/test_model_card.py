"""The model card says what the run was, and nothing that a name could make it say."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from workbench.runs import Run, load_run, parse_config
from workbench.sharing import card
from workbench.sharing.model_card import _escape

HOSTILE = [
    "---\nlicense: mit\n---",
    "<script>alert(1)</script>",
    "![x](http://evil) [y](javascript:alert(1)) http://evil.example www.evil.example",
    "a | b | c\n| --- | --- |",
    "`code` **bold** # heading\n\n## another",
    "<!-- &lt; &amp; \\ $x$ ~~z~~ @you",
    "\u202egnp.exe\u2066 \x1b[2J",
    "",
    "x" * 10_000,
]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text[self.lasttag] = self.text.get(self.lasttag, "") + data


def rendered(text: str) -> Tags:
    """As a Markdown renderer that lets HTML through shows it."""
    tags = Tags()
    tags.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(text.split("---\n", 2)[2]))
    return tags


def test_it_says_what_was_trained_and_how_well(trained: Run) -> None:
    text = card(trained, "me/chain")
    accuracy = trained.metrics()["accuracy"].dropna().iloc[-1]
    whole = trained.metrics()["whole_answer"].dropna().iloc[-1]
    assert f"Accuracy on held-out sequences: **{accuracy:.1%}**; whole answers right: **{whole:.1%}**." in text
    assert f"| 20 | {accuracy:.4f} |" in text
    for said in (
        "`pointer_chain`",
        "| n | 8 |",
        "chacal, gamma 0.9",
        "projection 12",
        "| seed | 0 |",
        "| steps | 20 |",
    ):
        assert said in text
    assert f"{sum(p.numel() for p in trained.model().parameters()):,} parameters" in text
    assert 'pull("me/chain", "runs/chain")' in text and "workbench pull me/chain --out runs/chain" in text
    assert 'unpack("PATH", "runs/chain")' in card(trained)
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["library_name"] == "workbench" and {"pointer_chain", "chacal"} <= set(front["tags"])
    assert "license" not in front


def test_a_run_never_evaluated_has_a_card(trained: Run, tmp_path: Path) -> None:
    shutil.copytree(trained.path, tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    assert "was not measured" in card(load_run(tmp_path / "run"))
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1, "accuracy": 0.5}\n')  # of a version before
    assert "held-out sequences: **50.0%**." in card(load_run(tmp_path / "run"))
    (tmp_path / "run" / "metrics.jsonl").unlink()
    assert "was not measured" in card(load_run(tmp_path / "run"))


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:30])
def test_no_name_breaks_out_of_its_place(name: str, trained: Run, tmp_path: Path) -> None:
    config = parse_config({**trained.config.model_dump(), "preset": name})
    folder = "".join("∕" if c == "/" else c for c in name if c != "\0")[:60] or "run"
    shutil.copytree(trained.path, tmp_path / folder)
    text, usual = card(Run(tmp_path / folder, config)), card(trained)
    assert yaml.safe_load(text.split("---\n")[1]) == yaml.safe_load(usual.split("---\n")[1])
    assert rendered(text).tags == rendered(usual).tags and "a" not in rendered(text).tags
    assert text.count("\n") == usual.count("\n") and all(c.isprintable() or c == "\n" for c in text)


def test_escaped_text_reads_as_it_was() -> None:
    text = r"<b>*a_b* [c](d) & `e` | \f # 1. http://g @h $i$"
    assert rendered(f"---\n---\n# {_escape(text)}").text["h1"].strip() == text
    assert _escape("chain_of_thought") == "chain_of_thought"
