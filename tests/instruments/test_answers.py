"""Instruments of answers: of the answer alone, of the loss, and of answers that the model writes itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from workbench import figures
from workbench.capture import DECODED, LOGITS, Capture, Subject, capture
from workbench.capture.store import CaptureStore
from workbench.cli import main
from workbench.inspection import hook_names, inspect_run
from workbench.instruments import accuracy, edit_distance, exact_match, loss, overall
from workbench.measurement.controls.mismatched import mismatched
from workbench.objectives import next_token
from workbench.report import inspect
from workbench.runs import Run
from workbench.runs.compiled import compile_run
from workbench.tasks import Batch, Task, make
from workbench.training import preset_config
from workbench.util.seeds import generator

NEW = ("exact_match", "edit_distance")


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("compiled") / "sorter", {"q": 6, "max_length": 6})


def blank(preset: str, **task: Any) -> tuple[workbench.Decoder, Subject]:
    """An untrained model of a preset."""
    config = preset_config(preset, {"task": task, "model": {"d_model": 16, "n_heads": 2}})
    model = workbench.Decoder(config.model, generator(0, "weights")).eval()
    return model, Subject.of(model, config.make_task(), "blank")


def oracle(task: Task, subject: Subject, wrong: Any) -> Capture:
    """A capture of logits that say every next token, but at the positions that `wrong` takes from a batch."""
    batch = task.sample(16, generator(0, "oracle"))
    said = torch.where(wrong(batch), (batch.targets + 1) % len(task.vocabulary), batch.targets)
    logits = torch.nn.functional.one_hot(said, len(task.vocabulary)).float()
    return Capture({LOGITS: logits}, batch, subject)


@pytest.mark.parametrize("preset", ["multiply-cot", "arithmetic-vanilla", "lis-vanilla"])
def test_accuracy_is_of_the_answer_alone_unless_all_is_asked_for(preset: str) -> None:
    more = {"min_operators": 2} if preset.startswith("arithmetic") else {}  # of one there is nothing to think
    _, subject = blank(preset, mode="chain_of_thought", **more)
    task = subject.task

    def thought(batch: Batch) -> torch.Tensor:
        return batch.loss_mask & ~task.answer_mask(batch)

    seen = oracle(task, subject, thought)
    assert (overall.measure(seen).values == 1).all() and "does not count" in overall.measure(seen).caption
    assert (overall.measure(seen, of="all").values[1] == 0).all()
    assert (overall.measure(seen, of="all").values[0] < 1).all()
    assert np.nanmin(accuracy.measure(seen).values) == 1
    if task.unit == "sequence":
        assert np.nanmax(accuracy.measure(seen, of="all").values) == 0
    answered = oracle(task, subject, task.answer_mask)
    assert (overall.measure(answered).values == 0).all() and np.nanmax(accuracy.measure(answered).values) == 0
    with pytest.raises(ValueError, match="of is 'answer' or 'all', not 'thought'"):
        overall.measure(seen, of="thought")  # type: ignore[arg-type]


def test_without_a_thought_there_is_one_reading() -> None:
    model, subject = blank("sort-standard")
    seen = capture(model, subject, subject.task.sample(8, generator(0)), [LOGITS])
    assert np.array_equal(overall.measure(seen).values, overall.measure(seen, of="all").values)
    assert "thought" not in overall.measure(seen).caption


@pytest.mark.parametrize(("preset", "task"), [("sort-standard", {}), ("chain-standard", {"reading": "chain"})])
def test_the_loss_of_each_sequence_is_the_objective_on_it_alone(preset: str, task: dict[str, Any]) -> None:
    model, subject = blank(preset, **task)
    batch = subject.task.sample(6, generator(0))
    measured = loss.measure(capture(model, subject, batch, [LOGITS]))
    for i in range(6):
        alone = next_token(model(batch.tokens[i : i + 1]), batch[i : i + 1]).item()
        assert measured.select(part="loss").values[i] == pytest.approx(alone, rel=1e-5)
    assert measured.coords["part"] == (["loss", "loss above its floor"] if task else ["loss"])
    if task:  # n=32, k=4: sets of 1 to 7 positions
        floor = measured.values[0] - measured.values[1]
        assert floor == pytest.approx(np.log(np.arange(1, 8)).mean(), rel=1e-6)


def test_a_sequence_without_a_scored_position_has_no_loss() -> None:
    model, subject = blank("sort-standard")
    batch = subject.task.sample(3, generator(0))
    batch.loss_mask[1] = False
    values = loss.measure(capture(model, subject, batch, [LOGITS])).values[0]
    assert np.isnan(values).tolist() == [False, True, False]


def test_a_sorter_writes_every_answer_right_and_those_of_others_wrong(sorter: Run) -> None:
    seen = inspect_run(sorter, n=24, seed=0, only=NEW)
    right, distance = seen["exact_match"], seen["edit_distance"]
    assert right.mean.dims == distance.mean.dims == ("length",) and (right.mean.units, distance.mean.units) == (
        "share",
        "tokens",
    )
    assert np.nanmin(right.mean.values) == 1 and np.nanmax(distance.mean.values) == 0
    others = right.controls["mismatched"].mean.values
    assert np.nanmax(others) < 0.7 and np.nanmax(distance.controls["mismatched"].mean.values) > 2
    assert set(right.controls) == {"mismatched"}
    # Without being asked for they are not measured: decoding takes a pass for every token.
    assert DECODED not in hook_names(Subject.of(sorter.model(), sorter.task(), "sorter"))


def test_decoded_answers_are_what_the_model_writes_hooked_or_not() -> None:
    model, subject = blank("sort-standard")
    batch = subject.task.sample(5, generator(0), length=7)
    said = model.generate(batch.tokens[:, :8], 7)[:, 8:]
    for same in (model, workbench.hook(model)):
        assert torch.equal(capture(same, subject, batch, [DECODED])[DECODED], said)
    seen = capture(model, subject, batch, [DECODED])
    wrong = (said != batch.tokens[:, 8:]).any(1).double().numpy()
    measured = exact_match.measure(seen)
    at = list(measured.coords["length"]).index(7)
    assert np.array_equal(measured.values[at], 1 - wrong) and np.isnan(np.delete(measured.values, at, 0)).all()
    assert (edit_distance.measure(seen).values[at] > 0).tolist() == wrong.astype(bool).tolist()


def test_tasks_that_group_positions_have_one_number_for_each_answer() -> None:
    model, subject = blank("multiply-vanilla")
    seen = capture(model, subject, subject.task.sample(5, generator(0)), [DECODED])
    assert exact_match.measure(seen).dims == edit_distance.measure(seen).dims == ("example",)


def test_what_cannot_be_decoded_says_why(tmp_path: Path) -> None:
    chains = blank("chain-standard")[1]
    assert "not continuations of its questions" in (exact_match.why_not(chains) or "")
    (tmp_path / "text.txt").write_text("words " * 100, encoding="utf-8")
    text = replace(chains, task=make("text", path=str(tmp_path / "text.txt"), block=16))
    assert "no question to continue" in (edit_distance.why_not(text) or "")
    sorts = replace(blank("sort-standard")[1], generate=None)
    assert "cannot decode" in (exact_match.why_not(sorts) or "")
    with pytest.raises(ValueError, match="blank cannot decode: its Subject has no `generate`"):
        capture(blank("sort-standard")[0], sorts, sorts.task.sample(2, generator(0)), [DECODED])
    assert exact_match.why_not(blank("boxes-standard")[1]) is None


def test_mismatched_answers_may_all_be_left_out() -> None:
    """Three sequences of three lengths: none has a partner."""
    model, subject = blank("sort-standard")
    parts = [subject.task.sample(1, generator(0), length=length) for length in (3, 5, 9)]
    batch = Batch.cat(parts, subject.task.pad)
    seen = mismatched(capture(model, subject, batch, [DECODED, LOGITS]), generator(1))
    assert exact_match.measure(seen).values.shape[-1] == edit_distance.measure(seen).values.shape[-1] == 0
    assert loss.measure(seen).values.shape == (1, 0)


def test_decoded_answers_can_be_kept_on_disk(tmp_path: Path) -> None:
    model, subject = blank("sort-standard")
    batches = [subject.task.sample(4, generator(i), length=length) for i, length in enumerate((3, 6))]
    store = CaptureStore.write(tmp_path / "store", model, subject, batches, [DECODED])
    for kept, batch in zip(store.captures(subject), batches, strict=True):
        now = capture(model, subject, batch, [DECODED])
        assert np.array_equal(exact_match.measure(kept).values, exact_match.measure(now).values, equal_nan=True)


def test_a_report_on_repeated_symbols_shows_decoded_answers_by_length(
    sorter: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report"
    wanted = ["--only", *NEW, "loss", "--conditions", "length=6,repeats=3", "length=4,repeats=2", "--out", str(out)]
    assert main(["inspect", str(sorter.path), "--n", "16", *wanted, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "exact match, decoded" in said and "edit distance, decoded (tokens)" in said and "test loss (nats)" in said
    assert [line.split()[:3] for line in said.splitlines() if line.startswith("  length")] == [
        ["length", "4", "100%"],
        ["length", "6", "100%"],
        ["length", "4", "0.00"],
        ["length", "6", "0.00"],
    ]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "per test condition (length=6,repeats=3; length=4,repeats=2)" in page and "<h2>Exact match by length" in page
    drawn = inspect_run(sorter, n=16, seed=0, only=["exact_match"], conditions=[{"length": 6, "repeats": 3}])
    assert all(len(set(row[:6].tolist())) == 2 for row in drawn.sample.tokens)
    figure = figures.draw("exact_match", {"sorter": drawn["exact_match"].mean}, {}, {})[0]
    assert figure.data[0].type == "scatter"


def test_a_condition_that_the_task_has_not_is_refused_before_anything_is_measured(sorter: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="test condition depth=3: sorting has no condition 'depth'"):
        inspect([sorter.path], out=tmp_path / "never", n=8, conditions=[{"length": 3}, {"depth": 3}])
    assert not (tmp_path / "never").exists()


def test_a_report_on_text_says_its_perplexity(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(" ".join(map(str, range(2000))), encoding="utf-8")
    task = {"name": "text", "path": str(tmp_path / "text.txt"), "block": 16}
    how = {"eval_size": 16, "batch_size": 4, "steps": 0, "model": {"d_model": 16, "n_heads": 2}}
    run = workbench.train("chain-standard", out=tmp_path / "run", progress=False, task=task, **how)
    report = inspect([run.path], n=8, only=["loss"])
    (line,) = [line for line in report.says.splitlines() if line.startswith("perplexity")]
    mean = report.inspected[0]["loss"].mean
    assert f"{np.exp(mean.values.item()):.2f} [{np.exp(mean.low.item()):.2f}" in line
