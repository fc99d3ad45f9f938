"""Unnamed models for people and agents to make claims about, which are then marked; the truth stays with the seed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor

from workbench.benchmark.questions import NULLS, Asks, Posed, check_seed, posed
from workbench.benchmark.scoring import calls
from workbench.benchmark.subjects import SUBJECTS
from workbench.models import Decoder, DecoderConfig
from workbench.tasks import Batch, Pairs
from workbench.util.files import check_free, load_tensors, new_folder, read_object, save_tensors, write_atomically
from workbench.util.messages import first_problem
from workbench.util.seeds import generator
from workbench.util.settings import as_json
from workbench.util.strict_settings import Checked

MODELS, UNKNOWING = 6, 2  # in a folder, and of these how many know nothing
SEQUENCES = 512
LONGEST = 2**20  # bytes of a claim
QUESTION, CONFIG, WEIGHTS, DATA = "question.json", "config.json", "weights.safetensors", "data.safetensors"
NEITHER = 0.5  # how sure a claim is of what it does not name; its Brier score is 0.25
_CONFIG = TypeAdapter(DecoderConfig)
SECTIONS = {"nodes": Asks.NODES, "held": Asks.DECODABLE, "used": Asks.USED}

Sure = Annotated[float, Field(ge=0, le=1)]


class OfModel(Checked):
    """What is claimed of one model: how sure, from 0 (surely not) to 1 (surely).

    Attributes:
        nodes: head or MLP -> that right answers rest on it, be it with others that stand in for it.
        held: `label@point` -> that the residual holds the label there, beyond what token and position tell.
        used: `label@point` -> that right answers rest on it there.
    """

    nodes: dict[str, Sure] = Field(default_factory=dict)
    held: dict[str, Sure] = Field(default_factory=dict)
    used: dict[str, Sure] = Field(default_factory=dict)


class Claim(Checked):
    """A claim: model -> what is claimed of it. Whatever is left out is claimed neither way."""

    models: dict[str, OfModel]


@dataclass(frozen=True)
class Entry:
    """A model as an entrant gets it.

    Attributes:
        model: the decoder.
        pairs: minimal pairs of its task.
        sequences: sequences with their right answers.
        labels: label -> `[sequence, pos]`, −1 where there is none.
        asked: section -> the names that a claim may be about.
    """

    model: Decoder
    pairs: Pairs
    sequences: Batch
    labels: Mapping[str, Tensor]
    asked: Mapping[str, list[str]]


@dataclass(frozen=True)
class _Drawn:
    """A model of the arena with its truth: `asked` has section -> name -> whether it is so."""

    planted: Any
    pairs: Pairs
    labels: Mapping[str, str]  # in the folder -> in the task
    asked: Mapping[str, dict[str, bool]]
    knows: bool


def arena(folder: Path, seed: int | None = None) -> int:
    """Write a folder of unnamed models with what is asked of each, and the schema of a claim; returns the seed.

    Args:
        folder: which is made.
        seed: from which all is drawn, and without which no claim can be marked; by default one that nobody guesses.

    Raises:
        ValueError: if there is something already.
    """
    check_free(folder)
    seed = secrets.randbits(48) if seed is None else seed
    asks = {"schema": Claim.model_json_schema(), "models": {}, "about": " ".join((OfModel.__doc__ or "").split())}
    with new_folder(folder) as made:
        for name, drawn in _drawn(seed):
            asks["models"][name] = {section: list(known) for section, known in drawn.asked.items()}  # type: ignore[index]
            decoder, place = drawn.planted.decoder, made / name
            place.mkdir()
            write_atomically(place / CONFIG, _CONFIG.dump_json(decoder.config, indent=1))
            save_tensors(place / WEIGHTS, decoder.state_dict(), {})
            save_tensors(place / DATA, _data(drawn, seed), {})
        write_atomically(made / QUESTION, as_json(asks).encode())
    return seed


def _drawn(seed: int) -> Iterator[tuple[str, _Drawn]]:
    """The models of a seed; some know nothing."""
    check_seed(seed)
    draw = generator(seed, "arena")
    chosen = torch.randperm(len(SUBJECTS), generator=draw)[:MODELS].tolist()
    nulls = dict(zip(torch.randperm(MODELS, generator=draw)[:UNKNOWING].tolist(), NULLS, strict=True))
    for number, at in enumerate(chosen):
        name, own = list(SUBJECTS)[at], int(torch.randint(2**40, (), generator=draw))
        null = nulls.get(number, "")
        parts = posed(name, own, null, scored=False)
        names = sorted({part.question.label for part in parts if part.question.label})
        order = torch.randperm(len(names), generator=draw).tolist()
        labels = {f"label-{i}": names[place] for i, place in enumerate(order)}
        pairs = next(part.question.pairs.pairs for part in parts if part.question.asks is Asks.EDGES)
        asked = {section: _asked(parts, asks, labels) for section, asks in SECTIONS.items()}
        asked["held"] = asked["held"] or dict.fromkeys(asked["used"], False)  # asked to tell nothing, and not marked
        yield f"model-{number}", _Drawn(parts[0].question.run, pairs, labels, asked, not null)


def _asked(parts: list[Posed], asks: Asks, labels: Mapping[str, str]) -> dict[str, bool]:
    """What is asked in a section, with whether it is so."""
    known: dict[str, bool] = {}
    called = {there: label for label, there in labels.items()}
    for part in parts:
        question = part.question
        if question.asks is asks:
            after = f"{called[question.label]}@" if question.label else ""
            known |= {after + name: name in part.true for name in question.candidates}
    return dict(sorted(known.items()))


def _data(drawn: _Drawn, seed: int) -> dict[str, Tensor]:
    """Sequences with their answers and labels, and pairs."""
    task, pairs = drawn.planted.task(), drawn.pairs
    batch = task.draw(SEQUENCES, generator(seed, "arena sequences"))
    truth = task.truth(batch.tokens).labels
    found = {"tokens": batch.tokens, "targets": batch.targets, "loss_mask": batch.loss_mask, "asked": pairs.asked}
    for side in ("clean", "corrupted"):
        of = getattr(pairs, side)
        found |= {f"{side}.tokens": of.tokens, f"{side}.targets": of.targets, f"{side}.loss_mask": of.loss_mask}
    found |= {label: truth[there] for label, there in drawn.labels.items()}
    return {name: tensor.contiguous() for name, tensor in found.items()}


def entries(folder: Path) -> dict[str, Entry]:
    """Every model of a folder that `arena` wrote.

    Raises:
        ValueError: in one line, if a file is missing, damaged, or not of this form.
    """
    models = read_object(folder / QUESTION, LONGEST).get("models", {})
    found = {}
    for name, asked in models.items():
        if not name.startswith("model-") or not name.removeprefix("model-").isdigit():
            raise ValueError(f"{folder / QUESTION} names a model {name!r}, which no arena does")
        place = folder / name
        try:
            model = Decoder(_CONFIG.validate_python(read_object(place / CONFIG, LONGEST)))
            model.load_state_dict(load_tensors(place / WEIGHTS)[0])
        except (ValidationError, RuntimeError):
            raise ValueError(f"{place} does not hold the weights of the model in its {CONFIG}") from None
        data = load_tensors(place / DATA)[0]
        clean, corrupted, sequences = (
            Batch(data[f"{side}tokens"], data[f"{side}targets"], data[f"{side}loss_mask"])
            for side in ("clean.", "corrupted.", "")
        )
        labels = {key: value for key, value in data.items() if key.startswith("label-")}
        pairs = Pairs(clean, corrupted, data["asked"], "changed")
        found[name] = Entry(model.eval(), pairs, sequences, labels, asked)
    return found


def mark(folder: Path, claim: Path, seed: int) -> Marked:
    """Mark a claim about a folder by the truth of the seed that it was drawn from.

    Raises:
        ValueError: in one line, if the folder is not of this seed, or the claim is not of the form in `question.json`.
    """
    try:
        claimed = Claim.model_validate(read_object(claim, LONGEST)).models
    except ValidationError as error:
        raise ValueError(f"{claim}: {first_problem(error, Claim)}") from None
    drawn = dict(_drawn(seed))
    if unknown := sorted(set(claimed) - set(drawn)):
        raise ValueError(f"{claim} is about {unknown[0][:40]!r}; there is: {', '.join(drawn)}")
    rows = []
    for name, one in drawn.items():
        there, _ = load_tensors(folder / name / WEIGHTS)
        own = one.planted.decoder.state_dict()
        if there.keys() != own.keys() or any(not torch.equal(there[key], own[key]) for key in own):
            raise ValueError(f"{folder / name} was not drawn from the seed {seed}; give the seed that `arena` said")
        of = claimed.get(name, OfModel())
        for section, known in one.asked.items():
            sure = getattr(of, section)
            if strange := sorted(set(sure) - set(known)):
                raise ValueError(f"{claim}, {name}: {section} names {strange[0][:60]!r}, which is not asked about")
            if one.knows or section != "held":
                rows.append(_row(name, section, known, sure, one.knows))
    return Marked(tuple(rows))


def _row(name: str, section: str, known: Mapping[str, bool], sure: Mapping[str, float], knows: bool) -> dict[str, Any]:
    """The Brier score of a section, and its power and false alarms where it is surer than even."""
    miss = [(sure.get(each, NEITHER) - true) ** 2 for each, true in known.items()]
    said = {each: value > NEITHER for each, value in sure.items() if value != NEITHER}
    rates = calls(said, list(known), frozenset(each for each, true in known.items() if true)) if known else {}
    brier = float(np.mean(miss)) if miss else float("nan")
    return {"model": name, "section": section, "knows": knows, "brier": brier, "said": len(said), **rates}


@dataclass(frozen=True)
class Marked:
    """A claim's marks.

    Attributes:
        rows: of each model and section the Brier score (0 is right and sure, 0.25 says nothing, 1 is wrong and sure),
            how many it says something of, power, false alarms, and the share of which it says nothing.
    """

    rows: tuple[dict[str, Any], ...]

    def mean(self, section: str, what: str, knows: bool) -> float:
        """The mean of one of these over the models that know their task, or over those that know nothing."""
        values = [row[what] for row in self.rows if (row["section"], row["knows"]) == (section, knows) and what in row]
        known = [value for value in values if not np.isnan(value)]
        return float(np.mean(known)) if known else float("nan")

    @property
    def score(self) -> float:
        """One number, the larger the better: 1 is right and sure of all, 0 says nothing, −3 is wrong and sure."""
        return float(1 - np.nanmean([row["brier"] for row in self.rows]) / NEITHER**2)

    @property
    def says(self) -> str:
        """The marks in words."""
        if not any(row["said"] for row in self.rows):
            return f"the claim says nothing of any of {MODELS} models; its score is 0"
        lines = [f"score {self.score:.2f} (1 right and sure of all, 0 says nothing, -3 wrong and sure of all)"]
        for section in SECTIONS:
            for knows, words in ((True, "models that know their task"), (False, "models that know nothing")):
                parts = {what: self.mean(section, what, knows) for what in ("brier", "power", "false_alarms")}
                known = [f"{what.replace('_', ' ')} {v:.2f}" for what, v in parts.items() if not np.isnan(v)]
                lines += [f"{section}, {words}: {', '.join(known)}"] if known else []
        return "\n".join(lines)

    def json(self) -> str:
        """Every mark."""
        rows = [{key: None if value != value else value for key, value in row.items()} for row in self.rows]
        return as_json({"format": "bench-score/1", "score": self.score, "rows": rows})
