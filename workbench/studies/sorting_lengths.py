"""Sorting beyond the training lengths, with hints and tempered (Task hinting, Tables 1 and 2, Figures 3.6 and 3.7)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import HALF_RIGHT, HalfRight, Inspect, Logged, Together
from workbench.studies.study import DAY, GPU, PAPER, SMALL, Figure, Groups, Published, Source, Study

ACCURACY, EDITS = "accuracy", "edit_distance"
PLAIN, TEMPERED, HINTS, BOTH = "plain", "tempered", "hints", "hints-tempered"
SHORTER_STEPS = 4000
SHORTER = {  # the small scale of sorting, in which several studies find the same runs
    "task": {"max_length": 10, "test_max_length": 30},
    "steps": SHORTER_STEPS,
    "checkpoint_count": 6,
}
TWICE = {"steps": 2 * SHORTER_STEPS}  # with a hint, every other step is the hint's
WIDE_STEPS, WIDE_EVERY = 6000, 500
WIDE = {  # the recipe under which sorters are right far beyond their training lengths; see `sorting-width`
    "task": {"max_length": 10, "test_max_length": 50},
    "model": {
        "d_model": 128,
        "n_heads": 4,
        "unembed_bias": True,
        "initial_std": {"embedding": 1.0, "unembedding": "fan_in"},
    },
    "learning_rate": 1e-3,
    "steps": WIDE_STEPS,
    "bucket_steps": 8,
    "checkpoint_every": WIDE_EVERY,
}
WIDE_TWICE = {"steps": 2 * WIDE_STEPS, "checkpoint_every": 2 * WIDE_EVERY}
BEYOND = {  # a length that plain models no longer sort, or sort less often, of those that a scale is tested on
    SMALL: {"length": 18},
    DAY: {"length": 30},
    GPU: {"length": 44},
    PAPER: {"length": 44},
}
# The paper's data at a quarter of its width, where embeddings that are larger than the rest of the weights keep tokens
# apart as the paper's width does; each batch of sequences of like length.
NARROWER: dict[str, Any] = {
    "model": {"d_model": 256, "n_heads": 8, "d_mlp": 512, "initial_std": {"embedding": 0.3, "unembedding": 0.05}},
    **{"steps": 8000, "learning_rate": 1e-3, "schedule": "onecycle", "precision": "tf32", "bucket_steps": 16},
}
PAPERS = ("paper/sort", "paper/sort-tempered", "paper/sort-hints", "paper/sort-hints-tempered")
LONGEST = {"length": 100}  # the longest of the paper's lengths, of which it states figures, as of 50


PRESETS = ("sort-standard", "sort-tempered", "sort-hints", "sort-tempered-hints")


def sweep(settings: dict[str, Any], of_hints: dict[str, Any], presets: tuple[str, ...]) -> dict[str, Any]:
    """Plain, tempered, with hints and, of four presets, both; further settings for all, and for those with hints."""
    variants = [
        {"name": name, "preset": preset, "settings": of_hints if name in (HINTS, BOTH) else {}}
        for name, preset in zip((PLAIN, TEMPERED, HINTS, BOTH), presets, strict=False)
    ]
    return {"settings": settings, "variants": variants}


def contrasts(at: dict[str, Any], better: tuple[str, ...] = (HINTS, TEMPERED, BOTH)) -> tuple[Higher, ...]:
    """Hints, tempered softmax and both against neither, at a length."""
    return (*(Higher(ACCURACY, name, PLAIN, at=at) for name in better), Higher(EDITS, PLAIN, HINTS, at=at))


def of_half_right() -> tuple[Higher, ...]:
    """The same of the length up to which half of the sequences are right, of which seeds differ less."""
    return tuple(Higher(HALF_RIGHT, name, PLAIN) for name in (HINTS, TEMPERED))


def draw(groups: Groups) -> Figure:
    """Whole sequences right, by length (Figure 3.6)."""
    return by_dim(groups, ACCURACY, "Sorting: whole sequences right, by length", "share of sequences right")


def draw_edits(groups: Groups) -> Figure:
    """Edit distance of the decoded answers, by length (Figure 3.7)."""
    return by_dim(groups, EDITS, "Sorting: edit distance of decoded answers, by length", "tokens to change")


STUDY = Study(
    question="Do successor hints, and tempered softmax, sort sequences longer than those trained on?",
    source=Source("Task hinting", "Tables 1 and 2, Figures 3.6 and 3.7"),
    runs={
        SMALL: sweep(
            SHORTER,
            TWICE,
            PRESETS,
        ),
        DAY: sweep(
            WIDE, WIDE_TWICE, PRESETS[:3]
        ),  # each in turn: a day's hours rather go to more seeds than to both at once
        GPU: sweep(NARROWER, {"steps": 2 * NARROWER["steps"]}, PAPERS),
        PAPER: sweep({}, {}, PAPERS),
    },
    measure=Together(
        (
            HalfRight(
                Inspect((ACCURACY,), n=512, also=tuple({"length": length} for length in (*range(18, 47, 4), 50)))
            ),
            Inspect((EDITS,), n=128),
            Logged(("loss",)),
        )
    ),
    contrasts=contrasts(BEYOND[SMALL]),
    contrasts_at={
        DAY: (*of_half_right(), *contrasts(BEYOND[DAY], (HINTS, TEMPERED))),
        GPU: contrasts(BEYOND[GPU]),
        PAPER: contrasts(LONGEST),
    },
    published=(
        Published(PLAIN, ACCURACY, 0.89, {"length": 50}),
        Published(TEMPERED, ACCURACY, 0.994, {"length": 50}),
        Published(HINTS, ACCURACY, 0.992, {"length": 50}),
        Published(BOTH, ACCURACY, 0.997, {"length": 50}),
        Published(PLAIN, ACCURACY, 0.0, {"length": 100}),
        Published(TEMPERED, ACCURACY, 0.452, {"length": 100}),
        Published(HINTS, ACCURACY, 0.524, {"length": 100}),
        Published(BOTH, ACCURACY, 0.648, {"length": 100}),
    ),
    draw=(draw, draw_edits),
    seeds={SMALL: 5, DAY: 8, GPU: 3, PAPER: 3},
    because={
        "steps": "few, for minutes on two CPU cores; twice as many with hints, so that sorting itself gets as many"
    },
    tune={"learning_rate": [1e-3]},
    less_is_better=(EDITS,),
)
