"""Hostile command lines: each is wrong in one place, is told so in one line with exit code 2, and leaves nothing."""

from __future__ import annotations

import contextlib
import io
import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import workbench
from workbench.cli import main

SMALL = {"steps": 0, "eval_size": 8, "batch_size": 4, "task.n": 8, "task.k": 2, "model.d_model": 16}
TINY = ["--quiet", *(part for name, value in SMALL.items() for part in (f"--{name}", str(value)))]
RUN, FILE, NEW = "RUN", "FILE", "NEW"  # a run, a file of sequences, and a place where there is nothing

# A valid command each, in which one word is then spoilt.
COMMANDS = [
    ["train", "chain-chacal", "--out", NEW, *TINY],
    ["train", "chain-chacal", "--out", NEW, "--seeds", "2", *TINY],
    ["resume", RUN, "--quiet"],
    ["sweep", "SWEEP", "--out", "elsewhere", "--dry-run"],
    ["compile", "chaser", "--out", NEW],
    ["inspect", RUN, "--n", "8", "--only", "accuracy", "--out", NEW, "--quiet"],
    ["probe", RUN, "hops", "--n", "40", "--out", NEW, "--no-causal", "--quiet"],
    ["circuit", RUN, "pointer", "--n", "8", "--edges", "4", "--out", NEW],
    ["patch", RUN, "pointer", "--n", "8", "--method", "exact", "--out", NEW],
    ["heads", RUN, "--n", "4", "--top", "1", "--out", NEW],
    ["check", RUN, "--quiet"],
    ["bench", "arena", "--out", NEW, "--seed", "3"],
    ["data", "sorting", "--count", "2", "--out", f"{NEW}.jsonl", "--quiet"],
    ["data", "sorting", "--count", "2", "--split", "test", "--where", "length=4"],
    ["data", FILE, "--count", "1"],
    ["export", RUN, NEW],
    ["export", RUN, NEW, "--hugging-face"],
    ["import", "ZIP", "--out", NEW],
    ["runs", "--root", "ROOT", "--where", "seed=0", "--sort", "seed"],
    ["table", RUN, "--by", "model.attention", "--metric", "accuracy", "--latex"],
    ["explore", "--root", "ROOT", "--port", "8501", "--headless"],
    ["list", "tasks"],
]
PATHS = {RUN, FILE, NEW, f"{NEW}.jsonl", "SWEEP", "ZIP", "ROOT"}
NO_NUMBERS = ["nan", "inf", "-inf", "1e400", "-1", "-0.5", "x", "[]", "{}", "true", "٣x", "1_0x", "0x1g", "", " "]
HUGE = "9" * 50  # as a count it would be obeyed, for as long as the machine lasts
TEXTS = ["", " ", "x" * 5000, "../..", "\n", "\x1b[2J", "💥", "a.b.c", "=", "%s%n", "{}", "$(id)", "\udcff"]
COUNTS = ["steps", "batch_size", "accumulate", "workers", "log_every", "eval_every", "eval_size", "save_every"]
COUNTS += [
    "checkpoint_every",
    "checkpoint_count",
    "task.n",
    "task.k",
    "model.n_layers",
    "model.n_heads",
    "model.d_model",
]
NUMBERS = ["learning_rate", "weight_decay", "beta2", "clip", "stop_at", "model.dropout", "model.attention.gamma"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a file of sequences, a sweep, an archive, and all that is no good place for a file."""
    place = tmp_path_factory.mktemp("lines")
    small = {"task": {"n": 8, "k": 2}, "eval_size": 8, "batch_size": 4, "model": {"d_model": 16}}
    workbench.train("chain-chacal", out=place / "root" / "run", progress=False, steps=2, **small)
    assert main(["data", "sorting", "--count", "2", "--out", str(place / "file.jsonl"), "--quiet"]) == 0
    assert main(["export", str(place / "root" / "run"), str(place / "run.zip")]) == 0
    (place / "sweep.toml").write_text('preset = "chain-chacal"\ngrid.seed = [0, 1]\n', encoding="utf-8")
    (place / "a-file").write_text("no folder", encoding="utf-8")
    (place / "full").mkdir()
    (place / "full" / "something").write_text("there", encoding="utf-8")
    (place / "loop").symlink_to(place / "loop")
    (place / "nowhere").symlink_to(place / "gone" / "further")
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(place):
        bound.bind("socket")
    return place


def no_places(place: Path) -> list[str]:
    """Paths at which nothing can be read, and nothing made."""
    return [
        str(place / "a-file" / "below"),
        str(place / "a-file" / "far" / "below"),
        str(place / ("x" * 300)),
        str(place / ("y" * 300) / "below"),
        "/proc/x",
        "/proc/self/x/y",
        "/dev/null",
        "/dev/null/x",
        "/sys/x",
        str(place / "loop"),
        str(place / "loop" / "below"),
        str(place / "pipe"),
        str(place / "pipe" / "below"),
        str(place / "socket"),
        "\0",
        f"{place}/a\0b",
        "x" * 70_000,
    ]


def spoilt(place: Path, draw: random.Random) -> list[str]:
    """One of the commands with one thing wrong."""
    words = list(draw.choice(COMMANDS))
    kinds: list[Callable[[], None]] = [lambda: words.append(draw.choice(["--unheard", "--out", "-q", "--=", "---"]))]
    paths = [index for index, word in enumerate(words) if word in PATHS]
    numbers = [index for index, word in enumerate(words) if word.isdigit() and words[index - 1] != "--split"]
    names = [index for index, word in enumerate(words) if index and words[index - 1] in words[:1] and word not in PATHS]
    if paths:

        def no_place() -> None:
            at = draw.choice(paths)
            suffix = ".jsonl" if words[at].endswith(".jsonl") else ""
            words[at] = draw.choice([where for where in no_places(place) if not suffix or "below" in where]) + suffix

        kinds += [no_place] * 4
    if numbers:
        kinds.append(lambda: words.__setitem__(draw.choice(numbers), draw.choice(NO_NUMBERS)))
    if names:
        kinds.append(lambda: words.__setitem__(draw.choice(names), draw.choice(TEXTS)))
    if words[0] == "train":
        kinds.append(lambda: words.extend([f"--{draw.choice(COUNTS)}", draw.choice([*NO_NUMBERS, HUGE])]))
        kinds.append(lambda: words.extend([f"--{draw.choice(NUMBERS)}", draw.choice(NO_NUMBERS)]))
        kinds.append(lambda: words.extend([f"--{draw.choice(TEXTS)}x", "1"]))
    draw.choice(kinds)()
    stands = {
        RUN: place / "root" / "run",
        FILE: place / "file.jsonl",
        NEW: place / "new",
        f"{NEW}.jsonl": place / "new.jsonl",
        "SWEEP": place / "sweep.toml",
        "ZIP": place / "run.zip",
        "ROOT": place / "root",
    }
    return [str(stands.get(word, word)) for word in words]


def tree(place: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_size for path in place.rglob("*") if "inspection" not in path.parts}


@contextlib.contextmanager
def heard() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        yield out, error


def hostile_lines(place: Path, first: int, count: int) -> None:
    before = tree(place)
    for number in range(first, first + count):
        words = spoilt(place, random.Random(number))
        with heard() as (_, error):
            code = main(words)
        said = error.getvalue()
        assert code == 2, (number, words, code, said)
        assert said.count("\n") == 1 and said.startswith("workbench: ") and len(said) < 1000, (number, words, said)
        assert "Traceback" not in said and "Error" not in said and "\x1b" not in said, (number, words, said)
        assert tree(place) == before, (number, words)


def test_200_hostile_command_lines(place: Path) -> None:
    hostile_lines(place, 0, 200)


@pytest.mark.slow
def test_2000_hostile_command_lines(place: Path) -> None:
    hostile_lines(place, 200, 2000)
