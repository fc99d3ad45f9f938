"""Every task keeps the contract of `workbench.testing`: a new entry of TASKS is picked up by itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench import tasks
from workbench.tasks import TASKS, Task
from workbench.tasks.lengths import TaskWithLengths
from workbench.testing import NotTested
from workbench.testing.tasks import CHECKS, hints_have_heads, the_same_in_another_process
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
    "box_moves": [{}, {"n_boxes": 3, "n_filled": 2, "n_objects": 4, "min_moves": 1, "max_moves": 7}],
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
    "modular_addition": [{}, {"p": 97, "train_fraction": 0.3}, {"p": 12, "train_fraction": 0.8}],
    "associative_recall": [{}, {"d_vocab": 16, "length": 16, "pairs": 2, "fill": "blank"}],
    "induction": [{}, {"q": 26, "min_length": 5, "max_length": 5}],
    "state_tracking": [
        {"length": 6},
        {"states_of": "S3", "moves": "swaps", "length": 8, "test_length": 12},
        {"states_of": "parity", "length": 20},
        {"states_of": "A5", "length": 5, "test_length": 3},
    ],
    "dyck": [{}, {"kinds": 1, "depth": 6}, {"kinds": 4, "depth": 1, "length": 12}],
    "multiplication": [
        *({"digits": 3, "mode": mode} for mode in ("plain", "pause", "chain_of_thought")),
        {"digits": 2, "mode": "chain_of_thought", "thoughts_removed": 5},
        {"digits": 2, "mode": "chain_of_thought", "thoughts_removed": 8},
    ],
}
CASES = [(name, settings) for name in TASKS for settings in SETTINGS.get(name, [{}])]
each_task = pytest.mark.parametrize("task", [tasks.make(name, **s) for name, s in CASES], ids=[str(c) for c in CASES])


@pytest.mark.parametrize(
    "check", [one for one in CHECKS if one is not the_same_in_another_process], ids=lambda one: one.__name__
)
@each_task
def test_a_task_keeps_its_contract(task: Task, check: Callable[[Task], None]) -> None:
    try:
        check(task)
    except NotTested as why:
        assert not (task.heads if check is hints_have_heads else task.delimiters), why


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
def test_every_task_but_text_has_gold_edges(task: Task) -> None:
    tokens = task.sample(9, generator(4)).tokens
    assert (task.truth(tokens).adjacency(9, tokens.shape[1]).any(-1).sum() > 0) == (task.name != "text")


@each_task
def test_a_draw_of_nothing_and_of_a_condition_that_does_not_exist_say_so(task: Task) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        task.sample(0, generator(0))
    with pytest.raises(ValueError, match="there is: train, test"):
        task.sample(1, generator(0), split="valid")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hint"):
        task.sample(1, generator(0), head="nothing")
    with pytest.raises(ValueError, match=f"{task.name} has no condition 'lenght'"):
        task.sample(2, generator(0), lenght=3)
    with pytest.raises(ValueError, match="frozen"):
        task.__setattr__(next(iter(type(task).model_fields)), 1)
    assert task.median_training_length(lambda tokens: torch.full((len(tokens),), 7)) == 7


@each_task
def test_how_a_run_s_own_test_is_drawn_names_the_lengths_that_it_has(task: Task) -> None:
    words = task.drawn
    assert words.startswith("drawn as in training")
    if not isinstance(task, TaskWithLengths):
        return
    lengths = task.truth(task.sample(200, generator(5), split="test").tokens).labels["length"]
    lengths = lengths[lengths >= 0]
    assert words.endswith(f", of length {task.min_length} to {task.max_length}")
    assert task.min_length <= int(lengths.min()) and int(lengths.max()) <= task.max_length


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
        ("multiplication", {"thoughts_removed": 1}, "in mode plain there is no thought"),
        (
            "multiplication",
            {"mode": "chain_of_thought", "thoughts_removed": 9},
            "thoughts_removed=9 is more than the thought's 8 tokens",
        ),
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
