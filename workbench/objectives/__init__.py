"""Objectives: terms of the training loss. A new one is one file with an `Objective` and one entry in `OBJECTIVES`."""

from __future__ import annotations

from workbench.objectives.auxiliary import Auxiliary
from workbench.objectives.base import Objective
from workbench.objectives.next_token import NextToken, next_token
from workbench.objectives.seq_vcr import SeqVCR, covariance_floor, seq_vcr

OBJECTIVES: dict[str, type[Objective]] = {
    "next_token": NextToken,
    "seq_vcr": SeqVCR,
    "auxiliary": Auxiliary,
}

__all__ = ["OBJECTIVES", "Auxiliary", "Objective", "covariance_floor", "next_token", "seq_vcr"]
