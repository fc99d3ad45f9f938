"""The import arrows of the house: who may import whom, read from the sources themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Each room with the rooms it may import beside itself. Rooms further down may use rooms further up, never the reverse.
FOUNDATION = {"children", "files", "lookup", "memory", "seeds", "settings", "ties", "validation", "vmap"}
MODELLING = FOUNDATION | {"tasks", "models", "objectives"}
MAY_IMPORT = {
    "children": set(),
    "files": {"memory", "validation"},
    "lookup": {"validation"},
    "memory": set(),
    "seeds": set(),
    "settings": set(),
    "ties": set(),
    "validation": set(),
    "vmap": set(),
    "tasks": FOUNDATION,
    "models": FOUNDATION,
    "objectives": FOUNDATION | {"tasks", "models"},
    "data": FOUNDATION | {"tasks"},
    "runs": MODELLING,
    "training": MODELLING | {"runs"},
    "ground_truth": MODELLING | {"runs"},
    "sharing": MODELLING | {"runs"},
    "capture": MODELLING | {"runs"},
    "capture_store": MODELLING | {"capture"},
    "examples": MODELLING,
    "interventions": MODELLING | {"capture"},
    "edits": MODELLING | {"capture", "interventions", "instruments", "mechanisms"},
    "instruments": MODELLING | {"capture"},
    "mechanisms": MODELLING | {"capture", "interventions", "instruments"},
    "figures": MODELLING | {"capture", "instruments", "mechanisms", "edits"},
    "inspection": MODELLING | {"runs", "capture", "interventions", "instruments", "mechanisms", "figures"},
    "claims": MODELLING | {"runs", "capture", "instruments", "mechanisms", "figures", "inspection"},
    "pairs": MODELLING | {"runs", "capture", "instruments", "mechanisms", "figures", "inspection"},
    "learning": MODELLING | {"runs", "capture", "instruments"},
    "timeline": MODELLING
    | {"runs", "capture", "interventions", "instruments", "mechanisms", "figures", "inspection", "learning"},
    "report": MODELLING
    | {"runs", "capture", "instruments", "mechanisms", "figures", "inspection", "claims", "timeline"},
    "collection": MODELLING | {"runs", "training"},
    "catalogue": MODELLING | {"runs", "training", "ground_truth", "instruments", "mechanisms"},
    "cli": FOUNDATION
    | {"tasks", "data", "runs", "training", "ground_truth", "sharing", "report", "catalogue", "collection"},
    "__main__": {"cli"},
}


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


def room(path: Path) -> str:
    return path.relative_to(ROOT / "workbench").parts[0].removesuffix(".py")


SOURCES = sorted((ROOT / "workbench").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_library_files_import_only_the_rooms_before_them(path: Path) -> None:
    own = room(path)
    if own == "__init__":
        return
    assert own in MAY_IMPORT, f"{own} is a new room: say here what it may import"
    rooms = {name.split(".")[1] for name in imports(path) if name.startswith("workbench.")}
    existing = {room(source) for source in SOURCES}
    assert (rooms & existing) - {own} <= MAY_IMPORT[own]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_library_never_imports_app_probes_notebooks_or_streamlit(path: Path) -> None:
    """But for the command line, which is above the probes, and starts the app."""
    above = {"notebooks", "streamlit"} | (set() if room(path) == "cli" else {"workbench.app", "workbench.probes"})
    assert not [name for name in imports(path) if {name.split(".")[0], ".".join(name.split(".")[:2])} & above]


def test_no_name_at_the_top_but_workbench() -> None:
    """A user's own `app.py` or `probes/` beside a notebook would come first."""
    for folder in ("workbench", "app", "probes", "notebooks"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not {name.split(".")[0] for name in imports(path)} & {"app", "probes", "tests"}, path


@pytest.mark.parametrize("folder", ["probes", "notebooks"])
def test_probes_and_notebooks_never_import_the_app(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        assert not [name for name in imports(path) if name.startswith(("streamlit", "workbench.app"))], path


def test_arrows_have_no_cycle() -> None:
    """Each room's permissions, followed all the way, never lead back to it."""
    for start in MAY_IMPORT:
        reached, frontier = set(), set(MAY_IMPORT[start])
        while frontier:
            reached |= frontier
            frontier = {after for name in frontier for after in MAY_IMPORT[name]} - reached
        assert start not in reached
