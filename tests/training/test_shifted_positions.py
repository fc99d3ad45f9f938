"""Training sequences that begin at random positions: which positions are trained, and that the draws are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from tests.training.killed import FEW_STEPS, check_resumed, train_until_killed
from tests.training.test_distributed import as_fields, assert_same_run, launched
from workbench.models import Decoder, DecoderConfig
from workbench.runs import RunConfig, load_run
from workbench.training import preset_config
from workbench.training.data import training_batches

SMALL: dict[str, Any] = {
    "task": {"max_length": 5, "test_max_length": 9, "hints": "successor"},
    "model": {"d_model": 16, "n_heads": 2, "positions": "learned"},
    **FEW_STEPS,
}


def config(**changes: Any) -> RunConfig:
    return preset_config("sort-standard", {**SMALL, "shift_positions": True, **changes})


def test_a_sequence_that_begins_later_has_the_positions_from_there() -> None:
    model = Decoder(DecoderConfig(n_layers=1, d_model=16, n_heads=2, d_vocab=7, n_ctx=9), workbench.generator(0))
    tokens = torch.randint(7, (3, 5), generator=workbench.generator(1))
    with torch.no_grad():
        shifted, _ = model(tokens, keep=(), start=torch.tensor([0, 2, 4]))
        table = model.get_parameter("position_embedding.weight")
        rows = table.clone()
        for row, start in enumerate((0, 2, 4)):
            table[:] = rows.roll(-start, 0)
            torch.testing.assert_close(model(tokens[row : row + 1]), shifted[row : row + 1])


def test_positions_behind_the_longest_training_sequence_are_trained(tmp_path: Path) -> None:
    runs = [
        workbench.train(config(shift_positions=on, checkpoint_count=2), tmp_path / str(on), progress=False)
        for on in (0, 1)
    ]
    trained = [
        (
            run.model(0).state_dict()["position_embedding.weight"]
            != run.model().state_dict()["position_embedding.weight"]
        )
        for run in runs
    ]
    longest = 2 * 5 + 1
    assert not trained[0][longest:].any() and trained[1][longest:-1].all(), "but the last, which predicts nothing"
    assert runs[0].config.model.n_ctx == len(trained[0]) == 2 * 9 + 1


def test_every_sequence_fits_the_context_wherever_it_begins() -> None:
    settings = config(batch_size=256, bucket_steps=2, steps=6)
    task = settings.make_task()
    ends, starts = [], []
    for of_step in training_batches(task, settings):
        for batch in of_step:
            assert batch.start is not None
            starts.append(batch.start)
            ends.append(batch.start + task.lengths(batch.tokens))
    assert int(torch.cat(starts).min()) == 0 and int(torch.cat(ends).max()) == settings.model.n_ctx
    assert len({tuple(start.tolist()) for start in starts}) == len(starts), "drawn anew at every step"


@pytest.mark.parametrize("changes", [{"bucket_steps": 4}, {"accumulate": 2, "mixing": "together", "batch_size": 8}])
def test_a_run_that_was_killed_goes_on_with_the_same_positions(changes: dict[str, Any], tmp_path: Path) -> None:
    train_until_killed(config(**changes), tmp_path / "killed", 8)
    check_resumed(config(**changes), tmp_path / "killed", tmp_path / "whole")


def test_parts_of_a_batch_and_processes_have_the_positions_of_the_whole(tmp_path: Path) -> None:
    whole = workbench.train(config(), tmp_path / "whole", progress=False)
    parts = workbench.train(config(accumulate=2), tmp_path / "parts", progress=False)
    assert_same_run(whole, parts, ["gradient_norm"], within=1e-9)
    fields = as_fields({**SMALL, "shift_positions": True})
    process = launched(2, "train", "sort-standard", "--out", str(tmp_path / "two"), "--quiet", *fields)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert_same_run(whole, load_run(tmp_path / "two"), ["gradient_norm"], within=1e-9)


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_positions_that_are_not_added_cannot_be_shifted(positions: str) -> None:
    with pytest.raises(ValueError, match=f"shift_positions changes nothing where model.positions is {positions}"):
        config(model={**SMALL["model"], "positions": positions})


def test_sequences_as_long_as_the_context_leave_no_room_to_shift(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "task": {"n": 8, "k": 2},
        "steps": 2,
        "batch_size": 4,
        "eval_size": 8,
        "shift_positions": True,
    }
    with pytest.raises(
        ValueError, match=r"has no room: sequences have 8 tokens, and the context is as long; make model"
    ):
        workbench.train("chain-standard", tmp_path / "run", progress=False, **settings)
    assert not (tmp_path / "run").exists()
    workbench.train("chain-standard", tmp_path / "run", progress=False, model={"n_ctx": 9}, **settings)
