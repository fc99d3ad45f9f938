"""Parts of one's own, from a file or an installed package, are in the same dicts, and nothing is loaded unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

import workbench
from workbench.cli import main
from workbench.models.attention import ATTENTION
from workbench.tasks import TASKS
from workbench.training import PRESETS
from workbench.util import plugins
from workbench.util.plugins import PLUGINS, load_plugins

pytestmark = pytest.mark.usefixtures("no_plugins")

FILE = """
from typing import ClassVar

from workbench.instruments.answers import accuracy as ours
from workbench.models.attention.standard import StandardAttention
from workbench.objectives.next_token import NextToken
from workbench.tasks.pointer_chain import PointerChain


class Backwards(PointerChain):
    '''Pointer chains under another name.'''

    name: ClassVar[str] = "backwards"


class Plain(StandardAttention):
    '''Standard attention under another name.'''

    name = "plain"


class Again(NextToken):
    '''Cross-entropy under another name.'''

    name = "again"


TASKS = {"backwards": Backwards}
ATTENTION = {"plain": Plain}
OBJECTIVES = {"again": Again}
INSTRUMENTS = {"right": ours}
PRESETS = {
    "backwards": {
        "task": {"name": "backwards", "n": 8, "k": 2, "reading": "root"},
        "model": {"n_layers": 1, "d_model": 16, "n_heads": 2, "attention": "plain"},
        "objectives": {"again": {}},
        "steps": 2,
        "batch_size": 4,
        "eval_size": 8,
    }
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_every_part_of_a_file_is_used_by_its_name(file: Path, tmp_path: Path) -> None:
    (plugin,) = load_plugins([file])
    run = workbench.train("backwards", out=tmp_path / "run", progress=False)
    noted = json.loads((run.path / "config.json").read_text(encoding="utf-8"))["plugins"]
    assert noted == [{"name": "own.py", "version": "", "sha256": plugin.sha256}]
    assert workbench.load_run(run.path).config.model.attention[0]["variant"] == "plain"
    without = workbench.train("chain-chacal", out=tmp_path / "without", progress=False, steps=0)
    assert without.config.plugins == ()
    result = workbench.inspection.inspect_run(run, n=4, seed=0, only=["right"])
    assert "right" in result


@pytest.mark.slow
def test_a_run_says_which_plugin_it_needs_and_loads_none_by_itself(file: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "workbench", *words]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run("train", "backwards", "--out", "made", "--quiet", "--plugin", "own.py").returncode == 0
    refused = run("resume", "made")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "unknown task 'backwards'" in refused.stderr and "it needs the plugin own.py (" in refused.stderr
    environment[PLUGINS] = "own.py"
    assert run("inspect", "made", "--n", "4", "--only", "right", "--out", "report", "--quiet").returncode == 0
    (tmp_path / "sweep.toml").write_text('preset = "backwards"\ngrid.seed = [0, 1]', encoding="utf-8")
    done = run("sweep", "sweep.toml", "--out", "swept", "--workers", "2", "--quiet")
    assert done.returncode == 0, done.stderr
    load_plugins([file])
    assert len([one for one in workbench.runs.scan_runs(tmp_path / "swept")[0] if one.finished]) == 2


def test_a_run_made_with_another_text_of_the_plugin_is_opened_with_a_word(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_plugins([file])
    run = workbench.train("backwards", out=tmp_path / "made", progress=False, steps=0, eval_size=8)
    file.write_text(FILE + "\n# another text\n", encoding="utf-8")
    load_plugins([file])
    with pytest.warns(UserWarning, match=r"made with the plugin own\.py \(.*\), and own\.py \(.*\) is loaded"):
        workbench.load_run(run.path)
    assert main(["runs", "--root", str(tmp_path), "--plugin", str(file)]) == 0
    said = capsys.readouterr().err
    assert said.startswith("workbench: ") and said.count("\n") == 1 and "UserWarning" not in said


@pytest.mark.slow
def test_another_machine_gets_the_file_with_the_job(file: Path, tmp_path: Path) -> None:
    load_plugins([file])
    config = workbench.training.preset_config("backwards", {}).model_dump_json()
    code = (
        "import json, sys\n"
        "from workbench.training.sweeps.cluster import _attempt_elsewhere\n"
        "from workbench.training.sweeps.jobs import RunJob\n"
        "config, plugins = json.load(sys.stdin)\n"
        "for _ in range(2):\n"  # a node may give its process the next job too
        "    files, error = _attempt_elsewhere(RunJob, config, 'home', {}, plugins)\n"
        "    assert error is None, error\n"
        "print(sorted(files))"
    )
    environment = {name: value for name, value in os.environ.items() if name != PLUGINS}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([config, plugins.sources()]),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "weights.safetensors" in done.stdout, done.stderr


def test_a_changed_file_replaces_its_parts_and_one_that_fails_leaves_them(file: Path) -> None:
    load_plugins([file])
    before = TASKS["backwards"]
    assert load_plugins([file]) and TASKS["backwards"] is before
    file.write_text(FILE.replace('"backwards"', '"onwards"').replace("INSTRUMENTS", "UNUSED"), encoding="utf-8")
    load_plugins([file])
    assert "backwards" not in TASKS and TASKS["onwards"].summary == before.summary
    assert "right" not in workbench.instruments.INSTRUMENTS
    for wrong in ("1 / 0", FILE.replace('TASKS = {"backwards"', 'TASKS = {"sorting"')):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(ValueError, match=r"own\.py"):
            load_plugins([file])
        assert "onwards" in TASKS and "plain" in ATTENTION and "onwards" in PRESETS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1 / 0", "line 1: ZeroDivisionError"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("x\0 \0=\0 \x001\0", "own.py is not text in UTF-8: it has bytes 0, as UTF-16 has"),
        ("x = 1\nclass Panic(BaseException): pass\nraise Panic('no\\nmore')", "line 3: Panic: no more"),
        (
            FILE.replace('INSTRUMENTS = {"right"', 'INSTRUMENTS = {"../../right"'),
            "cannot be the name of the instrument",
        ),
        (FILE.replace('PRESETS = {\n    "backwards"', 'PRESETS = {\n    ".."'), "cannot be the name of the preset"),
        ("TASKS = 3", "TASKS of the plugin"),
        ("x = 3", "has no parts"),
        ("TASKS = {'mine': 3}", "TASKS['mine'] of the plugin own.py must be a Task, not 3"),
        (FILE.replace('TASKS = {"backwards"', 'TASKS = {"forwards"'), "calls itself 'backwards'"),
        (FILE.replace('name = "plain"', 'name = "chacal"').replace('{"plain"', '{"chacal"'), "exists already"),
        ("from workbench.tasks import TASKS", "the workbench's own dict"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said_in_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dict(TASKS), dict(ATTENTION), dict(PRESETS)
    path = tmp_path / "own.py"
    path.write_text(text, encoding="utf-8")
    assert main(["list", "tasks", "--plugin", str(path)]) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1 and message in said.err
    assert before == (TASKS, ATTENTION, PRESETS)  # all of its parts or none


def test_a_file_that_is_not_there_or_has_anothers_name(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "tasks", "--plugin", str(tmp_path / "nowhere.py")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err
    other = tmp_path / "other" / "own.py"
    other.parent.mkdir()
    other.write_text(FILE, encoding="utf-8")
    assert main(["list", "tasks", "--plugin", str(file), "--plugin", str(other)]) == 0  # the same file, told twice
    capsys.readouterr()
    other.write_text(FILE + "\n", encoding="utf-8")
    assert main(["list", "tasks", "--plugin", str(file), "--plugin", str(other)]) == 2
    assert "two plugins are named own.py" in capsys.readouterr().err


def test_a_plugin_that_is_no_file_or_has_a_path_that_no_list_can_hold_is_said_at_once(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe was waited for, a device read for ever, and processes that were started looked for half a path."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "a:b").mkdir()
    (tmp_path / "a:b" / "own.py").write_text(FILE, encoding="utf-8")
    wrong = {"pipe.py": "is not a file", "zero.py": "is not a file", ".": "is not a file", "a:b/own.py": "has a ':' in"}
    for name, message in wrong.items():
        assert main(["list", "tasks", "--plugin", str(tmp_path / name)]) == 2
        said = capsys.readouterr()
        assert not said.out and said.err.count("\n") == 1 and message in said.err
        assert "backwards" not in TASKS and PLUGINS not in os.environ


def test_ctrl_c_within_a_plugin_is_no_fault_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    assert main(["list", "tasks", "--plugin", str(tmp_path / "own.py")]) == 130
    assert capsys.readouterr().err == "workbench: interrupted\n"


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("sys.exit(0)", "a plugin or study ended the command (SystemExit: 0), which is not done"),
        ("raise Panic('index out of bounds')", "Panic: index out of bounds"),
    ],
)
def test_a_part_that_ends_the_program_or_panics_is_one_line_and_no_success(
    does: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokenizers in Rust raise a panic that is no `Exception`."""
    part = "def sample(self, *_, **__):\n        "
    text = FILE.replace(
        '    name: ClassVar[str] = "backwards"\n', f'    name: ClassVar[str] = "backwards"\n    {part}{does}\n'
    )
    (tmp_path / "own.py").write_text(f"import sys\nclass Panic(BaseException): pass\n{text}", encoding="utf-8")
    command = ["train", "backwards", "--plugin", str(tmp_path / "own.py"), "--out", str(tmp_path / "run"), "--quiet"]
    assert main(command) == 1
    assert capsys.readouterr().err == f"workbench: {said}\n"


def test_an_installed_package_names_its_parts_in_entry_points(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(file.parent))
    points = [
        EntryPoint("backwards", "own:Backwards", "workbench.tasks"),
        EntryPoint("unrelated", "nowhere:Nothing", "somebody.else"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda: EntryPoints(points))
    load_plugins()
    load_plugins()  # once is enough
    assert TASKS["backwards"].__module__ == "own"
    points.append(EntryPoint("gone", "nowhere:Nothing", "workbench.attention"))
    with pytest.raises(ValueError, match="is installed but cannot be loaded"):
        load_plugins()
    (file.parent / "ends.py").write_text("raise SystemExit", encoding="utf-8")
    points[-1] = EntryPoint("ends", "ends:Nothing", "workbench.attention")
    with pytest.raises(ValueError, match=r"is installed but cannot be loaded \(SystemExit"):
        load_plugins()


def test_a_damaged_note_of_plugins_is_no_traceback(tmp_path: Path) -> None:
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, steps=0)
    config = json.loads((run.path / "config.json").read_text(encoding="utf-8"))
    for noted in (3, [3], [{"name": 3}], [{"name": "x", "path": "/etc"}], {"name": "x"}):
        (run.path / "config.json").write_text(json.dumps({**config, "plugins": noted}), encoding="utf-8")
        with pytest.raises(ValueError, match="plugins") as caught:
            workbench.load_run(run.path)
        assert "\n" not in str(caught.value)
