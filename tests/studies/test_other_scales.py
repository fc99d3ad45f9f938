"""At every scale but the small one, what a study trains for days has the groups, places and figures that it asks of."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from workbench.measurement.compare_runs import over_seeds
from workbench.runs import RunConfig
from workbench.studies import PAPER, SMALL, STUDIES, Verdict
from workbench.studies.study import group_name
from workbench.training import train
from workbench.training.sweeps.plan import read_plan

OTHERS = [(name, scale) for name, study in STUDIES.items() for scale in study.runs if scale != SMALL]


def shrunk(config: RunConfig) -> RunConfig:
    """A run on the same data with as many layers and heads, which takes a second."""
    data = config.model_dump(mode="json")
    data["model"] |= {"d_model": 16, "d_head": 4, "d_mlp": 16}
    data |= {"steps": 2, "warmup": 0, "batch_size": 4, "eval_size": 4, "eval_every": 1, "log_every": 1}
    data |= {"precision": "float32", "device": "cpu", "eval_decoded": 0, "test_conditions": [], "stop_at": None}
    data |= {"train_size": config.train_size and 64, "checkpoint_count": config.checkpoint_count and 2}
    if seq_vcr := data["objectives"].get("seq_vcr"):
        seq_vcr["projection"] = seq_vcr.get("projection") and 8
    return RunConfig.model_validate(data)


def few(measure: Any) -> Any:
    """A study's measure on few sequences."""
    if not is_dataclass(measure) or isinstance(measure, type):
        return measure
    own = {one.name: getattr(measure, one.name) for one in fields(measure)}
    small = {"n": min(own["n"], 4)} if "n" in own else {}
    return replace(measure, **small, **({"parts": tuple(map(few, own["parts"]))} if "parts" in own else {}))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scale"), OTHERS)
def test_what_is_measured_has_what_its_contrasts_and_figures_ask(name: str, scale: str, tmp_path: Path) -> None:
    study = STUDIES[name]
    study.check(scale)
    configs = {group_name(one): one.config for one in read_plan(study.plan(scale, 1)).runs}
    asked = dict.fromkeys(group for contrast in study.asked(scale) for group in contrast.groups)
    measured = {}
    for number, group in enumerate(asked):
        run = train(shrunk(configs[group]), tmp_path / str(number), progress=False)
        own = few(study.measure)(run)
        measured[group] = {key: over_seeds([one] * 3, [0, 1, 2], shared=True) for key, one in own.items()}
    for contrast in study.asked(scale):
        assert contrast.ask(measured).verdict in Verdict, contrast.asks
    some = next(iter(measured.values()))
    groups = {group: measured.get(group, some) for group in configs}
    assert study.figures(groups)
    for one in study.published if scale == PAPER else ():
        own = groups[one.group][one.quantity]
        assert not own.select(**one.at).dims, f"{one} stands beside no number of ours"
