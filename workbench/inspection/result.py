"""The results of an inspection by name: one for every instrument and mechanism, with its controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

from jaxtyping import Int
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.projection import top_tokens
from workbench.interventions import Head, costliest
from workbench.measurement import Measurement
from workbench.measurement.groups import conditions_as_groups
from workbench.mechanisms.heads import NeededHeads
from workbench.runs import Run
from workbench.tasks import Batch, Task, counted
from workbench.tasks.known_text import Origin
from workbench.util.lookup import lookup


@dataclass(frozen=True)
class ControlResult:
    """One measure taken of a control.

    Attributes:
        examples: each example's; of models with fresh weights with the dim `draw` first; without the dim `example`
            where the instrument looks at the weights alone.
        mean: over examples, with interval and n; of models with fresh weights the mean and range of the draws.
        conditions: the task's test condition of each example.
        draws: of models with fresh weights the mean of each, dim `draw` first, of a measure that is read at one head at
            each model's own best head; None for other controls.
    """

    examples: Measurement
    mean: Measurement
    conditions: list[dict[str, Any]]
    draws: Measurement | None = None


@dataclass(frozen=True)
class CausalResult:
    """A mechanism's causal test.

    Attributes:
        mean: over examples; of a claim about single heads, with the edit in the head in focus.
        nulls: kind of uninformed model (`untrained`: re-initialised; `shuffled`: the run's own weights shuffled) -> the
            same of each such model, dim `draw` first; empty where none was tested.
        needed: of a claim about single heads the smallest set of heads whose edit loses the answers, if it was looked
            for.
    """

    mean: Measurement
    nulls: Mapping[str, Measurement] = field(default_factory=dict)
    needed: NeededHeads | None = None


@dataclass(frozen=True)
class Result:
    """The measurement of one instrument or mechanism, with those of its controls.

    Attributes:
        examples: with the dim `example`; without it where the instrument looks at the weights alone.
        mean: over examples, with interval and n.
        controls: control -> the same measure of it.
        causal: a mechanism's causal test; None where none was made.
        head: the head in focus, chosen on other data or given; None where nothing shows which one to choose.
    """

    examples: Measurement
    mean: Measurement
    controls: dict[str, ControlResult]
    causal: CausalResult | None = None
    head: Head | None = None

    @property
    def of_every_head(self) -> bool:
        """Whether there is a value for each head of each layer."""
        return "head" in self.mean.dims

    @property
    def control_means(self) -> dict[str, Measurement]:
        """Control -> the mean of it."""
        return {name: control.mean for name, control in self.controls.items()}

    @property
    def control_draws(self) -> dict[str, Measurement]:
        """Control -> each of its models, of those that are several."""
        return {name: control.draws for name, control in self.controls.items() if control.draws is not None}

    def at_head(self, head: Head | None = None) -> Result:
        """The result at one head, by default the head in focus; a measure without heads as it is.

        Raises:
            ValueError: if there is a value for every head and none is in focus, or there is no such head.
        """
        if not self.of_every_head:
            return self
        head = self.head if head is None else head
        if head is None:
            raise ValueError(f"{self.mean.name!r} is of every head, and none is in focus: give head=(layer, head)")
        controls = {
            name: replace(
                control,
                examples=select_head(control.examples, head),
                mean=select_head(control.mean, head),
                draws=None if control.draws is None else select_head(control.draws, head),
            )
            for name, control in self.controls.items()
        }
        examples, mean = select_head(self.examples, head), select_head(self.mean, head)
        return replace(self, examples=examples, mean=mean, controls=controls, head=head)


def select_head(measured: Measurement, head: Head) -> Measurement:
    """A measurement of every head at one of them; one without heads as it is."""
    return measured.select(layer=head[0], head=head[1]) if "head" in measured.dims else measured


@dataclass
class Sample:
    """The sequences that a run was measured on.

    Attributes:
        drawn: how many were drawn, some of them perhaps more than once.
        origins: what each example is to the model: held out, trained on, or given where nobody here knows.
        conditions: the task's test condition of each example.
        tokens: the tokens of each example, without padding; no two examples of one condition ask the same question.
    """

    drawn: int
    origins: list[Origin] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[Int[Tensor, " pos"]] = field(default_factory=list)

    def add(self, task: Task, batch: Batch, condition: dict[str, Any]) -> None:
        """Add the sequences of a batch, all drawn under one test condition."""
        ends = task.lengths(batch.tokens).tolist()
        self.conditions += [condition] * len(batch)
        self.origins += task.origins_of(batch.tokens)
        self.tokens += [row[:end] for row, end in zip(batch.tokens, ends, strict=True)]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def kind(self) -> Origin:
        """What they are together."""
        return Origin.of_all(self.origins) if self.origins else Origin.HELD_OUT

    @property
    def counts(self) -> dict[str, int]:
        """How many sequences were `drawn`, and how many `distinct` ones there are."""
        return {"drawn": self.drawn, "distinct": len(self)}

    @property
    def in_words(self) -> str:
        """How many sequences there are: `256`, or `256 drawn, 139 distinct`."""
        return counted(self.drawn, len(self))

    @property
    def spread(self) -> str:
        """What the test conditions range over: `length 2 to 30`; nothing where they are all the same."""
        groups = conditions_as_groups(self.conditions)
        return "" if groups is None else f"{groups[0]} {min(groups[1])} to {max(groups[1])}"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all tokens: runs with the same one were measured on the same examples."""
        digest = sha256()
        for row in self.tokens:
            digest.update(len(row).to_bytes(4, "little") + row.numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Inspected:
    """Everything measured of one run: `inspected["minimum"].controls["untrained"].mean`.

    Attributes:
        run: the run.
        name: what to call it.
        results: instrument or mechanism -> what it measured.
        sample: the sequences that it was measured on.
        left_out: what does not apply -> why.
        example: a capture of a single sequence, to draw.
        head: the layer and head in focus: the one with the most mass on gold paths, on other data, or the one that was
            given; None where the task has no graph to choose one by, or no attention was looked at.
        fallen: the share of right answers that fall when a head is removed (`interventions.fallen_without`): the head
            in focus, then the one whose removal cost most on other data, if it is another; None if none was removed.
        removed: those heads.
    """

    run: Run
    name: str
    results: dict[str, Result]
    sample: Sample
    left_out: dict[str, str]
    example: Capture
    head: Head | None
    fallen: Measurement | None = None
    removed: tuple[Head, ...] = ()

    @property
    def members(self) -> tuple[Inspected]:
        """The runs behind it, of which a group of seeds has several: this one."""
        return (self,)

    @property
    def needed_head(self) -> Head | None:
        """The head that clearly more right answers need than the head in focus; else the head in focus."""
        if self.fallen is None or self.head not in self.removed:
            return self.head
        return self.removed[costliest(self.fallen, self.removed.index(self.head))]

    def __getitem__(self, name: str) -> Result:
        return lookup(self.results, name, "measure of this inspection")

    def __contains__(self, name: object) -> bool:
        return name in self.results

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def with_head(self, head: Head) -> Inspected:
        """The same inspection with another head in focus."""
        results = {name: replace(result, head=head) for name, result in self.results.items()}
        return replace(self, results=results, head=head, fallen=self.fallen if head == self.head else None)

    def all(self) -> dict[str, Measurement]:
        """Every measurement under the name of its file."""
        files: dict[str, Measurement] = {}
        for name, result in self.results.items():
            files |= files_of(name, result)
        if "projection" in self:
            files["example-projection"] = top_tokens(self.example)
        return files


def files_of(name: str, result: Result) -> dict[str, Measurement]:
    """The measurements of one result under the names of their files."""
    files = {name: result.mean} | {f"{name}-{control}": mean for control, mean in result.control_means.items()}
    files |= {f"{name}-{control}-each": draws for control, draws in result.control_draws.items()}
    if result.causal is None:
        return files
    files[f"{name}-causal"] = result.causal.mean
    files |= {f"{name}-causal-{kind}-each": each for kind, each in result.causal.nulls.items()}
    if result.causal.needed is not None:
        files[f"{name}-causal-every-head"] = result.causal.needed.everywhere
        if result.causal.needed.causal is not None:
            files[f"{name}-causal-needed-heads"] = result.causal.needed.causal
    return files
