"""Questions out of the box: each can be asked of a run of its task, from Python and from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import workbench
from workbench.cli import main
from workbench.judgement.probed import Finding
from workbench.judgement.words import probes as words
from workbench.probes import PRESETS, applicable, ask
from workbench.probes.report import text
from workbench.runs import Run
from workbench.tasks import TASKS

SMALL: dict[str, dict[str, Any]] = {
    "boxes-standard": {"task": {"n_boxes": 3, "n_objects": 8, "max_operations": 3}},
    "boxes-chacal": {"task": {"name": "box_moves", "n_boxes": 3, "n_filled": 2, "max_moves": 5}},
    "chain-standard": {"task": {"n": 16, "k": 4}},
    "properties-chacal": {"task": {"n": 9, "k": 3}},
    "sort-standard": {"task": {"q": 9, "max_length": 5, "test_max_length": 6}},
    "multiply-pause": {},
    "increment-standard": {"model": {"n_layers": 2}},
    "arithmetic-vanilla": {},
    "lis-vanilla": {"task": {"length": 8, "values": 32}},
    "addition-grok": {},
    "induction-standard": {},
    "recall-standard": {},
    "s5-standard": {},
    "dyck-standard": {"task": {"length": 8, "depth": 2}},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """One of each task, hardly trained."""
    root = tmp_path_factory.mktemp("presets")
    made = {}
    for name, settings in SMALL.items():
        model = {"d_model": 32, "n_heads": 2, **settings.get("model", {})}
        fields = {**settings, "model": model, "steps": 20, "batch_size": 16, "eval_size": 32}
        run = workbench.train(name, out=root / name, progress=False, **fields)
        made[run.task().name] = run
    return made


@pytest.mark.parametrize("name", PRESETS)
def test_every_question_is_answered_of_every_task_that_it_is_about(name: str, runs: dict[str, Run]) -> None:
    for task in PRESETS[name].tasks or ("pointer_chain",):
        told: list[tuple[float, str]] = []
        answer = ask(runs[task], name, n=96, progress=lambda *news, told=told: told.append(news))
        labels = PRESETS[name].names(runs[task].task())
        assert answer.measured.coords["label"] == labels and labels
        assert {finding.label for finding in answer.findings} == set(labels)
        shares = [share for share, _ in told]
        assert shares == sorted(shares) and shares[0] >= 0 and shares[-1] < 1
        assert all(label.replace("_", " ") in text(answer) for label in labels)
        assert all(isinstance(finding, Finding) and words.STATUS[finding.status] for finding in answer.findings)


def test_several_seeds_are_taken_together_where_all_have_something_to_tell(runs: dict[str, Run]) -> None:
    found = ask(runs["multiplication"], "carry", n=64, seeds=2, causal=False).measured
    assert found.settings["seeds"] == 2 and found.n is not None and found.n.max() == 2
    assert "position" not in found.coords["place"] and 1 <= len(found.coords["place"]) <= 3


def test_every_task_but_text_has_a_question_of_its_own() -> None:
    asked = {task for preset in PRESETS.values() for task in preset.tasks}
    assert asked == set(TASKS) - {"text"}


def test_a_question_about_another_task_is_refused(runs: dict[str, Run]) -> None:
    with pytest.raises(ValueError, match=r"minimum is about sorting; of pointer_chain there is: hops, position"):
        ask(runs["pointer_chain"], "minimum")
    assert applicable(runs["sorting"].task()) == ["minimum", "successor", "copies", "position"]


def test_any_label_of_a_task_can_be_asked_for_where_one_likes(runs: dict[str, Run]) -> None:
    options: dict[str, Any] = {"n": 64, "causal": False}
    answer = ask(runs["sorting"], "identity", **options)
    assert [finding.label for finding in answer.findings] == ["identity"] and "identity" in answer.question
    scored = ask(runs["pointer_chain"], "root", positions="scored", **options)
    assert scored.measured.settings["positions"] == "scored"
    several = ask(runs["pointer_chain"], "ancestor_[12]", **options)
    assert several.measured.coords["label"] == ["ancestor_1", "ancestor_2"]


def test_the_command_line_says_and_writes_what_was_found(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = runs["sorting"], tmp_path / "out"
    other = shutil.copytree(run.path, tmp_path / "other" / run.path.name)
    assert main(["probe", str(run.path), str(other), "minimum", "--n", "64", "--quiet", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.count("Is the smallest symbol known at the delimiter?") == 2 and "- minimum: " in said
    assert {path.name for path in out.iterdir()} == {"probe.html", "probe.csv", "probe.parquet", "probe.json"}
    table = pd.read_parquet(out / "probe.parquet")
    names = {f"{path.parent.name}/{run.name}" for path in (run.path, other)}
    assert set(table["run"]) == names and {"label", "point", "condition", "value", "low", "high"} <= set(table)
    found = json.loads((out / "probe.json").read_text(encoding="utf-8"))
    assert [one["label"] for one in found["findings"]] == ["minimum", "minimum"]
    page = (out / "probe.html").read_text(encoding="utf-8")
    assert "Logistic probe for minimum, run by run" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["minimum", "--kind", "svm"], "unknown kind of probe 'svm'"),
        (["hops"], "there is: minimum, successor, copies, position"),
        (["minima"], "did you mean 'minimum'?"),
        (["minimum", "--l3", "1"], "no setting 'l3'"),
        (["minimum", "--step", "7"], "no checkpoint of step 7; there is: none"),
        (["minimum", "--positions", "each"], "minimum says itself where it reads; give positions for a label, such as"),
        (["identity", "--positions", "nowhere"], "there is no rule 'nowhere' for positions"),
        (["identiy"], "did you mean 'identity'?"),
        (["minimum", "--n", "1"], "at least 2 sequences and 1 seed, not n=1"),
    ],
)
def test_wrong_words_are_one_line_and_leave_nothing(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    out = tmp_path / "out"
    assert main(["probe", str(runs["sorting"].path), *arguments, "--quiet", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and not out.exists()


def test_a_folder_that_is_taken_is_left_alone(
    runs: dict[str, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["probe", str(runs["sorting"].path), "minimum", "--quiet", "--out", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err and [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_what_there_is_to_ask_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "probes"]) == 0
    said = capsys.readouterr().out
    assert all(name in said and preset.question in said for name, preset in PRESETS.items())
