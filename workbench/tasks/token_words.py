"""The tokens of a tokenizer of Hugging Face as people read them, and what each of them adds to a text.

    Ġnaïve   ␣naïve    a space before a word; ⏎ is a new line, ⇥ a tab
    Ã        <0xC3>    a byte that is a part of a character, as SentencePiece writes it
    ##ing    ##ing     a piece within a word, where every other piece begins one

What the tokenizer's own decoder makes of a token between two others is asked for, not how its kind writes spaces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from workbench.tasks.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MARKS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
BYTE = re.compile("<0x([0-9A-F]{2})>")
ANCHORS = 4096  # tokens among which one is looked for that others are decoded beside
_PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _PLAIN]
BYTE_LEVEL = {chr(byte): byte for byte in _PLAIN} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}
"""How byte-level BPE writes each byte in its pieces."""


def vocabulary_of(tokenizer: PreTrainedTokenizerBase, size: int) -> Vocabulary:
    """The words and texts of the token ids below `size`; an id that the tokenizer does not know is `<id 5>`."""
    pieces = dict(sorted((i, piece) for piece, i in tokenizer.get_vocab().items() if i < size))
    added = tokenizer.added_tokens_decoder
    special = {*tokenizer.all_special_ids, *(i for i, token in added.items() if token.special)}
    ordinary = [i for i in pieces if i not in special]
    words, texts = _read(tokenizer, ordinary, pieces)
    ids_of_words: dict[str, int] = {}
    for i in range(size):
        word = _shown(words.get(i) or pieces.get(i, "")) or f"<id {i}>"
        while word in ids_of_words:  # two tokens may read alike
            word += f"#{i}"
        ids_of_words[word] = i
    # each text up to the first byte in it that is a part of a character
    whole = (re.split("[\udc80-\udcff]", texts.get(i, ""), maxsplit=1)[0] for i in range(size))
    return Vocabulary(tuple(ids_of_words), tuple(whole))


def _read(
    tokenizer: PreTrainedTokenizerBase, ids: list[int], pieces: dict[int, str]
) -> tuple[dict[int, str], dict[int, str]]:
    """Id -> what it reads as alone, and what it adds to a text, in which `\\udcc3` is a byte that is no character."""
    fast = getattr(tokenizer, "backend_tokenizer", None)

    def decoded(rows: list[list[int]]) -> list[str]:
        if fast is not None:  # a fourth of the time
            return list(fast.decode_batch(rows, skip_special_tokens=False))
        return list(tokenizer.batch_decode(rows, clean_up_tokenization_spaces=False))

    some = [i for i in ids[:ANCHORS] if not BYTE.fullmatch(pieces[i])]
    letters = {i: text for i, text in zip(some, decoded([[i] for i in some]), strict=True) if text.isalnum()}
    twice = dict(zip(letters, decoded([[i, i] for i in letters]), strict=True))
    joined = next((i for i in letters if twice[i] == letters[i] * 2), None)
    anchor = next(iter(letters), None) if joined is None else joined
    if anchor is None:
        texts = dict(zip(ids, decoded([[i] for i in ids]), strict=True))
    else:
        start, end = letters[anchor], twice[anchor].removeprefix(letters[anchor])
        texts = {}
        for i, text in zip(ids, decoded([[anchor, i, anchor] for i in ids]), strict=True):
            fits = text.startswith(start) and text.endswith(end) and len(text) >= len(start) + len(end)
            texts[i] = text[len(start) : len(text) - len(end)] if fits else decoded([[i]])[0]
    texts = {i: _with_bytes(text, pieces[i]) for i, text in texts.items()}
    words = texts if joined is not None else dict(zip(ids, decoded([[i] for i in ids]), strict=True))
    plain = {i: pieces[i] for i, text in texts.items() if text.isprintable() and BYTE.fullmatch(pieces[i])}
    return words | plain, texts  # a sign that is a word too is told apart from its byte


def _with_bytes(text: str, piece: str) -> str:
    """A text that a decoder could not read, from the bytes of its piece."""
    if "\ufffd" not in text:
        return text
    if byte := BYTE.fullmatch(piece):
        return bytes.fromhex(byte[1]).decode("utf-8", "surrogateescape")
    if all(letter in BYTE_LEVEL for letter in piece):
        return bytes(BYTE_LEVEL[letter] for letter in piece).decode("utf-8", "surrogateescape")
    return text


def _shown(text: str) -> str:
    """A text without white space and without what cannot be seen, each of which has a mark."""
    if text.isprintable() and " " not in text:
        return text
    shown = []
    for sign in text:
        code = ord(sign)
        byte = code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code if code < 0x80 else None
        name = f"<U+{code:04X}>" if byte is None else f"<0x{byte:02X}>"
        shown.append(MARKS.get(sign) or (sign if sign.isprintable() else name))
    return "".join(shown)
