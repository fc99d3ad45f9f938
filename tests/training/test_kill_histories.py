"""Whatever ends a command that trains, however often, its runs end to the bit as if nothing had happened."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.training.histories import Forked, History, Typed, run_history, unbroken, warm
from tests.training.settings import Setting

HISTORIES = int(os.environ.get("WORKBENCH_HISTORIES", "200"))
SEED = os.environ.get("WORKBENCH_HISTORIES_SEED", "0")


def histories(place: Path, n: int, start: type[Forked] = Forked) -> list[History]:
    """So many of them; each one's setting and kills follow the seed and its number."""
    found = []
    for number in range(n):
        rng = random.Random(f"{SEED}-{number}")
        found.append(run_history(Setting.draw(rng), place / f"{number}", rng, start))
    return found


def check(found: list[History]) -> None:
    wrong = [history for history in found if history.problems]
    kills = sum(len(history.kills) for history in found)
    print(f"{len(wrong)} of {len(found)} histories differ, {kills} kills")  # noqa: T201  shown with -s
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.slow
def test_runs_killed_at_random_moments_end_as_if_they_had_not_been(tmp_path: Path) -> None:
    """`WORKBENCH_HISTORIES` says how many histories, `WORKBENCH_HISTORIES_SEED` which."""
    warm(tmp_path)
    check(histories(tmp_path, HISTORIES))


@pytest.mark.slow
def test_commands_as_people_type_them_killed_at_random_moments(tmp_path: Path) -> None:
    check(histories(tmp_path, max(1, HISTORIES // 40), Typed))


def test_a_run_of_another_seed_is_seen_to_differ(tmp_path: Path) -> None:
    """The comparison itself: two runs that differ in a seed differ in config, weights, checkpoints and figures."""
    from dataclasses import replace

    from tests.training.histories import differences

    warm(tmp_path)
    setting = Setting.draw(random.Random(1), "single")
    setting = replace(setting, fields={**setting.fields, "workers": 0, "steps": 8})
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        unbroken(replace(setting, fields={**setting.fields, "seed": seed}), tmp_path / name)
    assert not differences(tmp_path / "a", tmp_path / "b")
    told = " ".join(differences(tmp_path / "a", tmp_path / "c"))
    assert all(f"{name} differs" in told for name in ("config.json", "metrics.jsonl", "weights.safetensors"))
    assert "checkpoints/step-8.safetensors differs" in told or "checkpoints/step-0.safetensors differs" in told
