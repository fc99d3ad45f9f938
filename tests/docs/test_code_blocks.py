"""Every block of code in the README and the docs runs, or is checked by the command line's own parser."""

from __future__ import annotations

import inspect
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks, name
from workbench import cli
from workbench.cli import make_parser, parse_fields
from workbench.cli.finetune import NESTED as FINETUNE_SETTINGS
from workbench.instruments import INSTRUMENTS, WEIGHTS
from workbench.measurement.controls import CONTROLS
from workbench.mechanisms import MECHANISMS
from workbench.probes import PRESETS as QUESTIONS
from workbench.studies import find_study
from workbench.training import PRESETS, preset_config
from workbench.util.plugins import load_plugins

LABELS = ("identity",)  # that a page asks for in place of a question
CHEAP = (
    "data",
    "list",
    "compile",
    "export",
    "import",
    "runs",
    "study list",
    "study show",
)  # take no more than a moment
SLOW = ("docs/probing.md",)  # ten seconds; docs/how-to/probe.md does the same with less
MOST_SKIPPED, MOST_PARSED = 1, 7
BLOCKS = [block for page in PAGES for block in blocks(page)]
WITH_PYTHON = [page for page in PAGES if any(block.language == "python" for block in blocks(page))]
WITH_COMMANDS = [page for page in PAGES if any(block.commands for block in blocks(page) if block.language == "bash")]


def in_minutes(page: Path) -> Any:
    """A page as a parameter, marked slow where its blocks take long."""
    return pytest.param(page, id=name(page), marks=[pytest.mark.slow] if name(page) in SLOW else [])


@pytest.fixture(autouse=True)
def parts_as_they_were(no_plugins: None) -> Iterator[None]:
    """A page may register a part of its own; it is gone after the page."""
    with patch.dict(CONTROLS):
        yield


@pytest.mark.parametrize("page", [in_minutes(page) for page in WITH_PYTHON])
def test_python_blocks_of_a_page_run_each_on_its_own_or_say_that_they_go_on(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above: dict[str, object] = {}
    for block in blocks(page):
        if block.title is not None:
            (folder / block.title).write_text(block.code, encoding="utf-8")
            monkeypatch.delitem(sys.modules, Path(block.title).stem, raising=False)
        elif block.language == "python" and block.marker is None:
            namespace = ModuleType("documentation_page")
            vars(namespace).update(above if block.goes_on else {})
            monkeypatch.setitem(sys.modules, namespace.__name__, namespace)
            # Lines are counted as in the page, so that a traceback leads there.
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), vars(namespace))
            above |= vars(namespace)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_commands_of_a_page_exist_with_their_options_and_cheap_ones_run(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.title is not None:
            (folder / block.title).write_text(block.code, encoding="utf-8")
        for command in block.commands if block.language == "bash" else ():
            where = f"{name(page)}:{block.line}: workbench {' '.join(command)}"
            check(command, where)
            if (
                block.marker is None
                and ({command[0], " ".join(command[:2])} & {*CHEAP} or "--dry-run" in command)
                and "--delete" not in command
            ):
                if "--out" in command:  # the page makes what other pages start from
                    shutil.rmtree(folder / command[command.index("--out") + 1], ignore_errors=True)
                assert cli.main(command) == 0, where


def check(command: list[str], where: str) -> None:
    """Whether the parser knows the command, and the command the names and fields that it is given."""
    try:
        options, rest = make_parser().parse_known_args(command)
    except (ValueError, SystemExit) as error:
        pytest.fail(f"{where}: {error}")
    fields = parse_fields(rest)
    load_plugins(options.plugin)
    if options.name == "train":
        if not options.preset:
            fields["task"] = {"name": options.task, **fields.get("task", {})}
        preset_config(options.preset or None, fields)
    elif options.name == "inspect":
        assert {*options.only} <= {*INSTRUMENTS, *WEIGHTS, *MECHANISMS}, where
        for measure, settings in fields.items():
            part = MECHANISMS[measure].score if measure in MECHANISMS else {**INSTRUMENTS, **WEIGHTS}[measure].measure
            assert {*settings} <= {*inspect.signature(part).parameters}, where
    elif options.name == "probe":
        assert options.preset in QUESTIONS or options.preset in LABELS or options.text is not None, where
    elif options.name == "study":
        for given in options.names:
            find_study(given)
    elif options.name == "finetune":
        assert {*fields} <= {*FINETUNE_SETTINGS}, where
    elif options.name in ("data", "compile"):
        pass  # run, and so checked
    else:
        assert not rest, f"{where}: there is no option {rest}"


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    marked: dict[str, list[Block]] = {"skip": [], "parse": []}
    for block in BLOCKS:
        if block.marker:
            marked[block.marker].append(block)
            assert block.reason and len(block.reason) > 10, f"{name(block.page)}:{block.line}"
    assert len(marked["skip"]) <= MOST_SKIPPED and len(marked["parse"]) <= MOST_PARSED
    assert all(block.language == "python" for block in marked["skip"])
    assert all(block.language == "bash" for block in marked["parse"])


def test_every_block_says_its_language() -> None:
    """A block without one would be tested by nobody."""
    for page in PAGES:
        fences = [line.strip() for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")]
        assert all(len(opening) > 3 for opening in fences[::2]), name(page)


def test_presets_and_links_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in {part.split(")")[0].split("#")[0] for part in text.split("](")[1:]}:
        assert link.startswith("https://") or (ROOT / link).exists(), link
    assert "chain-chacal" in PRESETS
