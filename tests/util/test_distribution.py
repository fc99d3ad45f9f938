"""The distribution and its extras: what is missing is said, and the rest works without."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from workbench import cli
from workbench.util import distribution

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_each_extra_brings_its_library_and_all_brings_every_one() -> None:
    extras = PROJECT["optional-dependencies"]
    assert PROJECT["name"] == distribution.DISTRIBUTION
    for library, extra in distribution.EXTRAS.items():
        assert any(needed.startswith({"PIL": "pillow"}.get(library, library)) for needed in extras[extra])
        assert not any(needed.startswith(library) for needed in PROJECT["dependencies"])
    everywhere = [extra for extra in dict.fromkeys(distribution.EXTRAS.values()) if extra != "tracking"]
    assert extras["all"] == [f"{PROJECT['name']}[{','.join(everywhere)}]"]  # trackio takes no Pillow of this year


@pytest.mark.parametrize(
    ("library", "command", "said"),
    [
        (
            "streamlit",
            ["explore", "--headless"],
            "the explorer needs streamlit: pip install 'interp-workbench[explorer]'",
        ),
        ("mcp", ["mcp", "--root", "."], "the MCP server needs mcp: pip install 'interp-workbench[mcp]'"),
        ("kaleido", ["inspect", "RUN", "--export", "html", "svg"], "a figure as svg needs kaleido: pip install"),
    ],
)
def test_what_is_missing_is_said_with_what_to_install(
    library: str,
    command: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, library, None)
    assert cli.main(command) == 2
    assert said in capsys.readouterr().err


EVERYTHING = """
import sys
from importlib import import_module
from pkgutil import walk_packages

for name in ("streamlit", "uvicorn", "starlette", "jupyterlab", "ipywidgets", "kaleido", "ray", "triton", "mcp"):
    sys.modules[name] = None
import workbench
kernels = "workbench.models.attention.chacal_kernels"
skipped = ("workbench.app", "workbench.cli.mcp_server", "workbench.cli.templates", "workbench.__main__", kernels)
names = [m.name for m in walk_packages(workbench.__path__, "workbench.", onerror=lambda name: None)]
for name in names:
    if not name.startswith(skipped):
        import_module(name)
print(len(names))
"""


def test_without_any_extra_everything_but_the_servers_and_the_kernels_can_be_imported() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", EVERYTHING], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and int(done.stdout) > 300, done.stderr[-2000:]


def test_another_projects_files_in_our_folder_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = tmp_path / "workbench-9.9.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: workbench\nVersion: 9.9\n")
    (facts / "RECORD").write_text("elsewhere/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert distribution.mixed_up() is None
    (facts / "RECORD").write_text("workbench/__init__.py,,\n")
    assert cli.main(["list"]) == 2
    said = capsys.readouterr().err
    assert "pip uninstall workbench interp-workbench" in said and "Traceback" not in said
