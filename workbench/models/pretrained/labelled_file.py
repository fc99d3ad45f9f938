"""Texts with labels of one's own, for probes: a file with a row for each text, a column `text`, and columns of labels.

    {"text": "Ann was glad.", "mood": "good", "kind": [{"start": 0, "end": 3, "label": "person"}]}       (in one line)

A value is the label of the whole text, at its last token. A list of spans labels tokens: each that shares a character
with a span; all others are in a class of their own. Whole numbers from 0 on are labels themselves, which `regression`
reads as numbers; all else are names of classes. A text without a value has no label.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.models.pretrained.text_file import needed, sequence_length
from workbench.tasks import Sequences, own_sequences
from workbench.tasks.text_file import TEXT, read_texts
from workbench.util.messages import brief

if TYPE_CHECKING:
    from workbench.models.pretrained.model import Pretrained

LARGEST = 2**16  # of whole numbers that are labels themselves


def labelled_sequences(
    model: Pretrained, path: str | Path, label: str, *, length: int | None = None, n: int | None = None
) -> Sequences:
    """The texts of a file as sequences, with the labels of its columns.

    Args:
        model: whose tokenizer cuts the texts; what it puts before a text is there, what it puts after one is not.
        path: JSON lines, or CSV or TSV with a first line of names.
        label: the name of a column, or a pattern of names; of no column where the text itself gives the label.
        length: the most tokens of a text; by default 256, or the model's context if that is shorter.
        n: the most texts.

    Raises:
        ValueError: in one line, if the file cannot be read, a text is longer, or a column is no label.
    """
    rows = list(read_texts(path, n))
    if len(rows) < 2:
        raise ValueError(f"{path} has {len(rows)} of the 2 texts or more that a probe needs, some to test it on")
    longest = sequence_length(model.config.module, model.config.n_ctx, length)
    tokens = [model.prompt(row[TEXT]) for _, row in rows]
    for (where, _), ids in zip(rows, tokens, strict=True):
        if not 2 <= len(ids) <= longest:
            raise ValueError(f"{where}: the text has {len(ids)} tokens, and 2 to {longest} are read (--length)")
    names = [name for name in dict.fromkeys(name for _, row in rows for name in row) if name and name != TEXT]
    read = {name: _labels(model, rows, name, tokens) for name in names if fnmatchcase(name, label)}
    return own_sequences(
        tokens,
        model.config.d_vocab,
        words=model.vocabulary,
        pad=model.pad,
        known=model.known_text,
        labels={name: values for name, (values, _) in read.items()},
        classes={name: classes for name, (_, classes) in read.items() if classes},
    )


def _labels(
    model: Pretrained, rows: Sequence[tuple[str, dict[str, Any]]], name: str, tokens: Sequence[Int[Tensor, " pos"]]
) -> tuple[list[Int[Tensor, " pos"]], list[str]]:
    """A column's value at each token of each text, and the names of its classes; none of numbers.

    Raises:
        ValueError: if it is no label.
    """
    values = [row.get(name) for _, row in rows]
    if not any(isinstance(value, list) for value in values):
        numbers, names = _numbered([(where, value) for (where, _), value in zip(rows, values, strict=True)], name)
        last = [torch.tensor([-1] * (len(ids) - 1) + [number]) for ids, number in zip(tokens, numbers, strict=True)]
        return last, names
    by_text = [
        None if value is None else _spans(value, len(row[TEXT]), f"{where}: {name}")
        for (where, row), value in zip(rows, values, strict=True)
    ]
    classes = {kind: i for i, kind in enumerate(sorted({kind for spans in by_text for *_, kind in spans or ()}), 1)}
    tokenizer = needed(model.tokenizer, model.config.module)
    if not tokenizer.is_fast:
        raise ValueError(f"the tokenizer of {model.config.module} does not say which characters a token has")
    offsets = tokenizer([row[TEXT] for _, row in rows], return_offsets_mapping=True)["offset_mapping"]
    of_tokens = [
        torch.tensor([-1 if spans is None else _class_of(place, spans, classes) for place in places[: len(ids)]])
        for places, spans, ids in zip(offsets, by_text, tokens, strict=True)
    ]
    return of_tokens, ["outside", *classes]


def _numbered(values: Sequence[tuple[str, object]], name: str) -> tuple[list[int], list[str]]:
    """The number of each value, itself or its class, −1 where there is none; and the classes' names.

    Raises:
        ValueError: if a value is no label.
    """
    for where, value in values:
        if isinstance(value, dict):
            raise ValueError(f"{where}: {name} is an object; a label is a text or a number, or a list of spans")
    words = [
        str(value).lower() if isinstance(value, bool) else "" if value is None else str(value) for _, value in values
    ]
    given = sorted({*words} - {""})
    try:
        numbers = {word: float(word) for word in given}
    except ValueError:
        numbers = {}
    if not all(number.is_integer() for number in numbers.values()):
        raise ValueError(
            f"{name} holds numbers with decimals, and a probe decodes classes or whole numbers: round them"
        )
    named = not numbers or min(numbers.values()) < 0 or max(numbers.values()) > LARGEST
    if named:
        numbers = {word: i for i, word in enumerate(given)}
    return [int(numbers.get(word, -1)) for word in words], given if named else []


def _spans(value: object, length: int, where: str) -> list[tuple[int, int, str]]:
    """Start, end and label of each span, in order. Raises ValueError if they are none."""
    spans = []
    for span in value if isinstance(value, list) else [value]:
        start, end, kind = (span.get(key) for key in ("start", "end", "label")) if isinstance(span, dict) else (0, 0, 0)
        if (
            type(start) is not int
            or type(end) is not int
            or not 0 <= start < end <= length
            or not isinstance(kind, str)
        ):
            raise ValueError(
                f"{where}: {brief(repr(span), 60)} is no span; one is an object with start and end, characters of the "
                f"text from 0 to {length}, and label, a text"
            )
        spans.append((start, end, kind))
    spans.sort()
    for (_, end, _), (start, *_) in pairwise(spans):
        if start < end:
            raise ValueError(f"{where}: two spans overlap at character {start}, and a token has one label")
    return spans


def _class_of(place: tuple[int, int], spans: Sequence[tuple[int, int, str]], classes: dict[str, int]) -> int:
    """The class of a token by its characters: that of the first span with one of them, 0 outside, −1 without any."""
    if place[0] == place[1]:
        return -1
    return next((classes[kind] for start, end, kind in spans if start < place[1] and place[0] < end), 0)
