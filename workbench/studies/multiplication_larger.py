"""Multiplication of one digit more, where all but Seq-VCR with pauses and thoughts fail (Seq-VCR, Table 1)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_group
from workbench.studies.measures import Inspect
from workbench.studies.multiplication_methods import AT, BOTH, SEQ_VCR, THOUGHT, VANILLA, WHOLE, published, sweep
from workbench.studies.study import GPU, PAPER, SMALL, Figure, Groups, Source, Study

LAYERS = 4  # of the small scale, so that there are layers in between
SMALLER = {"task": {"digits": 3}, "model": {"n_layers": LAYERS}, "steps": 900, "checkpoint_count": 6}
# A step with thoughts takes two to three times as long, and they are learnt well before the end.
THINKING = {"name": THOUGHT, "preset": f"multiply-{THOUGHT}", "settings": {"steps": 500}}
LAYERS_ON_A_GPU = 6
# The data of Table 1's smaller size, from scratch: there Seq-VCR on the first layer succeeds, and on the last it fails.
ON_A_GPU: dict[str, Any] = {
    "model": {"n_layers": LAYERS_ON_A_GPU, "d_model": 256, "n_heads": 4, "d_mlp": 1024},
    **{"steps": 5500, "warmup": 300, "batch_size": 1024, "precision": "bfloat16", "checkpoint_count": 6},
}
ON_THE_FIRST_LAYER = {"objectives": {"seq_vcr": {"layer": 0, "projection": None}}}
PUBLISHED = published(0.0, 0.0, 0.0, 0.995, 1.0)


def draw(groups: Groups) -> Figure:
    """Whole products right."""
    return by_group(groups, WHOLE, "Multiplication, larger: whole products right", at=AT, published=PUBLISHED)


def small() -> dict[str, Any]:
    """The configurations of the table at scale small, the chain of thought with fewer steps."""
    plan = sweep("multiply", SMALLER, (VANILLA, SEQ_VCR, BOTH))
    return {**plan, "variants": [*plan["variants"], THINKING]}


def on_a_gpu() -> dict[str, Any]:
    """The configurations of the table at scale gpu, four digits, the chain of thought with fewer steps."""
    plan = sweep("paper/multiply-4", ON_A_GPU, (VANILLA, SEQ_VCR, BOTH, THOUGHT))
    own = {SEQ_VCR: ON_THE_FIRST_LAYER, BOTH: ON_THE_FIRST_LAYER, THOUGHT: {"steps": 2000}}
    return {**plan, "variants": [{**one, "settings": own.get(one["name"], {})} for one in plan["variants"]]}


STUDY = Study(
    question="With one digit more, does Seq-VCR with pause tokens multiply, where a plain model is never right?",
    source=Source("Seq-VCR", "Table 1, 5 × 5 digits"),
    runs={
        SMALL: small(),
        GPU: on_a_gpu(),
        PAPER: sweep("paper/multiply-5", {"checkpoint_count": 12}),
    },
    measure=Inspect((WHOLE,), n=512),
    contrasts=(Higher(WHOLE, BOTH, VANILLA, at=AT), Higher(WHOLE, THOUGHT, VANILLA, at=AT)),
    published=PUBLISHED,
    note="At scale small: three digits, four layers; at scale gpu: four digits, six layers. At the first Seq-VCR has a "
    "covariance for each position, of the logits; its authors report that from scratch such a covariance of the last "
    "layer fails on 5 × 5 digits, and that one over batch and length, or of the first layer as at scale gpu, succeeds.",
    draw=draw,
    seeds={SMALL: 3, GPU: 3, PAPER: 3},
    because={
        "task.digits": "three digits, one more than in the study of Table 1's smaller size",
        "steps": "so many that a run takes minutes on two CPU cores; 500 with thoughts, which are learnt in fewer",
    },
    tune={"learning_rate": [1e-3]},
)
