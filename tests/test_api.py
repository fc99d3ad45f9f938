"""The library as a stranger guesses at it: what is listed, what answers to a wrong name, and what a result can do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import workbench
from tests.test_layers import ROOMS
from workbench.cli import COMMANDS, main
from workbench.runs import Run
from workbench.runs.compiled import compile_run
from workbench.tasks import make

OTHER_NAMES = {"import": "import_", "runs": "runs_table"}  # a keyword, and a room
HELD_OUT = {"n": 4, "only": ["accuracy", "entropy"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    small: dict[str, Any] = {"task": {"n": 8, "k": 2}, "model": {"d_model": 16, "n_heads": 2}, "eval_size": 8}
    path = tmp_path_factory.mktemp("api") / "runs" / "tiny"
    return workbench.train("chain-chacal", out=path, steps=2, progress=False, **small)


def in_a_process_of_its_own(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_what_is_listed_is_there_and_nothing_is_imported_to_list_it() -> None:
    names = dir(workbench)
    assert len(set(names)) == len(names) and set(ROOMS) <= set(names)
    assert all(hasattr(workbench, name) for name in names)
    code = "import sys; before = set(sys.modules); import workbench; dir(workbench); print(*set(sys.modules) - before)"
    (imported,) = in_a_process_of_its_own(code)
    assert {name.split(".")[0] for name in imported.split()} <= {"workbench", *sys.stdlib_module_names}
    assert [name for name in imported.split() if name.startswith("workbench")] == ["workbench"]


def test_every_room_is_a_module_even_where_a_command_has_its_name() -> None:
    code = (
        "import workbench\n"
        "from workbench.runs import Run\n"
        f"print(*(getattr(workbench, room).__name__ for room in {ROOMS!r}))"
    )
    assert in_a_process_of_its_own(code) == [" ".join(f"workbench.{room}" for room in ROOMS)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_a_function_of_its_name(command: str) -> None:
    name = OTHER_NAMES.get(command, command)
    function = getattr(workbench, name)
    assert callable(function) and name in dir(workbench)
    assert (function.__doc__ or "").splitlines()[0].endswith((".", ":", "…"))


def test_help_is_a_page_that_has_every_name() -> None:
    page = workbench.__doc__ or ""
    words = {word.strip("`,.;:()") for word in page.split()}
    assert set(dir(workbench)) - words == set()
    shown = in_a_process_of_its_own("import workbench; help(workbench)")
    assert len(shown) < 120 and any("circuit " in line and "edges" in line for line in shown)


@pytest.mark.parametrize(("wrong", "meant"), [("trian", "train"), ("cirkuit", "circuit"), ("Train", "train")])
def test_a_wrong_name_is_told_what_was_meant_and_what_there_is(wrong: str, meant: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(workbench, wrong)
    message = str(raised.value)
    assert message.startswith(f"unknown name in workbench {wrong!r} (did you mean {meant!r}?); there is: ")
    assert "circuits, " in message and "\n" not in message
    assert not hasattr(workbench, "__wrapped__")


@pytest.mark.parametrize(
    ("elsewhere", "here"),
    [
        ("compare", "inspect([a, b])"),
        ("measure", "inspect"),
        ("from_pretrained", "load_model"),
        ("save_figure", "for_paper"),
    ],
)
def test_a_name_that_others_use_is_told_what_it_is_called_here(elsewhere: str, here: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(workbench, elsewhere)
    assert f"(did you mean {here!r}?); there is: " in str(raised.value)


def test_names_that_others_use_are_none_of_ours_and_lead_to_what_there_is() -> None:
    meant = {guess: here for here, guesses in workbench._ELSEWHERE.items() for guess in guesses.split()}
    assert len(meant) == sum(len(guesses.split()) for guesses in workbench._ELSEWHERE.values())
    assert not set(meant) & set(dir(workbench))
    assert {re.split(r"\W", here)[0] for here in workbench._ELSEWHERE} <= set(dir(workbench))


def test_a_run_that_is_opened_as_a_model_from_elsewhere_says_how_to_open_it(run: Run) -> None:
    with pytest.raises(ValueError, match=r"it is a run folder, whose model is load_run\('.*tiny'\)\.hooked\(\)"):
        workbench.load_model(run.path)


def test_a_sweep_is_a_preset_with_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = {"steps": 0, "eval_size": 4, "task": {"n": 8, "k": 2}, "model": {"d_model": 16, "n_heads": 2}}
    frame = workbench.sweep("chain-chacal", grid={"seed": [0, 1]}, settings=few, workers=1, progress=False)
    assert frame["seed"].tolist() == [0, 1] and (tmp_path / "sweeps" / "chain-chacal" / "results.parquet").is_file()
    varied = {"learning_rate": [1e-3, 1e-4]}
    frame = workbench.sweep("chain-chacal", varied, seeds=2, out="both", settings=few, workers=1, progress=False)
    assert sorted(zip(frame["learning_rate"], frame["seed"], strict=True)) == [
        (1e-4, 0),
        (1e-4, 1),
        (1e-3, 0),
        (1e-3, 1),
    ]
    with pytest.raises(ValueError, match="a sweep has one folder and one grid; there is also 'again'"):
        workbench.sweep("chain-chacal", varied, "again", out="both", progress=False)
    with pytest.raises(ValueError, match=r"there is also .*'seed': \[1\]"):
        workbench.sweep("chain-chacal", {"seed": [1]}, grid={"seed": [0]})
    with pytest.raises(ValueError, match="unknown field 'colours'; there is: preset, task, settings, grid"):
        workbench.sweep("chain-chacal", colours=[0, 1])


def test_two_runs_are_compared_whether_listed_or_not(run: Run, tmp_path: Path) -> None:
    for given in ((run.path, run), ([run.path, run],)):
        with pytest.raises(ValueError, match="a run was named twice"):
            workbench.inspect(*given, out=tmp_path / "two", progress=False)
    with pytest.raises(ValueError, match="one after the other, or as one list"):
        workbench.inspect([run.path], run.path)


def test_a_page_is_exported_where_it_is_named(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert workbench.export(run, page=page) == page and page.stat().st_size > 0
    with pytest.raises(ValueError, match=r"a page is one file: a\.html or b\.html\?"):
        workbench.export(run, "a.html", page="b.html")
    with pytest.raises(ValueError, match="give the path of what to write after the run"):
        workbench.export(run, page=True)


def test_a_run_draws_a_batch_of_its_own(run: Run) -> None:
    _, cache = run.hooked().run_with_cache(run.batch(4).tokens)
    assert len(cache["blocks.0.attn.hook_pattern"]) == 4
    assert torch.equal(run.batch(4, seed=1).tokens, run.batch(4, seed=1).tokens)


def test_a_former_name_works_and_is_told_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"workbench\.inspect_model is now workbench\.inspect"):
        former = workbench.inspect_model
    assert former is workbench.inspection.inspect_model and "inspect_model" not in dir(workbench)


def results(run: Run, out: Path) -> dict[str, tuple[Callable[[], Any], str]]:
    """A command -> its function on a run, and its command line."""
    root = run.path.parent
    return {
        "inspect": (
            lambda: workbench.inspect(run, out=out / "python", **HELD_OUT),
            f"inspect {run.path} --n 4 --only accuracy entropy --quiet --out {out / 'line'}",
        ),
        "probe": (
            lambda: workbench.probe(run, "hops", n=40, causal=False),
            f"probe {run.path} hops --n 40 --no-causal --quiet",
        ),
        "circuit": (lambda: workbench.circuit(run, n=8), f"circuit {run.path} --n 8"),
        "patch": (lambda: workbench.patch(run, n=8), f"patch {run.path} --n 8"),
        "heads": (lambda: workbench.heads(run, n=8), f"heads {run.path} --n 8"),
        "table": (lambda: workbench.table(root, by="model.attention"), f"table {root} --by model.attention"),
        "runs": (lambda: workbench.runs_table(root, where=["task.n=8"]), f"runs --root {root} --where task.n=8"),
    }


@pytest.mark.parametrize("command", ["inspect", "probe", "circuit", "patch", "heads", "table", "runs"])
def test_a_result_says_draws_tabulates_and_is_the_json_of_the_command(
    command: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    function, line = results(run, tmp_path)[command]
    result = function()
    assert result.says and result.says == result.says.strip("\n")
    table = result.table()
    assert isinstance(table, pd.DataFrame) and len(table)
    drawn = result.figure()
    assert hasattr(drawn, "to_html") or drawn.svg().startswith("<svg")
    capsys.readouterr()
    assert main([*line.split(), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed == f"{result.json()}\n"
    json.loads(printed, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_study_does_so_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parent / "golden" / "given" / "tiny.toml"
    result = workbench.study(str(file), root=tmp_path, workers=1, progress=False)
    assert result is not None and result.says.startswith("tiny, small: ")
    assert len(result.table()) and result.figure().data
    with pytest.raises(ValueError, match="unknown quantity of this study 'acuracy'"):
        result.figure("acuracy")
    capsys.readouterr()
    assert main(["study", "run", str(file), "--root", str(tmp_path), "--workers", "1", "--quiet", "--json"]) == 0
    printed, said = json.loads(capsys.readouterr().out), json.loads(result.json())
    assert printed == said


def test_a_run_a_path_and_a_folder_of_runs_are_the_same_and_a_model_is_measured_in_memory(
    run: Run, tmp_path: Path
) -> None:
    by_run, by_path, by_folder = (
        workbench.inspect(given, out=tmp_path / str(i), n=4, only=["accuracy"])
        for i, given in enumerate((run, str(run.path), run.path.parent))
    )
    assert by_run.json() == by_path.json() == by_folder.json()
    assert by_run["accuracy"].mean.values.tolist() == by_run.inspected[0]["accuracy"].mean.values.tolist()
    assert by_run.figure("entropy" if "entropy" in by_run.inspected[0] else "accuracy").data
    with pytest.raises(ValueError, match=r"unknown figure of this report 'acuracy' \(did you mean 'accuracy'\?\)"):
        by_run.figure("acuracy")
    task = make("sorting", q=6, max_length=6)
    sorter = compile_run("sorter", tmp_path / "sorter", q=6, max_length=6)
    with pytest.raises(ValueError, match="a model in memory is measured on something"):
        workbench.inspect(sorter.hooked())
    assert task.n_ctx == sorter.task().n_ctx


def test_data_new_list_and_compile_answer_as_their_commands_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    drawn = workbench.data("sorting", 2, q=5, max_length=4)
    line = ["data", "sorting", "--count", "2", "--q", "5", "--max_length", "4"]
    assert main(line) == 0
    assert capsys.readouterr().out == f"{drawn.says}\n"
    assert len(drawn.table()) == 2 and len(json.loads(drawn.json())["sequences"]) == 2
    assert (
        main(["data", "sorting", "--count", "2", "--q", "5", "--max_length", "4", "--out", "some.jsonl", "--quiet"])
        == 0
    )
    assert workbench.data("some.jsonl", 2).says == drawn.says
    assert workbench.new("task", "backwards") == Path("backwards.py")
    with pytest.raises(ValueError, match="did you mean 'task'"):
        workbench.new("taks", "backwards")
    capsys.readouterr()
    assert main(["list", "variants"]) == 0
    assert capsys.readouterr().out == f"{workbench.list('variants')}\n"
    assert workbench.compile("sorter", "sorter", q=5, max_length=4).config.task["q"] == 5


def test_resume_and_export_take_a_run_or_its_folder(run: Run, tmp_path: Path) -> None:
    assert workbench.resume(run) == workbench.resume(run.path) == run
    archive = workbench.export(run, tmp_path / "tiny.zip")
    assert workbench.import_(archive, tmp_path / "again").config == run.config
