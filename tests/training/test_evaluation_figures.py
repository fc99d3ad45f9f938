"""The figures of an evaluation: test loss, whole answers, decoded answers, by condition and hint; stopping on them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import workbench
from workbench.objectives import next_token
from workbench.objectives.next_token import loss_floor
from workbench.runs import load_run
from workbench.runs.conditions import parse_conditions
from workbench.tasks import Batch, Task, make
from workbench.tasks.answers import Answers
from workbench.training import preset_config, train_seeds
from workbench.training.data import training_batches
from workbench.training.evaluation import Evaluation

TINY: dict[str, Any] = {
    "model": {"d_model": 16, "n_heads": 2},
    "batch_size": 8,
    "eval_size": 40,
    "steps": 2,
    "eval_every": 2,
}
SORT = {**TINY, "task": {"q": 8, "max_length": 4, "test_max_length": 6, "hints": "successor"}}
CPU = torch.device("cpu")


def evaluated(model: Any, preset: str, **changes: Any) -> dict[str, float]:
    config = preset_config(preset, {"eval_size": 40, **changes})
    return Evaluation(config.make_task(), config)(model, CPU)


class Oracle(nn.Module):
    """Predicts every next token of a task's sequences, and writes every answer; `spoilt` positions it gets wrong."""

    def __init__(self, task: Task, spoil: Any = None) -> None:
        super().__init__()
        self.task, self.spoil = task, spoil

    def forward(self, tokens: torch.Tensor, head: str = "main") -> torch.Tensor:
        following = tokens.roll(-1, dims=1)
        if self.spoil is not None:
            following = torch.where(self.spoil(tokens), (following + 1) % len(self.task.vocabulary), following)
        return nn.functional.one_hot(following, len(self.task.vocabulary)).float() * 50


@pytest.mark.parametrize("preset", ["sort-standard", "chain-standard", "multiply-cot"])
def test_the_test_loss_is_the_objective_on_the_held_out_sequences(preset: str, tmp_path: Path) -> None:
    task = {"sort-standard": SORT["task"], "chain-standard": {"n": 16, "k": 4, "reading": "chain"}}.get(preset, {})
    # More sequences than go through the model at once, so that parts of it are put together.
    run = workbench.train(
        preset,
        out=tmp_path / "run",
        progress=False,
        **{**TINY, "task": task, "eval_size": 150, "eval_conditions": True},
    )
    logged, model, evaluation = run.metrics().iloc[-1], run.model(), Evaluation(run.task(), run.config)
    batches = {"" if head == "main" else f"/{head}": batch for head, batch in evaluation.held_out.items()}
    batches |= {f"/test {name}": batch for name, batch in evaluation.conditions.items()}
    assert len(batches) > (preset == "sort-standard")
    for ending, batch in batches.items():
        loss = next_token(model(batch.tokens, batch.head), batch).item()
        assert logged[f"test_loss{ending}"] == pytest.approx(loss, rel=1e-5)
        sets = batch.targets.ndim == 3
        assert (f"test_loss_above_floor{ending}" in logged) == sets
        if sets:
            assert logged[f"test_loss_above_floor{ending}"] == pytest.approx(loss - loss_floor(batch), rel=1e-5)


def test_the_floor_of_chains_is_that_of_their_sets() -> None:
    """Table 1 of the ChaCAL paper has n=128 and k=8: at depth d the target is a set of d positions."""
    batch = make("pointer_chain", n=128, k=8).sample(2, workbench.generator(0))
    assert loss_floor(batch) == pytest.approx(math.log(math.factorial(15)) / 15) == pytest.approx(1.86, abs=0.001)
    perfect = batch.targets.float() * 1000
    assert next_token(perfect, batch).item() == pytest.approx(loss_floor(batch), rel=1e-5)
    assert loss_floor(make("pointer_chain", n=128, k=8, reading="root").sample(2, workbench.generator(0))) == 0
    nothing = Batch(batch.tokens, batch.targets, torch.zeros_like(batch.loss_mask))
    with pytest.raises(ValueError, match="scores no position"):
        loss_floor(nothing)


def test_a_perfect_model_of_sets_has_no_loss_above_the_floor() -> None:
    class Chains(nn.Module):
        def forward(self, tokens: torch.Tensor, head: str) -> torch.Tensor:
            return task._batch(tokens).targets.float() * 1000

    task = make("pointer_chain", n=16, k=4, reading="chain")
    found = evaluated(Chains(), "chain-standard", task={"n": 16, "k": 4, "reading": "chain"})
    assert found["accuracy"] == found["whole_answer"] == 1
    assert found["test_loss_above_floor"] == pytest.approx(0, abs=1e-5) and found["test_loss"] > 0.5


@pytest.mark.parametrize("name", ["multiplication", "arithmetic", "lis"])
@pytest.mark.parametrize("mode", ["plain", "pause", "chain_of_thought"])
def test_the_answer_alone_is_the_same_in_every_mode(name: str, mode: str) -> None:
    task, plain = make(name, mode=mode), make(name)
    batch, expected = task.sample(32, workbench.generator(0)), plain.sample(32, workbench.generator(0))
    answer = task.answer_mask(batch)
    assert (answer & ~batch.loss_mask).sum() == 0
    assert (answer != batch.loss_mask).any() == (mode == "chain_of_thought")
    assert torch.equal(batch.targets[answer], expected.targets[expected.loss_mask])
    decoded = Answers.of(task, batch)
    assert torch.equal(decoded.tokens[decoded.tokens >= 0], batch.targets[answer])
    assert max(map(len, decoded.prompts)) + decoded.n_new <= task.n_ctx


@pytest.mark.parametrize("preset", ["multiply-cot", "arithmetic-vanilla", "lis-vanilla"])
def test_errors_in_the_thought_do_not_count_against_the_answer(preset: str) -> None:
    changes = {"task": {"mode": "chain_of_thought"}}
    task = preset_config(preset, changes).make_task()

    def thought(tokens: torch.Tensor) -> torch.Tensor:
        asked = torch.arange(tokens.shape[1]) >= task.question_length(tokens)[:, None] - 1
        scored = asked & (torch.arange(tokens.shape[1]) < task.lengths(tokens)[:, None] - 1)
        return scored & ~task.answer_mask(Batch(tokens, tokens, scored))

    found = evaluated(Oracle(task, thought), preset, **changes)
    assert found["whole_answer"] == 1 and found["accuracy"] < 0.7
    turned = evaluated(Oracle(task, lambda tokens: ~thought(tokens)), preset, **changes)
    assert turned["whole_answer"] == 0
    assert evaluated(Oracle(task), preset, **changes)["whole_answer"] == 1


def test_whole_products_are_what_the_paper_counts() -> None:
    """A model that gets one digit of every product wrong has no product right."""
    task = make("multiplication", digits=2)

    def one_digit(tokens: torch.Tensor) -> torch.Tensor:
        return (torch.arange(tokens.shape[1]) == task.n_ctx - 2).expand_as(tokens)

    found = evaluated(Oracle(task, one_digit), "multiply-vanilla")
    assert found["accuracy"] == 0.75 and found["whole_answer"] == 0 and found["accuracy/digit=0"] == 1


@pytest.mark.parametrize("preset", ["sort-standard", "increment-standard", "boxes-standard"])
def test_without_a_thought_accuracy_of_sequences_is_that_of_whole_answers(preset: str) -> None:
    task = preset_config(preset, {}).make_task()

    def some(tokens: torch.Tensor) -> torch.Tensor:
        return (tokens[:, :1] % 2 == 0).expand_as(tokens)

    found = evaluated(Oracle(task, some), preset, eval_conditions=True)
    assert 0 <= found["accuracy"] == found["whole_answer"] <= 1
    for name in [name for name in found if name.startswith("accuracy/test")]:
        assert found[name] == found[name.replace("accuracy", "whole_answer")]


def written(task: Task, question: str, answer: str) -> tuple[Answers, torch.Tensor]:
    answers = Answers.of(task, task.parse(question))
    tokens = task.vocabulary.encode(answer)
    return answers, torch.tensor([(tokens + [task.pad] * answers.n_new)[: answers.n_new]])


@pytest.mark.parametrize(
    ("steps", "right"),
    [
        ("3 × ( 3 + 4 ) = 3 × 7 = 10", True),
        ("( 1 + 2 ) × 7 = 3 × 7 = 10", True),  # another order, with other brackets
        ("10 × 10 = 0 = 10", True),  # a wrong thought
        ("3 × ( 3 + 4 ) = 3 × 7 = 9", False),
        ("10", False),  # it has to say how many steps come before
        ("3 × 7 = 10", False),
    ],
)
def test_an_answer_is_read_behind_as_many_steps_as_there_are_operators(steps: str, right: bool) -> None:
    task = make("arithmetic", operators=3, p=11, mode="chain_of_thought")
    answers, tokens = written(task, "( 1 + 2 ) × ( 3 + 4 )", steps)
    assert answers.exact_match(answers.read(tokens)).tolist() == [right]
    assert answers.edit_distance(answers.read(tokens)).tolist() == [float(not right)]


@pytest.mark.parametrize(
    ("thought", "distance"),
    [("8 4 0 + 0 6 3 0 #### 8 0 4 0", 0), ("8 4 0 #### 8 0 4 0", 0), ("8 4 0 + 0 6 3 0 #### 8 0 4 1", 1)],
)
def test_a_product_is_read_behind_its_mark_however_long_the_thought(thought: str, distance: int) -> None:
    task = make("multiplication", mode="chain_of_thought")
    answers, tokens = written(task, "12 * 34", thought)
    assert answers.edit_distance(answers.read(tokens)).tolist() == [distance]
    assert answers.exact_match(answers.read(tokens)).tolist() == [distance == 0]


def test_where_no_answer_was_written_all_of_it_is_missing() -> None:
    task = make("multiplication", mode="chain_of_thought")
    answers, tokens = written(task, "12 * 34", "8 4 0 + 0 6 3 0 + 8 0 4 0")
    assert answers.edit_distance(answers.read(tokens)).tolist() == [4]
    cut, tokens = written(task, "12 * 34", "8 4 0 + 0 6 3 0 0 0 #### 8 0")  # the context ends within the answer
    assert cut.edit_distance(cut.read(tokens)).tolist() == [2]


def test_decoded_answers_of_every_condition_are_those_of_the_model(tmp_path: Path) -> None:
    conditions = "length=5,repeats=2 length=3"
    run = workbench.train(
        "sort-standard",
        out=tmp_path / "run",
        progress=False,
        **{**SORT, "steps": 150, "eval_every": 150, "learning_rate": 1e-2},
        test_conditions=conditions,
        eval_decoded=30,
        eval_conditions=True,
    )
    logged = run.metrics().iloc[-1]
    named = [f"length={n}" for n in (2, 3, 4, 5, 6)] + ["length=5,repeats=2"]
    assert {name for name in logged.index if name.startswith("exact_match/")} == {
        f"exact_match/test {n}" for n in named
    }
    assert {name for name in logged.index if name.startswith("edit")} == {
        "edit_distance",
        *(f"edit_distance/test {name}" for name in named),
    }
    repeated = Evaluation(run.task(), run.config).conditions["length=5,repeats=2"]
    assert all(len(set(row.tolist())) <= 3 for row in repeated.tokens[:, :5])
    said = run.model().generate(repeated.tokens[:30, :6], 5)[:, 6:]
    right = (said == repeated.tokens[:30, 6:11]).all(1).float().mean().item()
    assert logged["exact_match/test length=5,repeats=2"] == pytest.approx(right)
    assert logged["edit_distance/test length=3"] <= 3 and logged["exact_match/test length=2"] > 0


@pytest.mark.parametrize(
    "given",
    [
        "length=5,repeats=2 length=3",
        "repeats=2,length=5  length=3 length=5,repeats=2",
        [{"length": 5, "repeats": 2}, {"length": 3}],
        ["length=5,repeats=2", {"length": 3}],
        ({"repeats": 2, "length": 5}, {"length": 3}),
    ],
)
def test_test_conditions_are_written_in_several_ways_and_mean_one_thing(given: Any) -> None:
    config = preset_config("sort-standard", {"test_conditions": given})
    assert config.test_conditions == ({"length": 5, "repeats": 2}, {"length": 3})
    assert json.loads(config.model_dump_json())["test_conditions"] == [{"length": 5, "repeats": 2}, {"length": 3}]
    assert [list(one) for one in parse_conditions(given)] == [["length", "repeats"], ["length"]]
    assert preset_config("sort-standard", {"test_conditions": {"length": 3}}).test_conditions == ({"length": 3},)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("length", "a condition is NAME=VALUE, such as length=16, not 'length'"),
        ("length=", "a condition is NAME=VALUE"),
        ("length=8,length=9", "the condition length is given twice"),
        ("head=main", "sorting has no condition 'head'; there is: length, repeats"),
        ("depth=3", "test condition depth=3: sorting has no condition 'depth'; there is: length, repeats"),
        ("length=99", "test condition length=99: length must be between 1 and 20, not 99"),
        ("repeats=2", "test condition repeats=2: repeats=2 needs a length"),
        ("length=long", "test condition length=long: the condition length of sorting takes an integer, not 'long'"),
        ("length=true", "test_conditions.0.length"),
        ([{"length": 2.5}], "test_conditions.0.length"),
        (3, "test_conditions"),
        ([{1: 2}], "test_conditions"),
    ],
)
def test_a_test_condition_that_cannot_be_is_refused_when_the_config_is_read(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        preset_config("sort-standard", {"test_conditions": given})


def test_opening_a_run_draws_no_sequence_of_its_conditions(tmp_path: Path) -> None:
    """A stranger may have written conditions whose sequences take hours to draw."""
    run = workbench.train("sort-standard", out=tmp_path / "run", progress=False, **TINY)
    path = run.path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"test_conditions": [{"length": 3}]}), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(type(run.task()), "draw")
        patch.setattr(type(run.task()), "__abstractmethods__", frozenset())
        assert load_run(run.path).config.test_conditions == ({"length": 3},)


def test_conditions_of_another_task_are_refused_by_it() -> None:
    with pytest.raises(ValueError, match="test condition length=3: multiplication has no condition 'length'"):
        preset_config("multiply-vanilla", {"test_conditions": "length=3"})


def test_an_old_config_means_what_it_meant(tmp_path: Path) -> None:
    run = workbench.train("multiply-vanilla", out=tmp_path / "run", progress=False, **TINY)
    assert run.config.stop_on == "whole_answer"  # a new one of this preset
    path = run.path / "config.json"
    old = json.loads(path.read_text(encoding="utf-8"))
    for name in ("stop_on", "test_conditions"):
        del old[name]
    path.write_text(json.dumps(old), encoding="utf-8")
    config = load_run(run.path).config
    assert config.stop_on == "accuracy" and config.test_conditions == ()
    assert config.model_copy(update={"stop_at": 0.5}).stops_at({"accuracy": 0.6, "whole_answer": 0.1})


def test_training_stops_on_the_figure_that_was_named(tmp_path: Path) -> None:
    how = {**SORT, "task": {"q": 4, "max_length": 3}, "steps": 400, "eval_every": 10, "learning_rate": 1e-2}
    run = workbench.train(
        "sort-standard",
        out=tmp_path / "run",
        progress=False,
        **how,
        eval_decoded=40,
        stop_at=0.3,
        stop_on="exact_match",
    )
    logged = run.metrics()["exact_match"].dropna()
    assert run.finished and logged.iloc[-1] >= 0.3 and (logged.iloc[:-1] < 0.3).all() and run.step() < 400
    (event,) = [row for row in run.log() if row.get("event") == "target"]
    assert event == {"event": "target", "step": run.step(), "exact_match": logged.iloc[-1]}
    with pytest.raises(ValueError, match="stop_on=exact_match is about decoded answers: set eval_decoded"):
        preset_config("sort-standard", {"stop_on": "exact_match", "stop_at": 0.5})


def test_by_position_a_run_would_stop_before_it_has_a_product_right() -> None:
    config = preset_config("multiply-vanilla", {"stop_at": 0.7})
    assert not config.stops_at({"accuracy": 0.75, "whole_answer": 0.0})
    assert config.stops_at({"accuracy": 0.75, "whole_answer": 0.7})
    by_position = preset_config("multiply-vanilla", {"stop_at": 0.7, "stop_on": "accuracy"})
    assert by_position.stops_at({"accuracy": 0.75, "whole_answer": 0.0})


def test_a_stack_of_seeds_logs_the_same_figures_and_the_next_token_loss_beside_the_total(tmp_path: Path) -> None:
    how = {**TINY, "task": {"digits": 1}, "log_every": 1}
    stack = train_seeds("multiply-seqvcr", tmp_path / "stack", 2, progress=False, **how)
    alone = workbench.train("multiply-seqvcr", out=tmp_path / "alone", progress=False, **how)
    logged, single = stack[0].metrics(), alone.metrics()
    assert set(logged) == set(single)
    for metrics in (logged, single):
        assert metrics["loss"].values == pytest.approx((metrics["next_token"] + metrics["seq_vcr"]).values, rel=1e-5)
    assert logged["test_loss"].dropna().iloc[-1] == pytest.approx(single["test_loss"].dropna().iloc[-1], rel=1e-4)


@pytest.mark.parametrize("size", [None, 24, 2000])
def test_questions_trained_on_are_evaluated_where_that_is_asked_for(size: int | None) -> None:
    changes = {**SORT, "eval_training": True, "train_size": size, "eval_size": 1500, "steps": 9}
    config = preset_config("sort-standard", changes)
    task = config.make_task()
    evaluation = Evaluation(task, config)
    trained = evaluation.training
    assert trained is not None and not task.is_test(trained.tokens).any()
    if size is not None:  # half of it is the hint's
        assert len(trained) == min(1500, size // 2)
        visited = [batch for batches in training_batches(task, config) for batch in batches if batch.head == "main"]
        seen, known = ({task.question(row) for batch in some for row in batch.tokens} for some in (visited, [trained]))
        assert seen <= known and (seen == known) == (size == 24)
    by_heart = Oracle(task, lambda tokens: task.is_test(tokens)[:, None].expand_as(tokens))
    found = evaluation(by_heart, CPU)
    assert found["accuracy/training"] == 1 and found["accuracy"] == 0
    assert found["test_loss/training"] < 1e-5 < found["test_loss"]
    assert "accuracy/training" not in evaluated(by_heart, "sort-standard", task=SORT["task"])
