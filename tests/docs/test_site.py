"""The site is built without a warning: no broken link, no page that is nowhere in the navigation."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

MISSING = [
    name for name in ("mkdocs", "material", "mkdocstrings", "latex2mathml") if not importlib.util.find_spec(name)
]


@pytest.mark.slow
@pytest.mark.skipif(
    bool(MISSING), reason=f"the docs extra is not installed (`make docs` does): no {', '.join(MISSING)}"
)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "site" / "reference" / "instruments.html").is_file()
    links = (tmp_path / "site" / "llms.txt").read_text(encoding="utf-8")
    assert links.startswith("# workbench\n\n> ") and "- [Find a circuit](how-to/circuit.html): Which parts" in links
    assert not [page for page in re.findall(r"\]\(([^)]+)\)", links) if not (tmp_path / "site" / page).is_file()]
    assert "<math" not in (tmp_path / "site" / "llms-full.txt").read_text(encoding="utf-8")
