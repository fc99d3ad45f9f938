"""Whether the model uses what a probe decodes: what becomes of its answers when that, and nothing else, is changed.

A label's directions at a point (`probes.subspace`) are exchanged between two inputs, put to another class, or taken
out, and the model computes on (TransformerLens hooks). Beside it stands the same edit where it should do nothing if the
model reads the label and only the label: exchanged with an input of the same label, and along as many other directions,
each as large as the label's own (`probes.trial`). And beside the model stand models of its shape that know nothing, put
to the same test with the directions that the label has in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from workbench.measurement import Measurement
from workbench.measurement.controls import untrained as nulls
from workbench.models import Decoder
from workbench.models.hooked import hook
from workbench.probes import features
from workbench.probes.conditions import BASELINES, asked
from workbench.probes.judgement import Judgement, Worth, judge
from workbench.probes.labels import has_label
from workbench.probes.positions import Rows, Rule
from workbench.probes.probing import probe
from workbench.probes.subspace import Subspace
from workbench.probes.trial import Trial
from workbench.probes.trial import run as answers
from workbench.probes.use import EDITS, Told, Use, measured, untested
from workbench.runs import Run
from workbench.tasks import Batch, Task, distinct, once_each
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

FITTED_ON = 1024  # sequences on which directions are found, or fewer where these have
MOST_ROWS = 8192  # rows of the label, which are enough for directions of a residual of some hundred
EDITED = 512  # sequences: of so many, none changed means less than a point (3.84 / (n + 3.84) < 0.01)
NULL_EDITED = 256  # sequences that models that know nothing are tried on: they differ by more than these leave open
NULL_KINDS = ("fresh weights", "weights shuffled")
NULL_DRAWS = 5  # of each kind
Cell = tuple[str, str]
"""A point and a place."""


def causal_test(
    run: Run,
    label: str,
    *,
    point: str,
    positions: Rule = "labelled",
    how: str = "interchange",
    n: int = EDITED,
    seed: int = 0,
    step: int | None = None,
    rank: int | None = None,
    places: Sequence[str] | None = None,
    judged: Mapping[str, Judgement] | None = None,
    null_draws: int = NULL_DRAWS,
) -> dict[str, Use]:
    """Change what can be read of a label at one point, and see what becomes of the answers.

    Args:
        run: the run.
        label: see `probes.labels`.
        point: hook name of a residual, or of anything with one vector a position.
        positions: where (see `probes.positions`); all positions of a pooled rule are edited at once.
        how: `interchange` (with a sequence whose label is another), `steer` (to the mean of another class), `erase`.
        n: sequences that are drawn to be tried, each distinct one once; the directions are found on up to 1,024 others,
            or up to 8,192 rows of them.
        seed: of the sequences, and of who is exchanged with whom.
        step: of which checkpoint; by default the end.
        rank: most directions to change; by default all that hold the label.
        places: which of the rule's; by default all.
        judged: by place, what a probe's accuracy at the point is worth; by default a probe is fitted to tell.
        null_draws: models that know nothing of each kind, to which what would be called used is compared; 0: none,
            and then nothing is called used.

    Returns:
        What was found at each place of the rule.

    Raises:
        ValueError: if there is no such label, point, rule, way or checkpoint, or too few sequences.
    """
    test = Experiment.of(run, label, positions, how=how, n=n, seed=seed, step=step, rank=rank)
    cells = [(point, place) for place in (test.known.names if places is None else places)]
    found = test.uses(cells, null_draws=null_draws)
    tested = [cell for cell in cells if found[cell].told is not Told.UNTESTED]
    if judged is None and tested:
        worth = probe(run, label, points=point, positions=positions, seed=seed, step=step, controls=BASELINES)
        judged = {}
        for _, place in tested:
            if "place" not in worth.dims:
                judged[place] = judge(worth)
            elif place in worth.coords["place"]:
                judged[place] = judge(worth.select(place=place))
            else:
                judged[place] = Judgement(Worth.ONE_VALUE, "it has one value there")
    return {place: replace(found[point, place], judged=(judged or {}).get(place)) for _, place in cells}


@dataclass(frozen=True)
class Experiment:
    """A causal test of one label, before it is put to any model.

    Attributes:
        run, step: whose test it is.
        settings: what all that is found carries with it.
        task, seed, rank: see `causal_test`.
        fitted, known, fitted_y: the sequences on which directions are found, their rows and label.
        tried, found, tried_y: the same of those that are edited.
    """

    run: Run
    step: int | None
    settings: Mapping[str, Any]
    task: Task
    seed: int
    rank: int | None
    fitted: Batch
    known: Rows
    fitted_y: Int[Tensor, "place n *class"]
    tried: Batch
    found: Rows
    tried_y: Int[Tensor, "place n *class"]

    @classmethod
    def of(
        cls, run: Run, label: str, positions: Rule, *, how: str, n: int, seed: int, step: int | None, rank: int | None
    ) -> Experiment:
        """Draw the sequences; raises as `causal_test` does."""
        lookup(EDITS, how, "causal test")
        task = run.task()
        tried = once_each(task, task.sample(n, generator(seed, "causal"), split="test"))
        fitted = _others(task, task.sample(FITTED_ON, generator(seed, "directions"), split="test"), tried)
        (known, (fitted_y,)), (found, (tried_y,)) = (
            asked(task, batch, [label], positions) for batch in (fitted, tried)
        )
        about = {"model": run.name_at(step), "label": label, "positions": positions, "how": how}
        about |= {"drawn": n, "distinct": len(tried), "seed": seed}
        return cls(run, step, about, task, seed, rank, fitted, known, fitted_y, tried, found, tried_y)

    @property
    def how(self) -> str:
        """What is done."""
        return str(self.settings["how"])

    def uses(
        self,
        cells: Sequence[Cell],
        *,
        judged: Mapping[Cell, Judgement] | None = None,
        null_draws: int = NULL_DRAWS,
        progress: Callable[[float, str], Any] = lambda share, doing: None,
    ) -> dict[Cell, Use]:
        """Test the label at some points and places, and what does more than its controls on models that know nothing.

        Args:
            cells: which.
            judged: what a probe says of them. What is no more than token and position is not compared further.
            null_draws: see `causal_test`.
            progress: told the share done, and what is being done.
        """
        decoder = self.run.model(self.step)
        own = _Answering(self, decoder, hook(decoder), list(dict.fromkeys(point for point, _ in cells)))
        found = {}
        for done, cell in enumerate(cells):
            progress(0.5 * done / len(cells), "the model")
            compared = sum(place == cell[1] for _, place in cells)
            found[cell] = replace(own.use(*cell), compared=compared, judged=(judged or {}).get(cell))
        open_ = [cell for cell in cells if found[cell].told is Told.NO_NULLS]
        if not open_ or null_draws < 2:
            return found
        test, points = self._first(NULL_EDITED), [point for point, _ in open_]
        draws: dict[Cell, list[list[np.ndarray]]] = {cell: [] for cell in open_}
        for draw in range(null_draws):
            progress(0.5 + 0.5 * draw / null_draws, "models that know nothing")
            models = _know_nothing(decoder, self.seed, draw)
            tests = [_Answering(test, model, hook(model), points) for model in models]
            for cell in open_:
                draws[cell].append([each.use(*cell).excess.values for each in tests])
        return {**found, **{cell: replace(found[cell], nulls=self._nulls(found[cell], draws[cell])) for cell in open_}}

    def _first(self, n: int) -> Experiment:
        """The same on its first n sequences."""
        tried = self.tried[torch.arange(len(self.tried)) < n]
        found, (y,) = asked(self.task, tried, [str(self.settings["label"])], self.settings["positions"])
        return replace(self, tried=tried, found=found, tried_y=y)

    def _nulls(self, own: Use, draws: list[list[np.ndarray]]) -> Measurement:
        """The excess of each model that knows nothing."""
        return Measurement(
            name=f"{own.excess.name}, in models that know nothing",
            values=np.array(draws),
            dims=("null", "kind", *own.excess.dims),
            coords={"null": range(len(draws)), "kind": NULL_KINDS, **own.excess.coords},
            units=own.excess.units,
            settings=own.excess.settings,
            caption="The same test, with the directions that the label has there, on models of the same shape with "
            "fresh weights, and with this model's weights shuffled. NaN: there was nothing to edit, or to follow.",
        )


@dataclass(frozen=True)
class _Answering:
    """A model that an experiment is made on, at some points."""

    test: Experiment
    decoder: Decoder
    hooked: Any
    points: Sequence[str]

    @cached_property
    def x(self) -> tuple[Float[Tensor, "point place n d"], Float[Tensor, "point place m d"]]:
        """What it holds where directions are found, and where it is edited."""
        test, points = self.test, list(dict.fromkeys(self.points))
        fitted = features.from_model(self.decoder, test.fitted, points, test.known)
        return fitted, features.from_model(self.decoder, test.tried, points, test.found)

    @cached_property
    def before(self) -> Float[Tensor, "batch pos class"]:
        """Its answers."""
        return answers(self.hooked, self.test.tried, [])

    def use(self, point: str, place: str) -> Use:
        """What edits at one point and place do."""
        test, edits = self.test, EDITS[self.test.how]
        settings = {**test.settings, "point": point, "place": place}
        if place not in test.known.names or place not in test.found.names:
            return untested(edits, settings, "the sequences drawn have no such place")
        fitted, tried = (x[list(dict.fromkeys(self.points)).index(point)] for x in self.x)
        at, own = test.known.names.index(place), test.found.names.index(place)
        y, there = test.fitted_y[at], has_label(test.fitted_y[at])
        chance = generator(test.seed, "subspace", place)
        space = Subspace.of(fitted[at][there], y[there], chance, rank=test.rank, group=test.known.example[there])
        if not space.rank:
            return untested(edits, settings, "no direction holds more of it than of its shuffles")
        rows = Rows(test.found.example, test.found.position[own : own + 1], (place,))
        trial = Trial(self.hooked, test.tried, self.before, point, rows, tried[own], test.tried_y[own], space)
        edited = trial.edited(test.how, generator(test.seed, "partners", place))
        if edited is None:
            return untested(edits, settings, "no sequence has a partner with another label and one with the same")
        return measured(edited, edits, space.rank, space.outside.shape[1], {**settings, "directions": space.rank})


def _know_nothing(model: Decoder, seed: int, draw: int) -> Iterator[Decoder]:
    """Models of the same shape that know nothing, in the order of `NULL_KINDS`."""
    yield nulls.untrained(model, generator(seed, "causal", "untrained", draw))
    yield nulls.shuffled(model, generator(seed, "causal", "shuffled", draw))


def _others(task: Task, batch: Batch, tried: Batch) -> Batch:
    """Those sequences that ask what none of the tried does."""
    width = max(batch.tokens.shape[1], tried.tokens.shape[1])
    wide = [pad(part.tokens, (0, width - part.tokens.shape[1]), value=task.pad) for part in (tried, batch)]
    own = distinct(task, torch.cat(wide))[len(tried) :] >= len(tried)
    if not bool(own.any()):
        raise ValueError(f"{task.name} has no other sequences to find directions on than those tried; take a smaller n")
    return batch[own]
