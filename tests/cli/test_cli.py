from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import workbench
from workbench.app.server import serve
from workbench.cli import main, parse_fields
from workbench.cli.list import LISTED
from workbench.inspection import inspect_run
from workbench.runs import open_runs
from workbench.runs.compiled import compile_run
from workbench.training import preset_config
from workbench.training.data import held_out
from workbench.training.optimizer_step import Step
from workbench.training.sweeps.driver import Board

FAST = ["--steps", "4", "--eval-size", "8", "--batch-size", "4", "--task.n", "8", "--task.k=2", "--model.d_model", "16"]


@pytest.mark.alone
def test_help_answers_without_importing_torch() -> None:
    start = time.perf_counter()
    code = """
import sys
from workbench.cli import main
try:
    main(["--help"])
except SystemExit:
    assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert time.perf_counter() - start < 0.8


@pytest.mark.parametrize(
    ("doing", "command"), [("measuring", ["inspect", "nowhere"]), ("probing", ["probe", "nowhere", "minimum"])]
)
def test_on_a_terminal_a_command_says_what_it_does_before_pytorch_is_imported(doing: str, command: list[str]) -> None:
    code = """
import io, sys
class Terminal(io.StringIO):
    def isatty(self): return True
    def write(self, text): sys.__stdout__.write(f"{'torch' in sys.modules}: {text}")
sys.stderr = Terminal()
from workbench.cli import main
main(sys.argv[1:])
"""
    told = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True).stdout
    assert told.startswith(f"False: workbench: {doing} nowhere …")


def test_fields_are_nested_and_typed() -> None:
    arguments = ["--task.n", "64", "--batch-size=32", "--model.attention", "chacal", "--objectives.seq-vcr.eta", "0.1"]
    assert parse_fields(arguments) == {
        "task": {"n": 64},
        "batch_size": 32,
        "model": {"attention": "chacal"},
        "objectives": {"seq_vcr": {"eta": 0.1}},
    }


@pytest.mark.parametrize("value", ["[" * 5000, "1" * 5000])
def test_a_value_that_python_cannot_read_is_refused_as_what_it_is(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "chain-chacal", "--steps", value, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "steps: " in error and error.count("\n") == 1 and not list(tmp_path.iterdir())


def test_a_variant_and_its_settings_may_come_in_any_order() -> None:
    for order in (["attention=chacal", "attention.gamma=0.8"], ["attention.gamma=0.8", "attention=chacal"]):
        assert parse_fields([f"--model.{field}" for field in order]) == {
            "model": {"attention": {"variant": "chacal", "gamma": 0.8}}
        }
    for wrong, said in (
        (["--steps", "--seed", "1"], "--steps needs a value"),
        (["--seed=1", "--seed=2"], "given twice"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_fields(wrong)


def test_train_then_list_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "chain-chacal", "--out", str(tmp_path / "one"), "--quiet", *FAST]) == 0
    assert "workbench inspect" in capsys.readouterr().out
    assert main(["runs", "--root", str(tmp_path)]) == 0
    assert "one" in capsys.readouterr().out


def test_a_task_is_trained_without_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--task.q", "5", "--task.max_length", "4", "--task.test_max_length", "4", "--steps", "1", "--quiet"]
    assert main(["train", "--task", "sorting", "--out", str(tmp_path / "run"), *small]) == 0
    config = workbench.load_run(tmp_path / "run").config
    assert (config.preset, config.task["name"], config.task["q"], config.steps) == (None, "sorting", 5, 1)
    replaced = ["train", "chain-chacal", "--task", "sorting", "--out", str(tmp_path / "other"), *small]
    assert main(replaced) == 0
    assert workbench.load_run(tmp_path / "other").config.model.attention[0]["variant"] == "chacal"
    capsys.readouterr()
    for words, message in (
        (["--task", "srting"], "did you mean 'sorting'"),
        (["--steps", "3"], "name a preset first, or a task"),
        (["--task", "sorting", "--task.name", "lis"], "named twice"),
    ):
        assert main(["train", *words, "--out", str(tmp_path / "none")]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_training_says_how_many_of_its_held_out_sequences_are_distinct(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fast = ["--steps", "1", "--eval-size", "64", "--batch-size", "4", "--quiet", "--task.digits", "1"]
    assert main(["train", "multiply-vanilla", "--out", str(tmp_path / "run"), *fast]) == 0
    said = re.search(r"on 64 held-out sequences, (\d+) of them distinct\n", capsys.readouterr().out)
    assert said is not None
    run = workbench.load_run(tmp_path / "run")
    tokens = held_out(run.task(), run.config).tokens
    assert int(said[1]) == len({tuple(row[:3]) for row in tokens.tolist()}) < 20  # two operands and the sign between


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two runs, with what a sweep leaves beside them."""
    folder = tmp_path_factory.mktemp("sweeps") / "x"
    for name, preset in (("multiply-with-a-rather-long-name", "multiply-seqvcr"), ("second", "multiply-vanilla")):
        workbench.train(preset, out=folder / name, progress=False, steps=2, eval_size=8, batch_size=4)
    (folder / "results.parquet").write_bytes(b"PAR1")
    (folder / "logs").mkdir()
    return folder


def inspected(runs: list[Path], out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The runs that a report is of, and what is said on standard error."""
    how = ["--only", "overall", "--n", "4", "--out", str(out), "--quiet"]
    assert main(["inspect", *map(str, runs), *how]) == 0
    said = capsys.readouterr().err
    return sorted(path.name for path in (out / "data").iterdir() if path.is_dir()), said


def test_a_folder_of_runs_stands_for_its_runs_and_what_lies_beside_them_is_passed_over(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["multiply-with-a-rather-long-name", "second"]
    assert inspected([sweep], tmp_path / "folder", capsys) == (names, "")
    found, said = inspected(sorted(sweep.iterdir()), tmp_path / "glob", capsys)
    assert found == names
    wanted = [f"workbench: passed over, as it is no run folder: {sweep / name}" for name in ("logs", "results.parquet")]
    assert said.splitlines() == wanted
    assert [run.path for run in open_runs([sweep])] == [sweep / name for name in names]
    probing = ["--n", "40", "--no-causal", "--quiet"]
    assert main(["probe", str(sweep), str(sweep / "results.parquet"), "position", *probing]) == 2  # not beside a run
    assert "no run folder" in capsys.readouterr().err
    assert main(["probe", *map(str, sorted(sweep.iterdir())), "position", *probing]) == 0
    out, err = capsys.readouterr()
    assert all(name in out for name in names) and err.count("passed over") == 2


def test_what_is_wrong_with_a_run_that_was_named_is_still_said(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    for wrong in (broken, tmp_path / "nothing", sweep / "thrid"):
        assert main(["inspect", str(sweep / "second"), str(wrong), "--quiet"]) == 2
        assert wrong.name in capsys.readouterr().err
    assert main(["resume", str(sweep)]) == 2
    assert "it contains the runs multiply-with-a-rather-long-name, second" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["show", "--quiet", "chain-layers", "chain-gamma"],
        ["show", "chain-layers", "--quiet", "chain-gamma"],
        ["--quiet", "show", "chain-layers", "--root", "anywhere", "chain-gamma"],
    ],
)
def test_names_may_stand_before_between_and_after_options(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *words]) == 0
    said = capsys.readouterr().out
    assert "chain-layers: Does" in said and "chain-gamma: Does" in said


@pytest.mark.parametrize("width", [200, 80, 50, 36])
def test_the_table_of_runs_cuts_no_name(
    width: int, sweep: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["runs", "--root", str(sweep)]) == 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    lines = text.splitlines()
    assert "…" not in text and max(map(len, lines)) <= width
    assert ("multiply-with-a-rather-long-name" in text) == (width >= 80)
    assert "multiplication" in text
    assert ("left out for want of room: tokens per second" in " ".join(text.split())) == (width < 200)
    first = "".join(line[: lines[0].index("task.name")].strip() for line in lines[1:])
    assert "multiply-with-a-rather-long-name" in first


def test_list_alone_says_what_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    kinds = [line.split()[2] for line in lines]
    assert {"presets", "tasks", "probes", "compiled"} < set(kinds) and len(set(kinds)) == len(lines)
    assert all(len(line.split("  ", 1)[1].strip()) > 10 for line in lines)
    for kind in kinds:
        assert main(["list", kind]) == 0 and capsys.readouterr().out


@pytest.mark.parametrize("what", ["presets", "fields", "tasks", "variants", "objectives", "instruments", "mechanisms"])
def test_list_describes_every_kind_with_its_defaults(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what]) == 0
    text = capsys.readouterr().out
    expected = {
        "presets": "chain-chacal",
        "fields": "--learning_rate = 0.001",
        "tasks": "pointer_chain",
        "variants": "gamma = 0.9",
        "objectives": "covariance_weight = 0.004",
        "instruments": "entropy",
        "mechanisms": "minimum",
    }
    assert expected[what] in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "chain-chakal", "--out", "OUT"], "did you mean 'chain-chacal'"),
        (["train", "chain-chacal"], "--out"),
        (["train", "chain-chacal", "--out", "OUT", "--task.n", "9"], "k"),
        (["train", "chain-chacal", "--out", "OUT", "--stepz", "9"], "steps"),
        (["train", "chain-chacal", "--out", "OUT", "--steps"], "--steps needs a value"),
        (["train", "chain-chacal", "--out", "OUT", "extra"], "extra"),
        (["inspect", "OUT"], "no run folder"),
        (["inspect", "OUT", "--alpha", "2"], "--alpha"),
        (["explore", "--root", "OUT"], "no folder"),
        (["data", "pointer_chain", "--head", "nothing"], "unknown pointer_chain hint 'nothing'; there is: none"),
        (["data", "sorting", "--where", "length==4"], "a condition is NAME=VALUE, such as length=16, not 'length==4'"),
        (["list", "cakes"], "presets"),
        (["bake"], "train"),
        ([], "COMMAND"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "OUT"
    assert main([str(out) if a == "OUT" else a for a in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1 and "Traceback" not in error
    assert not out.exists()


def test_no_progress_line_has_a_sign_that_a_terminal_obeys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and words of strangers: colours, lines that run backwards, and the markup of the library that prints."""
    hostile = "\u202egnp\x1b[31m\u2066[b]x[bold"
    config = preset_config("chain-chacal", {"steps": 6, "save_every": 2, "batch_size": 4, "eval_size": 8})
    step = Step.__call__

    def stopped(self: Step, *arguments: Any) -> Any:
        if self.learner.step == 5:
            raise KeyboardInterrupt
        return step(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Step, "__call__", stopped)
        workbench.train(config, out=tmp_path / hostile, progress=False)
    newest = max((tmp_path / hostile / "resume").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-9])
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(serve, "listen", lambda port: [])
    monkeypatch.setattr(serve, "serve", lambda *_, **__: None)
    crew: Any = SimpleNamespace(here=True, at_once=lambda: 1)
    said = {
        "resume": lambda: main(["resume", str(tmp_path / hostile)]),
        "data": lambda: main(["data", "sorting", "--count", "3", "--out", str(tmp_path / f"{hostile}.jsonl")]),
        "explore": lambda: main(["explore", "--root", str(tmp_path / hostile)]),
        "sweep": lambda: Board([], crew, True).say(f"{hostile} [/b] failed"),
    }
    for name, command in said.items():
        assert not command()
        text = capsys.readouterr().err
        assert all(line.isprintable() for line in text.split("\n")), (name, text)
        assert r"\u202egnp\x1b[31m\u2066[b]x[bold" in text.replace("\n", ""), (name, text)


WRONG_VALUES = {
    "--entropy.alpha": ["chacal", "true", "[2]", "null"],
    "--entropy.kernel": ["3"],
    "--entropy.positions": ["3", '["a", 3]'],
    "--entropy.centre": ["maybe"],
    "--entropy.points": ["3"],
    "--spectrum.top": ["2.5"],
    "--path_mass.n_hops": ["two"],
    "--rollout.heads": ["{}"],
    "--tuned_lens.lens": ["x"],
    "--graph_measures.threshold": ["nothing"],
}


def test_a_setting_of_another_type_is_one_line_and_a_word_for_no_is_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workbench.train("chain-chacal", out=tmp_path / "run", progress=False, steps=0, task={"n": 8, "k": 2})
    for name, values in WRONG_VALUES.items():
        for value in values:
            given = ["--only", name.strip("-").split(".")[0], name, value]
            assert main(["inspect", str(tmp_path / "run"), "--n", "4", "--quiet", *given]) == 2, given
            said = capsys.readouterr()
            assert said.err.startswith(f"workbench: {name.strip('-')}") and "nput should be" in said.err, said.err
            assert not said.out and said.err.count("\n") == 1
    run = workbench.load_run(tmp_path / "run")
    yes, no, word = (
        inspect_run(run, n=4, seed=0, only=["entropy"], settings={"entropy": {"centre": value}})["entropy"].mean
        for value in (True, False, "no")
    )
    assert (no.values == word.values).all() and not (no.values == yes.values).all()


def test_failure_while_running_is_one_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extreme = ["--learning_rate", "1e30", "--warmup", "0"]
    assert main(["train", "chain-standard", "--out", str(tmp_path / "run"), "--quiet", *FAST, *extreme]) == 1
    error = capsys.readouterr().err
    assert "not finite" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [["list", "presets"], pytest.param(["data", "sorting", "--count", "20000"], marks=pytest.mark.slow)],
)
def test_a_reader_who_has_seen_enough_is_no_failure(command: list[str]) -> None:
    """`workbench … | head -1`: what fits the pipe's buffer, and what does not."""
    with subprocess.Popen(
        [sys.executable, "-m", "workbench", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        if command[0] == "data":
            assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141 and process.stderr.read() == b""


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_an_output_cannot_show_is_spelt_out_and_nothing_is_lost(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that can be listed, and what is found of a run with a name that is not ASCII; the files' names are kept."""
    run = compile_run("sorter", tmp_path / "sörter–ω", {"q": 6, "max_length": 6}).path
    for command in (*(["list", what] for what in LISTED), ["inspect", str(run), "--n", "2", "--only", "overall"]):
        shown = {}
        for name in (encoding, "utf-8"):
            written = io.BytesIO()
            monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=name))
            assert main(command) == 0
            sys.stdout.flush()
            shown[name] = written.getvalue()
        assert shown[encoding] == shown["utf-8"].decode().encode(encoding, "backslashreplace")
    assert (run / "inspection" / "data" / "sörter–ω" / "overall.csv").is_file()


@pytest.mark.parametrize("name", ["two\nlines.jsonl", "two\rlines/run.jsonl"])
def test_no_path_with_a_line_end_is_made(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is said of it, and the command that comes next, would be torn apart."""
    (tmp_path / "two\rlines").mkdir()
    for command in (["train", "chain-standard", *FAST], ["compile", "sorter"], ["data", "sorting"]):
        assert main([*command, "--out", str(tmp_path / name)]) == 2
        assert "has a line end in its name; give" in capsys.readouterr().err
    assert [*tmp_path.rglob("*")] == [tmp_path / "two\rlines"]
