"""Folders whose names are not in the locale's encoding: what is measured of a run lands, or is refused in a line.

Python reads each byte of such a name as half of a character ("surrogate escape"). The bytes here are UTF-8, as they are
in a locale of ASCII that is given a name with an umlaut.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from transformers import GPT2Config, GPT2LMHeadModel

from workbench.cli import main
from workbench.runs.compiled import compile_run
from workbench.tasks.text import Text

UMLAUT = os.fsencode("ü").decode("ascii", errors="surrogateescape")
LATIN = os.fsdecode(b"\xfc")  # no UTF-8 on the disk either


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in a folder of such a name, beside the same run in one of a plain name."""
    for name in ("plain", f"r{UMLAUT}"):
        compile_run("chaser", tmp_path / name)
    return tmp_path / f"r{UMLAUT}"


COMMANDS: dict[str, tuple[list[str], str]] = {
    "inspect": (["--n", "8", "--only", "overall", "--quiet"], "data/*/overall"),
    "probe": (["parent", "--n", "16", "--quiet"], "probe"),
    "circuit": (["--n", "8", "--edges", "2"], "scores"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_measured_of_a_run_lands_whatever_its_folder_is_called(
    command: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, stem = COMMANDS[command]
    tables = []
    for folder in (run, tmp_path / "plain"):
        out = tmp_path / f"out-{folder.name}"
        assert main([command, str(folder), *given, "--out", str(out)]) == 0, capsys.readouterr().err
        (csv,), (parquet,) = (list(out.glob(f"{stem}.{kind}")) for kind in ("csv", "parquet"))
        tables.append((pd.read_csv(csv)["value"].tolist(), pd.read_parquet(parquet.open("rb"))["value"].tolist()))
    assert tables[0] == tables[1] and tables[0][0] == pytest.approx(tables[0][1])


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_data_are_written_and_read_whatever_their_file_is_called(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / f"d{UMLAUT}.{kind}")
    assert main(["data", "pointer_chain", "--n", "16", "--count", "2", "--quiet", "--out", path]) == 0
    capsys.readouterr()
    assert main(["data", path]) == 0 and "gold edges" in capsys.readouterr().out


@pytest.mark.slow
def test_a_report_is_written_again_in_a_locale_of_ascii(tmp_path: Path) -> None:
    """Beside one of a locale of UTF-8, of which nothing is left."""
    compile_run("chaser", tmp_path / "rün")
    command = ["inspect", str(tmp_path / "rün"), "--n", "8", "--only", "overall", "--quiet"]
    assert main(command) == 0
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"} | ascii_only
    done = subprocess.run(
        [sys.executable, "-m", "workbench", *command], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    (data,) = (tmp_path / "rün" / "inspection" / "data").iterdir()
    assert data.name.isascii() and (data / "overall.parquet").is_file()
    assert main(command) == 0, "and once more in a locale of UTF-8"


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1 and not shown.out, shown
    return shown.err


def test_a_name_that_no_library_reads_is_refused_before_anything_is_made(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (tmp_path / f"x{LATIN}", tmp_path / f"x{LATIN}" / "deeper"):
        for command in (["inspect", str(run)], ["compile", "chaser"], ["circuit", str(run)], ["export", str(run)]):
            assert main([*command, *([] if command[0] == "export" else ["--out"]), str(out)]) == 2
            assert "is not in UTF-8 on the disk" in one_line(capsys)
    run.rename(tmp_path / f"r{LATIN}")
    assert main(["inspect", str(tmp_path / f"r{LATIN}")]) == 2
    assert "is not in UTF-8 on the disk" in one_line(capsys)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_model_with_a_tokenizer_or_a_config_that_would_name_such_a_path_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = Text(path="shakespeare", block=64)
    shape: dict[str, Any] = {"n_positions": 64, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = GPT2Config(vocab_size=len(words.vocabulary), bos_token_id=None, eos_token_id=None, **shape)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    words.fast_tokenizer().save_pretrained(tmp_path / "gpt2")
    (tmp_path / "gpt2").rename(tmp_path / f"g{UMLAUT}")
    text = tmp_path / f"t{UMLAUT}.txt"
    text.write_text("The cat sat on the mat, and then the dog.\n" * 20)
    capsys.readouterr()
    new, before = str(tmp_path / f"new{UMLAUT}"), sorted(tmp_path.iterdir())
    for command in (
        ["inspect", str(tmp_path / f"g{UMLAUT}"), "--text", str(text), "--quiet"],
        ["export", str(run), "--hugging-face", new],
        ["finetune", "gpt2", "--text", "t.txt", "--out", new],
        ["explore", "--headless", "--root", str(run)],
        ["train", "--task", "text", "--task.path", str(text), "--out", str(tmp_path / "new")],
    ):
        assert main(command) == 2
        assert "set PYTHONUTF8=1" in one_line(capsys), command
    assert sorted(tmp_path.iterdir()) == before
