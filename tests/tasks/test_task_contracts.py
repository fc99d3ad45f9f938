"""What every task must do: a new entry of TASKS is picked up by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench import tasks
from workbench.tasks import TASKS, Batch, Task, correct
from workbench.util.seeds import generator

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "pointer_chain": [{"n": 12, "k": 3}, {"n": 12, "k": 3, "reading": "root"}],
    "property_chain": [{"n": 9, "k": 3}, {"n": 8, "k": 2, "properties": 4}, {"n": 12, "k": 4, "properties": 1}],
    "sorting": [
        {"q": 9, "max_length": 6, "hints": "successor,count,fill"},
        {"q": 9, "max_length": 20, "skew": "paper", "repetition": 1.0},
    ],
    "boxes": [
        {"n_boxes": 3, "min_operations": 2, "max_operations": 4},
        {"style": "advanced", "ask": "one", "max_operations": 6},
        {"style": "advanced"},
    ],
    "arithmetic": [
        {"operators": 4, "min_operators": 1},
        {"operators": 3, "mode": "pause", "p": 7},
        {"operators": 5, "mode": "chain_of_thought", "thought": "leftmost"},
        {"operators": 5, "min_operators": 1, "mode": "chain_of_thought", "thought": "leftmost", "brackets": "always"},
    ],
    "lis": [
        {"length": 9, "min_length": 2, "values": 30},
        {"length": 8, "values": 40, "mode": "pause"},
        {"length": 8, "min_length": 5, "values": 40, "mode": "chain_of_thought"},
    ],
    "text": [{"path": str(Path(__file__)), "block": 40}],
    "increment": [{"max_length": 6, "test_max_length": 9, "hints": ["carry"]}, {"reversed": False, "nines": 1.0}],
    "multiplication": [{"digits": 3, "mode": mode} for mode in ("plain", "pause", "chain_of_thought")],
}
CASES = [(name, settings) for name in TASKS for settings in SETTINGS.get(name, [{}])]
each_task = pytest.mark.parametrize("task", [tasks.make(name, **s) for name, s in CASES], ids=[str(c) for c in CASES])


@each_task
def test_batches_have_the_shapes_and_ranges_they_promise(task: Task) -> None:
    batch = task.sample(17, generator(0))
    assert batch.tokens.shape == batch.loss_mask.shape == batch.targets.shape[:2]
    assert batch.tokens.shape[0] == 17 and batch.tokens.shape[1] <= task.n_ctx
    assert batch.tokens.min() >= 0 and batch.tokens.max() < len(task.vocabulary)
    assert bool(batch.loss_mask.any(-1).all())
    if batch.targets.ndim == 2:
        assert batch.targets.min() >= 0 and batch.targets.max() < len(task.vocabulary)
    else:
        assert batch.targets.shape[2] == len(task.vocabulary)
        assert bool(batch.targets[batch.loss_mask].any(-1).all())


@each_task
def test_the_generator_alone_decides_the_batch(task: Task) -> None:
    torch.manual_seed(1)
    first = task.sample(8, generator(0))
    torch.manual_seed(2)
    again, other = task.sample(8, generator(0)), task.sample(8, generator(1))
    assert torch.equal(first.tokens, again.tokens) and torch.equal(first.targets, again.targets)
    assert first.tokens.shape != other.tokens.shape or not torch.equal(first.tokens, other.tokens)


def test_batches_are_the_same_in_every_process() -> None:
    code = (
        "from workbench import tasks; from workbench.util.seeds import generator\n"
        f"made = [tasks.make(n, **({{'path': {__file__!r}}} if n == 'text' else {{}})) for n in sorted(tasks.TASKS)]\n"
        "print([int((t.sample(9, generator(3, t.name), split='train').tokens * 7919).sum()) for t in made])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("0", "1")
    ]
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout) > 10


@each_task
def test_truth_is_causal_within_range_and_absent_from_padding(task: Task) -> None:
    tokens = task.sample(9, generator(4)).tokens
    truth = task.truth(tokens)
    example, hop, query, key = truth.edges.T
    assert bool((key <= query).all()) and bool((hop >= 1).all())
    assert bool((example < 9).all()) and bool((query < tokens.shape[1]).all())
    padding = torch.arange(tokens.shape[1]) >= task.lengths(tokens)[:, None]
    for name, label in truth.labels.items():
        assert label.shape == tokens.shape and label.min() >= -1, name
        assert bool((label[padding] == -1).all()), name
    assert task.group_label in truth.labels
    assert (truth.adjacency(9, tokens.shape[1]).any(-1).sum() > 0) == (task.name != "text")
    assert all(len(array) == 9 for array in truth.arrays.values())


@each_task
def test_answers_that_are_right_score_1_and_fill_every_group_once(task: Task) -> None:
    batch = task.sample(64, generator(5))
    targets = (
        batch.targets if batch.targets.ndim == 3 else torch.nn.functional.one_hot(batch.targets, len(task.vocabulary))
    )
    perfect = targets.float()
    assert torch.equal(correct(perfect, batch), batch.loss_mask.float())
    by_group = task.accuracy_by_group(perfect, batch, task.truth(batch.tokens))
    assert by_group.shape == (64, len(task.groups))
    assert bool((by_group[~by_group.isnan()] == 1).all())
    wrong = task.accuracy_by_group(-perfect, batch, task.truth(batch.tokens))
    assert torch.equal(wrong.isnan(), by_group.isnan()) and bool((wrong[~wrong.isnan()] < 1).all())


@each_task
def test_conditions_make_test_sets(task: Task) -> None:
    for condition in task.conditions:
        batch = task.sample(5, generator(6), **condition)
        assert len(batch) == 5 and batch.tokens.shape[1] <= task.n_ctx
        if "length" in condition:
            assert set(task.truth(batch.tokens).labels["length"].flatten().tolist()) <= {-1, condition["length"]}


@each_task
def test_train_and_test_share_no_question_and_the_split_is_the_same_for_every_draw(task: Task) -> None:
    train, test = (task.sample(300, generator(8, split), split=split) for split in ("train", "test"))
    assert not task.is_test(train.tokens).any() and task.is_test(test.tokens).all()

    def questions(batch: Batch) -> set[tuple[int, ...]]:
        rows = zip(batch.tokens.tolist(), task.question_length(batch.tokens).tolist(), strict=True)
        return {tuple(row[:asked]) for row, asked in rows}

    assert not questions(train) & questions(test)
    drawn = task.draw(4000, generator(9))
    if len(questions(drawn)) > 2000:  # where there are few questions, the share that is kept back is left to chance
        assert 0.08 < task.is_test(drawn.tokens).float().mean() < 0.12


@each_task
def test_a_task_as_it_is_tested_asks_the_same_questions_of_the_same_model(task: Task) -> None:
    tested = task.as_tested
    assert type(tested) is type(task) and tested.as_tested == tested
    assert (tested.vocabulary, tested.n_ctx, tested.heads) == (task.vocabulary, task.n_ctx, task.heads)
    assert (tested.conditions, tested.groups) == (task.conditions, task.groups)
    tokens = task.sample(40, generator(10)).tokens
    assert torch.equal(tested.is_test(tokens), task.is_test(tokens))


@each_task
def test_what_is_not_there_to_be_drawn_is_refused(task: Task) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        task.sample(0, generator(0))
    with pytest.raises(ValueError, match="there is: train, test"):
        task.sample(1, generator(0), split="valid")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hint"):
        task.sample(1, generator(0), head="nothing")


@each_task
def test_every_hint_draws_batches_for_its_own_head(task: Task) -> None:
    for head, n_classes in task.heads.items():
        batch = task.sample(50, generator(1), head=head, split="train")
        assert batch.head == head and bool(batch.loss_mask.any(-1).all())
        assert batch.tokens.shape[1] <= task.n_ctx and batch.targets.max() < n_classes
        assert not task.is_test(batch.tokens).any()
        assert task.sample(5, generator(1), head=head).head == head


@each_task
def test_a_condition_that_does_not_exist_is_refused(task: Task) -> None:
    with pytest.raises(ValueError, match=f"{task.name} has no condition 'lenght'"):
        task.sample(2, generator(0), lenght=3)


@each_task
def test_what_is_sampled_can_be_typed_and_gives_the_same_example(task: Task) -> None:
    batch = task.sample(12, generator(7))
    for i, length in enumerate(task.lengths(batch.tokens).tolist()):
        parsed = task.parse(task.question(batch.tokens[i]))
        assert torch.equal(parsed.tokens, batch.tokens[i : i + 1, :length])
        assert torch.equal(parsed.targets, batch.targets[i : i + 1, :length])
        assert torch.equal(parsed.loss_mask, batch.loss_mask[i : i + 1, :length])


@each_task
def test_settings_are_kept_and_make_the_same_task(task: Task) -> None:
    assert tasks.make(task.name, **task.model_dump()) == task
    with pytest.raises(ValueError, match="frozen"):
        task.__setattr__(next(iter(type(task).model_fields)), 1)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("pointer_chain", {"n": 10, "k": 4}, "n=10, k=4"),
        ("pointer_chain", {"n": 8, "k": 8}, "2 whole blocks"),
        ("pointer_chain", {"reading": "leaf"}, "'chain' or 'root'"),
        ("property_chain", {"n": 10, "k": 4}, "n=10, k=4"),
        ("property_chain", {"n": 20, "k": 10, "properties": 4}, r"at most 4,096, not 10\^4 = 10,000"),
        ("sorting", {"min_length": 9, "max_length": 4}, "min_length <= max_length"),
        ("sorting", {"test_max_length": 4}, "test_max_length=4"),
        ("sorting", {"repetition": 2}, "repetition"),
        ("multiplication", {"n_pause": -1}, "n_pause"),
        ("boxes", {"n_objects": 101}, "less than or equal to 100"),
        ("boxes", {"n_boxes": 26, "n_objects": 50}, "26 boxes of 3 items need 78 names, but n_objects is 50"),
        ("boxes", {"min_operations": 5, "max_operations": 4}, "min_operations <= max_operations"),
        ("increment", {"hints": "carry", "reversed": False}, "reversed=true"),
        ("increment", {"hints": "carries"}, "'carry'"),
        ("arithmetic", {"p": 9}, "p must be a prime, not 9"),
        ("arithmetic", {"min_operators": 6}, "min_operators <= operators"),
        ("lis", {"length": 50, "values": 90}, "values must be at least 101, not 90"),
        ("lis", {"length": 5, "min_length": 9}, "min_length <= length"),
        ("multiplication", {"digits": 0}, "digits"),
        ("multiplication", {"digit": 2}, "did you mean 'digits'"),
        ("multiply", {}, "there is: .*multiplication"),
    ],
)
def test_bad_settings_fail_when_the_task_is_made_in_one_line(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        tasks.make(name, **settings)
    assert "\n" not in str(caught.value)


@each_task
def test_the_first_delimiter_ends_the_question_of_every_head(task: Task) -> None:
    for head in ("main", *task.heads) if task.delimiters else ():
        tokens = task.sample(40, generator(10), head=head).tokens
        is_end = torch.stack([tokens == token for token in task.delimiters]).any(0)
        assert bool(is_end.any(-1).all())
        before = is_end.long().argmax(-1)
        beyond = task.question_length(tokens) - before  # a question may hold the token that ends it, and no more
        assert bool(((beyond == 0) | (beyond == 1)).all()) and beyond.unique().numel() == 1


@each_task
def test_the_median_training_length_is_that_of_training_sequences_and_always_the_same(task: Task) -> None:
    torch.manual_seed(1)
    found = task.median_training_length()
    torch.manual_seed(2)
    assert task.median_training_length() == found
    drawn = task.lengths(task.sample(1000, generator(11), split="train").tokens)
    assert (drawn <= found).float().mean() > 0.4 and (drawn >= found).float().mean() > 0.4
    assert task.median_training_length(lambda tokens: torch.full((len(tokens),), 7)) == 7
