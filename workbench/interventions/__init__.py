"""Edits of a forward pass: the model computes on from what was changed.

On one input, with what becomes of its answers:

    tried = try_edit(run.hooked(), seen, CutEdge(query=9, key=3))     # seen: workbench.see(run, batch)
    tried.verdict()                                                   # '1 of 28 answers changes (…); …'
    figures.edited(tried)

Such an edit is a small frozen dataclass: `CutEdge`, `RemoveHead`, `RemoveWrite`, `Patch` or `Exchange`;
`mechanisms.suggestions` has those that the task's mechanisms make worth trying. One input is a case, not a rate: it
shows that something *can* matter. The causal tests of `workbench.mechanisms` have rates, over many inputs and beside
edits elsewhere; they are made of `cut_edges`, `SpanEdit`, `ReadBy` and `outcomes`.
"""

from __future__ import annotations

from workbench.interventions.choosing import among, at, but, choose, only, two_others
from workbench.interventions.edges import Edge, cut_edges, cutting
from workbench.interventions.heads import Head, check_head, in_layers
from workbench.interventions.one_input import CutEdge, Edit, Exchange, Patch, RemoveHead, RemoveWrite
from workbench.interventions.outcomes import OUTCOMES, Question, answers, outcomes
from workbench.interventions.points import point_in_words, points, writes
from workbench.interventions.residual import ReadBy, SpanEdit, activation, exchanged, read_by
from workbench.interventions.try_edit import Edited, try_edit
from workbench.interventions.writing import Hooks, put, put_rows

__all__ = [
    "OUTCOMES",
    "CutEdge",
    "Edge",
    "Edit",
    "Edited",
    "Exchange",
    "Head",
    "Hooks",
    "Patch",
    "Question",
    "ReadBy",
    "RemoveHead",
    "RemoveWrite",
    "SpanEdit",
    "activation",
    "among",
    "answers",
    "at",
    "but",
    "check_head",
    "choose",
    "cut_edges",
    "cutting",
    "exchanged",
    "in_layers",
    "only",
    "outcomes",
    "point_in_words",
    "points",
    "put",
    "put_rows",
    "read_by",
    "try_edit",
    "two_others",
    "writes",
]
