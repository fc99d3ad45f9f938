"""What is said of models that know nothing stays within its stated error, and what is read is still found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.probes.false_alarms import DOCS, ERROR, KINDS, SMALL, beyond, elsewhere, false_alarms, power
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.runs.compiled import compile_run


def test_more_false_alarms_than_a_rate_explains_are_told_from_those_it_does() -> None:
    assert not beyond(0, 100) and not beyond(5, 100) and not beyond(9, 100) and beyond(11, 100)
    assert not beyond(0, 0) and beyond(3, 3)


def test_labels_of_elsewhere_keep_their_position_and_lose_their_sequence(tmp_path: Path) -> None:
    run = compile_run("sorter", tmp_path / "sorter", {"q": 9})
    source = Source.of_run(run, None, n=256, seed=0, step=None)
    own = ProbeData.of(source, ["successor"], "outputs", 0)
    moved = elsewhere(own, torch.Generator().manual_seed(0))
    (before,), (after,) = own.y, moved.y
    position = own.where.position[0]
    for here in position.unique():
        rows = position == here
        assert before[0, rows].sort().values.tolist() == after[0, rows].sort().values.tolist()
    assert 0.05 < (before == after).double().mean() < 0.6


def test_the_published_table_is_of_all_tasks_and_kinds() -> None:
    table = DOCS.read_text(encoding="utf-8").split("<!-- false alarms: begin -->")[1].split("<!-- false")[0]
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in table.splitlines()
        if line
    }
    assert set(KINDS) <= set(rows) and rows["**all**"][0] == str(20 * len(SMALL))
    used, tested = (int(part) for part in rows["**all**"][2].split(" of "))
    assert not beyond(used, tested) and tested > 80
    wrong, cells = (int(part) for part in rows["**all**"][4].split(" of "))
    assert not beyond(wrong, cells) and cells > 2000


@pytest.mark.slow
def test_models_that_know_nothing_use_nothing_beyond_the_stated_error() -> None:
    keep: dict[str, Any] = {}
    false_alarms(keep, lambda: None, draws=len(KINDS))
    rows = list(keep.values())
    assert len(rows) == len(SMALL) * len(KINDS)
    keys = ("used", "decodable", "cells decodable", "cells")
    used, tested, wrong, cells = (sum(row[key] for row in rows) for key in keys)
    assert tested > 5 and not beyond(used, tested, ERROR), f"{used} of {tested} are called used"
    assert cells > 300 and not beyond(wrong, cells, ERROR), f"{wrong} of {cells} labels of elsewhere are decodable"


@pytest.mark.slow
def test_what_is_read_is_called_used() -> None:
    keep: dict[str, Any] = {}
    power(keep, lambda: None, rotations=2, seeds=1)
    assert all(row["used"] == row["asked"] for row in keep.values()), keep
