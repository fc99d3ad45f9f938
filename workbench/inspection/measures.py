"""The measures of an inspection: instruments and mechanisms with their settings, and their batches so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter, signature
from typing import Any, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from workbench.capture import Capture, Subject
from workbench.inspection.baseline_models import Model
from workbench.instruments import INSTRUMENTS, SETS, WEIGHTS, AnyInstrument
from workbench.interventions import Head
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.mechanisms import MECHANISMS, Mechanism
from workbench.models import AnyModel
from workbench.models.facts import EditReachesNothingError
from workbench.tasks import Batch
from workbench.util.lookup import lookup
from workbench.util.messages import first_problem
from workbench.util.seeds import generator
from workbench.util.strict_settings import Checked

MOST_HOPS = 8  # how many hops are measured; of longer paths, the first ones
DRAWS = 8  # models with fresh weights behind that control
FITTED_DRAWS = 2  # the same, where something (a lens) is first fitted to each of these models
IN_FOCUS, NEEDED_HEADS, EVERY_HEAD = "in focus", "needed heads", "every head"  # where a causal test makes its edit

Settings = Mapping[str, Mapping[str, Any]]
"""Instrument or mechanism -> its settings that are not the default ones."""


@dataclass
class Measure:
    """One instrument or mechanism with its settings, and its measurements of every batch so far.

    Attributes:
        name, thing: its entry in `INSTRUMENTS`, `WEIGHTS` or `MECHANISMS`.
        function: its `measure` or `score` with the settings given.
        controls: the names of the controls that are measured too.
        fitted: model -> settings fitted to it (a lens); None stands for the run's model, a number for a model with
            fresh weights.
        batches: the run's measurements, one for each batch.
        control_batches: control -> its measurements, one for each batch.
        control_conditions: control -> the test condition of each example.
        fresh_batches: number of a model with fresh weights -> its measurements, one for each batch.
        causal_batches: the causal tests, one for each batch, by where the edit was made in the run's model; or by the
            kind and number of an uninformed model.
        untested: why no causal test is made: an edit of it does not reach this model's output.
    """

    name: str
    thing: AnyInstrument | Mechanism
    function: Callable[..., Measurement]
    controls: list[str]
    fitted: dict[int | None, dict[str, Any]] = field(default_factory=dict)
    batches: list[Measurement] = field(default_factory=list)
    control_batches: dict[str, list[Measurement]] = field(default_factory=dict)
    control_conditions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    fresh_batches: dict[int, list[Measurement]] = field(default_factory=dict)
    causal_batches: dict[str | tuple[str, int], list[Measurement]] = field(default_factory=dict)
    untested: str | None = None

    @property
    def n_draws(self) -> int:
        """How many models with fresh weights are measured."""
        if UNTRAINED not in self.controls:
            return 0
        return FITTED_DRAWS if hasattr(self.thing, "fit") else DRAWS

    @property
    def of_weights(self) -> bool:
        """Whether it looks at the weights alone: then once, and at no sequence."""
        return self.name in WEIGHTS

    def needs(self, subject: Subject) -> list[str]:
        """The hook names to capture."""
        return [] if self.of_weights else self.thing.needs(subject)  # type: ignore[union-attr]

    @property
    def read_at_head(self) -> bool:
        """Whether it is read at one head; in a model with fresh weights, this is the best head of that model."""
        return self.name in MECHANISMS or bool(getattr(self.thing, "READ_AT_HEAD", False))

    @property
    def of_heads(self) -> bool:
        """Whether it is a claim about single heads, whose causal test is told where to edit."""
        return hasattr(self.thing, "causal") and "heads" in signature(self.thing.causal).parameters

    def fit(self, which: int | None, model: AnyModel, subject: Subject, seed: int) -> None:
        """Fit what the measure needs to a model first, such as a lens, if anything; None is the run's model."""
        if hasattr(self.thing, "fit"):
            self.fitted[which] = self.thing.fit(model, subject, seed)

    def measure(self, seen: Capture, of: int | None = None) -> Measurement:
        """The measurement of a capture; `of` says whose fitted settings to use."""
        return self.function(seen.subject if self.of_weights else seen, **self.fitted.get(of, {}))

    def measure_fresh(self, draw: int, model: Model, seen: Capture, condition: dict[str, Any]) -> None:
        """Keep the measurement of a model with fresh weights; one that is read at one head, at the model's best."""
        if draw >= self.n_draws or (self.of_weights and draw in self.fresh_batches):
            return
        measured = self.measure(seen, of=draw)
        if self.read_at_head and "head" in measured.dims:
            assert model.head is not None, "a measure that is read at one head needs a graph"
            layer, head = model.head
            measured = measured.select(layer=layer, head=head)
            measured = replace(measured, settings={**measured.settings, "head": "the best of each model"})
        self.fresh_batches.setdefault(draw, []).append(measured)
        if not draw and "example" in measured.dims:
            conditions = self.control_conditions.setdefault(UNTRAINED, [])
            conditions += [condition] * measured.values.shape[-1]

    def keep(self, control: str, measured: Measurement, condition: dict[str, Any]) -> None:
        """Keep a control's measurement of a batch of one test condition."""
        self.control_batches.setdefault(control, []).append(measured)
        size = measured.values.shape[measured.axis("example")] if "example" in measured.dims else 0
        self.control_conditions.setdefault(control, []).extend([condition] * size)

    def test(
        self, key: str | tuple[str, int], model: Model, batch: Batch, seed: int, heads: Sequence[Head] | None
    ) -> None:
        """Make the causal test on a batch, if this model lets it, and keep it under a key."""
        if self.untested is None:
            try:
                self.causal_batches.setdefault(key, []).append(self.tested(model, batch, seed, heads))
            except EditReachesNothingError as error:
                self.untested = str(error)
                self.causal_batches.clear()

    def tested(
        self, model: Model, batch: Batch, seed: int, heads: Sequence[Head] | None, **options: Any
    ) -> Measurement:
        """The causal test on a batch; of a claim about single heads, with the edit in these heads."""
        assert self.name in MECHANISMS
        where = {"heads": heads} if self.of_heads else {}
        draws = generator(seed, "causal", self.name)
        return MECHANISMS[self.name].causal(model.hooked, model.subject, batch, draws, **where, **options)


def every_measure(names: Iterable[str]) -> dict[str, AnyInstrument | Mechanism]:
    """Every instrument and mechanism by its name. Raises ValueError if it has not all of these names."""
    everything: dict[str, AnyInstrument | Mechanism] = {**INSTRUMENTS, **WEIGHTS, **MECHANISMS}
    for name in names:
        if name in SETS:
            raise ValueError(f"{name} is of all sequences together: --geometry measures it, with its default settings")
        lookup(everything, name, "instrument or mechanism")
    return everything


def bound(subject: Subject, only: Sequence[str], settings: Settings) -> tuple[list[Measure], dict[str, str]]:
    """The measures to take of this model, and name -> reason of those that do not apply.

    Raises:
        ValueError: if there is no such instrument or mechanism, it has no such setting, or a setting no such value.
    """
    everything = every_measure((*only, *settings))
    n_hops = hops_measured(subject)
    measures, left_out = [], {}
    for name, thing in everything.items():
        if name not in only if only else getattr(thing, "ON_REQUEST", False):
            continue
        reason = thing.why_not(subject)
        if reason is not None:
            left_out[name] = reason
            continue
        function = thing.score if name in MECHANISMS else thing.measure  # type: ignore[union-attr]
        known = _settings_of(function)
        chosen = _checked(name, function, settings.get(name, {}))
        if "n_hops" in known:
            chosen = {"n_hops": n_hops, **chosen}
        measures.append(Measure(name, thing, partial(function, **chosen), list(thing.CONTROLS)))
    return measures, left_out


def hops_measured(subject: Subject) -> int:
    """How many hops are measured: the same number for every batch."""
    tokens, n_hops = subject.task.sample(64, generator(0, "hops")).tokens, 1
    for few in tokens.split(8):  # the truth of long inputs takes a while, and most of them have all the hops
        n_hops = max(n_hops, subject.task.truth(few).n_hops)
        if n_hops >= MOST_HOPS:
            return MOST_HOPS
    return n_hops


class _Values(Checked):
    model_config = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=True)


def _checked(name: str, function: Callable[..., Measurement], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings given for a measure, each of the type that its function declares.

    Raises:
        ValueError: in one line, if there is no such setting, or its value is of another type or an empty list.
    """
    known = _settings_of(function)
    wrong = next((key for key in given if key not in known), None)
    if wrong is not None:
        raise ValueError(f"{name} has no setting {wrong!r}; there is: {', '.join(known) or 'none'}")
    if not given:
        return {}
    hints = get_type_hints(function)
    fields: dict[str, Any] = {key: (hints.get(key, Any), ...) for key in given}
    kind = create_model(name, __base__=_Values, **fields)
    try:
        made = kind.model_validate(dict(given))
    except ValidationError as error:
        raise ValueError(f"{name}.{first_problem(error, kind)}") from None
    if empty := next((key for key, value in given.items() if isinstance(value, list | tuple) and not value), None):
        raise ValueError(
            f"{name}.{empty} is empty, which leaves nothing to measure; name some, or leave it out for all"
        )
    return {key: getattr(made, key) for key in given}


def _settings_of(function: Callable[..., Measurement]) -> list[str]:
    """The names of a measure's settings: its keyword-only parameters."""
    return [name for name, p in signature(function).parameters.items() if p.kind is Parameter.KEYWORD_ONLY]
