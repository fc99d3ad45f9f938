from __future__ import annotations

from pathlib import Path

import pytest

import workbench
from workbench.ground_truth import compile_run


@pytest.fixture(scope="session")
def run_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind, trained briefly: enough to look at."""
    root = tmp_path_factory.mktemp("explorer")
    for preset, steps in [("chain-chacal", 300), ("sort-tempered", 30), ("multiply-seqvcr", 30)]:
        workbench.train(preset, out=root / preset, progress=False, steps=steps, eval_size=64)
    task = {"name": "boxes", "style": "advanced", "n_boxes": 4, "max_operations": 6}
    workbench.train("chain-chacal", out=root / "items-in-boxes", progress=False, steps=5, eval_size=64, task=task)
    compile_run("sorter", root / "sorter", {"q": 9})
    compile_run("sorter", root / "turned", {"q": 9, "form": "layernorm", "rotate_seed": 1})
    compile_run("chaser", root / "chaser")
    return root
