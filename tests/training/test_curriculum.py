"""A curriculum waits for the model, and a run that was stopped in it goes on as if it had not been."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from tests.training.killed import check_resumed, train_until_killed
from workbench.runs import load_run
from workbench.training import preset_config
from workbench.training.evaluation import Evaluation
from workbench.training.training_run import TrainingRun
from workbench.util.files import load_tensors, save_tensors

SMALL: dict[str, Any] = {
    "task": {"name": "box_moves", "n_boxes": 3, "n_filled": 2, "n_objects": 4, "min_moves": 4, "max_moves": 4},
    "model": {"n_layers": 1, "d_model": 16, "n_heads": 2},
    "curriculum": [{"min_moves": n, "max_moves": n} for n in (1, 2)],
    "curriculum_at": 0.01,
    "batch_size": 4,
    "eval_size": 64,
    "steps": 50,
    "eval_every": 10,
    "log_every": 10,
    "save_every": 7,
    "device": "cpu",
}


def config(**changes: Any) -> Any:
    whole = {"objectives": {"next_token": {}}, **SMALL, **changes}
    return preset_config(whole, {})


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of moves in the texts of every step that is trained from now on."""
    seen: list[int] = []
    usual = TrainingRun.record

    def record(member: TrainingRun, figures: Any, batches: Any, seconds: float) -> None:
        seen.append(int(batches[0].loss_mask.sum(-1).unique()))
        usual(member, figures, batches, seconds)

    monkeypatch.setattr(TrainingRun, "record", record)
    return seen


def test_each_step_of_a_curriculum_waits_for_its_accuracy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves = drawn(monkeypatch)
    workbench.train(config(), tmp_path / "easy", progress=False)
    assert moves == [1] * 10 + [2] * 10 + [4] * 30, "any accuracy at all lets it pass, at evaluations alone"
    logged = rows(tmp_path / "easy")
    assert [(row["step"], row["passed"]) for row in logged if row.get("event") == "curriculum"] == [(10, 1), (20, 2)]
    evaluated = [row for row in logged if "curriculum" in row]
    assert [row["curriculum"] for row in evaluated] == [0, 1, 2, 2, 2], "what the figures of the row were measured at"
    assert ["accuracy/curriculum" in row for row in evaluated] == [True, True, False, False, False]
    moves.clear()
    workbench.train(config(curriculum_at=1.0), tmp_path / "hard", progress=False)
    assert moves == [1] * 50
    assert not any(row.get("event") == "curriculum" for row in rows(tmp_path / "hard"))


def test_what_lets_it_pass_is_held_out_accuracy_on_the_easier_task(tmp_path: Path) -> None:
    run = workbench.train(config(steps=10), tmp_path / "run", progress=False)
    figure = next(row["accuracy/curriculum"] for row in rows(run.path) if "accuracy/curriculum" in row)
    easier = run.config.curriculum_tasks()[0]
    # Of the loaded weights, on fresh texts of the test side with one move: the same but for the draw.
    batch = easier.sample(4000, torch.Generator().manual_seed(1), split="test")
    with torch.no_grad():
        logits = run.model()(batch.tokens)
    right = (logits.argmax(-1) == batch.targets)[batch.loss_mask].float().mean()
    assert figure == pytest.approx(float(right), abs=4 * (0.25 / 64) ** 0.5)


@pytest.mark.parametrize("killed", [9, 16, 23])
def test_a_run_that_was_killed_in_its_curriculum_ends_as_if_it_had_not_been(killed: int, tmp_path: Path) -> None:
    train_until_killed(config(), tmp_path / "killed", killed)
    check_resumed(config(), tmp_path / "killed", tmp_path / "whole")


def test_each_run_of_a_stack_has_a_curriculum_of_its_own(tmp_path: Path) -> None:
    """One of the two passes, at an accuracy that the other does not reach."""
    alone = [workbench.train(config(seed=seed), tmp_path / f"alone-{seed}", progress=False) for seed in (0, 1)]
    first = [next(r["accuracy/curriculum"] for r in rows(run.path) if "accuracy/curriculum" in r) for run in alone]
    assert first[0] != first[1]
    between = config(curriculum_at=max(first), steps=20)
    stacked = workbench.training.train_seeds(between, tmp_path / "stack", 2, progress=False)
    passed = [[r["passed"] for r in rows(run.path) if r.get("event") == "curriculum"] for run in stacked]
    assert sorted(map(len, passed))[0] == 0 and sum(map(len, passed)) >= 1
    for seed, run in enumerate(stacked):
        single = workbench.train(between.model_copy(update={"seed": seed}), tmp_path / f"one-{seed}", progress=False)
        for name, weight in load_run(run.path).model().state_dict().items():
            torch.testing.assert_close(weight, single.model().state_dict()[name], atol=1e-4, rtol=1e-3)


def test_a_state_from_before_there_was_a_curriculum_is_gone_on_with(tmp_path: Path) -> None:
    train_until_killed(config(curriculum=[]), tmp_path / "killed", 23)
    for state in (tmp_path / "killed" / "resume").glob("step-*"):
        tensors, metadata = load_tensors(state)
        assert metadata.pop("passed") == "0"
        save_tensors(state, tensors, metadata)
    check_resumed(config(curriculum=[]), tmp_path / "killed", tmp_path / "whole")


def test_a_config_from_before_there_was_a_curriculum_has_none(tmp_path: Path) -> None:
    run = workbench.train(config(curriculum=[]), tmp_path / "run", progress=False)
    assert not any("curriculum" in row for row in rows(run.path))
    written = json.loads((run.path / "config.json").read_text())
    del written["curriculum"], written["curriculum_at"]
    (run.path / "config.json").write_text(json.dumps(written))
    assert load_run(run.path).config.curriculum == ()


INTERNALISED: dict[str, Any] = {
    "task": {"name": "multiplication", "digits": 2, "mode": "chain_of_thought", "thoughts_removed": 8},
    "model": {**SMALL["model"], "n_ctx": 19},
    "curriculum": [{"thoughts_removed": n} for n in (0, 4)],
    "eval_decoded": 8,
}


def test_thoughts_are_removed_token_by_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = drawn(monkeypatch)
    run = workbench.train(config(**INTERNALISED), tmp_path / "run", progress=False)
    assert scored == [13] * 10 + [9] * 10 + [5] * 30, "8, 4 and 0 tokens of a thought, and #### with 4 digits"
    last = rows(run.path)[-2]
    figures = Evaluation(run.task(), run.config)(run.model(), torch.device("cpu"), 2)  # type: ignore[arg-type]
    assert {name: last[name] for name in figures} == pytest.approx(figures), "of the question alone, without a thought"


def test_a_run_that_was_killed_while_thoughts_are_removed_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    train_until_killed(config(**INTERNALISED), tmp_path / "killed", 16)
    check_resumed(config(**INTERNALISED), tmp_path / "killed", tmp_path / "whole")


def test_a_step_with_longer_sequences_than_the_task_says_how_long_the_context_must_be() -> None:
    with pytest.raises(ValueError, match=r"curriculum, step 1: .* a longer context: set model.n_ctx to 19 or more"):
        config(**{**INTERNALISED, "model": SMALL["model"]})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"curriculum": [{"n_objects": 3}]}, "curriculum, step 1: .* needs other tokens"),
        ({"curriculum": [{"min_moves": 1}, {"max_moves": 5}]}, "curriculum, step 2: .* a longer context"),
        ({"curriculum": [{}]}, "curriculum, step 1: {} changes nothing of the task"),
        ({"curriculum": {"max_moves": 1}}, r"curriculum is a list of settings of the task, such as \[{"),
        ({"curriculum": "max_moves=1"}, r"such as \[{\"max_length\": 4}, .*\], not 'max_moves=1'"),
        ({"curriculum": [{"name": "sorting"}]}, "never the task: leave its name out"),
        ({"curriculum": [{"max_moves": 3}]}, "min_moves <= max_moves"),
        ({"curriculum": [{"moves": 3}]}, "^curriculum, step 1: task box_moves: unknown field 'moves'"),
        ({"curriculum": [3]}, "curriculum"),
        ({"train_size": 100}, "leave train_size out"),
        ({"workers": 1}, "set workers to 0"),
        ({"curriculum_at": 1.5}, "curriculum_at"),
    ],
)
def test_a_curriculum_that_cannot_be_is_one_clear_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        config(**changes)
    assert "\n" not in str(raised.value)
