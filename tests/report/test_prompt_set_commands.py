"""Prompt sets at the doors of the commands: `--pairs indirect-objects`, `--text indirect-objects`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import workbench
from tests.models.real_model import needs_real_model, real_model
from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import of_prompts
from workbench.capture import Capture, Subject
from workbench.circuits import Comparison, attribution_patching
from workbench.circuits.patch_grid import patch_grid
from workbench.cli import main
from workbench.cli.explore import _opened
from workbench.instruments.attention import head_roles
from workbench.models.pretrained.text_file import TypedText, file_sequences
from workbench.probes import labels
from workbench.report.pairs import Answers
from workbench.tasks.prompt_sets import prompt_set

SLOTS = ["IO", "S1", "S1+1", "S2", "place", "object", "end"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose tokenizer fits every set."""
    place, made = tmp_path_factory.mktemp("prompts") / "tiny", of_prompts()
    model = tiny("llama", vocab_size=len(made), pad_token_id=None, bos_token_id=None)
    model.save_pretrained(place)
    made.save_pretrained(place)
    return place


def test_patch_takes_a_set_by_name_says_first_how_it_is_answered_and_tells_slots(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["patch", str(place), "--pairs", "indirect-objects", "--n", "8", "--method", "estimate"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert re.match(
        r"Of 8 prompts of indirect-objects the right answer is preferred to the wrong one after \d+, and is the "
        r"likeliest of all tokens after \d+\. With the change: \d+ and \d+\.",
        said,
    )
    assert "how the model does it cannot be found here" in said, "random weights guess"
    grids = pd.read_csv(tmp_path / "out" / "resid_pre.csv")
    assert {*grids["position"]} == {*SLOTS, "elsewhere"} and (tmp_path / "out" / "head_control.csv").is_file()
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["answers"]
    assert told["n"] == 8 and told["kind"] == "indirect-objects" and 0 <= told["likeliest"] <= told["preferred"] <= 8


def test_answers_are_those_of_the_models_own_logits(place: Path) -> None:
    model = workbench.load_model(place, progress=False)
    found = workbench.patch(model, pairs="greater-than", n=16, method="estimate").answers
    assert found is not None and found.preferred_after is None, "after the year 01 both years are right"
    drawn = prompt_set("greater-than", model, n=16)
    logits = model.hooked()(drawn.pairs.clean.tokens)[drawn.pairs.asked]
    right, wrong = (
        logits.gather(1, side[drawn.pairs.asked][:, None]) for side in (drawn.pairs.right, drawn.pairs.wrong)
    )
    assert found.preferred == int((right > wrong).sum())
    assert found.likeliest == sum(int(top) in of for top, of in zip(logits.argmax(-1), drawn.right, strict=True))


def test_a_set_has_a_circuit_and_control_pairs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["circuit", str(place), "--pairs", "capitals", "--n", "8", "--edges", "9"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Of 8 prompts of capitals ") and "control" in said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ["--pairs", "indirect-object"],
            "unknown file or prompt set 'indirect-object' (did you mean 'indirect-objects'?)",
        ),
        (["--pairs", "capitals", "--later"], "--later is of a run's own pairs"),
        (["--pairs", "capitals", "--n", "2"], "8 prompts of capitals or more are drawn, not n=2"),
        (["--pairs", "capitals.csv"], "capitals.csv"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    place: Path, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("patch", "circuit"):
        assert main([command, str(place), *words]) == 2
        error = capsys.readouterr().err
        assert reason in error and error.count("\n") == 1


def test_a_slots_estimate_is_the_sum_of_its_positions_and_the_embedding_differs_at_the_change_alone(
    place: Path,
) -> None:
    model = workbench.load_model(place, progress=False)
    pairs = prompt_set("indirect-objects", model, n=8).pairs
    comparison = Comparison(model.hooked(), pairs)
    grid = patch_grid(comparison, model.vocabulary.decode, method="estimate")
    of_each = attribution_patching(comparison, "attn_out")
    gap = comparison.baselines[0] - comparison.baselines[1]
    for number, slot in enumerate(grid.positions[:-1]):
        expected = [np.nansum(of_each.values[1, :, i][pairs.slots[slot][i].numpy()]) for i in range(8)]
        got = float(grid.grids["attn_out"].mean().values[1, number])
        assert got == pytest.approx(np.mean(expected) / gap.mean(), rel=1e-4, abs=1e-6)
    exact = patch_grid(comparison, model.vocabulary.decode, method="exact")
    at_first = dict(zip(exact.positions, exact.grids["resid_pre"].mean().values[0], strict=True))
    assert at_first.pop("S2") == pytest.approx(1, abs=1e-4)
    assert max(map(abs, at_first.values())) < 1e-4


def test_pairs_that_are_alike_in_position_are_told_by_position_and_slot(place: Path) -> None:
    model = workbench.load_model(place, progress=False)
    drawn = prompt_set("capitals", model, n=8)
    grid = patch_grid(Comparison(model.hooked(), drawn.pairs), model.vocabulary.decode, method="estimate")
    changed = int(drawn.pairs.changed[0].nonzero())
    assert grid.positions[changed] == f"{changed} country (changed)"
    assert grid.positions[-1].endswith("end (asked)") and grid.positions[0] == "0 As"


def test_heads_are_ranked_by_the_slots_that_they_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranked = workbench.heads(place, text="indirect-objects", n=12)
    assert {f"reads {slot}" for slot in SLOTS if slot != "end"} < {*ranked.roles.mean.coords["role"]} and ranked.n == 12
    assert main(["heads", str(place), "--text", "indirect-object"]) == 2
    assert "did you mean 'indirect-objects'" in capsys.readouterr().err


def test_a_slots_keys_are_its_positions_seen_from_where_the_answer_is_asked_for(place: Path) -> None:
    model = workbench.load_model(place, progress=False)
    task = file_sequences(model, "indirect-objects", n=8)
    batch = task.sample(8, workbench.generator(0), split="test")
    assert batch.loss_mask.sum(-1).tolist() == [1] * 8, "the answer alone is scored"
    assert len(task.sample(8, workbench.generator(0), split="train")) == 8
    keys = head_roles.role_keys(Capture({}, batch, Subject.of(model, task, "tiny")), by_label=True)
    tokens = batch.tokens
    for row in range(8):
        ((query, io),), ((_, s2),) = (keys[f"reads {slot}"][row].nonzero().tolist() for slot in ("IO", "S2"))
        assert batch.loss_mask[row, query] and tokens[row, io] == batch.targets[row, query] == tokens[row, query + 1]
        assert (tokens[row] == tokens[row, s2]).sum() == 2 and (tokens[row, :s2] == tokens[row, s2]).sum() == 1
    found = labels(task, tokens)
    end = batch.loss_mask
    assert torch.equal(found["IO"][end], batch.targets[end]) and not torch.equal(found["S2"][end], batch.targets[end])


def test_inspect_and_the_explorer_take_a_set_where_a_text_stands(place: Path, tmp_path: Path) -> None:
    report = workbench.inspect(place, text="successors", n=8, only=["accuracy"], out=tmp_path / "report")
    assert "prompts of successors" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8") and report.says
    model = workbench.load_model(place, progress=False)
    assert TypedText.of(model, "successors").n_given == 64
    assert _opened(str(place), Path("successors")) == (str(place.resolve()), "successors")
    with pytest.raises(ValueError, match="leave length out"):
        file_sequences(model, "successors", length=8)


@needs_real_model
def test_a_small_language_model_answers_the_sets_and_moves_the_name(tmp_path: Path) -> None:
    model = workbench.load_model(real_model(tmp_path), progress=False)
    least = {
        "repeated-tokens": 0.9,
        "indirect-objects": 0.9,
        "greater-than": 0.8,
        "successors": 0.8,
        "acronyms": 0.9,
        "agreement": 0.85,
        "capitals": 0.9,
    }
    for name, share in least.items():
        drawn = prompt_set(name, model, n=64)
        assert Answers.of(Comparison(model.hooked(), drawn.pairs), drawn).preferred >= share * 64, name
    drawn = prompt_set("indirect-objects", model, n=16)
    comparison = Comparison(model.hooked(), drawn.pairs)
    grid = patch_grid(comparison, model.vocabulary.decode, comparison.of(drawn.control), method="estimate")
    path = [grid.positions[place.index] for place in grid.path[1:]]  # at the embedding the gradient misleads
    assert {*path} == {"S2", "end"} and path == sorted(path, key=["S2", "end"].index), "from S2 to the end"
    assert grid.heads and float(grid.heads[0].share.values) > 0.1
