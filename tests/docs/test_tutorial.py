"""The tutorials' output is what their script wrote, and the script shows the lines that are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tutorial import PAGES, STEP, lines_shown, run_page


def test_lines_by_number_have_an_ellipsis_for_what_is_left_out() -> None:
    assert lines_shown("a\nb\nc\nd\ne\n", "2-3 5") == "…\nb\nc\n…\ne\n"
    assert lines_shown("a\nb\n", "1-9") == "a\nb\n"
    assert lines_shown("a \nb\n", "all") == "a\nb\n"


def test_output_replaces_the_block_that_follows_and_nothing_else() -> None:
    page = "Text.\n\n```python\nprint(1 + 1)\n```\n\n<!-- output: all -->\n\n```text\nold\n```\n\nMore.\n"
    assert run_page(page) == page.replace("old", "2")


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_block_of_a_tutorial_that_shows_output_has_some(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = [step for step in STEP.finditer(text) if step["shown"]]
    assert len(shown) >= 4 and all(step["output"].strip() for step in shown)
    assert text.count("```text\n") == len(shown), "no output was typed by hand"
