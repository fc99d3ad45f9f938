"""The rooms of the house in order: a room may import those before it in the list, never one after it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# From the foundations up. A new room is put where all that it imports is before it.
ROOMS = (
    "util",
    "tasks",
    "models",
    "objectives",
    "runs",
    "training",
    "sharing",
    "capture",
    "measurement",
    "instruments",
    "interventions",
    "mechanisms",
    "judgement",
    "circuits",
    "inspection",
    "figures",
    "report",
    "probes",
    "studies",
    "benchmark",
    "testing",
    "app",
    "cli",
    "experimental",  # after all: it may import any room, and none imports it
)
MAY_TRAIN = {
    "training",
    "studies",
    "benchmark",
    "testing",
    "app",
    "cli",
    "experimental",
}  # all else starts from a run folder: disk is the seam
LOOSE = {"__init__", "__main__"}  # no other module lies at the library's root
FOLDERS = {"app": ROOT / "app", "probes": ROOT / "probes"}  # in the package by the links of these names


def sources() -> dict[Path, str]:
    """Every file of the library, with its room."""
    found = {}
    for path in sorted((ROOT / "workbench").rglob("*.py")):
        part = path.relative_to(ROOT / "workbench").parts[0]
        if part not in FOLDERS:
            found[path] = part.removesuffix(".py")
    for room, folder in FOLDERS.items():
        found |= dict.fromkeys(sorted(folder.rglob("*.py")), room)
    return found


@cache
def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in the file, but not those only for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rooms_of(path: Path) -> set[str]:
    """The rooms that a file imports."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("workbench.")} & set(ROOMS)


SOURCES = sources()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_its_own_room_and_those_before_it(path: Path) -> None:
    own = SOURCES[path]
    if own in LOOSE:
        return
    assert own in ROOMS, f"{own} is a new room: put it into the list where all that it imports is before it"
    after = {room for room in rooms_of(path) if ROOMS.index(room) > ROOMS.index(own)}
    assert not after, f"{own} comes before {', '.join(sorted(after))}"
    assert own in MAY_TRAIN or "training" not in rooms_of(path), "only the command line and the explorer train"


def test_no_module_lies_loose_at_the_root_of_the_library() -> None:
    assert {path.stem for path in (ROOT / "workbench").glob("*.py")} == LOOSE


def test_what_is_experimental_says_what_would_promote_or_remove_it_and_no_notebook_needs_it() -> None:
    for path in (path for path, room in SOURCES.items() if room == "experimental"):
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert "promote" in words.lower() and "remove" in words.lower(), path
    for path in (ROOT / "notebooks").rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith("workbench.experimental")], path


def test_streamlit_is_the_explorers_alone() -> None:
    for path, room in SOURCES.items():
        assert room == "app" or not [name for name in imports(path) if name.split(".")[0] == "streamlit"], path


def test_no_name_at_the_top_but_workbench() -> None:
    """A user's own `app.py` or `probes/` beside a notebook would come first."""
    for path in [*SOURCES, *(ROOT / "notebooks").rglob("*.py")]:
        assert not {name.split(".")[0] for name in imports(path)} & {"app", "probes", "tests"}, path


def test_notebooks_never_import_the_app() -> None:
    for path in (ROOT / "notebooks").rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith(("streamlit", "workbench.app"))], path


def test_functions_are_short_enough_to_read_at_one_look() -> None:
    """None over 60 lines, at most ten over 40, docstrings counted."""
    lengths = {
        f"{path.relative_to(ROOT)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    long = {name: lines for name, lines in lengths.items() if lines > 40}
    assert len(lengths) > 2000 and max(long.values()) <= 60 and len(long) <= 10, long


def test_the_list_would_notice_an_arrow_that_points_up() -> None:
    """The reader of imports sees those inside functions, and leaves out those for type checkers."""
    found = rooms_of(ROOT / "workbench" / "cli" / "__init__.py")
    assert "cli" in found and "training" not in found
    assert "workbench.runs.lock" in imports(ROOT / "workbench" / "runs" / "listing.py")
