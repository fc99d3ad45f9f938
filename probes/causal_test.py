"""A causal test of a label: do the model's answers change when only the label is changed inside the model?

The directions in which the label can be read (`probes.label_directions`) are exchanged between two inputs, moved to
another class, or erased, and the model computes on (`probes.erase_steer_interchange`). Two comparisons say what the
change in the answers is worth:

control edits        the same edit where it should do nothing if the model reads this label only: exchanged with an
                     input of the same label, and along as many other directions, each scaled to the same size;
uninformed models    the whole test on models of the same shape that cannot have learnt the task: re-initialised,
                     and with this model's weights shuffled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from workbench.judgement.decodable import BASELINES, Decodable, Worth, judge
from workbench.judgement.used import NULL_KINDS, OUTCOMES, Conclusion, Untested
from workbench.measurement import Measurement
from workbench.measurement.controls import untrained as nulls
from workbench.models import AnyModel
from workbench.models.hooked import hook
from workbench.probes import probe_inputs
from workbench.probes.baselines_and_controls import rows_and_labels
from workbench.probes.causal_result import Use, measured, untested
from workbench.probes.erase_steer_interchange import EDITS, Trial, logits_with
from workbench.probes.label_directions import Subspace
from workbench.probes.positions import Rows, Rule
from workbench.probes.probing import probe
from workbench.runs import Run
from workbench.tasks import Batch, Task, distinct, once_each
from workbench.tasks.labels import is_labelled
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

FITTED_ON = 1024  # sequences on which directions are found, or fewer where these have
EDITED = 512  # sequences: of so many, none changed means less than a point (3.84 / (n + 3.84) < 0.01)
NULL_EDITED = 256  # sequences for uninformed models: these differ among each other by more than so few leave open
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
    judged: Mapping[str, Decodable] | None = None,
    null_draws: int = NULL_DRAWS,
) -> dict[str, Use]:
    """Change what can be read of a label at one point, and measure how the answers change.

    Args:
        run, label: the run, and one of `label_names(run.task())`.
        point: hook name of a residual, or of anything with one vector a position.
        positions: where (see `probes.positions`); all positions of a pooled rule are edited at once.
        how: `interchange` (with a sequence whose label is another), `steer` (to the mean of another class), `erase`.
        n: sequences to draw and edit, each distinct one once; the directions are found on up to 1,024 others.
        seed: of the sequences, and of the pairs that are exchanged.
        step, places: training step of the checkpoint, by default the end; places of the rule, by default all.
        rank: most directions to change; by default all that hold the label.
        judged: place -> what a probe's accuracy at the point is worth; by default a probe is fitted to find out.
        null_draws: number of uninformed models of each kind; with 0 nothing is compared, and nothing is called used.

    Returns place -> the result of the test there.

    Raises:
        ValueError: if there is no such label, point, rule, edit or checkpoint, or too few sequences.
    """
    experiment = Experiment.of(run, label, positions, how=how, n=n, seed=seed, step=step, rank=rank)
    cells = [(point, place) for place in (experiment.fit_rows.names if places is None else places)]
    uses = {place: use for (_, place), use in experiment.uses(cells, null_draws=null_draws).items()}
    if judged is None:
        judged = _judged(experiment, point, uses)
    return {place: replace(use, decodable=judged.get(place)) for place, use in uses.items()}


def _judged(experiment: Experiment, point: str, uses: Mapping[str, Use]) -> dict[str, Decodable]:
    """What a probe's accuracy at the point is worth, for the places that could be tested."""
    tested = [place for place, use in uses.items() if use.untested is None]
    if not tested:
        return {}
    label, where = str(experiment.settings["label"]), experiment.settings["positions"]
    sample: dict[str, Any] = {"seed": experiment.seed, "step": experiment.step, "controls": BASELINES}
    accuracy = probe(experiment.run, label, points=point, positions=where, **sample)
    if "place" not in accuracy.dims:
        return {place: judge(accuracy) for place in tested}
    known = accuracy.coords["place"]  # without those at which the label has one value
    unknown = Decodable(worth=Worth.ONE_VALUE)
    return {place: judge(accuracy.select(place=place)) if place in known else unknown for place in tested}


@dataclass(frozen=True)
class Experiment:
    """The design of a causal test of one label: which sequences are edited how, the same for every model tested.

    Attributes:
        run: the run whose model is tested.
        step: training step of its checkpoint, or None for the end.
        settings: settings that every measurement of the test carries.
        task, seed, rank: see `causal_test`.
        fitted: sequences on which the label's directions are found.
        fit_rows: their rows at the positions of the rule.
        fit_labels: the label of each of these rows, −1 where it has none.
        tried: sequences whose activations are edited; none of them asks what one of `fitted` does.
        edit_rows, edit_labels: the same of those.
    """

    run: Run
    step: int | None
    settings: Mapping[str, Any]
    task: Task
    seed: int
    rank: int | None
    fitted: Batch
    fit_rows: Rows
    fit_labels: Int[Tensor, "place n *class"]
    tried: Batch
    edit_rows: Rows
    edit_labels: Int[Tensor, "place n *class"]

    @classmethod
    def of(
        cls, run: Run, label: str, positions: Rule, *, how: str, n: int, seed: int, step: int | None, rank: int | None
    ) -> Experiment:
        """Draw the sequences. Raises ValueError as `causal_test` does."""
        lookup(EDITS, how, "causal test")
        task = run.task()
        tried = once_each(task, task.sample(n, generator(seed, "causal"), split="test"))
        fitted = _others(task, task.sample(FITTED_ON, generator(seed, "directions"), split="test"), tried)
        fit_rows, (fit_labels,) = rows_and_labels(task, fitted, [label], positions)
        edit_rows, (edit_labels,) = rows_and_labels(task, tried, [label], positions)
        settings = {"model": run.name_at(step), "label": label, "positions": positions, "how": how}
        settings |= {"drawn": n, "distinct": len(tried), "seed": seed}
        return cls(run, step, settings, task, seed, rank, fitted, fit_rows, fit_labels, tried, edit_rows, edit_labels)

    @property
    def how(self) -> str:
        """The kind of edit: one of `EDITS`."""
        return str(self.settings["how"])

    def uses(
        self,
        cells: Sequence[Cell],
        *,
        judged: Mapping[Cell, Decodable] | None = None,
        null_draws: int = NULL_DRAWS,
        progress: Callable[[float, str], Any] = lambda share, doing: None,
    ) -> dict[Cell, Use]:
        """Test the label at some points and places; compare with uninformed models where control edits do less.

        Args:
            cells: which points and places.
            judged: what a probe's accuracy is worth there. A label that token and position explain is not compared
                with uninformed models.
            null_draws: see `causal_test`.
            progress: called with the share that is done, and what is being done.
        """
        decoder = self.run.model(self.step)
        model = _TestedModel(self, decoder, hook(decoder), [point for point, _ in cells])
        uses, points = {}, Counter(place for _, place in cells)
        for done, cell in enumerate(cells):
            progress(0.5 * done / len(cells), "editing the model")
            uses[cell] = replace(model.use(*cell), points=points[cell[1]], decodable=(judged or {}).get(cell))
        open_at = {cell[1] for cell in cells if uses[cell].judged.conclusion is Conclusion.NOT_COMPARED}
        if not open_at or null_draws < 1:
            return uses
        nulls = self._leads_in_nulls(decoder, [cell for cell in cells if cell[1] in open_at], null_draws, progress)
        return {cell: replace(use, nulls=nulls.get(cell[1])) for cell, use in uses.items()}

    def _leads_in_nulls(
        self, decoder: AnyModel, cells: Sequence[Cell], n_draws: int, progress: Callable[[float, str], Any]
    ) -> dict[str, Measurement]:
        """Place -> the lead over control edits in uninformed models, at each of its points; 0 without an edit."""
        experiment, points = self._first(NULL_EDITED), [point for point, _ in cells]
        leads = np.zeros((len(NULL_KINDS), n_draws, len(cells), len(OUTCOMES)))
        n = np.full(leads.shape, len(experiment.tried))
        for draw in range(n_draws):
            progress(0.5 + 0.5 * draw / n_draws, "editing re-initialised and shuffled models")
            untrained = nulls.untrained(decoder, generator(self.seed, "causal", "untrained", draw))
            shuffled = nulls.shuffled(decoder, generator(self.seed, "causal", "shuffled", draw))
            for kind, null in enumerate((untrained, shuffled)):  # as `NULL_KINDS`
                model = _TestedModel(experiment, null, hook(null), points)
                for i, cell in enumerate(cells):
                    use = model.use(*cell)
                    if use.untested is None:
                        assert use.effect.n is not None
                        # Over the control edit that does most; 0 where that does more, or nothing is known.
                        leads[kind, draw, i] = np.nan_to_num(np.fmin.reduce(use.excess.values)).clip(min=0.0)
                        n[kind, draw, i] = use.effect.n[0]
        of_place = {place: [i for i, cell in enumerate(cells) if cell[1] == place] for _, place in cells}
        return {
            place: self._nulls([points[i] for i in at], leads[:, :, at], n[:, :, at]) for place, at in of_place.items()
        }

    def _nulls(self, points: Sequence[str], leads: np.ndarray, n: np.ndarray) -> Measurement:
        """The leads at one place."""
        return Measurement(
            name="Lead over the control edits, in re-initialised and shuffled models",
            values=leads,
            dims=("kind", "null", "point", "outcome"),
            coords={"kind": NULL_KINDS, "null": range(leads.shape[1]), "point": points, "outcome": OUTCOMES},
            units="share",
            settings=self.settings,
            n=n,
            caption="The same test, with the directions that the label has there, on models of the same shape with "
            "other initial weights, and with this model's weights shuffled. 0: the control edits do as much, or "
            "nothing could be edited.",
        )

    def _first(self, n: int) -> Experiment:
        """The same experiment on the first n edited sequences."""
        tried = self.tried[torch.arange(len(self.tried)) < n]
        label, positions = str(self.settings["label"]), self.settings["positions"]
        edit_rows, (edit_labels,) = rows_and_labels(self.task, tried, [label], positions)
        return replace(self, tried=tried, edit_rows=edit_rows, edit_labels=edit_labels)


@dataclass(frozen=True)
class _TestedModel:
    """A model to which an experiment is applied, at some points."""

    experiment: Experiment
    decoder: AnyModel
    hooked: Any
    points: Sequence[str]

    @cached_property
    def vectors(self) -> dict[str, tuple[Float[Tensor, "place n d"], Float[Tensor, "place m d"]]]:
        """Point -> the model's vectors where directions are found, and those that are edited."""
        experiment, points = self.experiment, list(dict.fromkeys(self.points))
        fitted = probe_inputs.from_model(self.decoder, experiment.fitted, points, experiment.fit_rows)
        edited = probe_inputs.from_model(self.decoder, experiment.tried, points, experiment.edit_rows)
        return dict(zip(points, zip(fitted, edited, strict=True), strict=True))

    @cached_property
    def logits(self) -> Float[Tensor, "batch pos class"]:
        """The logits of the model as it is."""
        return logits_with(self.hooked, self.experiment.tried, [])

    def use(self, point: str, place: str) -> Use:
        """The result of the edits at one point and place."""
        experiment = self.experiment
        edits, seed = EDITS[experiment.how], experiment.seed
        settings = {**experiment.settings, "point": point, "place": place}
        if place not in experiment.fit_rows.names or place not in experiment.edit_rows.names:
            return untested(edits, settings, Untested.NO_PLACE)
        directions = self._directions(point, place)
        if not directions.rank:
            return untested(edits, settings, Untested.NO_DIRECTION)
        at = experiment.edit_rows.names.index(place)
        rows = Rows(experiment.edit_rows.example, experiment.edit_rows.position[at : at + 1], (place,))
        x, y = self.vectors[point][1][at], experiment.edit_labels[at]
        trial = Trial(self.hooked, experiment.tried, self.logits, point, rows, x, y, directions)
        edited = trial.edited(experiment.how, generator(seed, "partners", place))
        if edited is None:
            return untested(edits, settings, Untested.NO_PARTNER)
        settings["directions"] = directions.rank
        return measured(edited, edits, directions.rank, directions.outside.shape[1], settings)

    def _directions(self, point: str, place: str) -> Subspace:
        """The label's directions, found on the sequences for fitting."""
        experiment = self.experiment
        at = experiment.fit_rows.names.index(place)
        x, y = self.vectors[point][0][at], experiment.fit_labels[at]
        there = is_labelled(y, lead=1)
        chance, group = generator(experiment.seed, "subspace", place), experiment.fit_rows.example[there]
        return Subspace.of(x[there], y[there], chance, rank=experiment.rank, group=group)


def _others(task: Task, batch: Batch, tried: Batch) -> Batch:
    """The sequences of a batch whose question is not among those tried."""
    width = max(batch.tokens.shape[1], tried.tokens.shape[1])
    wide = [pad(part.tokens, (0, width - part.tokens.shape[1]), value=task.pad) for part in (tried, batch)]
    new = distinct(task, torch.cat(wide))[len(tried) :] >= len(tried)
    if not bool(new.any()):
        raise ValueError(f"{task.name} has no other sequences to find directions on than those tried; take a smaller n")
    return batch[new]
