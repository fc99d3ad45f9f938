from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from workbench.cli import main, parse_fields

FAST = ["--steps", "4", "--eval-size", "8", "--batch-size", "4", "--task.n", "8", "--task.k=2", "--model.d_model", "16"]


def test_help_answers_without_importing_torch() -> None:
    start = time.perf_counter()
    code = """
import sys
from workbench.cli import main
try:
    main(["--help"])
except SystemExit:
    assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert time.perf_counter() - start < 0.8


def test_fields_are_nested_and_typed() -> None:
    arguments = ["--task.n", "64", "--batch-size=32", "--model.attention", "chacal", "--objectives.seq-vcr.eta", "0.1"]
    assert parse_fields(arguments) == {
        "task": {"n": 64},
        "batch_size": 32,
        "model": {"attention": "chacal"},
        "objectives": {"seq_vcr": {"eta": 0.1}},
    }


def test_a_variant_and_its_settings_may_come_in_any_order() -> None:
    for order in (["attention=chacal", "attention.gamma=0.8"], ["attention.gamma=0.8", "attention=chacal"]):
        assert parse_fields([f"--model.{field}" for field in order]) == {
            "model": {"attention": {"variant": "chacal", "gamma": 0.8}}
        }
    for wrong, said in (
        (["--steps", "--seed", "1"], "--steps needs a value"),
        (["--seed=1", "--seed=2"], "given twice"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_fields(wrong)


def test_train_then_list_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "chain-chacal", "--out", str(tmp_path / "one"), "--quiet", *FAST]) == 0
    assert "workbench inspect" in capsys.readouterr().out
    assert main(["runs", "--root", str(tmp_path)]) == 0
    assert "one" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["presets", "fields", "tasks", "variants", "objectives", "instruments", "mechanisms"])
def test_list_describes_every_kind_with_its_defaults(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what]) == 0
    text = capsys.readouterr().out
    expected = {
        "presets": "chain-chacal",
        "fields": "--learning_rate = 0.001",
        "tasks": "pointer_chain",
        "variants": "gamma = 0.9",
        "objectives": "covariance_weight = 0.004",
        "instruments": "entropy",
        "mechanisms": "minimum",
    }
    assert expected[what] in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "chain-chakal", "--out", "OUT"], "did you mean 'chain-chacal'"),
        (["train", "chain-chacal"], "--out"),
        (["train", "chain-chacal", "--out", "OUT", "--task.n", "9"], "k"),
        (["train", "chain-chacal", "--out", "OUT", "--stepz", "9"], "steps"),
        (["train", "chain-chacal", "--out", "OUT", "--steps"], "--steps needs a value"),
        (["train", "chain-chacal", "--out", "OUT", "extra"], "extra"),
        (["inspect", "OUT"], "no run folder"),
        (["inspect", "OUT", "--alpha", "2"], "--alpha"),
        (["explore", "--root", "OUT"], "no folder"),
        (["list", "cakes"], "presets"),
        (["bake"], "train"),
        ([], "COMMAND"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "OUT"
    assert main([str(out) if a == "OUT" else a for a in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and "Traceback" not in error
    assert not out.exists()


def test_failure_while_running_is_one_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extreme = ["--learning_rate", "1e30", "--warmup", "0"]
    assert main(["train", "chain-standard", "--out", str(tmp_path / "run"), "--quiet", *FAST, *extreme]) == 1
    error = capsys.readouterr().err
    assert "not finite" in error and error.count("\n") == 1
