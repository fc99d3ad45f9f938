"""A study trains what is missing, measures it once, and gives the same result however often it is stopped."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from workbench import studies
from workbench.cli import main
from workbench.inspection import found
from workbench.judgement.tuning import AS_PLANNED, Tried, Tuning
from workbench.judgement.verdict import ContrastKind, ContrastQuestion
from workbench.judgement.words.findings import statements
from workbench.judgement.words.studies import sentence, tuned
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import over_seeds
from workbench.runs import Run, load_run, scan_runs
from workbench.studies import (
    DAY,
    GPU,
    PAPER,
    SMALL,
    STUDIES,
    Engine,
    Higher,
    Outcome,
    Published,
    Reaches,
    Result,
    StaysBelow,
    Study,
    Verdict,
    collect,
    find_study,
    read_ledger,
    run_study,
    write_pages,
    zoo,
)
from workbench.studies.anew import judged_anew
from workbench.studies.drawing import Drawing
from workbench.studies.engine import MEASURED, RESULT, RUNS, TUNED, TUNING, group_name
from workbench.studies.figures import by_dim, by_group
from workbench.studies.ledger import index_page, keep_earlier, study_page
from workbench.studies.measures import AtCheckpoints, ByCondition, HalfRight, Inspect, Logged, OverTraining
from workbench.studies.result import differences
from workbench.studies.step_time import relative_step_times
from workbench.studies.stored import pack, read_json, unpack, write_json
from workbench.studies.tuning import Choices
from workbench.testing.questions import STUDY_CHECKS
from workbench.training import preset_config, train
from workbench.training.sweeps.plan import read_plan

LEDGER = Path(__file__).parents[2] / "docs" / "studies" / "ledger.json"
BOTH = (("weak", "chain-standard"), ("other", "chain-chacal"))

FILE = """
question = "Does the weight of further hops matter?"
measure = ["log.accuracy", "log.accuracy over training", "parameters", "overall"]
draw = "accuracy"
n = 8
seeds.small = 3

[because]
steps = "three steps are enough to see that it runs"

[runs.small]
preset = "chain-chacal"
[runs.small.settings]
task = { n = 8, k = 2 }
model = { d_model = 16, n_heads = 2 }
batch_size = 4
eval_size = 8
eval_every = 2
steps = 4
[runs.small.grid]
"model.attention.gamma" = [0.0, 0.9]

[runs.paper]
preset = "chain-chacal"
grid."model.attention.gamma" = [0.0, 0.9]

[[contrasts]]
quantity = "accuracy"
group = "chain-chacal, gamma 0.9"
than = "chain-chacal, gamma 0.0"

[[published]]
group = "chain-chacal, gamma 0.9"
quantity = "accuracy"
value = 1.0
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("strangers") / "hops.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def root(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of studies in which a stranger's study has run."""
    root = tmp_path_factory.mktemp("studies")
    assert main(["study", "run", str(file), "--root", str(root), "--quiet"]) == 0
    return root


def result(root: Path) -> dict[str, Any]:
    """A result without its date and commit."""
    data = json.loads((root / "hops" / SMALL / RESULT).read_text(encoding="utf-8"))
    return {name: value for name, value in data.items() if name != "made"}


def test_a_strangers_file_gives_runs_a_row_and_a_figure(root: Path, file: Path, tmp_path: Path) -> None:
    runs = scan_runs(root / "hops" / SMALL / RUNS)[0]
    assert len(runs) == 6 and all(run.finished for run in runs)
    assert main(["study", "report", str(file), "--root", str(root), "--out", str(tmp_path)]) == 0
    (row,) = read_ledger(tmp_path / "ledger.json")
    assert row.question == "Does the weight of further hops matter?"
    assert set(row.groups) == {"chain-chacal, gamma 0.0", "chain-chacal, gamma 0.9"}
    assert (tmp_path / "hops-small.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "hops.md").read_text(encoding="utf-8")
    assert "100%" in page and "three steps are enough" in page
    led = ("# ", "## Scale small: ", "![", "**accuracy", "\n3 seeds;", "| contrast", "## Ask it again")
    assert sorted(led, key=page.index) == [*led], "the figure and the sentence that decided come before the tables"
    assert f"\nworkbench study run {file.name}" in page, "there is no study of that name to run, but the file"
    assert "[Does the weight of further hops matter?](hops.md)" in (tmp_path / "index.md").read_text(encoding="utf-8")


def test_the_page_over_all_says_which_contrast_decided_and_how_many_hold(root: Path, file: Path) -> None:
    (row,) = collect(root, dict([find_study(str(file))]))
    verdicts = {"first": Verdict.HOLDS, "second": Verdict.OPEN, "third": Verdict.HOLDS}
    several = []
    for name, verdict in verdicts.items():
        asked = ContrastQuestion(kind=ContrastKind.HIGHER, quantity=name)
        several.append(row.outcomes[0].model_copy(update={"verdict": verdict, "asked": asked}))

    def told(outcomes: list[Outcome]) -> str:
        return index_page([replace(row, outcomes=outcomes)], {}).splitlines()[-1]

    mixed = told(several)
    assert "(hops.md)<br>second: " in mixed and mixed.endswith("| not settled; 2 of 3 hold |")
    assert "(hops.md)<br>first: " in told(several[::2])
    assert told(several[::2]).endswith("| holds |")
    assert told(several[1:2]).endswith("| not settled |")


def test_settings_that_were_tried_are_told_without_what_the_group_says() -> None:
    settings = (AS_PLANNED, "standard, steps 9, n_layers 2")
    tried = {"group": "standard, n_layers 2", "quantity": "accuracy", "settings": settings, "chosen": settings[1]}
    words = "standard, n_layers 2, accuracy: as planned; steps 9. Best: steps 9."
    assert tuned(Tried(**tried)) == words
    known = Tried(**tried, means=(0.5, 0.75), units="share")
    assert tuned(known) == words.replace("as planned;", "as planned (50%);").replace("; steps 9.", "; steps 9 (75%).")


def test_a_quantity_that_is_nowhere_defined_has_no_table(root: Path, file: Path) -> None:
    (row,) = collect(root, dict([find_study(str(file))]))
    nowhere = Measurement("share", np.full(3, np.nan), ("length",), {"length": [2, 3, 4]}, "share")
    some = replace(nowhere, name="found", values=np.array([np.nan, 0.5, np.nan]))
    groups = {group: {**own, "share": nowhere, "found": some} for group, own in row.groups.items()}
    study = replace(find_study(str(file))[1], runs_of="other")
    page = study_page([replace(row, groups=groups)], {"hops-small": []}, study)
    assert "share, by length" not in page and "| found, by length | 3 |\n" in page
    assert "those of `other`, where" in page


def test_the_ledger_tells_of_every_contrast_what_its_study_says_of_the_numbers() -> None:
    ledger = read_ledger(LEDGER)
    for row, kept in zip(keep_earlier([], ledger, STUDIES), ledger, strict=True):
        assert list(map(sentence, row.outcomes)) == list(map(sentence, kept.outcomes)), "the pages are of another rule"
        for contrast, outcome in zip(STUDIES[row.name].asked(row.scale), row.outcomes, strict=True):
            if not any(group.settings for group in outcome.groups):
                again = contrast.ask(row.groups)
                assert (sentence(outcome), outcome.verdict) == (sentence(again), again.verdict)


def test_rows_that_were_not_tuned_alike_are_marked_in_the_ledger_and_on_the_pages() -> None:
    for row in read_ledger(LEDGER):
        assert row.tuning is not None
        study, page = STUDIES[row.name], (LEDGER.parent / f"{row.name}.md").read_text(encoding="utf-8")
        to_tune = (row.scale != GPU and study.tuned(row.scale, [0])) or (row.scale == GPU and study.tune)
        assert row.tuning.stale == (bool(to_tune) and row.tuning is not Tuning.BEFORE)
        assert not row.tuning.stale or str(row.tuning).capitalize() in page


def test_a_result_of_an_earlier_version_is_judged_anew_from_its_numbers() -> None:
    """What was tuned after it had failed keeps its verdict, since the numbers of tuned groups were not kept."""
    each = {"weak": [0.1, 0.1, 0.2], "other": [0.9, 1.0, 1.0]}
    groups = {}
    for name, values in each.items():
        parts = [Measurement("accuracy", np.asarray(value), (), {}, "share") for value in values]
        groups[name] = {"accuracy": pack(replace(over_seeds(parts, [0, 1, 2]), low=np.array(0.9), high=np.array(0.9)))}
    outcome = {"verdict": "holds", "value": 0.8, "low": 0.7, "high": 0.9, "n": [3], "words": "of an earlier version"}
    tried = {"group": "weak", "quantity": "accuracy", "settings": [AS_PLANNED, "weak, steps 9"]}
    about = {"study": "two", "scale": SMALL, "question": "?", "source": None, "verdict": "holds", "seeds": 3}
    data = {**about, "groups": groups, "published": [], "differs": [], "made": {}, "contrasts": [outcome, outcome]}
    study = two(contrasts=[Reaches("accuracy", "weak", 0.99), Reaches("accuracy", "other", 0.95)])
    untouched = judged_anew(Result.from_dict({**data, "tried": []}), study)
    assert [one.verdict for one in untouched.outcomes] == [Verdict.FAILS, Verdict.OPEN]
    assert untouched.tuning is Tuning.NEVER and untouched.outcomes[1].reached == 2
    assert untouched.groups["weak"]["accuracy"].high is not None and untouched.groups["weak"]["accuracy"].high < 0.8
    tuned_once = judged_anew(Result.from_dict({**data, "tried": [{**tried, "chosen": "weak, steps 9"}]}), study)
    assert tuned_once.outcomes[0].verdict is Verdict.HOLDS and tuned_once.tuning is Tuning.ON_FAILURE
    assert sentence(tuned_once.outcomes[0]).startswith(
        "accuracy: 3 of 3 seeds of weak reach 99% (of all such seeds 29.2"
    )
    assert sentence(tuned_once.outcomes[0]).endswith("(with steps 9)")
    again = judged_anew(Result.from_dict(json.loads(json.dumps(tuned_once.to_dict()))), study)
    assert list(map(sentence, again.outcomes)) == list(map(sentence, tuned_once.outcomes))


def test_every_number_has_its_seeds_and_its_interval(root: Path) -> None:
    for own in Result.from_dict({**result(root), "made": {}}).groups.values():
        curves = {
            "accuracy over training",
            "whole_answer over training",
        }  # what tells that a run was stopped on the way
        assert set(own) == {"accuracy", "parameters", "overall", *curves}
        for name, mean in own.items():
            assert mean.each is not None and mean.each.shape == (*mean.values.shape, 3)
            if name == "parameters":  # the same for every seed
                continue
            assert mean.low is not None and mean.high is not None
            assert np.all(mean.low <= mean.values) and np.all(mean.values <= mean.high)


def test_settings_that_differ_from_the_papers_are_found_and_have_their_reason(root: Path) -> None:
    differs = {one["setting"]: one for one in result(root)["differs"]}
    assert differs["steps"] | {"ours": "4", "papers": "500"} == differs["steps"]
    assert differs["steps"]["why"] == "three steps are enough to see that it runs"
    assert "task.n" in differs and "seed" not in differs and "model.attention.gamma" not in differs


def test_nothing_is_trained_or_measured_again(root: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.stat().st_mtime_ns for path in (root / "hops" / SMALL).rglob("*") if path.is_file()}
    monkeypatch.setattr("workbench.studies.measures.inspect_run", None)
    assert main(["study", "run", str(file), "--root", str(root), "--quiet"]) == 0
    after = {path: path.stat().st_mtime_ns for path in (root / "hops" / SMALL).rglob("*") if path.is_file()}
    assert after == before


def test_runs_of_another_study_with_the_same_config_are_taken_over(root: Path, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "again.toml"
    other.write_text(FILE.replace("[0.0, 0.9]", "[0.5, 0.9]").replace("gamma 0.0", "gamma 0.5"), encoding="utf-8")
    stranger = root / "hops" / SMALL / RUNS / "chain-chacal-gamma=0.9-seed=0"
    assert stranger.is_dir()
    shutil.copytree(root, tmp_path / "studies")
    (tmp_path / "studies" / "hops" / SMALL / RUNS / "chain-chacal-gamma=0.9-seed=2" / "weights.safetensors").unlink()
    assert main(["study", "run", str(other), "--root", str(tmp_path / "studies"), "--quiet"]) == 0
    runs = tmp_path / "studies" / "again" / SMALL / RUNS
    assert {path.name for path in runs.glob("chain*")} == {
        f"chain-chacal-gamma={gamma}-seed={seed}" for gamma in (0.5, 0.9) for seed in range(3)
    }
    same = {  # the log has the seconds of every step, which no second training repeats
        path.name: (path / "metrics.jsonl").read_bytes() == (stranger.parent / path.name / "metrics.jsonl").read_bytes()
        for path in runs.glob("chain-chacal-gamma=0.9*")
    }
    assert same == {f"chain-chacal-gamma=0.9-seed={seed}": seed < 2 for seed in range(3)}  # the third was not finished
    found = json.loads((tmp_path / "studies" / "again" / SMALL / RESULT).read_text(encoding="utf-8"))
    ours, theirs = (data["groups"]["chain-chacal, gamma 0.9"] for data in (found, result(root)))
    assert ours == theirs
    assert found["made"]["minutes"] >= 0


def test_a_run_with_other_weights_is_measured_again(root: Path, file: Path) -> None:
    (kept, *_) = sorted((root / "hops" / SMALL / MEASURED).rglob("*.json"))
    before = kept.read_text(encoding="utf-8")
    data = json.loads(before)
    kept.write_text(json.dumps({**data, "of": "other weights", "quantities": {}}), encoding="utf-8")
    assert main(["study", "run", str(file), "--root", str(root), "--quiet"]) == 0
    assert kept.read_text(encoding="utf-8") == before


def test_damaged_measurements_are_made_again(root: Path, file: Path) -> None:
    expected = result(root)
    for path in (root / "hops" / SMALL / MEASURED).rglob("*.json"):
        path.write_text("{", encoding="utf-8")
    (root / "hops" / SMALL / RESULT).write_text("", encoding="utf-8")
    assert main(["study", "run", str(file), "--root", str(root), "--quiet"]) == 0
    assert result(root) == expected


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_result(root: Path, file: Path, tmp_path: Path) -> None:
    expected, random = result(root), np.random.default_rng(0)
    command = [sys.executable, "-m", "workbench", "study", "run", str(file), "--root", str(tmp_path), "--quiet"]
    for _ in range(10):
        process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(3, 20))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert subprocess.run(command, check=False).returncode == 0
    assert result(tmp_path) == expected


@pytest.mark.slow
def test_every_group_is_tuned_before_it_is_asked_on_seeds_of_its_own(tmp_path: Path) -> None:
    task = {"q": 8, "min_length": 2, "max_length": 4, "test_max_length": 5}
    study = Study(
        "Are two steps enough?",
        contrasts=[Reaches("accuracy", "sort-standard", 0.99, at={"length": 5})],
        draw=lambda groups: by_dim(groups, "accuracy", "Accuracy", "share right"),
        runs={SMALL: {"preset": "sort-standard", "settings": {**tiny(task=task), "eval_size": 64}}},
        measure=ByCondition(("accuracy",), "length", values=(2, 5), n=8),
        seeds={SMALL: 3},
        tune={"learning_rate": [1e-4, 1e-2]},
    )
    result = run_study(study, root=tmp_path, name="less", progress=False)
    assert result is not None and result.verdict is Verdict.FAILS and result.tuning is Tuning.BEFORE
    (tried,) = result.tried
    names = [f"sort-standard, learning_rate {rate}" for rate in ("0.0001", "0.01")]
    assert tried.settings == (AS_PLANNED, *names) and tried.means[tried.settings.index(tried.chosen)] == max(
        tried.means
    )
    assert tried.quantity == "accuracy, length 5"
    (group,) = result.outcomes[0].groups
    assert group.settings == ("" if tried.chosen == AS_PLANNED else tried.alone(tried.chosen))
    write_pages([result], {"less": study}, tmp_path / "pages")
    page = (tmp_path / "pages" / "less.md").read_text(encoding="utf-8")
    assert "Every group was tuned before it was asked, on seeds of its own:" in page
    assert "- sort-standard, accuracy, length 5: as planned (" in page and "; learning_rate 0.01 (" in page
    assert "| accuracy, by length | 2 | 5 |\n| --- | --- | --- |\n| sort-standard | " in page
    folders = {name: scan_runs(tmp_path / "less" / SMALL / name)[0] for name in (TUNING, RUNS, TUNED)}
    assert {run.config.seed for run in folders[TUNING]} == {1000, 1001, 1002} and len(folders[TUNING]) == 9
    asked = folders[RUNS] + folders[TUNED]
    assert {run.config.seed for run in asked} == {0, 1, 2} and len(asked) == 3


def tiny(**changes: Any) -> dict[str, Any]:
    """Settings with which a preset trains in a second."""
    model = {"d_model": 16, "n_heads": 2}
    return {"model": model, "batch_size": 4, "eval_size": 8, "steps": 2, **changes}


SORTERS = (("one", "sort-standard"), ("other", "sort-tempered"))


def pretend(monkeypatch: pytest.MonkeyPatch, accuracy: Any) -> list[tuple[str, str]]:
    """Runs that are not trained, with the accuracy that a function of their config gives; what was to be trained."""
    made: list[tuple[str, str]] = []

    def trained(engine: Engine, planned: Any, folder: Path, spare_failed: bool = False) -> Any:
        made.extend((folder.name, one.name) for one in planned)
        return [
            (one, {"accuracy": Measurement("accuracy", np.asarray(accuracy(one)), (), {}, "share")}) for one in planned
        ]

    monkeypatch.setattr(Engine, "_trained", trained)
    return made


def two(**changes: Any) -> Study:
    """A study of two variants, each with one more learning rate to try."""
    fields: dict[str, Any] = {
        "question": "Is the weak one weaker?",
        "contrasts": [Higher("accuracy", "other", "weak")],
        "draw": lambda groups: by_group(groups, "accuracy", "Accuracy"),
        "runs": {SMALL: {"variants": [{"name": name, "preset": preset} for name, preset in BOTH]}},
        "measure": Logged(("accuracy",)),
        "seeds": {SMALL: 5},
        "tune": {"learning_rate": [0.5]},
    }
    return Study(**fields | changes)


def test_a_claim_that_holds_as_planned_is_asked_of_both_groups_at_their_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what failed used to be tuned: with a rate that suits one group alone, the claim held."""
    made = pretend(monkeypatch, lambda one: 1.0 if one.config.learning_rate == 0.5 or one.variant == "other" else 0.1)
    result = run_study(two(), root=tmp_path, name="two", progress=False)
    assert result is not None and result.verdict is Verdict.OPEN
    assert [group.settings for group in result.outcomes[0].groups] == ["", "learning_rate 0.5"]
    assert float(result.groups["weak"]["accuracy"].values) == 1.0
    folders = [folder for folder, _ in made]
    assert [folders.count(name) for name in (TUNING, RUNS, TUNED)] == [12, 5, 5]
    assert folders == sorted(folders, key=[TUNING, RUNS, TUNED].index), "what is asked waits for what is chosen"
    seeds = {
        folder: {name.partition("seed=")[2].partition("-")[0] for kept, name in made if kept == folder}
        for folder in folders
    }
    assert not seeds[TUNING] & (seeds[RUNS] | seeds[TUNED])


def test_chance_on_the_tuning_seeds_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rates of which none matters: asked on the same seeds, the best of each would look better than it is."""
    noise = np.random.default_rng(0)
    kept: dict[str, float] = {}
    pretend(monkeypatch, lambda one: kept.setdefault(f"{one.name}", 0.5 + 0.1 * noise.standard_normal()))
    study = two(tune={"learning_rate": [0.1, 0.2, 0.3, 0.4]}, seeds={SMALL: 5})
    gains = []
    for again in range(12):
        kept.clear()
        result = run_study(study, root=tmp_path, name=f"again{again}", progress=False)
        assert result is not None
        gains += [float(result.groups[name]["accuracy"].values) - 0.5 for name in ("weak", "other")]
    assert abs(np.mean(gains)) < 0.03  # as by chance; the best of five on three seeds is .06 too high there


def test_the_least_is_best_where_the_study_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, lambda one: 0.9 if one.config.learning_rate == 0.5 else 0.2)
    for less, chosen in ((("accuracy",), AS_PLANNED), ((), "weak, learning_rate 0.5")):
        study = two(less_is_better=less)
        result = run_study(study, root=tmp_path, name=f"less{len(less)}", progress=False)
        assert result is not None and {one.group: one.chosen for one in result.tried}["weak"] == chosen


def test_each_group_is_tuned_at_the_place_where_the_contrast_asks_for_it() -> None:
    by_length = [
        Measurement("accuracy", np.array(values), ("length",), {"length": [2, 5]}, "share")
        for values in ((0.9, 0.1), (0.8, 0.2))
    ]
    candidates = {
        group: {AS_PLANNED: {"accuracy": by_length[0]}, "else": {"accuracy": by_length[1]}}
        for group in ("one", "other")
    }
    contrast = Higher("accuracy", "one", "other", at={"length": 5}, than_at={"length": 2})
    choices = Choices.of([contrast], candidates, less=())
    assert choices.of_contrast(contrast) == {"one": "else", "other": AS_PLANNED}
    assert [one.quantity for one in choices.tried.values()] == ["accuracy, length 5", "accuracy, length 2"]
    same = Higher("accuracy", "one", "one", at={"length": 5}, than_at={"length": 2})  # one model at two places
    assert Choices.of([same], candidates, less=()).of_contrast(same) == {"one": "else"}


def test_a_study_says_how_many_runs_it_tunes_with_before_it_trains_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, lambda one: 0.5)
    monkeypatch.setattr(studies, "STUDIES", {"two": two()})
    code, text = said(capsys, "run", "two", "--root", str(tmp_path))
    assert code == 0
    assert text.splitlines()[-1].startswith(
        "workbench: two: 12 runs choose each group's settings, then about 10 are asked"
    )
    assert "; before them 12 runs that choose each group's settings" in said(capsys, "show", "two")[1]


def test_groups_without_a_contrast_are_not_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pretend(monkeypatch, lambda one: 0.5)
    run_study(two(contrasts=[Reaches("accuracy", "weak", 1.0)]), root=tmp_path, name="one", progress=False)
    assert {name.partition("-")[0] for folder, name in made if folder == TUNING} == {"weak"}
    assert {name.partition("-")[0] for folder, name in made if folder == RUNS} == {"weak", "other"}


@pytest.mark.slow
def test_a_study_of_anothers_runs_tunes_in_its_own_folder_and_takes_the_lowest_loss(tmp_path: Path) -> None:
    study = Study(
        "Is the loss below nothing?",
        contrasts=[StaysBelow("loss", "chain-chacal", 0.0)],
        draw=lambda groups: by_group(groups, "loss", "Loss"),
        runs={SMALL: {"preset": "chain-chacal", "settings": tiny(task={"n": 8, "k": 2}, steps=8)}},
        measure=Logged(("loss",)),
        seeds={SMALL: 3},
        runs_of="first",
        tune={"learning_rate": [1e-6, 1e-2]},
        less_is_better=("loss",),
        timed="chain-chacal",
    )
    result = run_study(study, root=tmp_path, name="second", progress=False)
    assert result is not None and result.verdict is Verdict.FAILS
    assert result.made["step_times"] == {"chain-chacal": 1.0}
    assert not (tmp_path / "first" / SMALL / TUNING).exists() and not (tmp_path / "first" / SMALL / TUNED).exists()
    runs = scan_runs(tmp_path / "second" / SMALL / TUNING)[0]
    losses: dict[float, list[float]] = {}
    for run in runs:
        losses.setdefault(run.config.learning_rate, []).append(run.metrics()["loss"].dropna().iloc[-1])
    best = min(losses, key=lambda rate: np.mean(losses[rate]))
    (tried,) = result.tried
    assert len(runs) == 9 and min(tried.means) == pytest.approx(np.mean(losses[best]))
    asked = [*(tmp_path / "first" / SMALL / RUNS).glob("chain*"), *(tmp_path / "second" / SMALL / TUNED).glob("chain*")]
    assert {load_run(path).config.learning_rate for path in asked} == {best}


def test_a_deeper_model_takes_longer_for_a_step() -> None:
    configs = {
        name: preset_config("chain-standard", tiny(task={"n": 16, "k": 2}, model={"n_layers": layers}))
        for name, layers in (("flat", 1), ("deep", 6))
    }
    times = relative_step_times(configs, "flat")
    assert times["flat"] == 1.0 and times["deep"] > 1.5


def test_a_study_with_two_figures_has_two_pictures_on_its_page(tmp_path: Path) -> None:
    def draw(groups: Any) -> Any:
        return by_group(groups, "accuracy", "Accuracy")

    study = Study(
        "Is it drawn twice?",
        contrasts=[StaysBelow("accuracy", "chain-chacal", 1.0)],
        draw=(draw, draw),
        runs={SMALL: {"preset": "chain-chacal", "settings": tiny(task={"n": 8, "k": 2})}},
        measure=Logged(("accuracy",)),
    )
    made = run_study(study, root=tmp_path, name="twice", seeds=1, progress=False)
    assert made is not None
    write_pages([made], {"twice": study}, tmp_path / "pages")
    page = (tmp_path / "pages" / "twice.md").read_text(encoding="utf-8")
    assert "\nworkbench study run twice --seeds 1\n" in page, "the study's own number is another one"
    for name in ("twice-small.png", "twice-small-2.png"):
        assert f"({name})" in page and (tmp_path / "pages" / name).is_file()


def test_a_file_may_have_scales_of_its_own(
    root: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "hops.toml"
    own.write_text(FILE.replace("[runs.paper]", "[runs.medium]"), encoding="utf-8")
    code, text = said(capsys, "show", str(own))
    assert code == 0 and "small: 6 runs, 3 seeds" in text and "medium: 10 runs, 5 seeds" in text
    studies = dict([find_study(str(own))])
    (small,) = collect(root, studies)
    for one in (replace(small, scale="medium", seeds=5), small):
        path = tmp_path / "hops" / one.scale / RESULT
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(one.to_dict()), encoding="utf-8")
    found = collect(tmp_path, studies)
    assert [one.scale for one in found] == ["small", "medium"]
    earlier = [replace(small, scale="large"), replace(small, scale="medium", seeds=1)]
    kept = keep_earlier(found, earlier, studies)
    assert [(one.scale, one.seeds) for one in kept] == [("small", 3), ("medium", 5), ("large", 3)]
    index = index_page(kept, studies)
    assert index.index("| small | 3 |") < index.index("| medium | 5 |") < index.index("| large | 3 |")


@pytest.mark.slow
def test_a_report_keeps_the_results_of_an_earlier_ledger(root: Path, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(FILE.replace("Does the weight", "Once more: does the weight"), encoding="utf-8")
    (earlier,) = collect(root, dict([find_study(str(file))]))
    elsewhere = Published("chain-chacal, gamma 0.0", "accuracy over training", 1.0, {"step": 999})
    assert earlier.number(elsewhere) is None  # a length or step that this scale does not have
    write_pages([replace(earlier, name="other")], dict([find_study(str(other))]), tmp_path)
    report = ["study", "report", str(file), "--root", str(root), "--out", str(tmp_path)]
    assert main(report) == 2  # what `other` draws is not known without its file
    assert main([*report, str(other)]) == 0
    assert [one.name for one in read_ledger(tmp_path / "ledger.json")] == ["hops", "other"]
    assert "(`chain-hops`)" in (tmp_path / "index.md").read_text(encoding="utf-8")


def test_a_measure_by_a_condition_and_one_over_checkpoints(tmp_path: Path) -> None:
    settings = tiny(task={"q": 8, "max_length": 4, "test_max_length": 8}, checkpoint_count=2)
    run = train("sort-standard", out=tmp_path / "run", progress=False, **settings)
    repeats = ByCondition(("accuracy",), "repeats", values=(1, 2), times_longest=2, n=8)(run)["accuracy"]
    assert repeats.dims == ("repeats",) and list(repeats.coords["repeats"]) == [1, 2]
    lengths = ByCondition(("accuracy",), "length", n=8)(run)["accuracy"]
    assert list(lengths.coords["length"]) == [one["length"] for one in run.task().conditions]
    moments = AtCheckpoints(Inspect(("entropy",), n=4))(run)["entropy over training"]
    assert moments.dims[0] == "step" and list(moments.coords["step"]) == [*run.checkpoints()[:-1], 2]
    assert np.isfinite(moments.values).all()
    minimum = Inspect(("minimum",), n=8, settings={"minimum": {"layer": 1}}, suffix=" later", controls=("mismatched",))
    assert set(minimum(run)) == {"minimum later", "minimum later, mismatched"}


@pytest.mark.parametrize(
    ("right", "length"),
    [
        ((1.0, 0.9, 0.7, 0.3, 0.6), 25.0),  # half way from 0.7 to 0.3; what comes back later does not count
        ((1.0, 0.5, 0.5, 0.49, 0.0), 20.0),
        ((0.4, 1.0, 1.0, 1.0, 1.0), 0.0),
        ((1.0, 0.9, 0.8, 0.7, 0.6), 40.0),  # the longest that was tested
        ((1.0, math.nan, 0.7, math.nan, 0.3), 30.0),  # lengths that were not tested
    ],
)
def test_the_length_up_to_which_half_are_right(right: tuple[float, ...], length: float, tmp_path: Path) -> None:
    run = train("sort-standard", out=tmp_path / "run", progress=False, **tiny())
    tested = {"length": [2, 10, 20, 30, 40]}
    accuracy = Measurement("accuracy", np.array(right), ("length",), tested, "share")
    measured = HalfRight(lambda _: {"accuracy": accuracy})(run)  # type: ignore[arg-type]
    assert measured["half right up to"].values == pytest.approx(length) and measured["accuracy"] is accuracy


def test_the_curve_of_a_run_that_reached_what_was_wanted_goes_on_to_the_end(tmp_path: Path) -> None:
    settings = tiny(steps=10, eval_every=2, stop_at=0.0001)
    run = train("chain-chacal", out=tmp_path / "run", progress=False, **settings)
    assert run.step() == 2
    curve = OverTraining()(run)["accuracy over training"]
    assert list(curve.coords["step"]) == [2, 4, 6, 8, 10] and len(set(curve.values)) == 1
    often = train("chain-chacal", out=tmp_path / "often", progress=False, **tiny(steps=90, eval_every=1, eval_size=4))
    steps = OverTraining()(often)["accuracy over training"].coords["step"]
    assert list(steps) == list(range(3, 91, 3))


# The zoo


def test_the_zoo_is_put_together_from_finished_runs(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "EXHIBITS", {"chain": zoo.Exhibit("hops", "chain-chacal-gamma=0.9-seed=0", 2)})
    monkeypatch.setattr(found, "PARTS", (("", {"only": ["overall"], "causal": False}),))  # in no time
    assert main(["study", "zoo", "--root", str(root), "--out", str(tmp_path / "zoo")]) == 0
    runs = {run.name: run for run in scan_runs(tmp_path / "zoo")[0]}
    assert set(runs) == {"chain", *zoo.COMPILED}
    source = load_run(root / "hops" / SMALL / RUNS / "chain-chacal-gamma=0.9-seed=0")
    for own, theirs in zip(runs["chain"].model().parameters(), source.model().parameters(), strict=True):
        assert torch.equal(own, theirs)
    assert runs["chain"].metrics().equals(source.metrics())
    said = {name: statements(found.kept(run).findings)[0].text for name, run in runs.items()}
    assert said["chain"].startswith("chain gets ")


def test_a_zoo_without_its_runs_says_which_study_trains_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = said(capsys, "zoo", "--root", str(tmp_path))
    assert code == 2 and "`workbench study run chain-layers` trains it" in text
    elsewhere = zoo.Exhibit("box-moves", "standard-seed=0-n_layers=2", 1, DAY)
    with pytest.raises(ValueError, match="`workbench study run box-moves --scale day` trains it"):
        zoo._finished(tmp_path, elsewhere)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("exhibit", zoo.EXHIBITS.values(), ids=lambda one: f"{one.study} {one.run}")
def test_every_exhibit_is_a_run_of_its_study(exhibit: zoo.Exhibit) -> None:
    study = STUDIES[exhibit.study]
    plan = read_plan(study.plan(exhibit.scale, study.seeds[exhibit.scale]))
    planned = {one.name: one.config for one in plan.runs}
    assert exhibit.run in planned
    assert exhibit.checkpoints == 0 or planned[exhibit.run].checkpoint_count or planned[exhibit.run].checkpoint_every


def test_measurements_survive_the_file() -> None:
    one = Measurement("accuracy", np.array([0.25, np.nan]), ("length",), {"length": [2, 5]}, "share", {"model": "a"})
    mean = over_seeds([one, one, one], [0, 1, 2])
    back = unpack(json.loads(json.dumps(pack(mean))))
    assert (back.name, back.dims, back.units, back.coords) == (mean.name, mean.dims, mean.units, mean.coords)
    for name in ("values", "low", "high", "n", "each"):
        np.testing.assert_allclose(getattr(back, name), getattr(mean, name), rtol=1e-7, equal_nan=True)


# Studies of the papers


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_keeps_its_contract(name: str) -> None:
    for check in STUDY_CHECKS:
        check(name)


OF_OUR_OWN = ("sorting-width", "box-moves", "auxiliary-targets")  # questions whose runs no paper has
OF_THE_PAPERS = [name for name in STUDIES if name not in OF_OUR_OWN]


@pytest.mark.parametrize("name", OF_THE_PAPERS)
def test_every_study_of_the_papers_has_both_scales_and_says_why_they_differ(name: str) -> None:
    study = STUDIES[name]
    assert study.source is not None and all(n >= 3 for n in study.seeds.values())
    if study.runs:
        unpublished = {"property-heads", "state-tracking"}  # whose configurations no paper gives
        assert set(study.runs) - {DAY, GPU} == ({SMALL} if name in unpublished else {SMALL, PAPER})
        for scale in study.runs:
            planned = read_plan(study.plan(scale, 1)).runs
            assert not [one.setting for one in differences(study, scale, planned) if not one.why]
            assert study.timed is None or study.timed in {group_name(one) for one in planned}


@pytest.mark.parametrize("name", [name for name in OF_THE_PAPERS if STUDIES[name].runs])
def test_before_a_trained_claim_is_asked_other_settings_are_tried(name: str) -> None:
    study = STUDIES[name]
    planned = [one.config for one in read_plan(study.plan(SMALL, 1)).runs]
    assert study.tune and all(
        getattr(config, setting) not in values for setting, values in study.tune.items() for config in planned
    )


def test_studies_that_share_runs_ask_for_the_same_ones() -> None:
    for study in STUDIES.values():
        if study.runs_of is not None:
            assert study.runs == STUDIES[study.runs_of].runs and study.seeds == STUDIES[study.runs_of].seeds


def test_the_sorter_written_by_hand_sorts_in_every_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.studies.papers.sorting_by_hand.N", 8)
    result = run_study("sorting-by-hand", root=tmp_path, progress=False)
    assert result is not None and result.verdict is Verdict.HOLDS


# What is said


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["study", *words])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_the_list_and_one_study_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(capsys, "list")
    assert code == 0 and all(name in text for name in STUDIES)
    code, text = said(capsys, "show", "chain-layers")
    assert code == 0 and "20 runs, 5 seeds" in text and "gpu: 18 runs, 3 seeds" in text and "Table 1" in text


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["run"], "name a study"),
        (["run", "chain-layer"], "did you mean 'chain-layers'"),
        (["run", "chain-layers", "--scale", "huge"], "no scale 'huge'; there is: small, gpu, paper"),
        (["run", "property-heads", "chain-hops", "--scale", "gpu"], "property-heads: no scale 'gpu'; there is: small"),
        (["run", "--all", "--scale", "huge"], "chain-layers: no scale 'huge'; there is: small, gpu, paper"),
        (["run", "chain-layers", "--all"], "--all runs more than chain-layers"),
        (["run", "chain-layers", "--seeds", "0"], "seeds must be at least 1, not 0"),
        (["run", "data-statistics", "--seeds", "0"], "seeds must be at least 1, not 0"),
        (["run", "finetuned-perplexity", "--seeds", "0"], "seeds must be at least 1, not 0"),
        (["run", "finetuned-perplexity", "--workers", "-1"], "workers must be at least 1, not -1"),
        (["run", "finetuned-perplexity", "--workers", "100000"], "workers=100000 are too many for"),
        (["run", "data-statistics", "--scale", "gpu"], "data-statistics: no scale 'gpu'; there is: small, paper"),
        (["run", "nowhere.toml"], "there is no study file nowhere.toml"),
        (["report", "--root", "nowhere"], "no study under nowhere has run"),
        (["dance"], "invalid choice"),
    ],
)
def test_wrong_words_are_one_line(
    words: list[str], answer: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text = said(capsys, *words)
    assert code == 2 and answer in text and text.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_all_leaves_out_what_has_no_such_scale_and_goes_on_after_a_failure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is said before anything is trained: the first study without the scale came after hours of training."""
    tuned, counted = STUDIES["finetuned-perplexity"], STUDIES["data-statistics"]

    def fails(*_: Any) -> Any:
        raise RuntimeError("seed=0 failed: its process was killed by SIGKILL")

    def refuses(*_: Any) -> Any:
        raise ValueError("seed=0 holds another run")

    broken, stale = (replace(counted, compute=compute) for compute in (fails, refuses))
    monkeypatch.setattr(
        studies,
        "STUDIES",
        {"broken": broken, "tuned": tuned, "heads": STUDIES["property-heads"], "stale": stale, "counted": counted},
    )
    code, text = said(capsys, "run", "--all", "--scale", "paper", "--root", str(tmp_path), "--quiet")
    lines = text.splitlines()
    assert code == 1 and lines[0].startswith("counted, paper: holds")
    assert lines[-5:] == [
        "workbench: left out tuned: at scale paper it fine-tunes a model of yours, such as GPT-2; give --model",
        "workbench: left out heads: no scale 'paper'; there is: small",
        "workbench: broken: seed=0 failed: its process was killed by SIGKILL; the other studies go on",
        "workbench: stale: seed=0 holds another run; the other studies go on",
        "workbench: failed: broken, stale; the same command tries again",
    ]
    code, text = said(capsys, "run", "broken", "--scale", "paper", "--root", str(tmp_path), "--quiet")
    assert code == 1 and text == "workbench: seed=0 failed: its process was killed by SIGKILL\n"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("question = 'x?'", "measure"),
        ("question = ", "is not TOML"),
        (FILE.replace('than = "chain-chacal, gamma 0.0"', 'than = "chain-chacal, gamma 0"'), "own.toml: unknown group"),
        (
            FILE.replace('draw = "accuracy"', 'draw = "nothing"'),
            "own.toml: unknown quantity 'nothing'; there is: accuracy,",
        ),
        (FILE.replace('draw = "accuracy"', 'draw = "log.accuracy"'), "(did you mean 'accuracy'?)"),
        (FILE.replace('quantity = "accuracy"\ngroup', 'quantity = "loss"\ngroup'), "own.toml: unknown quantity 'loss'"),
        (FILE.replace('"overall"]', '"overal"]'), "own.toml: unknown instrument or mechanism 'overal'"),
        (FILE.replace("seeds.small = 3", "seeds.smal = 3"), "seeds are given for scale 'smal'; runs has: small, paper"),
        ("question='x?'\nmeasure=['overall']\ndraw='overall'\n[runs.small]\npreset='no'\n", "unknown preset 'no'"),
        (
            "question='x?'\nmeasure=['overall']\ndraw='a'\n[runs.small]\npreset='chain-chacal'\n"
            "[[contrasts]]\nquantity='a'\ngroup='b'\n",
            "one of than, reaches and stays_below",
        ),
    ],
)
def test_a_wrong_file_is_one_line(text: str, answer: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    code, words = said(capsys, "run", str(path), "--root", str(tmp_path / "studies"), "--quiet")
    assert code == 2 and answer in words and words.count("\n") == 1
    assert not (tmp_path / "studies").exists()


def test_a_file_named_like_a_study_of_the_papers_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "chain-layers.toml"
    path.write_text(FILE, encoding="utf-8")
    code, words = said(capsys, "run", str(path), "--root", str(tmp_path / "studies"), "--quiet")
    assert code == 2 and "has the name of a study of the papers" in words and not (tmp_path / "studies").exists()


def test_a_result_that_cannot_be_drawn_is_named_and_the_other_pages_are_written(
    root: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`draw` names a figure that these runs do not log."""
    own = tmp_path / "my hops.toml"
    drawn = FILE.replace('draw = "accuracy"', 'draw = "accuracies"').replace(
        "measure = [", 'measure = ["log.accuracies", '
    )
    own.write_text(drawn, encoding="utf-8")
    (tmp_path / "my hops").mkdir()
    shutil.copytree(root / "hops", tmp_path / "my hops", dirs_exist_ok=True)
    shutil.copytree(root / "hops", tmp_path / "hops")
    why = "cannot be drawn: unknown quantity 'accuracies' (did you mean 'accuracy'?)"
    code, text = said(capsys, "run", str(own), "--root", str(tmp_path), "--quiet")
    assert code == 2 and why in text and text.count("\n") == 1 and "result.json" in text
    code, text = said(capsys, "report", str(own), str(file), "--root", str(tmp_path), "--out", str(tmp_path / "pages"))
    assert code == 2 and f"my hops, small, {why}" in text
    assert "![" in (tmp_path / "pages" / "hops.md").read_text(encoding="utf-8")
    assert "![" not in (tmp_path / "pages" / "my hops.md").read_text(encoding="utf-8")
    assert "(my%20hops.md)" in (tmp_path / "pages" / "index.md").read_text(encoding="utf-8")


def test_a_quantity_is_drawn_as_its_dims_ask(root: Path, file: Path) -> None:
    (one,) = collect(root, dict([find_study(str(file))]))
    drawn = {name: Drawing(quantity=name)(one.groups) for name in ("accuracy", "overall", "accuracy over training")}
    assert [figure.data[0].type for figure in drawn.values()] == ["bar", "scatter", "scatter"]
    assert drawn["accuracy over training"].layout.xaxis.title.text == "training step"
    assert Drawing(quantity="overall", at={"unit": "last"})(one.groups).data[0].type == "bar"
    with pytest.raises(ValueError, match="overall has the dims unit: say at which coordinates"):
        by_group(one.groups, "overall", "")


OWN = """
from dataclasses import dataclass
from functools import partial

from workbench.studies.measures import Logged, Together

N = 64


@dataclass(frozen=True)
class Mine:
    n: int = N

    def __call__(self, run):
        return {}


def outer(k):
    def inner(run):
        return {str(each) for each in range(k)} and inner
    return inner


TOGETHER = Together((Logged(("loss",)), outer(3), lambda run: [x for x in run]))
MEASURES = [outer(N), partial(outer(2), N), Mine(), TOGETHER]
"""


def test_a_measure_is_known_again_in_another_process_until_its_file_changes(tmp_path: Path) -> None:
    """Where its text held an address, everything was measured again on every start."""
    own = tmp_path / "own.py"
    told = "import runpy, sys; from workbench.studies.code_of import described\n"
    told += "print(*map(described, runpy.run_path(sys.argv[1])['MEASURES']), sep='\\n')"

    def described_there(text: str) -> list[str]:
        own.write_text(text, encoding="utf-8")
        return subprocess.check_output([sys.executable, "-c", told, str(own)], text=True).splitlines()

    before = described_there(OWN)
    assert len({*before}) == 4 and before == described_there(OWN)
    changed = described_there(OWN.replace("range(k)", "range(k + 1)"))
    assert not {*before} & {*changed}


@pytest.mark.parametrize("name", ["weights.safetensors", "config.json", "metrics.jsonl"])
def test_a_run_is_measured_again_when_any_of_its_files_changed(root: Path, name: str, tmp_path: Path) -> None:
    """The same weights may come of another log: evaluated on more sequences, or more often."""
    run = next(iter(scan_runs(root / "hops" / SMALL / RUNS)[0]))
    shutil.copytree(run.path, tmp_path / "run")
    engine = Engine("hops", STUDIES["chain-layers"], SMALL, 3, tmp_path, tmp_path)
    before = engine._mark(load_run(tmp_path / "run"))
    assert before == engine._mark(run)
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes() + b" ")
    assert engine._mark(replace(run, path=tmp_path / "run")) != before


def test_each_seed_is_tested_on_sequences_of_its_own(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval over seeds that counts the sequences of all of them would else count the same ones again."""
    drawn: dict[int, int] = {}

    def inspect(run: Run, *, seed: int, **_: Any) -> dict[str, Any]:
        drawn[run.config.seed] = seed
        return {}

    monkeypatch.setattr("workbench.studies.measures.inspect_run", inspect)
    for run in scan_runs(root / "hops" / SMALL / RUNS)[0]:
        Inspect(("overall",), seed=5)(run)
    assert drawn == {0: 5, 1: 6, 2: 7}


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path: Path) -> None:
    lengths = {"length": tuple(np.arange(1, 4))}
    measured = Measurement("m", np.array([0.1, 0.2, 0.3]), ("length",), lengths, "share", {})
    write_json(tmp_path / "m.json", pack(measured))
    assert float(unpack(read_json(tmp_path / "m.json")).select(length=3).values) == 0.3


def test_no_page_tells_twice_of_a_group_whose_settings_were_tried() -> None:
    for page in LEDGER.parent.glob("*.md"):
        tried = [line for line in page.read_text().splitlines() if line.startswith("- ") and ". Best: " in line]
        assert len(tried) == len(set(tried)), page.name


def test_a_line_over_hook_points_calls_them_by_their_names() -> None:
    places = ["blocks.0.hook_resid_mid", "blocks.1.hook_attn_out"]
    measured = Measurement("copy", np.array([1.0, 0.5]), ("point",), {"point": places}, "share", {"seeds": [0]})
    figure = by_dim({"plain": {"copy": measured}}, "copy", "Copies", "share")
    assert list(figure.data[-1].x) == ["after attention 0", "attention 1's write"]
