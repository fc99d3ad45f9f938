"""Tokens as people read them, and what each adds to a text, of every kind of tokenizer."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from tests.models.tiny_tokenizers import END, PROSE, TOKENIZERS
from workbench.tasks.token_words import BYTE_LEVEL, _shown, vocabulary_of


def words(made: PreTrainedTokenizerFast, text: str) -> list[str]:
    return vocabulary_of(made, len(made)).decode(made(text)["input_ids"])


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("byte level", "The cat sat", ["The", "␣cat", "␣sat"]),
        ("byte level", " là\n", ["␣là", "⏎"]),
        ("byte level", "naï", ["n", "a", "<0xC3>", "<0xAF>"]),
        ("byte level", f"\t{END}", ["⇥", END]),
        ("byte fallback", "cat é\nù", ["<s>", "␣cat", "␣", "é", "⏎", "<0xC3>", "<0xB9>"]),
        ("unigram", "The naïve café", ["␣The", "␣na", "ïve", "␣café", "</s>"]),
        ("unigram", "zebra тихий", ["␣", "<unk>", "e", "<unk>", "a", "␣тихий", "</s>"]),
        ("word piece", "cats naïve мир.", ["[CLS]", "cat", "##s", "na", "##ï", "##ve", "мир", ".", "[SEP]"]),
    ],
)
def test_words_are_decoded_with_a_mark_for_a_space_and_for_a_part_of_a_character(
    kind: str, text: str, expected: list[str]
) -> None:
    assert words(TOKENIZERS[kind](), text) == expected


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_no_two_tokens_have_one_word_and_no_word_has_white_space(kind: str) -> None:
    made = TOKENIZERS[kind]()
    found = vocabulary_of(made, len(made) + 2)
    assert len(set(found.words)) == len(found) == len(made) + 2 and found.words[-1] == f"<id {len(made) + 1}>"
    assert all(word and word.isprintable() and "Ġ" not in word and "▁" not in word for word in found.words)
    assert not any(" " in word for word in found.words[: len(made)])


@pytest.mark.parametrize("kind", ["byte level", "byte fallback", "unigram"])
def test_the_texts_of_tokens_make_up_the_text(kind: str) -> None:
    """Where no character is cut: `the cat sat`, and each byte of another text once its parts are put together."""
    made = TOKENIZERS[kind]()
    ids = made("The cat sat on a mat.", add_special_tokens=False)["input_ids"]
    texts = vocabulary_of(made, len(made)).texts
    assert texts is not None
    assert "".join(texts[i] for i in ids).removeprefix(" ") == "The cat sat on a mat."


def test_a_special_token_and_what_begins_within_a_character_have_no_text() -> None:
    for kind in ("byte level", "byte fallback"):
        made = TOKENIZERS[kind]()
        found = vocabulary_of(made, len(made))
        assert found.texts is not None
        for i in made(f"ù {made.eos_token}")["input_ids"]:
            assert (found.texts[i].strip() == "") == (found.words[i] not in ("e", "n")), found.words[i]


def test_words_that_read_alike_are_told_apart() -> None:
    """A byte keeps its name beside the sign; a second token that reads alike has its id behind it."""
    made = TOKENIZERS["byte fallback"]()
    found = vocabulary_of(made, len(made))
    assert found.words[made.convert_tokens_to_ids("a")] == "a"
    assert found.words[made.convert_tokens_to_ids("<0x61>")] == "<0x61>"
    assert found.words[made.convert_tokens_to_ids("<0x0A>")] == "⏎"
    made = TOKENIZERS["byte level"]()
    made.add_tokens(["⏎"])
    assert vocabulary_of(made, len(made)).words[-1] == f"⏎#{len(made) - 1}"


def test_what_cannot_be_seen_has_a_mark() -> None:
    assert _shown("a\u00a0b\u200b\u2028\x07 \n") == "a<U+00A0>b<U+200B><U+2028><0x07>␣⏎"
    assert _shown("naïve мир 中 😀".replace(" ", "")) == "naïveмир中😀"


def test_bytes_are_read_back_as_byte_level_pieces_write_them() -> None:
    made = TOKENIZERS["byte level"]()
    pieces = "".join(made.tokenize(PROSE))
    assert bytes(BYTE_LEVEL[letter] for letter in pieces).decode() == PROSE
