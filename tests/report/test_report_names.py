"""Every group of seeds has its own name, its own line and its own files, whatever its runs are called."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

import workbench
from workbench.figures.style import framed
from workbench.inspection.seed_groups import _group_names, seed_groups
from workbench.report import inspect
from workbench.report.figure_files import stems, write_figures
from workbench.report.sections import Section
from workbench.training import preset_config
from workbench.training.sweeps.plan import read_plan
from workbench.util.lookup import check_told_apart, tell_apart

TINY: dict[str, Any] = {"task": {"n": 8, "k": 2}, "batch_size": 4, "eval_size": 8, "steps": 2, "warmup": 0}
SMALL = {"d_model": 16, "n_heads": 2}


def groups(**runs: tuple[str, dict[str, Any]]) -> list[list[Any]]:
    """Groups of two seeds: (name with a place for the seed, settings) each."""
    return [
        [SimpleNamespace(name=name.format(seed), run=SimpleNamespace(config=config(seed, changes))) for seed in (0, 1)]
        for name, changes in runs.values()
    ]


def config(seed: int, changes: dict[str, Any]) -> Any:
    return preset_config("chain-standard", {"seed": seed, **changes})


def layers(n: int, **model: Any) -> dict[str, Any]:
    return {"model": {"n_layers": n, **model}}


def test_a_sweep_over_seeds_and_layers_keeps_every_group_in_figures_files_and_table(tmp_path: Path) -> None:
    plan = read_plan(
        {
            "preset": "chain-standard",
            "settings": {**TINY, "model": SMALL},
            "grid": {"seed": [0, 1], "model.n_layers": [1, 2, 3]},
            "variants": [{"name": "standard"}],
        }
    )
    for planned in plan.runs:
        workbench.train(planned.config, out=tmp_path / planned.name, progress=False)
    paths = [tmp_path / planned.name for planned in plan.runs]
    report = inspect(paths, out=tmp_path / "report", n=8, only=["overall"])
    together = [line for line in seed_groups(report.inspected) if not line.alone]
    assert [line.name for line in together] == [f"standard, n_layers {n}, 2 seeds" for n in (1, 2, 3)]
    for line in together:
        assert len({member.run.config.model.n_layers for member in line.members}) == 1
        written = pd.read_csv(tmp_path / "report" / "data" / line.name / "overall.csv")
        assert written["value"].tolist() == pytest.approx(line["overall"].mean.values.tolist())
        assert line.name in report.says or line.name[:20] in report.says
    html = report.html.read_text(encoding="utf-8")
    assert all(f'"name":"{line.name}"' in html for line in together)


def test_names_say_the_settings_that_tell_groups_apart_and_no_more() -> None:
    names = _group_names(groups(a=("s-seed={}-1", layers(1)), b=("s-seed={}-2", layers(2, d_model=32))), [])
    assert names == ["s, n_layers 1, 2 seeds", "s, n_layers 2, 2 seeds"]
    several = [layers(n, d_model=width) for n in (1, 2) for width in (32, 64)]
    found = _group_names(groups(**{str(i): (f"{i}/seed-{{}}", one) for i, one in enumerate(several)}), [])
    assert found == ["0, 2 seeds", "1, 2 seeds", "2, 2 seeds", "3, 2 seeds"]
    found = _group_names(groups(**{str(i): (f"{{}}-{i}", one) for i, one in enumerate(several)}), [])
    assert found == [f"chain-standard, n_layers {n}, d_model {w}, 2 seeds" for n in (1, 2) for w in (32, 64)]
    kinds = [{"model": {"attention": kind}} for kind in ("standard", "chacal", {"variant": "chacal", "gamma": 0.5})]
    found = _group_names(groups(**{str(i): (f"{{}}-{i}", one) for i, one in enumerate(kinds)}), [])
    assert found == [
        "chain-standard, standard, 2 seeds",
        "chain-standard, chacal, gamma 0.9, 2 seeds",
        "chain-standard, chacal, gamma 0.5, 2 seeds",
    ]


def test_a_group_never_has_the_name_of_a_run_nor_of_a_group_that_differs_in_case() -> None:
    alike = groups(a=("run-{}", layers(1)), b=("RUN-{}", layers(1, d_model=32)))
    names = _group_names(alike, ["run, d_model 64, 2 seeds", "Run, D_model 64, 2 seeds (2)"])
    assert len({name.casefold() for name in names}) == 2
    assert names[0].endswith("2 seeds (3)") and names[1] == "RUN, d_model 32, 2 seeds"


def test_runs_of_one_name_are_an_error(tmp_path: Path) -> None:
    run = workbench.train(config(0, {**TINY, "model": SMALL}), out=tmp_path / "a", progress=False)
    (one,) = inspect([run.path], n=4, only=["overall"]).inspected
    with pytest.raises(ValueError, match="two runs would be named 'a' and 'a'"):
        seed_groups([one, one])


@pytest.mark.parametrize(
    "names", [["examples", "A", "a"], ["comparison.parquet", "comparison.csv"], ["x\x1b", "x\\x1b"]]
)
def test_runs_with_names_that_files_take_for_one_keep_all_their_numbers(names: list[str], tmp_path: Path) -> None:
    paths = []
    for number, name in enumerate(names):
        made = config(0, {**TINY, "model": SMALL, "batch_size": 4 + number})
        paths.append(workbench.train(made, out=tmp_path / "runs" / name, progress=False).path)
    report = inspect(paths, out=tmp_path / "report", n=4, only=["overall"], export=["html"])
    assert len({one.name for one in report.inspected}) == len(names)
    written = list((tmp_path / "report" / "data").rglob("overall.json"))
    assert len(written) == len(names)
    assert len({path.parent for path in written}) == len(names)


def test_figures_of_sections_with_one_slug_are_numbered() -> None:
    assert tell_apart(["a", "A", "a", "a (2)"]) == ["a", "A (3)", "a (4)", "a (2)"]
    check_told_apart(["a", "b"], "things")
    with pytest.raises(ValueError, match="two things would be named 'a' and 'A'"):
        check_told_apart(["a", "A"], "things")


def titled(title: str, of: str = "") -> go.Figure:
    return framed(go.Figure(), title, of=of)


def test_a_figure_s_file_says_what_is_drawn() -> None:
    drawn = [
        Section("Over training: a", "", [titled("Accuracy"), titled("Accuracy by <b>depth</b>"), titled("Loss")]),
        Section("Entropy", "", [titled("Entropy"), titled("Entropy by layer")]),
        Section("Gold", "", [*(titled("Mass", of) for of in ("first run", "second", "second"))]),
    ]
    assert stems(drawn) == [
        "over-training-a-accuracy",
        "over-training-a-accuracy-by-depth",
        "over-training-a-loss",
        "entropy",
        "entropy-by-layer",
        "gold-mass-first-run",
        "gold-mass-second",
        "gold-mass-second-2",
    ]


def test_a_browser_that_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise RuntimeError("Kaleido requires Google Chrome")

    monkeypatch.setattr("plotly.io.write_images", missing)
    with pytest.raises(ValueError, match=r"^pictures are drawn by Chrome or Chromium, which could not be started"):
        write_figures(tmp_path, [Section("One", "", [titled("Two")])], ["pdf"])


def test_a_full_disk_is_not_blamed_on_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("plotly.io.write_images", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        write_figures(tmp_path, [Section("One", "", [titled("Two")])], ["pdf"])


def test_every_figure_has_its_own_file_whatever_signs_its_run_has(tmp_path: Path) -> None:
    titles = ["Over training: a/b", "Over training: a-b", "Over training: A b", "Over training: a-b-2"]
    drawn = [Section(title, "", [go.Figure(), go.Figure()]) for title in titles]
    files = write_figures(tmp_path, drawn, ["html"])
    assert len({str(file).casefold() for file in files}) == 8 == len(list(tmp_path.iterdir()))
    stems = [file.stem for file in files]
    numbered = ["a-b", "a-b-3", "a-b-4", "a-b-2"]
    assert stems == [f"over-training-{run}-{n}" for run, n in itertools.product(numbered, (1, 2))]
