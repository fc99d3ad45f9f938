"""Edits of a forward pass: the model computes on from what was changed.

On one input, with what becomes of its answers:

    tried = try_edit(run.hooked(), seen, CutEdge(query=9, key=3))     # seen: workbench.see(run, batch)
    tried.verdict()                                                   # '1 of 28 answers changes (…); …'
    figures.edited(tried)

Such an edit is a small frozen dataclass, an `Edit`: `CutEdge`, `RemoveHead` and `RemoveWrite` (`ablation`), `MoveEdge`,
`Patch` and `Exchange` (`patching`); `mechanisms.suggestions` has those that are worth trying on an input. One input is
a case, not a rate: it shows that something *can* matter. `swap` puts one input's residual into another run, at every
pair of layers (Patchscopes).

Causal tests (`workbench.mechanisms`) have rates, over many inputs at once and beside edits elsewhere. They are made of
`cut_edges` (`edges`), of `SpanEdit` and `ReadBy` (`batch_edits`), and of `outcomes`, which counts what becomes of the
answers; `sampling` draws what is edited, and `cut_test` is a whole test of a claim about edges. Every edit ends in one
of the two writers of `hooks`.
"""

from __future__ import annotations

from workbench.interventions.ablation import CutEdge, RemoveHead, RemoveWrite
from workbench.interventions.batch_edits import ReadBy, SpanEdit, activation, exchanged, read_by
from workbench.interventions.cut_test import cut_test
from workbench.interventions.edges import Edge, cut_edges, cutting
from workbench.interventions.edit import Edit, head_in_words
from workbench.interventions.head_removal import REMOVED, can_remove_heads, costliest, fallen_without
from workbench.interventions.heads import Head, check_head, in_layers
from workbench.interventions.hooks import Hooks, put, put_rows
from workbench.interventions.moved_edge import MoveEdge
from workbench.interventions.outcomes import OUTCOMES, Question, answers, outcomes
from workbench.interventions.patching import Exchange, Patch
from workbench.interventions.points import point_in_words, points, writes
from workbench.interventions.sampling import (
    at_position,
    choose_one,
    excluding,
    single_position,
    token_mask,
    two_other_tokens,
)
from workbench.interventions.swap import Places, swap
from workbench.interventions.try_edit import Edited, try_edit

__all__ = [
    "OUTCOMES",
    "REMOVED",
    "CutEdge",
    "Edge",
    "Edit",
    "Edited",
    "Exchange",
    "Head",
    "Hooks",
    "MoveEdge",
    "Patch",
    "Places",
    "Question",
    "ReadBy",
    "RemoveHead",
    "RemoveWrite",
    "SpanEdit",
    "activation",
    "answers",
    "at_position",
    "can_remove_heads",
    "check_head",
    "choose_one",
    "costliest",
    "cut_edges",
    "cut_test",
    "cutting",
    "exchanged",
    "excluding",
    "fallen_without",
    "head_in_words",
    "in_layers",
    "outcomes",
    "point_in_words",
    "points",
    "put",
    "put_rows",
    "read_by",
    "single_position",
    "swap",
    "token_mask",
    "try_edit",
    "two_other_tokens",
    "writes",
]
