"""The forms of what commands print with `--json`, where the result has none of its own.

A number that is not known or not finite is null. `schemas` has the command of each.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workbench.judgement.claim import Judgement
from workbench.judgement.decodable import Decodable
from workbench.judgement.faithful import CircuitJudgement
from workbench.judgement.probed import Status
from workbench.judgement.used import Used
from workbench.report.hooked_checks import Check
from workbench.report.pairs import Answers
from workbench.studies.result import StoredResult

Ends = Annotated[tuple[float, float], Field(description="the ends of the interval of 95 %")]


class Form(BaseModel):
    """What one command prints, or a part of it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Value(Form):
    """One number of a measurement, at the labels of its dims, which are fields too (`layer`, `head`, …)."""

    model_config = ConfigDict(extra="allow")
    value: float
    low: float | None = Field(None, description="the lower end of the interval of 95 %")
    high: float | None = Field(None, description="its upper end")
    n: int | None = Field(None, description="examples, pairs or seeds behind the value")


class Measured(Form):
    """A measurement: what was measured, in which units, along which dims, and a row for each number."""

    name: str
    units: str
    """`share` (of 1), `nats`, `logit difference`, …"""
    dims: list[str]
    settings: dict[str, Any]
    caption: str
    """What the numbers show, and what they do not."""
    rows: list[Value]


class Packed(Form):
    """A measurement with its numbers as nested lists, one level for each dim."""

    name: str
    units: str
    dims: list[str]
    coords: dict[str, list[Any]]
    settings: dict[str, Any]
    caption: str
    values: Any
    low: Any = None
    high: Any = None
    n: Any = None
    each: Any = Field(None, description="the value of each seed, in the last level")


class Checks(Form):
    """`workbench check`."""

    format: Literal["check/1"]
    model: str
    sample: str
    """What the model was run on, in words."""
    passed: bool
    """Whether no check failed; the exit code is 1 where one did."""
    checks: list[Check]


class Circuit(Form):
    """`workbench circuit`."""

    format: Literal["circuit/1"]
    run: str
    answers: Answers | None = Field(None, description="of a model of Hugging Face: how it answers before any edit")
    edges: dict[str, float | None]
    """The edges of the circuit with their scores: in units of the metric, but those of `gim`, which are an order."""
    judgement: CircuitJudgement
    measurements: dict[str, Measured]


class Written(Form):
    """What a model wrote."""

    text: str
    tokens: list[str]
    probabilities: list[float]


class Generated(Form):
    """`workbench generate`."""

    format: Literal["generate/1"]
    model: str
    prompt: str
    how: str
    edits: list[str]
    parts_at: int | None
    """The first new token, from 0, at which the two texts differ; null where they do not."""
    unedited: Written
    edited: Written


class Share(Form):
    """A share of 1 with its interval of 95 %."""

    value: float
    interval: Ends


class RoleHead(Form):
    """One of the strongest heads of a role."""

    role: str
    layer: int
    head: int
    share: Share
    """Of its attention that goes where the role says."""
    lost: Share
    """Of the right answers, where the head writes nothing."""
    lost_there: Share
    """Of those where the role is asked."""
    baseline: float
    """The largest share of any head of the uninformed models."""
    more_than_baseline: bool | None
    judgement: Judgement
    pairs: list[float] | None
    """On prompt sets: the share of the logit difference that is lost when the head holds what it does on control pairs,
    and on corrupted ones."""


class Heads(Form):
    """`workbench heads`."""

    format: Literal["heads/1"]
    model: str
    n: int
    removed_on: int
    right: float
    strongest: list[RoleHead]
    measurements: dict[str, Measured]


class Inspected(Form):
    """`workbench inspect`."""

    format: Literal["inspect/1"]
    says: str
    measurements: dict[str, dict[str, Measured]]
    """Run -> measurement -> its numbers."""


class Place(Form):
    """One of the strongest places of a patch grid."""

    site: str
    layer: int
    index: int
    """Of `positions`; of the site `head`, the head."""
    share: float
    """Of the gap between the two questions that the place brings back: 0 nothing, 1 all."""
    interval: Ends
    pairs: int
    control: float | None
    """The same on pairs that change nothing relevant."""


class Patched(Form):
    """`workbench patch`."""

    format: Literal["patch/1"]
    model: str
    method: str
    positions: list[str]
    answers: Answers | None = Field(None, description="of a model of Hugging Face: how it answers before any edit")
    strongest: list[Place]
    measurements: dict[str, Measured]


class ProbeFinding(Form):
    """What is known of a label at one place."""

    run: str
    preset: str | None
    verdict: str
    decoded: str
    causal: str | None
    status: Status
    label: str
    place: str | None
    point: str | None
    decodable: Decodable
    tests: dict[str, Used]
    effect: Measured | None = None
    excess: Measured | None = None
    sizes: Measured | None = None
    nulls: Measured | None = None


class Probed(Form):
    """`workbench probe`."""

    format: Literal["probe/1"]
    question: str
    settings: list[dict[str, Any]]
    findings: list[ProbeFinding]
    measured: list[Measured]


class RunRow(Form):
    """A run, with every setting of its config under its dotted name."""

    model_config = ConfigDict(extra="allow")
    run: str
    status: Literal["finished", "training", "stopped"]
    step: int
    accuracy: float
    loss: float
    seconds: float
    tokens_per_second: float
    peak_megabytes: float
    variants: str


class Runs(Form):
    """`workbench runs`."""

    format: Literal["runs/1"]
    runs: list[RunRow]
    problems: list[str]
    """Why each other folder cannot be read."""


class Group(Form):
    """The runs with the same values of the settings `--by`, which are fields too."""

    model_config = ConfigDict(extra="allow")
    mean: float
    low: float
    high: float
    n: int
    """Seeds."""
    difference: float | None = Field(None, description="with `--against`: from that group")
    difference_low: float | None = None
    difference_high: float | None = None
    p: float | None = Field(None, description="adjusted after Holm")


class Table(Form):
    """`workbench table`."""

    format: Literal["table/1"]
    metric: str
    rows: list[Group]


class Study(StoredResult):
    """`workbench study run`."""

    format: Literal["study/2"]
    groups: dict[str, dict[str, Packed]]  # type: ignore[assignment]


class Mark(Form):
    """The marks of one section of a claim about one model."""

    model_config = ConfigDict(extra="allow")
    model: str
    section: str
    knows: bool
    """Whether the model knows its task."""
    brier: float
    """0 is right and sure, 0.25 says nothing, 1 is wrong and sure."""
    said: int


class Marks(Form):
    """`workbench bench score`."""

    format: Literal["bench-score/1"]
    score: float
    """1 is right and sure of all, 0 says nothing, -3 is wrong and sure of all."""
    rows: list[Mark]
