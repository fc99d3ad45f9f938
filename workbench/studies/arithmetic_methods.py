"""Arithmetic expressions: five methods by number of operators and of layers (Seq-VCR, Figures 7 to 9)."""

from __future__ import annotations

from workbench.studies.expressions import methods_study

STUDY = methods_study(
    "arithmetic",
    "operators",
    small=((2, 3), (1, 3), {"task": {"brackets": "always"}, "steps": 2000}),
    papers=((4, 5, 6), (4, 5, 6)),
    question="Does Seq-VCR, with pauses and without, solve longer expressions than a plain model of the same depth?",
)
