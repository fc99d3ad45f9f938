"""Hints, what is measured while a run trains, when it stops, and what it keeps for its timeline."""

from __future__ import annotations

import json
import os
import signal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import workbench
from workbench.runs import Run, load_run, states
from workbench.tasks import TASKS, make
from workbench.tasks.answers import Answers
from workbench.training import preset_config
from workbench.training.checkpoints import keeps_checkpoint
from workbench.training.data import training_batches
from workbench.training.evaluation import Evaluation
from workbench.training.hint_mixing import turns
from workbench.training.optimizer_step import learning_rate
from workbench.util.files import load_tensors

SORT: dict[str, Any] = {
    "task": {"q": 8, "max_length": 4, "test_max_length": 6},
    "model": {"d_model": 16, "n_heads": 2},
    "batch_size": 8,
    "eval_size": 32,
    "steps": 8,
    "eval_every": 4,
    "log_every": 2,
}


def trained(folder: Path, **changes: Any) -> Run:
    return workbench.train("sort-standard", out=folder, progress=False, **{**SORT, **changes})


def heads(**changes: Any) -> list[dict[str, int]]:
    config = preset_config("sort-standard", {**SORT, **changes})
    return [{b.head: len(b) for b in batches} for batches in training_batches(config.make_task(), config)]


HINTS = {**SORT["task"], "hints": "successor,count"}


def test_hints_take_turns_in_any_ratio() -> None:
    assert heads() == [{"main": 8}] * 8
    assert [next(iter(step)) for step in heads(task=HINTS)] == ["main", "successor", "count"] * 2 + [
        "main",
        "successor",
    ]
    ratio = heads(task=HINTS, mixture={"main": 2, "count": 1}, steps=6)
    assert [next(iter(step)) for step in ratio] == ["main", "count", "main"] * 2
    assert heads(task=HINTS, mixture={"successor": 1}) == [{"successor": 8}] * 8


@given(st.lists(st.floats(0.05, 20), min_size=1, max_size=4), st.integers(1, 300))
def test_turns_are_as_often_as_their_shares_at_every_moment(shares: list[float], steps: int) -> None:
    named = {str(i): share for i, share in enumerate(shares)}
    order = list(islice(turns(named), steps))
    for name, share in named.items():
        assert abs(order.count(name) - steps * share / sum(shares)) < len(shares)


def test_hints_divide_every_batch_by_their_shares() -> None:
    assert heads(task=HINTS, mixing="together", steps=2) == [{"main": 3, "successor": 3, "count": 2}] * 2
    assert heads(task=HINTS, mixing="together", mixture={"main": 100, "count": 1}, steps=1) == [{"main": 7, "count": 1}]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mixture": {"main": 1, "successor": 1}}, "unknown sorting head 'successor'; there is: main"),
        ({"mixture": {"main": 0}}, "mixture.main must be greater than 0"),
        ({"task": HINTS, "mixing": "together", "batch_size": 2}, "batch_size=2 cannot be divided among the heads"),
        (
            {"task": HINTS, "mixing": "together", "batch_size": 4, "objectives": {"seq_vcr": {}}},
            "seq_vcr needs 2 sequences of successor in a step, not 1",
        ),
    ],
)
def test_a_mixture_that_cannot_be_is_refused_before_anything_is_written(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        trained(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("mixing", ["alternate", "together"])
def test_hints_train_their_own_heads_and_are_evaluated_by_themselves(mixing: str, tmp_path: Path) -> None:
    run = trained(tmp_path / "run", task=HINTS, mixing=mixing, steps=60, eval_every=30, learning_rate=1e-2)
    assert run.config.mixture == {"main": 1.0, "successor": 1.0, "count": 1.0}
    metrics = run.metrics()
    for head in ("", "/successor", "/count"):
        losses = metrics[f"loss{head}"].dropna()
        assert losses.iloc[-1] < losses.iloc[0]
        assert metrics[f"accuracy{head}"].notna().sum() == 2
    fresh = workbench.Decoder(run.config.model, workbench.generator(0, "weights")).state_dict()
    after = run.model().state_dict()
    heads = [f"extra_heads.{hint}.weight" for hint in ("successor", "count")]
    assert not any(torch.equal(fresh[name], after[name]) for name in heads)


def test_changing_the_task_changes_its_default_mixture_with_it(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", steps=1)
    assert run.config.mixture == {"main": 1.0}
    assert preset_config(run.config, {"task": {"hints": "fill"}}).mixture == {"main": 1.0, "fill": 1.0}
    chosen = preset_config(run.config, {"task": {"hints": "fill"}, "mixture": {"main": 3, "fill": 1}})
    assert preset_config(chosen, {"seed": 1}).mixture == {"main": 3, "fill": 1}


def test_the_order_in_which_a_mixture_is_written_means_nothing(tmp_path: Path) -> None:
    turned = {"task": HINTS, "mixture": {"successor": 1, "main": 1}, "eval_every": 4, "eval_decoded": 4}
    run = trained(tmp_path / "run", **turned, stop_at=1.0)
    assert list(run.config.mixture) == ["main", "successor"]
    best = best_in_a_state(tmp_path / "again", **turned)
    assert best == run.metrics()["accuracy"].max()
    with pytest.raises(ValueError, match="are about the main task, which mixture leaves out"):
        trained(tmp_path / "hint", task=HINTS, mixture={"successor": 1}, stop_at=0.5)
    with pytest.raises(ValueError, match="eval_decoded=64 is more than the eval_size=32"):
        trained(tmp_path / "more", eval_decoded=64)


def best_in_a_state(folder: Path, **changes: Any) -> float:
    """The best accuracy that a state of such a run holds."""
    from workbench.training.optimizer_step import Step

    step = Step.__call__

    def stopped(self: Step, *arguments: Any) -> Any:
        if self.learner.step == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "__call__", stopped)
        run = trained(folder, **changes, save_every=100)
    (path,) = states(run.path)
    return json.loads(load_tensors(path)[1]["best"])


def test_evaluation_breaks_accuracy_down_and_its_parts_make_the_whole(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", steps=200, eval_every=200, eval_size=128, learning_rate=1e-2, eval_conditions=True)
    last = run.metrics().iloc[-1]
    task, batch = run.task(), Evaluation(run.task(), run.config).held_out["main"]
    lengths = task.question_length(batch.tokens)
    counts = {n: int((lengths == n).sum()) for n in range(2, 5)}
    parts = sum(counts[n] * last[f"accuracy/length={n}"] for n in counts) / len(batch)
    assert parts == pytest.approx(last["accuracy"], abs=1e-6) and 0.05 < last["accuracy"] < 1
    assert {name for name in last.index if "/test" in name} == {
        f"{name}/test length={n}" for n in (2, 3, 4, 5, 6) for name in ("accuracy", "whole_answer", "test_loss")
    }


def test_decoding_judges_answers_as_a_person_would(tmp_path: Path) -> None:
    """Greedy decoding has the whole answer right exactly where every next token is right after the true ones."""
    run = trained(tmp_path / "run", steps=200, eval_every=200, eval_size=128, learning_rate=1e-2, eval_decoded=128)
    last = run.metrics().iloc[-1]
    assert last["exact_match"] == pytest.approx(last["accuracy"], abs=1e-6)
    model, task = run.model(), run.task()
    batch = Evaluation(task, run.config).held_out["main"]
    distances = []
    for row, length in zip(batch.tokens, task.question_length(batch.tokens).tolist(), strict=True):
        said = model.generate(row[None, : length + 1], length)[0, length + 1 :].tolist()
        distances.append(levenshtein(said, row[length + 1 : 2 * length + 1].tolist()))
    assert last["edit_distance"] == pytest.approx(sum(distances) / len(distances), abs=1e-5)


def levenshtein(a: list[int], b: list[int]) -> int:
    if not a or not b:
        return len(a) + len(b)
    return min(levenshtein(a[1:], b) + 1, levenshtein(a, b[1:]) + 1, levenshtein(a[1:], b[1:]) + (a[0] != b[0]))


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=5, max_size=5), st.integers(0, 5)), min_size=1, max_size=6)
)
def test_edit_distance_is_levenshteins(rows: list[tuple[list[int], int]]) -> None:
    first = torch.tensor([row for row, _ in rows])
    second, lengths = first.roll(1, 0).flip(1), torch.tensor([n for _, n in rows])
    wanted = [levenshtein(a[:n].tolist(), b[:n].tolist()) for a, b, n in zip(first, second, lengths, strict=True)]
    answers = Answers(TASKS["sorting"](), list(second), second, lengths, n_new=5)
    assert answers.edit_distance(first).tolist() == wanted


@pytest.mark.parametrize("name", [name for name in TASKS if name != "text"])
def test_answers_follow_their_questions_or_are_said_not_to(name: str) -> None:
    task = make(name)
    batch = task.sample(16, workbench.generator(0))
    inside = batch.loss_mask[:, 1:] & batch.loss_mask[:, :-1]
    pieces = (batch.loss_mask[:, 1:] & ~batch.loss_mask[:, :-1]).sum(1) + batch.loss_mask[:, 0]
    apart = batch.targets.ndim == 2 and (batch.targets[:, :-1] != batch.tokens[:, 1:])[inside].any()
    if batch.targets.ndim == 3 or apart or (pieces > 1).any():
        with pytest.raises(ValueError, match="not continuations of its questions"):
            Answers.of(task, batch)
        return
    answers = Answers.of(task, batch)
    assert answers.tokens.shape[0] == 16 and len(answers.prompts) == 16
    for i, (prompt, length) in enumerate(zip(answers.prompts, answers.lengths.tolist(), strict=True)):
        answer = answers.tokens[i, :length]
        assert torch.equal(batch.targets[i][batch.loss_mask[i]], answer)
        assert torch.equal(batch.tokens[i, : len(prompt)], prompt)
        rest = batch.tokens[i, len(prompt) : len(prompt) + length]
        assert torch.equal(rest[: length - 1], answer[: length - 1])


def test_decoding_where_answers_are_no_continuations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not continuations of its questions"):
        workbench.train("chain-chacal", out=tmp_path / "run", progress=False, eval_decoded=4)
    assert not (tmp_path / "run").exists()


def test_training_stops_at_its_target_and_says_so(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", steps=400, learning_rate=1e-2, eval_every=10, stop_at=0.2, save_every=15)
    assert run.finished and run.step() < 400 and run.step() % 10 == 0
    accuracy = run.metrics()["accuracy"].dropna()
    assert accuracy.iloc[-1] >= 0.2 and (accuracy.iloc[:-1] < 0.2).all()
    events = [row["event"] for row in run.log() if "event" in row]
    assert events == ["started", "target", "finished"]
    assert workbench.resume(run.path, progress=False).step() == run.step()


def test_checkpoints_by_schedule_and_by_event(tmp_path: Path) -> None:
    kept = {"checkpoint_count": 5, "checkpoint_at": [0.05, 0.2]}
    run = trained(tmp_path / "run", steps=120, learning_rate=1e-2, eval_every=10, **kept)
    events = [row for row in run.log() if row.get("event") == "checkpoint"]
    assert [level for event in events for level in event["passed"]] == [0.05, 0.2]
    accuracy = run.metrics().set_index("step")["accuracy"].dropna()
    for event in events:
        level = event["passed"][-1]
        assert accuracy[event["step"]] >= level and (accuracy.loc[: event["step"] - 1] < level).all()
    scheduled = {0, 1, 3, 11, 36, 120}
    assert {step for step in range(121) if keeps_checkpoint(run.config, step)} == scheduled
    assert set(run.checkpoints()) == scheduled | {event["step"] for event in events}
    fresh = workbench.Decoder(run.config.model, workbench.generator(0, "weights")).state_dict()
    assert all(torch.equal(fresh[name], tensor) for name, tensor in run.model(0).state_dict().items())


@pytest.mark.parametrize("steps", [3, 10, 100])
def test_one_cycle_is_pytorchs(steps: int) -> None:
    config = preset_config("sort-standard", {"steps": steps})
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps + 1, cycle_momentum=False)
    for step in range(steps):
        assert learning_rate(config, step) == pytest.approx(theirs.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        theirs.step()


def test_every_run_records_what_it_was_made_with_and_what_it_cost(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    record = run.record()
    assert record["versions"]["torch"] == torch.__version__ and record["device"] == "cpu"
    assert record["commit"] is None or len(record["commit"].removesuffix("+changes")) == 40
    batches = training_batches(run.task(), run.config)
    assert record["tokens"] == sum(batch.tokens.numel() for step in batches for batch in step)
    rounding = 0.0006 / record["seconds"]  # seconds are kept to the millisecond, and this run takes a few of them
    assert record["tokens_per_second"] == pytest.approx(record["tokens"] / record["seconds"], rel=rounding)
    assert 50 < record["peak_megabytes"] < 20_000 and record["step"] == 8
    assert load_run(run.path).record() == record


def test_tensorboard_gets_what_is_logged(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = trained(tmp_path / "run", track="tensorboard")
    events = accumulator.EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    losses = run.metrics()["loss"]
    assert [point.value for point in events.Scalars("loss")] == pytest.approx(losses.tolist(), rel=1e-6)
    assert {"accuracy", "accuracy/length=2", "learning_rate"} <= set(events.Tags()["scalars"])
