"""Pictures beside the figures of the stored notebooks, for viewers that run no JavaScript, such as a repository's page.

python -m tests.notebook_pictures       # adds those that are missing, and takes out what changes with every run
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import plotly.graph_objects as go

from workbench.figures.pictures import in_few_colours, write_pictures

FOLDER = Path(__file__).parents[1] / "notebooks"
PLOTLY, PNG = "application/vnd.plotly.v1+json", "image/png"
WIDTH, SHARP = 900, 1.5


def figures(notebook: Any) -> Iterator[Any]:
    """The outputs of a notebook that are figures."""
    for cell in notebook.cells:
        yield from (output for output in cell.get("outputs", ()) if PLOTLY in output.get("data", {}))


def add_pictures(path: Path) -> int:
    """Draw every figure of a notebook that has no picture yet. Returns how many there were."""
    notebook = nbformat.read(path, as_version=4)
    for number, cell in enumerate(notebook.cells):  # their names are random, and code has the time when it ran
        cell.id = f"cell-{number}"
        cell.metadata.pop("execution", None)
    missing = [output for output in figures(notebook) if PNG not in output.data]
    if missing:
        drawn = [go.Figure({key: output.data[PLOTLY][key] for key in ("data", "layout")}) for output in missing]
        for figure in drawn:  # on any page, light or dark
            figure.update_layout(template="plotly_white", paper_bgcolor="white", plot_bgcolor="white")
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / f"{number}.png" for number in range(len(drawn))]
            write_pictures(drawn, files, width=WIDTH, scale=SHARP)
            for output, file in zip(missing, files, strict=True):
                in_few_colours(file)
                output.data[PNG] = base64.b64encode(file.read_bytes()).decode()
    nbformat.write(notebook, path)
    return len(missing)


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        sys.stdout.write(f"{path.name}: {add_pictures(path)} pictures\n")
