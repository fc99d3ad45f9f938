"""The tutorial's output is what its script wrote, and the script shows the lines that are asked for."""

from __future__ import annotations

from tests.docs.tutorial import PAGE, STEP, lines_shown, run_page


def test_lines_by_number_have_an_ellipsis_for_what_is_left_out() -> None:
    assert lines_shown("a\nb\nc\nd\ne\n", "2-3 5") == "…\nb\nc\n…\ne\n"
    assert lines_shown("a\nb\n", "1-9") == "a\nb\n"
    assert lines_shown("a \nb\n", "all") == "a\nb\n"


def test_output_replaces_the_block_that_follows_and_nothing_else() -> None:
    page = "Text.\n\n```python\nprint(1 + 1)\n```\n\n<!-- output: all -->\n\n```text\nold\n```\n\nMore.\n"
    assert run_page(page) == page.replace("old", "2")


def test_every_block_of_the_tutorial_that_shows_output_has_some() -> None:
    steps = list(STEP.finditer(PAGE.read_text(encoding="utf-8")))
    assert len(steps) >= 9 and all(step["output"].strip() for step in steps if step["shown"])
