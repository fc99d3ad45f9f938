"""Where tempering starts: from the lengths that a run trains on, never from those that it is tested on."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import workbench
from workbench.models import Decoder
from workbench.runs import load_run
from workbench.training import preset_config

LENGTHS = {"min_length": 2, "max_length": 6}  # the median sequence is of 4 symbols, 9 tokens with ⊥ and the answer
SMALL: dict[str, Any] = {
    "task": LENGTHS,
    "model": {"d_model": 16},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 6,
    "eval_every": 3,
    "log_every": 1,
    "save_every": 2,
}


def first_beta(preset: str, **changes: Any) -> float:
    return preset_config(preset, changes).model.attention[0]["beta"]


def train(folder: Path, **changes: Any) -> workbench.Run:
    return workbench.train("sort-tempered", out=folder, progress=False, **{**SMALL, **changes})


def test_testing_longer_sequences_changes_neither_the_first_weights_nor_the_training(tmp_path: Path) -> None:
    short, long = (
        train(tmp_path / str(longest), task={**LENGTHS, "test_max_length": longest}, checkpoint_every=6)
        for longest in (6, 40)
    )
    assert short.config.model.n_ctx < long.config.model.n_ctx
    first, second = (load_file(run.path / "checkpoints" / "step-0.safetensors") for run in (short, long))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert short.metrics()["loss"].tolist() == long.metrics()["loss"].tolist()


@pytest.mark.parametrize(
    ("preset", "changes", "length"),
    [
        ("sort-tempered", {"task": LENGTHS}, 9),
        ("sort-tempered", {"task": {**LENGTHS, "test_max_length": 200}}, 9),
        ("sort-tempered", {"task": {"max_length": 20, "skew": "paper"}}, 9),  # 80 % of lengths are 2 to 5
        ("sort-tempered", {"task": LENGTHS, "model": {"attention": {"n": "input"}}}, 4),
        ("sort-tempered", {"task": LENGTHS, "model": {"attention": {"n": 30}}}, 30),
        ("chain-chacal", {"task": {"n": 12, "k": 4}, "model": {"attention": "tempered_chacal"}}, 12),
        ("multiply-pause", {"model": {"attention": {"variant": "tempered", "n": "input"}}}, 5),
    ],
)
def test_at_the_median_training_sequence_the_temperature_is_1(
    preset: str, changes: dict[str, Any], length: int
) -> None:
    assert first_beta(preset, **changes) == pytest.approx(1 / math.log(length), abs=1e-4)


def test_the_runs_config_states_it_and_training_starts_from_it(tmp_path: Path) -> None:
    run = train(tmp_path / "run", steps=0)
    stated = json.loads((run.path / "config.json").read_text())["model"]["attention"]
    assert [layer["beta"] for layer in stated] == [pytest.approx(1 / math.log(9), abs=1e-4)] * 2
    assert [variant.beta.item() for variant in run.model().attention] == pytest.approx([stated[0]["beta"]] * 2)


def test_one_that_is_given_is_kept_and_one_that_follows_follows_the_overrides() -> None:
    config = preset_config("sort-tempered", {"task": LENGTHS})
    assert preset_config(config.model_dump(mode="json"), {}) == config
    longer = {"task": {"max_length": 16}}
    assert preset_config(config, longer).model == preset_config("sort-tempered", longer).model
    given = preset_config(config, {"model": {"attention": {"beta": 0.7}}})
    assert [preset_config(given, longer).model.attention[i]["beta"] for i in (0, 1)] == [0.7, 0.7]
    by_layer = preset_config("sort-tempered", {"model": {"attention": "standard, tempered"}}).model.attention
    assert "beta" not in by_layer[0] and by_layer[1]["beta"] == first_beta("sort-tempered")


@pytest.mark.parametrize("lacking", [False, True], ids=["null", "lacking"])
def test_a_config_of_before_still_starts_from_the_context(lacking: bool, tmp_path: Path) -> None:
    """Configs of earlier versions spell β out as null, and know neither `delimiters` nor, perhaps, β itself."""
    train(tmp_path / "stopped", steps=4)
    old = json.loads((tmp_path / "stopped" / "config.json").read_text())
    for layer in old["model"]["attention"]:
        layer["beta"] = None
        del layer["delimiters"]
    whole = workbench.train(old, out=tmp_path / "whole", progress=False)
    assert [layer["beta"] for layer in whole.config.model.attention] == [None, None]
    started = Decoder(whole.config.model)
    assert started.attention[0].beta.item() == pytest.approx(1 / math.log(whole.config.model.n_ctx / 2))

    for layer in old["model"]["attention"] if lacking else []:
        del layer["beta"]
    shutil.copytree(whole.path, tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(json.dumps(old))
    opened = load_run(tmp_path / "run")
    assert opened.config == whole.config
    assert all(torch.equal(a, b) for a, b in zip(opened.model().parameters(), whole.model().parameters(), strict=True))


def test_a_task_without_a_delimiter_says_so() -> None:
    asked = {"model": {"attention": {"variant": "tempered", "n": "input"}}}
    with pytest.raises(
        ValueError, match=r"needs a token that ends the input, and pointer_chain has none; give n=\"pos"
    ):
        preset_config("chain-standard", asked)
    given = {"model": {"attention": {"variant": "tempered", "n": "input", "delimiters": [3]}}}
    config = preset_config("chain-standard", given)
    assert config.model.attention[0]["delimiters"] == (3,)
    assert preset_config(config, {"seed": 5}).model == config.model


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": "length"}, "not 'length'"),
        ({"n": 0}, "not 0"),
        ({"beta": "high"}, "beta"),
        ({"delimiters": "⊥"}, "delimiters"),
        ({"bta": 1}, "no setting 'bta'"),
    ],
)
def test_wrong_settings_are_refused_as_they_are_without_a_task(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        preset_config("sort-tempered", {"model": {"attention": settings}})
    assert "\n" not in str(caught.value)
