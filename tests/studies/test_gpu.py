"""What fills the ledger on a bare machine with a GPU: little is imported there, and a small archive is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from workbench.cli import main
from workbench.inspection import inspect_run
from workbench.runs import scan_runs
from workbench.studies import GPU, SMALL, STUDIES, Study, collect, read_ledger
from workbench.studies.contrasts import Higher
from workbench.studies.engine import MEASURED, RESULT, RUNS
from workbench.studies.gpu import DRY, LOGS, dry, fill, minutes, next_rows
from workbench.studies.measures import Inspect, Logged, Together
from workbench.training import train
from workbench.util import distribution

ROOT = Path(__file__).parents[2]
LARGEST = 2_000_000  # bytes of an archive
MISSING = ("pydantic", "pydantic_core", "annotated_types", "typing_inspection")  # there, wheels bring them
UNTOUCHED = ("pandas", "plotly", "transformer_lens", "pyarrow", "streamlit")
BARE = f"""
import sys
from importlib.machinery import PathFinder

class OfABareMachine:
    def find_spec(self, name, path=None, target=None):
        if name in {UNTOUCHED}:
            spec = PathFinder.find_spec(name, path)  # PyTorch asks for some, and imports none
            spec.loader = self
            return spec
        if name in {MISSING}:
            unpacked = [part for part in sys.path if part.endswith("unpacked")]
            return PathFinder.find_spec(name, unpacked) or self.gone(name)

    def create_module(self, spec):
        raise ImportError(f"{{spec.name}} is not imported where models are only trained and measured")

    def exec_module(self, module):
        pass

    def gone(self, name):
        raise ModuleNotFoundError(name)

sys.meta_path.insert(0, OfABareMachine())
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python that has no pydantic but from wheels, and cannot import what is not needed; so have its processes."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "sitecustomize.py").write_text(BARE)
    python = tmp_path / "bare" / "python3"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path / "bare"}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    return python


def make(*words: str, python: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = ["make", "-C", str(ROOT), "--no-print-directory", f"PYTHON={python}", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def wheels(folder: Path) -> Path:
    """The packages of `MISSING` as this environment has them, each in a wheel."""
    folder.mkdir()
    for name in MISSING:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        package = Path(spec.origin).parent
        shutil.make_archive(str(folder / name), "zip", package.parent, package.name)
        (folder / f"{name}.zip").rename(folder / f"{name}-1-cp312-cp312-any.whl")
    return folder


def test_a_bare_machine_without_wheels_is_told_what_is_missing(bare: Path, tmp_path: Path) -> None:
    done = make("gpu", f"WHEELS={tmp_path / 'none'}", python=bare)
    assert done.returncode and "has no pydantic" in done.stdout and "make wheels" in done.stdout
    assert len(done.stdout.splitlines()) == 1 and not list(tmp_path.glob("none"))
    refused = subprocess.run([bare, "-c", "import pandas"], capture_output=True, text=True, check=False)
    assert "pandas is not imported" in refused.stderr


def test_a_bare_machine_trains_measures_and_leaves_one_small_archive(bare: Path, tmp_path: Path) -> None:
    brought, out = wheels(tmp_path / "brought"), tmp_path / "out"
    done = make("gpu", f"WHEELS={brought}", f"OUT={out}", "ARGS=sorting-bases --dry-run --quiet", python=bare)
    assert done.returncode == 0, done.stderr + done.stdout
    (archive,) = out.iterdir()
    assert archive.stat().st_size < LARGEST
    with zipfile.ZipFile(archive) as file:
        names = {Path(name) for name in file.namelist()}
        file.extractall(tmp_path / "root")
    assert {name.suffix for name in names} == {".json", ".jsonl"}
    own = Path("sorting-bases", DRY)
    runs = {name.parent.name for name in names if name.parent.parent == own / LOGS}
    assert len(runs) == 4 and own / RESULT in names
    assert {name.stem for name in names if name.parent == own / MEASURED / RUNS} == runs
    (result,) = collect(tmp_path / "root", {"sorting-bases": dry(STUDIES["sorting-bases"])})
    assert len(result.groups) == 4
    assert {*result.groups["plain"]} >= {"copy", "minimum", "successor", "identity_removed"}


def test_without_a_gpu_it_says_what_would_run_and_how_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["study", "gpu", "chain-layers", "--root", str(tmp_path)]) in (0, None)
    first, line = capsys.readouterr().out.splitlines()
    assert "no GPU" in first and "estimates" in first
    assert line.startswith("  chain-layers: 18 runs, 3 seeds of each group, about ") and not list(tmp_path.iterdir())
    assert main(["study", "gpu", "chain-hops", "--root", str(tmp_path)]) == 2
    assert "no scale 'gpu'" in capsys.readouterr().err
    assert main(["study", "gpu", "--minutes", "0"]) == 2


def test_the_next_rows_are_those_without_a_result_and_shared_runs_go_together(tmp_path: Path) -> None:
    gpu = [name for name, study in STUDIES.items() if GPU in study.runs]
    assert [name for row in next_rows(STUDIES, [], tmp_path) for name in row] != [] and set(gpu) == {
        name for row in next_rows(STUDIES, [], tmp_path) for name in row
    }
    filled = [(one.name, one.scale) for one in read_ledger(ROOT / "docs" / "studies" / "ledger.json")]
    assert ["chain-layers"] not in next_rows(STUDIES, filled, tmp_path)
    (tmp_path / "chain-layers" / GPU).mkdir(parents=True)
    (tmp_path / "chain-layers" / GPU / RESULT).write_text("{}")
    assert ["chain-layers"] not in next_rows(STUDIES, [], tmp_path)
    one = STUDIES["chain-layers"]
    others = {"first": one, "second": replace(one, runs_of="first"), "third": replace(one, runs_of="fourth")}
    assert next_rows(others, [], tmp_path) == [["first", "second"], ["third"]]
    assert next_rows(others, [("first", GPU)], tmp_path) == [["second"], ["third"]]


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if GPU in study.runs])
def test_every_study_fits_into_eight_minutes_by_estimate(name: str) -> None:
    assert 0.5 < minutes(STUDIES[name], STUDIES[name].seeds[GPU]) < 9


def tiny() -> Study:
    settings = {"task": {"n": 8, "k": 2}, "steps": 3, "batch_size": 4, "eval_size": 4, "eval_every": 1, "device": "cpu"}
    variants = [{"name": name, "preset": f"chain-{name}"} for name in ("standard", "chacal")]
    return Study(
        question="Does it run?",
        contrasts=(Higher("accuracy", "chacal", "standard"),),
        draw=lambda groups: pytest.fail("nothing is drawn where models are trained"),
        runs={SMALL: {"settings": settings, "variants": variants}},
        measure=Together((Inspect(("overall",), n=4), Logged(("accuracy",)))),
        seeds={SMALL: 1},
    )


def test_what_is_stopped_keeps_its_runs_and_goes_on(tmp_path: Path) -> None:
    study, root = tiny(), tmp_path / "root"
    result, archive = fill("tiny", study, SMALL, root, tmp_path / "out", 0.02, progress=False)
    assert result is None and zipfile.is_zipfile(archive)
    result, archive = fill("tiny", study, SMALL, root, tmp_path / "out", 5, progress=False)
    assert result is not None and len(scan_runs(root / "tiny" / SMALL / RUNS)[0]) == 2
    with zipfile.ZipFile(archive) as file:
        assert json.loads(file.read(f"tiny/{SMALL}/{RESULT}"))["groups"].keys() == {"standard", "chacal"}


def test_each_run_is_measured_and_archived_as_soon_as_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    monkeypatch.setattr(
        "workbench.studies.gpu.Measuring.write_archive",
        lambda engine: held.append(len(list(engine.out.glob(f"{MEASURED}/*/*.json")))),
    )
    fill("tiny", tiny(), SMALL, tmp_path / "root", tmp_path / "out", 5, progress=False)
    assert held[0] in (0, 1, 2) and held[-1] == 2 and len(held) >= 3


def test_the_decoder_itself_gives_what_its_hooked_copy_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train("sort-standard", tmp_path / "run", steps=2, batch_size=8, eval_size=8, progress=False)
    names = ("accuracy", "overall", "edit_distance", "copy", "minimum", "successor", "identity_removed")
    settings = {"n": 4, "seed": 0, "only": names, "nulls": (), "causal": False}
    hooked = inspect_run(run, **settings)
    monkeypatch.setitem(sys.modules, "transformer_lens", None)  # as where it is not installed
    monkeypatch.setattr("workbench.models.hooked.hook", lambda *_, **__: pytest.fail("a decoder shows all of this"))
    alone = inspect_run(run, **settings)
    for name in names:
        assert alone[name].mean.values == pytest.approx(hooked[name].mean.values, abs=1e-6, nan_ok=True), name


def test_a_checkout_that_is_not_installed_knows_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = distribution.version()
    monkeypatch.setattr(distribution, "version_of", lambda _: (_ for _ in ()).throw(distribution.PackageNotFoundError))
    assert distribution.version() == installed
