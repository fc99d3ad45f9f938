"""What a seed draws stays as it is, however fast it is drawn: runs are resumed, and their data drawn again."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from workbench import tasks
from workbench.util.seeds import generator

FEW = {"n_boxes": 4, "min_operations": 0, "max_operations": 9}
HALF = {"filled": "half_start", **FEW}
THOUGHT = {"operators": 5, "min_operators": 1, "mode": "chain_of_thought"}


@pytest.mark.parametrize(
    ("name", "settings", "digest"),
    [
        ("boxes", {"style": "default", **FEW}, "90e428af9252"),
        ("boxes", {"style": "advanced", **FEW}, "6f47b169a613"),
        ("boxes", {"start": "one", "moves": "contents", "order": "alphabetical", **HALF}, "5bb3097f4894"),
        (
            "boxes",
            {"style": "advanced", "start": "poisson", "moves": "mixed", "order": "shuffled", "ask": "one", **HALF},
            "b0bfee0d4fbe",
        ),
        ("boxes", {"capacity": 1, "ask": "one", "n_objects": 6, "filled": "half_always", **FEW}, "d90bc32415b9"),
        ("lis", {"length": 9, "min_length": 2, "values": 30, "mode": "chain_of_thought"}, "0001d1d7d7b9"),
        ("arithmetic", {"brackets": "needed", "thought": "history", **THOUGHT}, "590949085bb5"),
        ("arithmetic", {"brackets": "needed", "thought": "leftmost", **THOUGHT}, "60cd7c30b493"),
        ("arithmetic", {"brackets": "always", "thought": "history", **THOUGHT}, "c0a219ba148d"),
        ("arithmetic", {"brackets": "always", "thought": "leftmost", **THOUGHT}, "b75d3870578c"),
        ("arithmetic", {"p": 2}, "5ce7ea09e6c1"),
    ],
)
def test_a_seed_draws_what_it_drew_before(name: str, settings: dict[str, Any], digest: str) -> None:
    """Digests of what each sampler drew before it was made faster."""
    batch = tasks.make(name, **settings).sample(40, generator(0, "drawn before"), split="train")
    drawn = hashlib.sha256(batch.tokens.numpy().tobytes() + batch.targets.numpy().tobytes())
    assert drawn.hexdigest()[:12] == digest
