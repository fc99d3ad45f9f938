"""What several tests of the report write up."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.runs.compiled import compile_run


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled sorter and the compiled chaser."""
    root = tmp_path_factory.mktemp("runs")
    compile_run("sorter", root / "sorter", {"q": 6, "max_length": 6})
    compile_run("chaser", root / "chaser")
    return root
