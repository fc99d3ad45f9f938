"""Labels that a running text gives itself, for probes of any language model.

A sequence may be cut out of a text anywhere: what depends on what stood before or after it has no label.

    next_token, previous_token   the tokens beside it
    first_letter                 the first letter or sign of its own text; none of a space, a special token, or a token
                                 that begins within a character
    next_letter                  the first letter or digit of the word that begins with the next token, where one does
    word_part                    0 a whole word, 1 the first token of a word of several, 2 one within, 3 the last
    in_quotes                    1 where a quotation is open after the token, else 0; none in a sequence without a mark
    repeated                     1 where the same token stands earlier in the sequence, else 0
    line_position                tokens since the line began, 0 for its first; none before the first line end

        x ␣said , ␣" Mar ia ," ␣there .          word_part · 0 · · 1 3 · 0 ·   in_quotes 0 0 0 1 1 1 0 0 0
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import accumulate

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from workbench.tasks.base import Task

NAMES = (
    *("eighth", "token", "position", "next_token", "previous_token"),
    *("first_letter", "next_letter", "word_part", "in_quotes", "repeated", "line_position"),
)
"""Every label that sequences of text have."""
_SPACES = "\u0120\u2581"  # how tokenizers write a space before a word, which words of one's own may have
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_MARK = re.compile('["“”„«»]')
_OPENING, _CLOSING = " \t\n([{—–-", " \t\n.,;:!?)]}—–-"  # beside a straight mark that opens or closes a quotation


def of_text(task: Task, tokens: Int[Tensor, "batch pos"]) -> dict[str, Int[Tensor, "batch pos"]]:
    """Every label of these sequences, by name; −1 where it has no meaning."""
    real = torch.arange(tokens.shape[1]) < task.lengths(tokens)[:, None]
    here = torch.where(real, tokens, -1)
    words, texts = task.vocabulary.words, task.vocabulary.texts
    if texts is None:  # words of one's own without marks of a space are each a word after one
        marked = any(word[:1] in _SPACES for word in words if word)
        texts = tuple(re.sub(f"^[{_SPACES}]+", " ", word) if marked else f" {word}" for word in words)
    first = [text.lstrip()[:1].lower() for text in texts]
    signs = {sign: i for i, sign in enumerate(sorted(sign for sign in {*first} if sign.isprintable() and sign))}
    letter = torch.tensor([signs.get(sign, -1) for sign in first])
    rows = [_of_row(ids[:length], texts) for ids, length in zip(tokens.tolist(), real.sum(1).tolist(), strict=True)]
    of_words = {
        name: torch.tensor([row[name] + [-1] * (tokens.shape[1] - len(row[name])) for row in rows]) for name in rows[0]
    }
    return {
        "next_token": pad(here[:, 1:], (0, 1), value=-1),
        "previous_token": torch.where(real, pad(here[:, :-1], (1, 0), value=-1), -1),
        "first_letter": torch.where(real, letter[tokens], -1),
        **of_words,
    }


def _of_row(ids: list[int], texts: tuple[str, ...]) -> dict[str, list[int]]:
    """The labels of one sequence that take more than one token."""
    pieces = [texts[i] for i in ids]
    text, ends = "".join(pieces), list(accumulate(map(len, pieces)))
    next_letter, word_part = ([-1] * len(ids) for _ in range(2))
    earliest = {token: at for at, token in reversed([*enumerate(ids)])}
    for word in _WORD.finditer(text):
        first, last = bisect_left(ends, word.start() + 1), bisect_left(ends, word.end())
        if word.start() and first and next_letter[first - 1] < 0:  # a word at the very start may have begun before it
            next_letter[first - 1] = ord(word[0][0].lower()[0])
        if word.start() and word.end() < len(text) and word_part[first] < 0:
            word_part[first : last + 1] = [0] if first == last else [1, *[2] * (last - first - 1), 3]
    return {
        "next_letter": next_letter,
        "word_part": word_part,
        "in_quotes": _in_quotes(text, ends),
        "repeated": [int(earliest[token] < at) for at, token in enumerate(ids)],
        "line_position": _line_positions(pieces),
    }


def _in_quotes(text: str, ends: list[int]) -> list[int]:
    """Whether a quotation is open at each of these ends; before the first mark that is what the mark changes."""
    opening, closing = ("„«", "“”»") if "„" in text else ("“«", "”»")
    marks: list[int] = []
    inside: list[int] = []
    for mark in _MARK.finditer(text):
        at = mark.start()
        opens, closes = text[at - 1 : at] in _OPENING, text[at + 1 : at + 2] in _CLOSING
        if mark[0] in opening or (mark[0] == '"' and opens and not closes):
            inside.append(1)
        elif mark[0] in closing or (mark[0] == '"' and closes and not opens):
            inside.append(0)
        elif inside:  # such as said,"There
            inside.append(1 - inside[-1])
        else:
            continue
        marks.append(at)
    return [[1 - inside[0], *inside][bisect_left(marks, end)] if marks else -1 for end in ends]


def _line_positions(pieces: list[str]) -> list[int]:
    """Tokens since the line of each began; the token that ends a line is its last."""
    positions, at = [], -1
    for piece in pieces:
        _, line_end, after = piece.rpartition("\n")
        if line_end and after:
            at = 0
        positions.append(at)
        at = 0 if line_end and not after else at + 1 if at >= 0 else -1
    return positions
