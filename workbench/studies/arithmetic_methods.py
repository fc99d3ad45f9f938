"""Arithmetic expressions: five methods by number of operators and of layers (Seq-VCR, Figures 7 to 9)."""

from __future__ import annotations

from workbench.studies.expressions import Grid, methods_study

STUDY = methods_study(
    Grid("arithmetic", "operators", values=(2, 3), layers=(1, 3)),
    Grid("arithmetic", "operators", values=(4,), layers=(5,)),
    Grid("arithmetic", "operators", values=(4, 5, 6), layers=(4, 5, 6)),
    on_a_gpu={
        "steps": 4000,
        "warmup": 200,
        "batch_size": 1024,
        "learning_rate": 5e-4,
        "precision": "bfloat16",
        "workers": 1,
    },
    settings={"task": {"brackets": "always"}, "steps": 2000},
    question="Does Seq-VCR, with pauses and without, solve longer expressions than a plain model of the same depth?",
    note="At scale small values are modulo 7, and the commonest alone is right in about one of six: so "
    "many right answers are no sign that a model computes.",
)
