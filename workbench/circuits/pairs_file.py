"""Minimal pairs written by hand, for models of Hugging Face: a small file of texts and answers.

JSON lines, or CSV with a first line of names (commas, semicolons or tabs between them), have in each row `clean`,
`corrupted` (the same text with one thing changed, of as many tokens), `answer` (the token after the clean text) and
`wrong` (the one after the corrupted text):

    {"clean": "Mary and John met; John saw", "corrupted": "Mary and John met; Mary saw",
     "answer": " Mary", "wrong": " John"}          (in one line)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from workbench.circuits.summary import FEWEST
from workbench.tasks import Pairs
from workbench.tasks.prompt_sets import prompts
from workbench.util import rows_file
from workbench.util.messages import brief, check_characters

if TYPE_CHECKING:
    from workbench.models.pretrained import Pretrained

FIELDS = ("clean", "corrupted", "answer", "wrong")
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
        raise ValueError(f"{path} has {len(rows)} of the {FEWEST} pairs or more that are needed, half to test on")
    sides: dict[str, list[Tensor]] = {"clean": [], "corrupted": []}
    answers: dict[str, list[int]] = {"answer": [], "wrong": []}
    for where, row in rows:
        for name, ids in zip(sides, _texts(model, row, where), strict=True):
            sides[name].append(ids)
        for name in answers:
            answers[name].append(_one_token(model, row[name], f"{where}: the {name}"))
        if answers["answer"][-1] == answers["wrong"][-1]:
            raise ValueError(f"{where}: answer and wrong are the same, {row['answer']!r}")
    clean, corrupted = (
        prompts(sides[side], answers[answer], model.pad) for side, answer in zip(sides, answers, strict=True)
    )
    return Pairs(clean, corrupted, clean.loss_mask, path.stem, pad=model.pad)


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row with what errors call it. Raises ValueError if one is no pair."""
    for where, row in rows_file.read_rows(path, FIELDS, "pairs"):
        for name in FIELDS:
            if (text := row.get(name)) is None:
                raise ValueError(f"{where} has no text {name!r}; a pair has {', '.join(FIELDS)}")
            if not isinstance(text, str):
                given = f"the number {text}" if type(text) in (int, float) else brief(json.dumps(text), 40)
                raise ValueError(f"{where}: {name} is {given}, and has to be text: put it in double quotes")
            check_characters(text, f"{where}: {name}")
        yield where, {name: str(row[name]) for name in FIELDS}


def _texts(model: Pretrained, row: Row, where: str) -> tuple[Tensor, Tensor]:
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


def _one_token(model: Pretrained, answer: str, where: str) -> int:
    """The token of an answer. Raises ValueError if it is not one that the tokenizer knows."""
    tokenizer = model.tokenizer
    assert tokenizer is not None  # `_texts` has raised
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
