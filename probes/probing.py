"""What can be decoded where, beside the baselines and controls that say what that is worth.

A label that a probe decodes is *there*; that the model *uses* it is another claim, which `probes.causal` tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from probes import decoding, features
from probes.decoding import REGRESSION, Split
from probes.labels import is_labelled, labels
from probes.positions import Rows, Rule, rows
from workbench.capture import Capture, Subject
from workbench.instruments import Measurement
from workbench.instruments.measurement import SEED
from workbench.instruments.projection import from_embedding
from workbench.lookup import lookup
from workbench.models import Decoder
from workbench.runs import Run
from workbench.seeds import generator
from workbench.tasks import Batch, Task

TRAINED, UNTRAINED, TOKEN = "trained", "untrained model", "current token"
SHUFFLED, FREQUENT, CONTROL = "shuffled labels", "most frequent label", "control task"
BASELINES = (TOKEN, SHUFFLED, FREQUENT)
"""What a label must be decoded better than: all that the token at the position alone tells; labels shuffled among the
rows; always saying the commonest."""
CONDITIONS = (TRAINED, UNTRAINED, *BASELINES, CONTROL)
"""The probe itself; the same on a model with fresh weights, which says what training added; the baselines; and the
control task of Hewitt and Liang (2019), a class drawn at random for each token. How far the probe is above that is its
selectivity: a probe that can learn anything has none. Where the token itself can be read, as in most of the residual of
models with few tokens, every probe learns that task, and the baseline `current token` says more."""

Read = Callable[[Rows], Float[Tensor, "point place n d"]]


@dataclass(frozen=True)
class Source:
    """Whose residual is probed, on which sequences.

    Attributes:
        task, batch: the sequences.
        points: hook names.
        read, untrained: the vectors of the model, and of one of its shape with fresh weights, if there is one.
        name: of the model.
    """

    task: Task
    batch: Batch
    points: Sequence[str]
    read: Read
    untrained: Read | None
    name: str

    @classmethod
    def of_run(cls, run: Run, points: str | Sequence[str] | None, *, n: int, seed: int, step: int | None) -> Source:
        """A run's residual on sequences from the test side of its task's split.

        Raises:
            ValueError: if there is no such checkpoint, or the task has not so many sequences.
        """
        task, model = run.task(), run.model(step)
        batch = task.sample(n, generator(seed, "probe"), split="test")
        names = [points] if isinstance(points, str) else points
        names = from_embedding(Subject.of(model, task, run.name)) if names is None else list(names)
        fresh = Decoder(run.config.model, generator(seed, "untrained")).eval()
        read, untrained = (partial(features.from_model, each, batch, names) for each in (model, fresh))
        return cls(task, batch, names, read, untrained, run.name_at(step))


def probe(
    run: Run,
    label: str | Sequence[str],
    *,
    points: str | Sequence[str] | None = None,
    positions: Rule = "labelled",
    kind: str = "logistic",
    n: int = 512,
    seed: int = 0,
    seeds: int = 1,
    step: int | None = None,
    controls: Sequence[str] = CONDITIONS[1:],
    **settings: Any,
) -> Measurement:
    """Decode labels of the task's truth from a run's residual, on sequences that the model did not train on.

    Seven sequences in ten fit the probe, three try it; all rows of a sequence are on one side.

    Args:
        run: the run.
        label: a name, or several (see `probes.labels`).
        points: hook names, such as `blocks.0.hook_resid_post`; by default the embedding, and what follows every
            attention layer and every MLP.
        positions: where to look (see `probes.positions`).
        kind: of probe (see `probes.kinds`), or `regression` of the label as a number.
        n: sequences, from the test side of the task's split.
        seed: of the sequences, their split, the controls and the untrained weights.
        seeds: repeat all of that with so many seeds, from `seed` on; intervals are then over them.
        step: of which checkpoint; by default the end.
        controls: which of `CONDITIONS` beside the probe itself.
        settings: those of the kind (`l2`, `rank`, `hidden`, …).

    Returns:
        What is decoded, a share (`regression`: R²), with its interval: over the sequences tried, or over seeds. Dims
        `label` and `point` where several were asked for, `place` where the rule has several, `condition`.

    Raises:
        ValueError: if there is no such label, point, rule, kind, setting, control or checkpoint, or nothing to tell
            apart.
    """
    if seeds < 1 or n < 2:
        raise ValueError(f"a probe needs at least 2 sequences and 1 seed, not n={n}, seeds={seeds}")
    if seeds > 1:
        how: dict[str, Any] = {"points": points, "positions": positions, "kind": kind, "n": n, "step": step}
        parts = [probe(run, label, seed=seed + i, controls=controls, **how, **settings) for i in range(seeds)]
        return over_seeds(parts, range(seed, seed + seeds))
    source = Source.of_run(run, points, n=n, seed=seed, step=step)
    found = _measured(source, label, positions, kind, controls, seed, settings)
    return found.select(point=points) if isinstance(points, str) else found


def probe_capture(
    seen: Capture,
    label: str | Sequence[str],
    *,
    untrained: Capture | None = None,
    points: Sequence[str] | None = None,
    positions: Rule = "labelled",
    kind: str = "logistic",
    seed: int = 0,
    controls: Sequence[str] | None = None,
    **settings: Any,
) -> Measurement:
    """`probe` on what was captured of any model, with the sequences and the truth that the capture has.

    Args:
        seen: the capture.
        label: a name, or several.
        untrained: the same points and sequences of a model with fresh weights; without it there is no such baseline.
        points: which of the captured activations; by default all.
        positions, kind, seed, settings: as for `probe`.
        controls: by default all that can be had.

    Raises:
        ValueError: as `probe` does.
    """
    names = list(seen.activations if points is None else points)
    fresh = None if untrained is None else partial(features.from_capture, untrained, names)
    if controls is None:
        controls = [name for name in CONDITIONS[1:] if name != UNTRAINED or fresh is not None]
    read = partial(features.from_capture, seen, names)
    source = Source(seen.subject.task, seen.batch, names, read, fresh, seen.subject.name)
    return _measured(source, label, positions, kind, controls, seed, settings)


def _measured(
    source: Source,
    label: str | Sequence[str],
    positions: Rule,
    kind: str,
    controls: Sequence[str],
    seed: int,
    settings: dict[str, Any],
) -> Measurement:
    names = [label] if isinstance(label, str) else list(label)
    for control in controls:
        lookup(dict.fromkeys(CONDITIONS[1:]), control, "control")
    found = Asked.of(source, names, positions, seed)
    where = found.where
    outcome = {condition: found.outcome(condition, kind, settings) for condition in (TRAINED, *controls)}
    values = torch.stack(list(outcome.values()), -1).movedim(3, 0).double().numpy()
    if np.isnan(values[..., list(outcome).index(TRAINED)]).all():
        raise ValueError(f"there is nothing to tell apart: {', '.join(names)} has one value wherever it is looked at")
    measured = Measurement(
        name=kind.replace("_", " ").capitalize() + ("" if kind == REGRESSION else " probe"),
        values=values,
        dims=("example", "label", "point", "place", "condition"),
        coords={
            "example": range(len(values)),
            "label": names,
            "point": list(source.points),
            "place": list(where.names),
            "condition": list(outcome),
        },
        units="R²" if kind == REGRESSION else "share",
        settings={
            "model": source.name,
            "positions": positions,
            "kind": kind,
            "sequences": len(source.batch),
            "seed": seed,
            **settings,
        },
        caption=CAPTION_R2 if kind == REGRESSION else CAPTION,
    ).mean("example")
    measured = _varied(measured)
    if len(where.names) == 1:
        measured = measured.select(place=where.names[0])
    return measured.select(label=label) if isinstance(label, str) else measured


def _varied(found: Measurement) -> Measurement:
    """Without the places at which no label has two values to tell apart."""
    names = found.coords["place"]
    kept = [name for name in names if not np.isnan(found.select(place=name, condition=TRAINED).values).all()]
    return found.keep("place", kept)


CAPTION = (
    "Share of labels that a probe decodes in sequences that it was not fitted on; n counts sequences. It shows that "
    "the label can be read there, not that the model reads it."
)
CAPTION_R2 = (
    "R² of a linear regression on sequences that it was not fitted on; n counts sequences. It shows that the number "
    "can be read there, not that the model reads it."
)


def asked(
    task: Task, batch: Batch, names: Sequence[str], positions: Rule
) -> tuple[Rows, list[Int[Tensor, "place n *class"]]]:
    """The rows that a rule picks out for some labels, and what each label is there.

    Raises:
        ValueError: if there is no such label or rule, or nothing is labelled there.
    """
    known = labels(task, batch.tokens)
    values = [lookup(known, name, f"label of {task.name}") for name in names]
    where = rows(task, batch, positions, torch.stack([is_labelled(value) for value in values]).any(0))
    return where, [where.label(value) for value in values]


def distinct(task: Task, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
    """The first example that asks what each asks: a task with few questions draws the same ones again and again."""
    asks = torch.arange(tokens.shape[1]) < task.asked(tokens)[:, None]
    same = torch.where(asks, tokens, -1).unique(dim=0, return_inverse=True)[1]
    number = torch.arange(len(tokens))
    return torch.full_like(number, len(tokens)).scatter_reduce_(0, same, number, "amin")[same]


@dataclass(frozen=True)
class Asked:
    """Labels to decode at some rows of a source, under one condition after the other.

    Attributes:
        source: whose vectors.
        where: the rows.
        y: what each label is there.
        sequence: `[n]`, which sequence each row is of; two that ask the same question are one.
        split: which of them are fitted on.
        seed: of all chance.
    """

    source: Source
    where: Rows
    y: list[Int[Tensor, "place n *class"]]
    sequence: Int[Tensor, " n"]
    split: Split
    seed: int

    @classmethod
    def of(cls, source: Source, names: Sequence[str], positions: Rule, seed: int) -> Asked:
        """Raises ValueError as `asked` and `Split.by_example` do."""
        where, y = asked(source.task, source.batch, names, positions)
        sequence = distinct(source.task, source.batch.tokens)[where.example]
        return cls(source, where, y, sequence, Split.by_example(sequence, generator(seed, "split")), seed)

    @cached_property
    def x(self) -> Float[Tensor, "point place n d"]:
        """The model's vectors."""
        return self.source.read(self.where)

    def data(self, condition: str) -> tuple[Float[Tensor, "point place n d"], list[Int[Tensor, "place n *class"]]]:
        """What a probe is fitted to under a condition that fits one.

        Raises:
            ValueError: if there is no untrained model.
        """
        if condition == UNTRAINED:
            if self.source.untrained is None:
                raise ValueError("there is no untrained model to compare with; give its capture, or leave it out")
            return self.source.untrained(self.where), self.y
        chance = generator(self.seed, condition)
        if condition == SHUFFLED:
            return self.x, [_shuffled(y, chance) for y in self.y]
        if condition == CONTROL:
            return self.x, [_by_chance(self.tokens, y, chance) for y in self.y]
        assert condition == TRAINED, condition
        return self.x, self.y

    @property
    def tokens(self) -> Int[Tensor, "place n"]:
        """The token at each row."""
        return self.where.take(self.source.batch.tokens)

    def outcome(
        self, condition: str, kind: str, settings: dict[str, Any]
    ) -> Float[Tensor, "label point place sequence"]:
        """What is decoded of each sequence (see `decoding.decode`)."""
        if condition == FREQUENT and kind == REGRESSION:  # the mean, which explains nothing
            return torch.zeros_like(self.outcome(TOKEN, kind, settings))
        if condition == FREQUENT:
            return self._everywhere(decoding.majority(self.y, self.split))
        if condition == TOKEN and kind != REGRESSION:
            return self._everywhere(decoding.by_token(self.tokens, self.y, self.split))
        if condition == TOKEN:
            one_hot = torch.nn.functional.one_hot(self.tokens).float()[None]
            return self._everywhere(self._decoded(one_hot, self.y, kind, settings)[:, 0])
        return self._decoded(*self.data(condition), kind, settings)

    def _decoded(self, x: Tensor, y: list[Tensor], kind: str, settings: dict[str, Any]) -> Tensor:
        return decoding.decode(x, y, self.split, kind=kind, generator=generator(self.seed, "probe"), **settings)

    def _everywhere(self, flat: Float[Tensor, "label place sequence"]) -> Float[Tensor, "label point place sequence"]:
        return flat[:, None].expand(-1, len(self.source.points), -1, -1)


def _shuffled(y: Int[Tensor, "place n *class"], chance: torch.Generator) -> Tensor:
    """The labels of each place in another order, among the rows that have one."""
    mixed = y.clone()
    for place, row in enumerate(y):
        there = (is_labelled(row[None])[0]).nonzero()[:, 0]
        mixed[place, there] = row[there[torch.randperm(len(there), generator=chance)]]
    return mixed


def _by_chance(tokens: Int[Tensor, "place n"], y: Int[Tensor, "place n *class"], chance: torch.Generator) -> Tensor:
    """A label for each token, drawn once and for all from those that there are (Hewitt and Liang 2019, §2.1)."""
    there = is_labelled(y.flatten(0, 1)[None])[0].view(tokens.shape)
    kinds = y[there]
    if not len(kinds):  # another label is there at these positions, and this one is not
        return y
    drawn = kinds[torch.randint(len(kinds), (int(tokens.amax()) + 1,), generator=chance)]
    given = drawn[tokens]
    return torch.where(there if y.ndim == 2 else there[..., None], given, -1)


def over_seeds(parts: Sequence[Measurement], seeds: Sequence[int]) -> Measurement:
    """The mean over seeds, with Student's interval."""
    if "place" in parts[0].dims:  # a place may have nothing to tell apart under one seed
        shared = [name for name in parts[0].coords["place"] if all(name in part.coords["place"] for part in parts)]
        parts = [part.keep("place", shared) for part in parts]
    bare = [replace(part, low=None, high=None, n=None) for part in parts]
    found = Measurement.stack(bare, SEED, list(seeds)).mean(SEED)
    said = found.caption.replace("n counts sequences", "n counts seeds, each with sequences and a split of its own")
    return replace(found, settings={**found.settings, "seeds": len(parts)}, caption=said)


def verdict(found: Measurement) -> str:
    """What a probe's accuracy is worth beside its baselines, in words.

    A label counts as decodable where the whole interval of the trained model lies above that of the best baseline. An
    untrained model may hold it too: then it is there, and no work of training.

    Args:
        found: `probe(...)` at one point and place.
    """
    assert found.low is not None and found.high is not None and found.dims == ("condition",)
    names = list(found.coords["condition"])
    own, unit = names.index(TRAINED), "R² {:.2f}" if found.units == "R²" else "{:.0%}"
    if np.isnan(found.values[own]):
        return "it has one value there, and there is nothing to tell apart"
    others = [i for i, name in enumerate(names) if name in BASELINES]
    if not others:
        return f"{unit.format(found.values[own])}, without a baseline to hold it against"
    best = max(others, key=lambda i: found.values[i])
    said = f"{unit.format(found.values[own])} against {unit.format(found.values[best])} for {AS_SAID[names[best]]}"
    if np.isnan(found.low[own]):
        return f"too few sequences to tell: {said}"
    if found.low[own] > found.high[others].max():
        return f"{DECODABLE}: {said}{_untrained(found, unit)}"
    if found.values[own] <= found.values[best]:
        return f"no better than its baselines: {said}"
    return f"not told apart from its baselines: {said}"


DECODABLE = "decodable"
AS_SAID = {TOKEN: "the current token alone", SHUFFLED: "shuffled labels", FREQUENT: "the most frequent label"}


def _untrained(found: Measurement, unit: str) -> str:
    """What training added, as far as that was measured."""
    if UNTRAINED not in found.coords["condition"]:
        return ""
    trained, fresh = (found.select(condition=name) for name in (TRAINED, UNTRAINED))
    assert trained.low is not None and fresh.high is not None
    told = "" if trained.low > fresh.high else ", which is not told apart"
    return f"; {unit.format(float(fresh.values))} from an untrained model{told}"


def selectivity(found: Measurement) -> Measurement:
    """How much better a probe decodes a label than the control task (Hewitt and Liang 2019), without an interval."""
    trained, control = (found.select(condition=name) for name in (TRAINED, CONTROL))
    name = f"Selectivity of the {found.name[0].lower()}{found.name[1:]}"
    return replace(trained, name=name, values=trained.values - control.values, low=None, high=None)
