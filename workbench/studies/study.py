"""The form of a study: a question, the runs that answer it, what is measured of them, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from workbench.inspection.learning_curves import units_of
from workbench.measurement import Measurement
from workbench.runs import Run
from workbench.studies.contrasts import OVER_TRAINING, Contrast
from workbench.studies.reasons import AT_DAY_SCALE, AT_GPU_SCALE, AT_SMALL_SCALE
from workbench.training.sweeps.job import Job
from workbench.training.sweeps.plan import MOST_RUNS, Planned, SweepFile, in_digits, read_plan
from workbench.util.lookup import check_name, lookup
from workbench.util.messages import brief
from workbench.util.settings import as_text, flat

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from workbench.studies.fine_tuning import FineTunes

Quantities = dict[str, Measurement]
"""Quantity -> its measurement: of one run, or the mean over the seeds of a group."""

Groups = Mapping[str, Quantities]
"""Group (the runs that differ in their seed alone) -> the mean of each quantity over its seeds."""

Sweep = dict[str, Any]
"""The fields of a sweep file."""

Figure: TypeAlias = "go.Figure"  # whoever trains a study need not have Plotly

Draw = Callable[[Groups], "Figure | None"]

Scale = str
SMALL, DAY, GPU, PAPER = "small", "day", "gpu", "paper"
"""Minutes of a CPU; hours of one core; the paper's models in minutes of one GPU; the paper's own configuration."""

TUNING_SEEDS, FIRST_TUNING_SEED = 3, 1000
"""Seeds on which settings are chosen: how many, and from which on, far from those that are asked."""

FRESH, BEGIN = "fresh", "begin"
"""Folders beside those of fine-tuned groups: fresh weights, and the model that every group begins with."""

STUDY_FILE = "study.toml"
"""A copy of the study's own file, beside the folders of its scales."""

BECAUSE: Mapping[Scale, Mapping[str, str]] = {SMALL: AT_SMALL_SCALE, DAY: AT_DAY_SCALE, GPU: AT_GPU_SCALE}


class StudyStoppedError(Exception):
    """A study was stopped before its end; what was trained is kept."""


def check_ended(jobs: Sequence[Job]) -> None:
    """Raise StudyStoppedError if a job did not come to its end, RuntimeError in one line if one failed."""
    if any(job.status not in ("finished", "failed") for job in jobs):
        raise StudyStoppedError
    if failed := [job for job in jobs if job.status == "failed"]:
        raise RuntimeError(f"{', '.join(job.name for job in failed)} failed: {failed[0].error}")


@dataclass(frozen=True)
class Source:
    """Where a claim was published.

    Attributes:
        paper: its short name, such as `ChaCAL`.
        place: table, figure or theorem.
    """

    paper: str
    place: str


@dataclass(frozen=True)
class Published:
    """A published figure.

    Attributes:
        group, quantity: the number of ours that stands beside it.
        value: as it was published, in the units of that quantity.
        at: dim -> coordinate, where the quantity has dims.
    """

    group: str
    quantity: str
    value: float
    at: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A question with everything that answers it.

    Attributes:
        question: one sentence.
        runs: scale -> the sweep to train, as the fields of a sweep file, without seeds. Empty where nothing is trained.
        measure: what is measured of one finished run.
        contrasts: what must hold for the answer to be yes.
        contrasts_at: scale -> the contrasts there, where its groups are others than those of `contrasts`.
        draw: the figure, from the means over seeds; or several.
        source: where the claim was published; None for a question of one's own.
        published: its figures.
        seeds: scale -> how many seeds each group has.
        because: setting -> why it differs from the paper's at a smaller scale than gpu, where `reasons` does not say
            it or another reason holds.
        tune: setting -> values. Before anything is asked, every group of a contrast is trained with each of them, and
            as planned, on seeds of their own; then the contrasts are asked of each group's best, on fresh seeds.
        less_is_better: the quantities of which the least is best, such as a loss.
        timed: the group beside which the time of every group's training step is stated; None where it is not.
        note: what a reader must know to read the published figures beside ours.
        runs_of: the study whose runs these are, where two studies measure the same runs.
        compute: what a study without runs computes from its scale and a seed: group -> quantity -> its measurement of
            every example. Its intervals are over the examples of all seeds.
        tunes: in place of runs, models that are fine-tuned, and what is measured of them.
        file: the name of the file that it came from; empty for a study of the papers.
        toml: the text of that file, where it is TOML.
    """

    question: str
    contrasts: Sequence[Contrast]
    draw: Draw | Sequence[Draw]
    runs: Mapping[Scale, Mapping[str, Any]] = field(default_factory=dict)
    measure: Callable[[Run], Quantities] | None = None
    source: Source | None = None
    published: Sequence[Published] = ()
    seeds: Mapping[Scale, int] = field(default_factory=lambda: {SMALL: 5, PAPER: 4})
    because: Mapping[str, str] = field(default_factory=dict)
    tune: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    less_is_better: Sequence[str] = ()
    contrasts_at: Mapping[Scale, Sequence[Contrast]] = field(default_factory=dict)
    timed: str | None = None
    note: str = ""
    runs_of: str | None = None
    compute: Callable[[Scale, int], Mapping[str, Quantities]] | None = None
    tunes: FineTunes | None = None
    file: str = ""
    toml: str = ""

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.measure, self.compute, self.tunes)) != 1:
            raise ValueError("a study measures its runs (`runs` and `measure`), or has `compute`, or has `tunes`")
        if bool(self.runs) != (self.measure is not None):
            raise ValueError("a study with runs says what to `measure` of each; one without has none to measure")
        for scale in self.scales:
            check_name(scale, "a study's scale", taken=[STUDY_FILE])
        for group in () if self.tunes is None else {name for each in self.tunes.groups.values() for name in each}:
            check_name(group, "a group that is fine-tuned", taken=[FRESH, BEGIN])
        if self.runs_of is not None:
            check_name(self.runs_of, "a study")
        for count in self.seeds.values():
            check_seeds(count)
        for contrast in (*self.contrasts, *(one for each in self.contrasts_at.values() for one in each)):
            contrast.check(units_of(contrast.asked.quantity.removesuffix(OVER_TRAINING)))
        for name, values in self.tune.items():
            if not isinstance(values, list | range) or not values:
                raise ValueError(brief(f"tune.{name} is a list of values, such as [0.001, 0.003], not {values!r}"))
        for scale, sweep in self.runs.items():
            try:
                file = SweepFile.read(sweep)
            except ValueError as error:
                raise ValueError(f"runs.{scale}: {error}") from None
            parts = [settings for part in (file, *file.variants) for settings in (part.grid, dict(flat(part.settings)))]
            if any("seed" in settings for settings in (*parts, self.tune)):
                raise ValueError(
                    f"runs.{scale} or tune has a seed; say how many seeds each group has: seeds.{scale} = 5"
                )

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales that it runs at."""
        return tuple(self.runs or (self.seeds if self.tunes is None else self.tunes.groups))

    def missing(self, scale: Scale, given: Mapping[str, str]) -> str | None:
        """Why it cannot run at a scale with what is given, in words; None where it can.

        Args:
            scale: the scale.
            given: what it takes from elsewhere: `model`, `text`.
        """
        if scale not in self.scales:
            return f"no scale {scale!r}; there is: {', '.join(self.scales)}"
        return None if self.tunes is None else self.tunes.missing(scale, given)

    def taken(self, scale: Scale) -> Sequence[str]:
        """What it takes from elsewhere at a scale: of `model` and `text`."""
        return () if self.tunes is None else self.tunes.taken(scale)

    def asked(self, scale: Scale) -> Sequence[Contrast]:
        """The contrasts that are asked at a scale, each with what was published of it."""
        return [contrast.beside(self.published) for contrast in self.contrasts_at.get(scale, self.contrasts)]

    def check(self, scale: Scale) -> None:
        """Raise ValueError if a contrast is about a group that a scale does not have, or a setting is wrong."""
        if self.compute is not None:
            return  # it says what its groups are once it has run
        if self.tunes is not None:
            groups = list(self.tunes.groups[scale])
        else:
            groups = [group_name(planned) for planned in read_plan(self.plan(scale, 1)).runs]
        for contrast in self.asked(scale):
            for group in contrast.groups:
                lookup(dict.fromkeys(groups), group, "group")
        try:
            self.to_choose(scale, 1)
        except ValueError as error:
            raise ValueError(f"tune: {error}") from None

    def plan(self, scale: Scale, seeds: int) -> Sweep:
        """The sweep of one scale, with its seeds.

        Raises:
            ValueError: if the study has no such scale, or seeds are too few or too many.
        """
        if scale not in self.runs:
            raise ValueError(f"this study has no scale {scale!r}; there is: {', '.join(self.runs)}")
        check_seeds(seeds)
        return self._sweep(scale, range(seeds))

    def _sweep(self, scale: Scale, seeds: Iterable[int], more: Mapping[str, Sequence[Any]] | None = None) -> Sweep:
        sweep = dict(self.runs[scale])
        return {**sweep, "grid": {**sweep.get("grid", {}), "seed": list(seeds), **(more or {})}}

    def tuned(self, scale: Scale, seeds: Iterable[int]) -> tuple[Planned, ...]:
        """The runs of every group of a contrast with each of the values to tune, but for those that are as planned.

        At scale gpu there are none: its few minutes are for the runs that are asked.
        """
        if not self.tune or scale not in self.runs or scale == GPU:
            return ()
        seeds = list(seeds)
        asked = {group for contrast in self.asked(scale) for group in contrast.groups}
        planned = {one.config.model_dump_json() for one in read_plan(self._sweep(scale, seeds)).runs}
        every = read_plan(self._sweep(scale, seeds, self.tune)).runs
        own = (one for one in every if group_name(one, self.tune) in asked)
        return tuple(one for one in own if one.config.model_dump_json() not in planned)

    def to_choose(self, scale: Scale, seeds: int) -> tuple[Planned, ...]:
        """The runs by which settings are chosen, on seeds that are not asked; none where there is nothing to choose.

        Args:
            scale: the scale.
            seeds: of each group that will be asked.
        """
        own = range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + min(TUNING_SEEDS, seeds))
        tuned = self.tuned(scale, own)
        groups = {group_name(one, self.tune) for one in tuned}
        planned = read_plan(self._sweep(scale, own)).runs if tuned else ()
        return (*(one for one in planned if group_name(one) in groups), *tuned)

    def figures(self, groups: Groups) -> list[Figure]:
        """Its figures, from the means over seeds.

        Raises:
            ValueError: in one line, whatever is wrong in `draw`, which may be anybody's.
        """
        draws = (self.draw,) if callable(self.draw) else self.draw
        try:
            return [figure for draw in draws if (figure := draw(groups)) is not None]
        except ValueError as error:
            raise ValueError(brief(error)) from error
        except Exception as error:
            raise ValueError(brief(f"{type(error).__name__}: {error}")) from error

    def reason(self, setting: str, scale: Scale = SMALL) -> str:
        """Why a setting differs from the paper's; nothing where no reason is given."""
        of_scale = BECAUSE.get(scale, {})
        return of_scale.get(setting, "") if scale == GPU else self.because.get(setting, of_scale.get(setting, ""))


def check_seeds(count: int) -> None:
    """Raise ValueError unless a group can have so many seeds, before a list of them is made."""
    if not 1 <= count <= MOST_RUNS:
        bound = "at least 1" if count < 1 else f"at most {MOST_RUNS:,}"
        raise ValueError(f"seeds must be {bound}, not {in_digits(count)}")


def group_name(planned: Planned, without: Iterable[str] = ()) -> str:
    """The name of a run's group: its variant, and its values of the grid but for the seed."""
    left_out = {"seed", *without}
    values = [
        f"{name.rpartition('.')[2]} {as_text(value)}" for name, value in planned.choice.items() if name not in left_out
    ]
    return ", ".join([planned.variant, *values])
