"""Hostile links and inputs: never an exception, never a file outside the root, never unescaped markup."""

from __future__ import annotations

import ast
import os
import random
import re
import string
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.conftest import APP
from tests.app.support import drawings, page
from workbench.runs import load_run

MARKUP = "<img src=x onerror=alert(1)>"
NASTY = [
    MARKUP,
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2f",
    "\x00",
    "",
    " ",
    "-1",
    "0",
    "1",
    "7",
    "99999999999999999999",
    "1e400",
    "nan",
    "inf",
    "True",
    "None",
    "null",
    "[]",
    "{}",
    "'; DROP TABLE runs; --",
    "$(touch /tmp/owned)",
    "`id`",
    "\u202e\u0000\ud7ff",
    "👩‍🔬" * 40,
    "9" * 5000,
    "[x](javascript:alert(1))",
    "layer 0, head 0",
    "layer 9, head 9",
    "blocks.0.hook_resid_mid",
    "the end",
    "Type",
    "Sample",
    "decoder",
]
# Every word in the explorer's sources that could be the name of a field, and so of a parameter of the URL.
KEYS = sorted(
    {
        node.value
        for source in APP.parent.rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch("[a-z][a-z0-9_]+", node.value)
    }
)

PAGES = sorted(view.stem for view in (APP.parent / "views").glob("[a-z]*.py"))

_opened: list[str] | None = None


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    listening = _opened is not None and event in ("open", "os.listdir", "os.scandir")
    if listening and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
        _opened.append(os.fsdecode(arguments[0]))


sys.addaudithook(_listen)


@pytest.fixture
def opened_files() -> Iterator[list[str]]:
    """What is opened or listed while the test runs."""
    global _opened
    _opened = []
    yield _opened
    _opened = None


def outside(paths: list[str], root: Path) -> list[str]:
    """Paths that neither the runs nor the program itself and its libraries account for."""
    code = [APP.parents[1], Path(sys.prefix), Path(sys.base_prefix), Path(sysconfig.get_paths()["stdlib"])]
    machine = [
        Path("/proc"),
        Path("/sys"),
        Path("/dev"),
        Path("/usr"),
        Path.home() / ".streamlit",
        Path.home() / ".config",
    ]
    allowed = [root.resolve(), *(path.resolve() for path in (*code, *machine))]
    return [path for path in paths if not any(Path(path).resolve().is_relative_to(place) for place in allowed)]


def a_text(draws: random.Random, words: list[str]) -> str:
    kind = draws.randrange(4)
    if kind == 0:
        return draws.choice(NASTY)
    if kind == 1:
        return " ".join(draws.choices(words, k=draws.randrange(0, 40)))
    if kind == 2:
        return "".join(draws.choices(string.printable, k=draws.randrange(0, 60)))
    return " ".join(draws.choices([*words, *NASTY], k=draws.randrange(1, 12)))


def a_link(draws: random.Random, runs: dict[str, list[str]]) -> dict[str, str]:
    run = draws.choice(list(runs))
    link = {"run": run if draws.random() < 0.9 else draws.choice(NASTY)}
    if draws.random() < 0.6:
        link |= {"how": "Type", "input": a_text(draws, runs[run])}
    for key in draws.sample(KEYS, k=draws.randrange(0, 30)):
        link.setdefault(key, draws.choice(NASTY))
    return {key: value for key, value in link.items() if value or draws.random() < 0.5}


def follow(seeds: range, run_root: Path, monkeypatch: pytest.MonkeyPatch, opened_files: list[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(run_root)])
    runs = {path.name: list(load_run(path).task().vocabulary.words) for path in sorted(run_root.iterdir())}
    for seed in seeds:
        draws = random.Random(seed)
        link, name = a_link(draws, runs), draws.choice(PAGES)
        explorer = AppTest.from_file(str(APP), default_timeout=400)  # the first probes of a run take minutes
        try:
            page(explorer, name, **link)
        except BaseException:
            sys.stderr.write(f"seed {seed}: {name} {link!r}\n")
            raise
        shown = "".join(drawings(explorer)) + "".join(html.proto.body for html in explorer.get("html"))
        assert MARKUP not in shown and "<script" not in shown, (seed, name, link)
    assert not outside(opened_files, run_root)


def test_hostile_links_show_no_exception_and_read_nothing_outside(
    run_root: Path, monkeypatch: pytest.MonkeyPatch, opened_files: list[str]
) -> None:
    follow(range(40), run_root, monkeypatch, opened_files)


def test_infinite_numbers_in_a_link_are_left_out_and_the_rest_is_kept(explorer: AppTest) -> None:
    page(explorer, "compare", run="chaser", sample="inf", focus="1e400", how2="Sample", sample2="-Infinity")
    assert explorer.selectbox(key="run").value == "chaser" and explorer.segmented_control(key="how2").value == "Sample"
    assert [explorer.number_input(key=key).value for key in ("sample", "sample2", "focus")] == [0, 1, None]


@pytest.mark.parametrize("number", ["9" * 30, "9" * 400, "9007199254740992", "nan", "inf", "-inf", "1e400"])
def test_numbers_too_large_for_a_field_are_left_out(explorer: AppTest, number: str) -> None:
    page(
        explorer,
        "canvas",
        run="chaser",
        edit_kind="patch from another input",
        edit_other_position=number,
        sample=number,
    )
    assert not explorer.error and explorer.number_input(key="edit_other_position").value is None
    assert explorer.number_input(key="sample").value == 0 and "edit_other_position" not in explorer.query_params


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_a_thousand_hostile_links(
    first: int, run_root: Path, monkeypatch: pytest.MonkeyPatch, opened_files: list[str]
) -> None:
    follow(range(first, first + 100), run_root, monkeypatch, opened_files)


def test_a_file_outside_would_be_noticed(run_root: Path, tmp_path: Path, opened_files: list[str]) -> None:
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    (run_root / "sorter" / "config.json").read_text(encoding="utf-8")
    assert outside(opened_files, run_root) == [str(tmp_path / "secret")]
