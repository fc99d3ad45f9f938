"""Every objective keeps the contract of `workbench.testing`: a new entry of OBJECTIVES is picked up by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from workbench.objectives import OBJECTIVES
from workbench.testing.objectives import CHECKS, Term

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "auxiliary": [{"labels": {"minimum": 0}}, {"labels": {"copies_left": 1, "successor": 0}, "weight": 0.5}],
    "seq_vcr": [{}, {"at": "logits"}, {"over": "batch+length"}, {"positions": "scored"}],
}
CASES = [(name, settings) for name in OBJECTIVES for settings in SETTINGS.get(name, [{}])]


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.__name__)
@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_an_objective_keeps_its_contract(name: str, settings: dict[str, Any], check: Callable[[Term], None]) -> None:
    check(Term(name, settings))
