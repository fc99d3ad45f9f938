"""A language model fine-tuned with ChaCAL in place of its attention, beside the same with its own (ChaCAL, Table 3)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import OVER_FINE_TUNING, StaysBelow
from workbench.studies.drawing import Drawing
from workbench.studies.fine_tuning import LOSS, PERPLEXITY, FineTunes
from workbench.studies.study import PAPER, SMALL, Published, Source, Study

STANDARD, CHACAL, RISING, LEARNED = "standard", "chacal", "chacal-rising", "chacal-learned"
RATIO, WITHIN = f"{PERPLEXITY} / {STANDARD}", 1.1
_CHACAL = {"variant": "chacal", "gamma": 0.9}
GROUPS: dict[str, dict[str, Any]] = {
    STANDARD: {"attention": "standard"},
    CHACAL: {"attention": _CHACAL},
    RISING: {"attention": _CHACAL, "gamma_warmup": 100},
    LEARNED: {"attention": _CHACAL, "gamma_learned": "head"},
}
SHAPE = {"n_positions": 128, "n_embd": 128, "n_layer": 4, "n_head": 4}
BEGIN = {
    "steps": 1200,
    "batch_size": 16,
    "length": 128,
    "learning_rate": 2e-3,
    "warmup": 50,
    "eval_size": 64,
    "eval_every": 400,
}
SMALLER = {
    "steps": 400,
    "batch_size": 16,
    "length": 128,
    "learning_rate": 5e-4,
    "warmup": 20,
    "eval_size": 64,
    "eval_every": 20,
}
# ChaCAL, §5.3: 10,000 steps of 256 sequences at 5e-5, weight decay 0.1.
PAPERS = {
    "steps": 10_000,
    "batch_size": 256,
    "length": 1024,
    "learning_rate": 5e-5,
    "weight_decay": 0.1,
    "eval_size": 512,
    "eval_every": 500,
    "device": "auto",
}
PUBLISHED = (
    Published(STANDARD, f"{PERPLEXITY} before", 23.78),
    Published(STANDARD, PERPLEXITY, 20.15),
    Published(CHACAL, PERPLEXITY, 21.46),
    Published(CHACAL, RATIO, 21.46 / 20.15),
)

STUDY = Study(
    question="Does a language model recover its perplexity within 10 % when it is fine-tuned with ChaCAL?",
    source=Source("ChaCAL", "Table 3"),
    tunes=FineTunes(
        {SMALL: GROUPS, PAPER: GROUPS},
        {SMALL: SMALLER, PAPER: PAPERS},
        SHAPE,
        BEGIN,
        beside=STANDARD,
        needs=("model", "text"),
    ),
    contrasts=(StaysBelow(RATIO, CHACAL, WITHIN), StaysBelow(RATIO, RISING, WITHIN)),
    published=PUBLISHED,
    note="The published perplexities are of GPT-2 on OpenWebText, a word piece at a time. At scale small a GPT-2 of "
    "four layers is first trained on Shakespeare, a byte at a time, and then fine-tuned on it, each way: only ratios "
    "can be compared. `chacal-rising` raises γ from 0 over 100 steps, `chacal-learned` learns one for each head.",
    draw=(
        Drawing(quantity=f"{LOSS}{OVER_FINE_TUNING}", title="Loss of held-out text while the model is fine-tuned"),
        Drawing(quantity=PERPLEXITY).of_study("Perplexity of held-out text after fine-tuning", PUBLISHED),
    ),
    seeds={SMALL: 3, PAPER: 3},
)
