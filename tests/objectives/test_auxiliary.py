"""Auxiliary targets against their formulas, where they act, and what they are refused for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import workbench
from tests.training.killed import check_resumed, train_until_killed
from workbench.models import Decoder, DecoderConfig
from workbench.objectives import Auxiliary
from workbench.runs import load_run
from workbench.tasks import Task, make
from workbench.tasks.labels import labels
from workbench.training import preset_config
from workbench.util.seeds import generator

SMALL: dict[str, Any] = {
    "task": {"name": "lis", "length": 6, "values": 20},
    "model": {"n_layers": 2, "d_model": 16, "n_heads": 2},
    "objectives": {
        "auxiliary": {
            "labels": {"longest_ending_here": 0, "witness": -1},
            "numbers": ["longest_ending_here"],
            "weight": 0.5,
        }
    },
    "batch_size": 16,
    "eval_size": 16,
    "steps": 30,
    "log_every": 10,
    "save_every": 7,
}


def fitted(task: Task, **settings: Any) -> tuple[Auxiliary, Decoder]:
    shape = {"n_layers": 2, "d_model": 16, "n_heads": 2, "d_vocab": len(task.vocabulary), "n_ctx": task.n_ctx}
    config = DecoderConfig(**shape)
    objective = Auxiliary(config, pad=task.pad, **settings)
    objective.fit_to_task(task)
    return objective.double(), Decoder(config, generator(0)).double()


def test_a_number_is_read_by_least_squares_over_its_variance() -> None:
    """1 where the mean alone is known, 0 where the map gives the number."""
    task = make("lis", length=6, values=20)
    objective, model = fitted(task, labels={"longest_ending_here": 1}, numbers=("longest_ending_here",), weight=3.0)
    batch = task.sample(64, generator(1), split="train")
    logits, kept = model(batch.tokens, keep=objective.needs)
    loss, figures = objective(logits, kept, batch)
    numbers = task.truth(batch.tokens).labels["longest_ending_here"]
    sampled = task.truth(task.sample(256, generator(0, "auxiliary labels"), split="train").tokens)
    of_task = sampled.labels["longest_ending_here"]
    mean, spread = (f(of_task[of_task >= 0].double()) for f in (torch.mean, lambda x: x.std(correction=0)))
    read = objective.maps["longest_ending_here"](kept["blocks.1.hook_resid_post"])[..., 0]
    expected = ((read - (numbers - mean) / spread) ** 2)[numbers >= 0].mean()
    assert float(loss) == pytest.approx(3 * float(expected), rel=1e-5)
    assert float(figures["auxiliary/longest_ending_here"]) == pytest.approx(float(expected), rel=1e-5)
    with torch.no_grad():
        objective.maps["longest_ending_here"].weight.zero_()
        objective.maps["longest_ending_here"].bias.zero_()
    assert float(objective(logits, kept, batch)[1]["auxiliary/longest_ending_here"]) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    ("task", "label"),
    [
        (make("sorting", q=9, max_length=5), "successor"),
        (make("pointer_chain", n=12, k=3), "ancestor_2"),  # a position
        (make("arithmetic", p=5, operators=2), "value"),
        (make("multiplication", digits=2), "running_sum_1"),
    ],
)
def test_a_label_is_classified(task: Task, label: str) -> None:
    objective, model = fitted(task, labels={label: 0})
    batch = task.sample(16, generator(1), split="train")
    logits, kept = model(batch.tokens, keep=objective.needs)
    values = labels(task, batch.tokens)[label]
    read = objective.maps[label](kept["blocks.0.hook_resid_post"])
    expected = cross_entropy(read[values >= 0], values[values >= 0])
    assert float(objective(logits, kept, batch)[0]) == pytest.approx(float(expected), rel=1e-5)


def test_of_a_set_each_class_is_asked_by_itself() -> None:
    """What is in box A: an object that is there, and one that is not, count alike."""
    task = make("boxes", n_boxes=3, n_objects=6, capacity=2, min_operations=1, max_operations=2)
    objective, model = fitted(task, labels={"contents_A": 1})
    batch = task.sample(16, generator(1), split="train")
    logits, kept = model(batch.tokens, keep=objective.needs)
    values = labels(task, batch.tokens)["contents_A"]
    there = values.amax(-1) >= 0
    share = objective.maps["contents_A"](kept["blocks.1.hook_resid_post"])[there].sigmoid()
    held = values[there].bool()
    expected = -torch.where(held, share, 1 - share).log().mean()
    assert held.any() and share.shape[-1] == 6
    assert float(objective(logits, kept, batch)[0]) == pytest.approx(float(expected), rel=1e-5)


def test_its_gradient_ends_at_the_layer_that_is_read_and_no_batch_of_a_hint_is_asked() -> None:
    task = make("sorting", q=9, max_length=5, hints="successor")
    objective, model = fitted(task, labels={"minimum": 0})
    batch = task.sample(16, generator(1), split="train")
    logits, kept = model(batch.tokens, keep=objective.needs)
    objective(logits, kept, batch)[0].backward()
    reached = {name.split(".")[1] for name, p in model.named_parameters() if "layers." in name and p.grad is not None}
    assert reached == {"0"}
    hint = task.sample(16, generator(1), split="train", head="successor")
    assert float(objective(logits, kept, hint)[0]) == 0


def test_its_maps_train_and_resume_with_the_model_and_are_not_part_of_it(tmp_path: Path) -> None:
    config = preset_config(None, SMALL)
    train_until_killed(config, tmp_path / "killed", 17)
    weights = check_resumed(config, tmp_path / "killed", tmp_path / "whole")
    assert not [name for name in weights if "maps" in name]
    run = load_run(tmp_path / "whole")
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    shares = [row["auxiliary/longest_ending_here"] for row in rows if "auxiliary/longest_ending_here" in row]
    assert shares[-1] < shares[0]
    written = load_run(run.path).config.objectives["auxiliary"]
    assert written == {
        "labels": {"longest_ending_here": 0, "witness": -1},
        "numbers": ["longest_ending_here"],
        "weight": 0.5,
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"auxiliary needs labels, such as \{'longest_ending_here': 0\}"),
        ({"labels": {"minimum": 0}}, "unknown label of lis 'minimum'"),
        ({"labels": {"witness": 2}}, r"reads witness from layer 2, but the model has layers 0\.\.1"),
        ({"labels": {"witness": 0.5}}, "labels"),
        ({"labels": {"length": 0}, "numbers": ["length"]}, "length as a number: it is the same wherever lis has it"),
        ({"labels": {"length": 0}, "numbers": ["witness"]}, "unknown label among auxiliary's 'witness'"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(given: dict[str, Any], said: str) -> None:
    given = {**SMALL, "objectives": {"next_token": {}, "auxiliary": given}}
    with pytest.raises(ValueError, match=said) as raised:
        preset_config(None, given)
    assert "\n" not in str(raised.value)


def test_seeds_with_it_are_trained_one_by_one(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="cannot be stacked: the objective auxiliary looks at the sequences of each run"
    ):
        workbench.training.train_seeds(preset_config(None, SMALL), tmp_path / "stack", 2, progress=False)
    assert not (tmp_path / "stack").exists()
