"""A language model fine-tuned to multiply, with Seq-VCR, pause tokens, both and neither (Seq-VCR, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.studies.contrasts import OVER_FINE_TUNING, Higher
from workbench.studies.drawing import Drawing
from workbench.studies.fine_tuning import ACCURACY, LOSS, WHOLE, FineTunes
from workbench.studies.study import PAPER, SMALL, Published, Source, Study

VANILLA, PAUSE, SEQ_VCR, BOTH, THOUGHT = "vanilla", "pause", "seqvcr", "seqvcr-pause", "cot"
MODES = {VANILLA: "plain", PAUSE: "pause", SEQ_VCR: "plain", BOTH: "pause", THOUGHT: "chain_of_thought"}


def groups(digits: int, projection: int, thought: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """The rows of the table: Seq-VCR acts on a projection of the last residual, which is dropped.

    Args:
        digits: of each factor.
        projection: the width that the residual is projected to.
        thought: settings of the chain of thought alone.
    """
    penalty = {"seq_vcr": {"layer": -1, "projection": projection}}
    return {
        name: {
            "attention": "standard",
            "task": {"name": "multiplication", "digits": digits, "mode": mode},
            **(penalty if name in (SEQ_VCR, BOTH) else {}),
            **((thought or {}) if name == THOUGHT else {}),
        }
        for name, mode in MODES.items()
    }


SHAPE = {"n_positions": 64, "n_embd": 128, "n_layer": 2, "n_head": 4}
BEGIN = {"steps": 600, "batch_size": 32, "length": 64, "learning_rate": 2e-3, "warmup": 50, "eval_every": 200}
SMALLER = {"steps": 1200, "batch_size": 256, "learning_rate": 3e-3, "warmup": 100, "eval_size": 512, "eval_every": 100}
THINKING = {"steps": 500}  # as the preset multiply-cot has them
# Seq-VCR, §4.1: 40 epochs of 808,000 products, 32 at a time, at 5e-4.
PAPERS = {
    "steps": 1_010_000,
    "batch_size": 32,
    "learning_rate": 5e-4,
    "eval_size": 1000,
    "eval_every": 10_000,
    "save_every": 5_000,
    "log_every": 100,
    "device": "auto",
}
PUBLISHED = tuple(
    Published(name, WHOLE, value)
    for name, value in {VANILLA: 0.25, PAUSE: 0.28, SEQ_VCR: 0.52, BOTH: 0.992, THOUGHT: 1.0}.items()
)

STUDY = Study(
    question="Does a language model that is fine-tuned to multiply do so with Seq-VCR and pause tokens?",
    source=Source("Seq-VCR", "Table 1, 4 × 4 digits, GPT-2 fine-tuned"),
    tunes=FineTunes(
        {SMALL: groups(2, 256, THINKING), PAPER: groups(4, 2048)},
        {SMALL: SMALLER, PAPER: PAPERS},
        SHAPE,
        BEGIN,
        quantities=(LOSS, ACCURACY, WHOLE),
    ),
    contrasts=(Higher(WHOLE, BOTH, VANILLA), Higher(WHOLE, SEQ_VCR, VANILLA), Higher(WHOLE, THOUGHT, VANILLA)),
    published=PUBLISHED,
    note="The published shares are of GPT-2 on 4 × 4 digits. At scale small a GPT-2 of two layers is first trained on "
    f"Shakespeare and then fine-tuned on 2 × 2 digits for {SMALLER['steps']} steps, the chain of thought, which is "
    f"learnt sooner, for {THINKING['steps']}; every answer is predicted from the true digits before it. The weights of "
    "Seq-VCR are those of a later version of the paper. New examples are drawn at every step; the paper has 808,000 "
    "for 40 epochs.",
    draw=(
        Drawing(quantity=WHOLE).of_study("Fine-tuned to multiply: whole products right", PUBLISHED),
        Drawing(
            quantity=f"{ACCURACY}{OVER_FINE_TUNING}",
            title="Digits of the product right while the model is fine-tuned",
        ),
    ),
    seeds={SMALL: 3, PAPER: 3},
)
