"""Golden run folders: each opens and gives what it gave, and what was stopped is trained to the end that it would have.

What trains in float64 agrees to 1e-5 on any processor. Float32 is compared to 1e-3: AdamW divides a gradient that is
nearly 0, where rounding decides its sign, by its own size.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import workbench
from tests.golden import picture
from tests.golden.make import HALF, HALF_TUNED, RUNS, TUNED, stopped_after
from tests.golden.picture import HERE, PLUGIN, said
from workbench.tasks import TEXTS

Same = Callable[..., None]
FLOAT32 = {"rel": 1e-3, "absolute": 1e-3}
FLOAT64 = {"rel": 1e-5, "absolute": 1e-8}
TIMES = ("seconds", "tokens_per_second", "peak_megabytes", "versions", "commit", "device_name")


def log(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of a log but for times and versions, and without how often training began and was resumed."""
    rows = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row.get("event") not in ("started", "resumed")]
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def weights(file: Path) -> dict[str, list[float]]:
    return {name: tensor.double().flatten().tolist() for name, tensor in load_file(file).items()}


def check_resumed(folder: str, twin: str, same: Same, how: dict[str, float], file: str = "weights.safetensors") -> None:
    """A run that was stopped and resumed ended as its twin did that never was: its log, its weights, its states."""
    same(log(HERE / twin), log(folder), key=f"{folder}, log", **how)
    same(weights(HERE / twin / file), weights(Path(folder, file)), key=folder, **how)
    assert not Path(folder, "resume").exists()


@pytest.mark.usefixtures("place")
def test_every_folder_opens_and_its_models_give_what_they_gave(kept: Any, same: Same) -> None:
    found = picture.all_opened()
    assert len(found) > 20
    rounding = [name for name in found if name.startswith(("runs/rounded", "tunings", "runs/sorter", "runs/chaser"))]
    for name in {**kept("numbers", "opened"), **found}:
        how = {"rel": 1e-4, "absolute": 1e-5} if name in rounding else {}
        same(kept("numbers", "opened").get(name), found.get(name), key=name, **how)


@pytest.mark.usefixtures("place")
def test_a_run_of_a_plugin_opens_with_it_alone() -> None:
    code, _, errors = said(["inspect", "runs/own-parts", "--n", "4", "--only", "golden_distance", "--quiet"])
    assert code == 2 and "parts.py" in errors
    with pytest.raises(ValueError, match=r"parts\.py"):
        workbench.load_run("runs/own-parts")
    code, out, errors = said(["inspect", "runs/own-parts", "--n", "4", "--only", "golden_distance", "--quiet", *PLUGIN])
    assert (code, errors) == (0, "") and out
    assert Path("runs/own-parts/inspection/data/own-parts/golden_distance.json").is_file()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_was_stopped_is_resumed_to_the_same_end(name: str, same: Same) -> None:
    assert not workbench.load_run(f"runs/{name}-half").finished
    code, _, errors = said(["resume", f"runs/{name}-half", "--quiet"])
    assert (code, errors) == (0, "")
    check_resumed(f"runs/{name}-half", f"runs/{name}", same, FLOAT32 if name == "rounded" else FLOAT64)
    resumed = [row["step"] for row in workbench.load_run(f"runs/{name}-half").log() if row.get("event") == "resumed"]
    assert resumed == [HALF]
    for step in workbench.load_run(HERE / "runs" / name).checkpoints():
        file = f"checkpoints/step-{step}.safetensors"
        same(weights(HERE / "runs" / name / file), weights(Path(f"runs/{name}-half", file)), **FLOAT64)


@pytest.mark.usefixtures("place")
def test_a_damaged_state_is_passed_over_for_the_one_before(same: Same) -> None:
    Path(f"runs/single-half/resume/step-{HALF}.safetensors").write_bytes(b"damaged")
    run = workbench.resume("runs/single-half", progress=False)
    (event,) = [row for row in run.log() if row.get("event") == "resumed"]
    assert event["step"] == 10 and f"step-{HALF}" in event["problems"][0]
    same(weights(HERE / "runs/single/weights.safetensors"), weights(run.path / "weights.safetensors"), **FLOAT64)


@pytest.mark.usefixtures("place")
def test_a_stack_of_seeds_is_resumed_as_a_whole(same: Same) -> None:
    assert said(["resume", "runs/stack-half", "--quiet"])[0] == 0
    for seed in (0, 1):
        check_resumed(f"runs/stack-half/seed-{seed}", f"runs/stack/seed-{seed}", same, FLOAT64)


@pytest.mark.usefixtures("place")
def test_a_run_of_a_stack_is_resumed_alone(same: Same) -> None:
    assert said(["resume", "runs/stack-half/seed-1", "--quiet"])[0] == 0
    check_resumed("runs/stack-half/seed-1", "runs/stack/seed-1", same, FLOAT64)
    assert not workbench.load_run("runs/stack-half/seed-0").finished


@pytest.mark.usefixtures("place")
def test_a_fine_tuning_is_resumed_to_the_same_end(same: Same, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEXTS, "given")
    code, out, errors = said(["resume", "tunings/tuned-half", "--quiet"])
    assert code == 0 and not errors and "after training" in out
    check_resumed("tunings/tuned-half", "tunings/tuned", same, FLOAT32, "model.safetensors")
    config, own = (json.loads(Path(at, "tunings/tuned", "finetune.json").read_text()) for at in (HERE, "."))
    assert config == own and own["model"] == TUNED["model"] and own["steps"] > HALF_TUNED


@pytest.mark.usefixtures("place")
def test_what_is_trained_today_is_what_was_trained_then(same: Same) -> None:
    command = ["train", "chain-chacal", "--out", "runs/today", "--quiet"]
    for name, value in _flat(RUNS["single"][1]).items():
        command += [f"--{name}", str(value)]
    with stopped_after(HALF):
        code, out, _ = said(command)
    assert code == 130 and out == f"stopped at step {HALF} of 24; `workbench resume runs/today` goes on\n"
    assert said(["resume", "runs/today", "--quiet"])[0] == 0
    check_resumed("runs/today", "runs/single", same, FLOAT64)
    then, today = (json.loads(Path(at, "config.json").read_text()) for at in (HERE / "runs/single", "runs/today"))
    today["model"].pop("initial_std")  # settings that came later; their defaults are what was fixed then
    later = {
        "curriculum": [],
        "curriculum_at": 0.97,
        "bucket_steps": 1,
        "average": 0.0,
        "optimizer": "adamw",
        "shift_positions": False,
        "compile": None,
    }
    assert {name: today.pop(name) for name in later} == later
    same(then, today)


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings under dotted names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
