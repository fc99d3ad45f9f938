"""Partial products: where a digit of the product is predicted, the operand digits that its column multiplies are read.

For multiplication (Seq-VCR, §4.1). Scored per head, at each place of the product: the operand digits i, j with i + j
equal to the place get more of the row, on average, than the operands' other digits; attention that knows nothing of
places does so in about half of them. The score does not show what is made of the digits. The causal test does: with an
operand digit replaced in what the head reads, or all of the last layer, the product's digit must change by what that
digit adds to its column.
Control: a re-initialised model. (Other examples have the same columns, so that `mismatched` would change nothing.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.interventions import Edit, Head, Patch, SpanEdit
from workbench.measurement import Measurement
from workbench.mechanisms.heads import where_in_words
from workbench.models import AnyHooked
from workbench.tasks import Batch
from workbench.tasks.multiplication import Multiplication
from workbench.util.ties import hit

CONTROLS = ("untrained",)
CAUSAL_CAPTION = (
    "Whether a digit of the product changes by what an operand digit adds to its column that {reader} finds replaced "
    "(claimed), and whether replacing a digit that enters only higher columns leaves it alone (elsewhere)."
)

needs = attention_graph.needs


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    if not isinstance(subject.task, Multiplication):
        return f"the task {subject.task.name} is not multiplication"
    return None if subject.task.digits > 1 else "operands of one digit have one column"


def score(capture: Capture) -> Measurement:
    """Share of the product's places at which a head reads the column's digits: dims `layer`, `head`, `example`.

    The highest place is left out, since its column has no digits, and so are places whose column has every digit.
    """
    n, n_pos = capture.batch.tokens.shape
    gold = capture.truth.adjacency(n, n_pos, hop=1)
    others = gold.any(1, keepdim=True) & ~gold
    scored = (gold.any(-1) & others.any(-1))[:, None]

    def share(mixing: Tensor) -> Tensor:
        mixing = mixing.double()  # in float64 equal rows have equal means
        means = torch.stack([(mixing * keys[:, None]).sum(-1) / keys.sum(-1)[:, None] for keys in (gold, others)], -1)
        more = hit(means, torch.zeros_like(means[..., 0], dtype=torch.long))
        return (more * scored).sum(-1) / scored.sum(-1)

    return attention_graph.by_head(
        capture,
        share,
        matrix="resolvent",
        name="Partial products",
        units="share",
        caption="Share of the product's places whose own operand digits get more of the head's row, on average, than "
        "the other operand digits. About half by chance; it does not show what is made of them.",
    )


def causal(
    model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator, *, heads: Sequence[Head] | None = None
) -> Measurement:
    """Whether a product's digit changes by what a replaced operand digit adds to its column.

    Of each example one place k of the product is tested. Edits of what some heads read of their layer's
    `hook_resid_pre`, or of that of the last layer: `claimed` takes the position of an operand's digit k from a run with
    another digit there; `elsewhere` that of a higher digit, which must not matter.

    Args:
        model, subject, batch: the hooked model, its facts, and sequences of its task.
        generator: draws the places that are tested, and the other digits.
        heads: (layer, head) of those that read the edit; None for all that reads the last layer's input.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    tokens, n_pos = batch.tokens, batch.tokens.shape[1]
    test = _ReplacedDigits.draw(subject, tokens, generator)
    here = interventions.single_position(test.source, n_pos, test.testable)
    elsewhere = interventions.single_position(test.higher, n_pos, test.testable & test.has_higher)
    runs = {"claimed": (test.replaced, here), "elsewhere": (test.unrelated, elsewhere)}

    @cache
    def taken(name: str, layer: int) -> SpanEdit:
        """The residual of a run with another digit, at the position of that digit."""
        point, (replaced, span) = f"blocks.{layer}.hook_resid_pre", runs[name]
        return SpanEdit(point, span, interventions.activation(model, replaced, point), test.predicted)

    edits = {name: interventions.read_by(partial(taken, name), heads, subject.n_layers) for name in runs}
    position, right = test.position, test.right
    reader = "the last layer" if heads is None else where_in_words(heads)
    caption = CAUSAL_CAPTION.format(reader=reader)
    return interventions.outcomes(
        model, subject, tokens, position, right, edits, name="Partial products", caption=caption, edited=reader
    )


@dataclass(frozen=True)
class _ReplacedDigits:
    """One digit of the product of each example, and operand digits that are replaced.

    The place k of the product is below the number of digits: it is the lowest that digit k of an operand enters, so
    that no carry changes before it.

    Attributes:
        position, testable: where the product's digit is predicted, and whether the example has one to test.
        right, predicted: the digit, and what it must become.
        source, replaced: the position of the operand digit that enters it, and the sequence with another digit there.
        higher, has_higher, unrelated: the same of a digit that enters only higher columns.
    """

    position: Int[Tensor, " batch"]
    testable: Bool[Tensor, " batch"]
    right: Int[Tensor, " batch"]
    predicted: Int[Tensor, " batch"]
    source: Int[Tensor, " batch"]
    replaced: Int[Tensor, "batch pos"]
    higher: Int[Tensor, " batch"]
    has_higher: Bool[Tensor, " batch"]
    unrelated: Int[Tensor, "batch pos"]

    @staticmethod
    def draw(subject: Subject, tokens: Int[Tensor, "batch pos"], generator: torch.Generator) -> _ReplacedDigits:
        """Draw what is tested, and the digits that replace others: from 1 to 9, as any place of an operand may have."""
        assert isinstance(subject.task, Multiplication)
        d, digit = subject.task.digits, subject.task.truth(tokens).labels["digit"]
        digits = (torch.arange(10) > 0)[None]
        position, testable = interventions.choose_one((digit >= 0) & (digit < d), generator)
        place = interventions.at_position(digit, position).clamp(min=0)

        # Digit k of one operand enters column k times the lowest digit of the other, its partner.
        operand = torch.randint(0, 2, place.shape, generator=generator)
        source, partner = operand * (d + 1) + place, (1 - operand) * (d + 1)
        replaced, new, _ = interventions.with_other_token(tokens, source, digits, generator)
        right = interventions.at_position(tokens.roll(-1, dims=1), position)
        added = new - interventions.at_position(tokens, source)
        predicted = (right + added * interventions.at_position(tokens, partner)) % 10

        above, has_higher = interventions.choose_one(torch.arange(d) > place[:, None], generator)
        higher = operand * (d + 1) + above
        unrelated, _, _ = interventions.with_other_token(tokens, higher, digits, generator)
        return _ReplacedDigits(position, testable, right, predicted, source, replaced, higher, has_higher, unrelated)


def suggested_edits(seen: Capture) -> dict[str, Edit]:
    """Another lowest digit of the first operand, in what the last layer reads."""
    subject, other = seen.subject, seen.batch.tokens[0].clone()
    other[0] = (other[0] + 1) % 10  # operands are written lowest digit first, and digits are their own token ids
    point = projection.from_embedding(subject)[2 * subject.n_layers - 2]
    return {"replace a digit in the last layer's input": Patch(point, subject.task.question(other), position=0)}
