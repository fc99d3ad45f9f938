"""The glossary says in a sentence or two what a word means, in order, and the docs have the same list."""

from __future__ import annotations

from pathlib import Path

from workbench.report.glossary import GLOSSARY

SPELT = {"γ": "gamma"}


def test_words_stand_in_order_and_each_has_its_sentence() -> None:
    words = [SPELT.get(word, word).casefold() for word in GLOSSARY]
    assert words == sorted(words)
    for word, meaning in GLOSSARY.items():
        assert meaning.endswith(".") and 20 < len(meaning) < 260, word


def test_the_docs_have_the_same_list() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "glossary.md"
    assert "<!-- table: glossary -->" in page.read_text(encoding="utf-8")
