"""What an inspection of a run finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.projection import top_tokens
from workbench.interventions import Head
from workbench.measurement import Measurement
from workbench.mechanisms.heads import NeededHeads
from workbench.runs import Run
from workbench.tasks import counted


@dataclass(frozen=True)
class Inspected:
    """Everything measured on one run.

    Attributes:
        run: the run.
        name: what to call it.
        examples: instrument or mechanism -> what was measured, with its dim `example`; without it where the instrument
            looks at the weights alone, and there is nothing to take a mean or an interval of.
        measured: the same, the mean over examples, with interval and n.
        controls: the same name -> null (`mismatched`, `untrained`, …) -> the mean under it; of `untrained` the mean and
            range over several models with fresh weights.
        draws: the same name -> the mean of each of these models, dim `draw` first; of claims about heads that of each
            model's own best head, chosen as the run's is.
        control_examples: mechanism -> null -> its score with the dim `example`, and each example's test condition; of
            `untrained` with the dim `draw` first.
        causal: mechanism -> its causal test, the mean over examples; of claims about heads, in the head shown.
        causal_draws: mechanism -> the same of each model that knows nothing, dim `draw` first: first those with fresh
            weights, then those with the run's own weights shuffled.
        needed_heads: claim about heads -> the smallest set of heads whose edit loses the answers.
        conditions: the task's test condition of each example.
        sequences: the tokens of each example, without padding; none asks what another of its condition does.
        drawn: how many sequences were drawn, some of them perhaps more than once.
        fingerprint: of all tokens: runs with the same one were measured on the same examples.
        left_out: what does not apply -> why.
        bases: how far the two bases are from orthogonal; None for large vocabularies.
        gold_mass: the resolvent's mass on gold paths, of the head that was best on other data; None without a graph,
            or without the control beside it.
        gold_mass_control: the same head's mass on the gold paths of other examples.
        example: a capture of a single sequence, to draw.
        shown_head: the layer and head to draw, and of which claims about heads are; None where the task has no graph to
            choose one by, or no attention was looked at.
    """

    run: Run
    name: str
    examples: dict[str, Measurement]
    measured: dict[str, Measurement]
    controls: dict[str, dict[str, Measurement]]
    draws: dict[str, Measurement]
    control_examples: dict[str, dict[str, tuple[Measurement, list[dict[str, Any]]]]]
    causal: dict[str, Measurement]
    causal_draws: dict[str, Measurement]
    needed_heads: dict[str, NeededHeads]
    conditions: list[dict[str, Any]]
    sequences: list[Int[Tensor, " pos"]]
    drawn: int
    fingerprint: str
    left_out: dict[str, str]
    bases: Measurement | None
    gold_mass: Measurement | None
    gold_mass_control: Measurement | None
    example: Capture
    shown_head: Head | None

    @property
    def counted(self) -> str:
        """How many sequences it is of, in words: `256`, or `256 drawn, 139 distinct`."""
        return counted(self.drawn, len(self.sequences))

    def of_head(self, measured: Measurement) -> Measurement:
        """Of a measure of every head that of the head shown; any other as it is.

        Raises:
            ValueError: if it is of every head, and no head was chosen.
        """
        if "head" not in measured.dims:
            return measured
        if self.shown_head is None:
            raise ValueError(
                f"{measured.name!r} is of every head, and no head of {self.name} was chosen: give head=(layer, head)"
            )
        layer, head = self.shown_head
        return measured.select(layer=layer, head=head)

    def all(self) -> dict[str, Measurement]:
        """Every measurement under the name of its file."""
        found = dict(self.measured)
        found |= {f"{name}-{null}": m for name, nulls in self.controls.items() for null, m in nulls.items()}
        found |= {f"{name}-untrained-each": m for name, m in self.draws.items()}
        found |= {f"{name}-causal": m for name, m in self.causal.items()}
        found |= {f"{name}-causal-untrained-each": m for name, m in self.causal_draws.items()}
        for name, needed in self.needed_heads.items():
            found[f"{name}-causal-every-head"] = needed.everywhere
            if needed.causal is not None:
                found[f"{name}-causal-needed-heads"] = needed.causal
        if self.gold_mass is not None and self.gold_mass_control is not None:
            found |= {"gold_mass": self.gold_mass, "gold_mass-mismatched": self.gold_mass_control}
        if self.bases is not None:
            found["basis_overlap"] = self.bases
        return found | ({"example-projection": top_tokens(self.example)} if "projection" in self.measured else {})
