"""Longest increasing subsequence: five methods by length and number of layers (Seq-VCR, Figures 7 to 9)."""

from __future__ import annotations

from workbench.studies.expressions import methods_study

STUDY = methods_study(
    "lis",
    "length",
    small=((8, 16), (1, 3), {"steps": 800}),
    papers=((50, 80, 100), (4, 5, 6)),
    question="Does Seq-VCR, with pauses and without, find the length in longer sequences than a plain model does?",
)
