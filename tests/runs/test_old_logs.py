"""Runs that were trained before a figure was renamed are read under its name of today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench

TINY = {"batch_size": 4, "eval_size": 16, "steps": 4, "eval_every": 2, "warmup": 0, "model": {"d_model": 16}}


@pytest.mark.parametrize(("reading", "group"), [("root", "depth"), ("chain", "hop")])
def test_accuracy_of_a_chain_logged_by_hop_is_read_by_depth_where_it_was_the_querys(
    reading: str, group: str, tmp_path: Path
) -> None:
    task = {"n": 8, "k": 2, "reading": reading}
    run = workbench.train("chain-standard", out=tmp_path / "run", progress=False, **{**TINY, "task": task})
    new = run.metrics()
    assert {f"accuracy/{group}={value}" for value in (1, 2, 3)} <= set(new)
    log = run.path / "metrics.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if f"accuracy/{group}=" in line)
    lines[first] = lines[first].replace(f"accuracy/{group}=", "accuracy/hop=")
    assert len([line for line in lines if "accuracy/" in line]) > 1 and json.loads(lines[first])
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    old = workbench.load_run(run.path).metrics()
    assert old[sorted(old)].equals(new[sorted(new)])
