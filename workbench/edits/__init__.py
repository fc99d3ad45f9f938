"""Edits tried on one input: the model runs once more with something changed inside, and the answers are compared.

    tried = try_edit(run.hooked(), seen, CutEdge(query=9, key=3))     # seen: workbench.see(run, batch)
    tried.verdict()                                                   # '1 of 28 answers changes (…); …'
    figures.edited(tried)

An edit is a small frozen dataclass: `CutEdge`, `RemoveHead`, `RemoveWrite`, `Patch` or `Exchange`; `suggestions` has
those that the task's mechanisms make worth trying. One input is a case, not a rate: it shows that something *can*
matter. The causal tests of `workbench.mechanisms` have rates, over many inputs and beside edits elsewhere.
"""

from __future__ import annotations

from workbench.edits.kinds import (
    CutEdge,
    Edit,
    Exchange,
    Patch,
    RemoveHead,
    RemoveWrite,
    point_in_words,
    points,
    writes,
)
from workbench.edits.suggestions import another, strongest_edge, suggestions
from workbench.edits.trial import Edited, try_edit

__all__ = [
    "CutEdge",
    "Edit",
    "Edited",
    "Exchange",
    "Patch",
    "RemoveHead",
    "RemoveWrite",
    "another",
    "point_in_words",
    "points",
    "strongest_edge",
    "suggestions",
    "try_edit",
    "writes",
]
