"""Edits of a forward pass: the model computes on from what was changed.

On one input, with what becomes of its answers:

    tried = try_edit(run.hooked(), seen, CutEdge(query=9, key=3))     # seen: workbench.see(run, batch)
    tried.verdict()                                                   # '1 of 28 answers changes (…); …'
    figures.edited(tried)

Such an edit is a small frozen dataclass, an `Edit`: `CutEdge`, `RemoveHead`, `RemoveWrite`, `MoveEdge`, `Patch` and
`Exchange` (`edits`), and `AlongDirection` of a basis of one's own; `mechanisms.suggestions` has those that are
worth trying on an input. One input is a case, not a rate: it shows that something *can* matter. `go_on` (`generation`)
continues a prompt under such edits. `swap` puts one input's residual into another run, at every pair of layers
(Patchscopes).

Causal tests (`workbench.mechanisms`) have rates, over many inputs at once and beside edits elsewhere. They are made of
`cut_edges`, `SpanEdit` and `ReadBy` (`many_inputs`), and of `outcomes`, which draws what is edited and counts what
becomes of the answers; `cut_test` is a whole test of a claim about edges. Every edit ends in `put` or
`put_rows` (`edit_protocol`).
"""

from __future__ import annotations

from workbench.interventions.along_direction import AlongDirection
from workbench.interventions.edit_protocol import (
    Edit,
    Head,
    Hooks,
    head_in_words,
    in_layers,
    point_in_words,
    points,
    put_rows,
    writes,
)
from workbench.interventions.edits import CutEdge, Exchange, MoveEdge, Patch, RemoveHead, RemoveWrite
from workbench.interventions.many_inputs import ReadBy, SpanEdit, activation, cut_edges, exchanged, read_by
from workbench.interventions.next_token import NextToken, next_token
from workbench.interventions.outcomes import (
    OUTCOMES,
    REMOVED,
    at_position,
    can_remove_heads,
    choose_one,
    costliest,
    cut_test,
    excluding,
    fallen_without,
    outcomes,
    single_position,
    two_other_tokens,
    with_other_token,
)
from workbench.interventions.swap import Places, swap
from workbench.interventions.try_edit import Edited, try_edit

__all__ = [
    "OUTCOMES",
    "REMOVED",
    "AlongDirection",
    "CutEdge",
    "Edit",
    "Edited",
    "Exchange",
    "Head",
    "Hooks",
    "MoveEdge",
    "NextToken",
    "Patch",
    "Places",
    "ReadBy",
    "RemoveHead",
    "RemoveWrite",
    "SpanEdit",
    "activation",
    "at_position",
    "can_remove_heads",
    "choose_one",
    "costliest",
    "cut_edges",
    "cut_test",
    "exchanged",
    "excluding",
    "fallen_without",
    "head_in_words",
    "in_layers",
    "next_token",
    "outcomes",
    "point_in_words",
    "points",
    "put_rows",
    "read_by",
    "single_position",
    "swap",
    "try_edit",
    "two_other_tokens",
    "with_other_token",
    "writes",
]
