"""Longest increasing subsequence: five methods by length and number of layers (Seq-VCR, Figures 7 to 9)."""

from __future__ import annotations

from workbench.studies.expressions import Grid, methods_study

STUDY = methods_study(
    Grid("lis", "length", values=(8, 16), layers=(1, 3)),
    Grid("lis", "length", values=(50,), layers=(5,)),
    Grid("lis", "length", values=(50, 80, 100), layers=(4, 5, 6)),
    on_a_gpu={
        "steps": 3000,
        "warmup": 150,
        "batch_size": 512,
        "learning_rate": 5e-4,
        "precision": "bfloat16",
        "workers": 1,
    },
    settings={"steps": 800},
    question="Does Seq-VCR, with pauses and without, find the length in longer sequences than a plain model does?",
)
