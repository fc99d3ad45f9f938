"""Minimal pairs written by hand, for models of Hugging Face: a small file of texts and answers.

JSON lines, or CSV with a first line of names (commas, semicolons or tabs between them), have in each row `clean`,
`corrupted` (the same text with one thing changed, of as many tokens), `answer` (the token after the clean text) and
`wrong` (the one after the corrupted text):

    {"clean": "Mary and John met; John saw", "corrupted": "Mary and John met; Mary saw",
     "answer": " Mary", "wrong": " John"}          (in one line)
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from workbench.tasks import Batch, Pairs
from workbench.util.files import parse_json, read_text
from workbench.util.messages import brief

if TYPE_CHECKING:
    from workbench.models.pretrained import Pretrained

FIELDS = ("clean", "corrupted", "answer", "wrong")
LONGEST = 2**24  # bytes
FEWEST = 4  # two to find a circuit on, and two to test it on, so that there are intervals
Row = dict[str, str]


def read_pairs(path: str | Path, model: Pretrained) -> Pairs:
    """The pairs of a file, in a model's tokens; what is asked for is the token after each text.

    Raises:
        ValueError: in one line that names the line of the file, if it cannot be read, has fewer than four pairs, a
            field is missing, the texts of a pair are the same or differ in tokens, do not fit the model's context, or
            an answer is not one token.
    """
    path = Path(path)
    rows = list(read_rows(path))
    if len(rows) < FEWEST:
        raise ValueError(f"{path} has {len(rows)} of the {FEWEST} pairs or more that a circuit needs, half to test it")
    sides: dict[str, list[Tensor]] = {"clean": [], "corrupted": []}
    answers: dict[str, list[int]] = {"answer": [], "wrong": []}
    for where, row in rows:
        for name, ids in zip(sides, texts(model, row, where), strict=True):
            sides[name].append(ids)
        for name in answers:
            answers[name].append(one_token(model, row[name], f"{where}: the {name}"))
        if answers["answer"][-1] == answers["wrong"][-1]:
            raise ValueError(f"{where}: answer and wrong are the same, {row['answer']!r}")
    clean, corrupted = (
        batch(sides[side], answers[answer], model.pad) for side, answer in zip(sides, answers, strict=True)
    )
    return Pairs(clean, corrupted, clean.loss_mask, path.stem, pad=model.pad)


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row with what errors call it. Raises ValueError if one is no pair."""
    if not path.is_file():
        raise ValueError(f"there is no file {path} of pairs")
    lines = read_text(path, LONGEST).split("\n")  # a text may hold other ends of a line, such as U+2028
    if path.suffix.lower() == ".csv":
        numbered = table(path, lines)
    else:
        numbered = ((i, parsed(line, f"{path}, line {i}")) for i, line in enumerate(lines, 1) if line.strip())
    for number, row in numbered:
        where = f"{path}, line {number}"
        missing = [name for name in FIELDS if not isinstance(row, dict) or not isinstance(row.get(name), str)]
        if missing or not isinstance(row, dict):
            raise ValueError(f"{where} has no text {missing[0]!r}; a pair has {', '.join(FIELDS)}")
        yield where, {name: row[name] for name in FIELDS}


def table(path: Path, lines: list[str]) -> Iterator[tuple[int, object]]:
    """The rows of a CSV file with their lines; commas, semicolons or tabs are between fields, by its first line.

    Raises:
        ValueError: if a quote is not closed, or a row has more fields than the first line.
    """
    csv.field_size_limit(LONGEST)
    separator = max(",;\t", key=lines[0].count)
    reader = csv.DictReader((f"{line}\n" for line in lines), delimiter=separator, strict=True)
    line = 0  # where the last row ended
    try:
        for row in reader:
            line = reader.line_num
            if None in row:
                raise ValueError(
                    f"{path}, line {line} has more fields than the first line: put a text that holds {separator!r} in "
                    "double quotes"
                )
            if any(row.values()):  # spreadsheets write empty rows
                yield line, row
    except csv.Error as error:
        raise ValueError(f"{path}, after line {line}: its quotes are not those of CSV ({error})") from None


def parsed(line: str, where: str) -> object:
    """A line of JSON. Raises ValueError if it is none."""
    try:
        return parse_json(line)
    except json.JSONDecodeError:
        raise ValueError(f"{where} is not JSON; pairs are JSON lines, or CSV in a file that ends in .csv") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def texts(model: Pretrained, row: Row, where: str) -> tuple[Tensor, Tensor]:
    """The tokens of both texts. Raises ValueError if they are no pair."""
    clean, corrupted = (model.prompt(row[name]) for name in ("clean", "corrupted"))
    if len(clean) != len(corrupted):
        raise ValueError(
            f"{where}: clean has {len(clean)} tokens, and corrupted {len(corrupted)}; a pair's texts have equally many"
        )
    if torch.equal(clean, corrupted):
        raise ValueError(f"{where}: clean and corrupted are the same text")
    if not 1 <= len(clean) <= model.config.n_ctx:
        raise ValueError(f"{where}: the texts have {len(clean)} tokens, and the model takes 1 to {model.config.n_ctx}")
    return clean, corrupted


def one_token(model: Pretrained, answer: str, where: str) -> int:
    """The token of an answer. Raises ValueError if it is not one that the tokenizer knows."""
    tokenizer = model.tokenizer
    assert tokenizer is not None  # `texts` has raised
    ids = tokenizer.encode(answer, add_special_tokens=False)
    unknown = tokenizer.unk_token_id
    if len(ids) != 1:
        parts = " ".join(repr(model.words[i]) for i in ids) or "none"
        raise ValueError(
            f"{where} {answer!r} is not one token but {len(ids)} ({brief(parts, 100)}); a word after a space may need "
            "the space before it"
        )
    if ids[0] == unknown and answer.strip() != tokenizer.unk_token:
        raise ValueError(f"{where} {answer!r} is not in the tokenizer's vocabulary")
    return int(ids[0])


def batch(rows: list[Tensor], answers: list[int], pad: int) -> Batch:
    """Texts padded on the right; of each, the token after it alone is scored."""
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
    last = torch.tensor([len(row) - 1 for row in rows])[:, None]
    scored = torch.zeros_like(tokens, dtype=torch.bool).scatter_(1, last, True)
    return Batch(tokens, torch.where(scored, torch.tensor(answers)[:, None], 0), scored)
