"""The distribution that this package comes in: its name, version and commit, and what its extras bring."""

from __future__ import annotations

import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "interp-workbench"
STRANGER = "workbench"  # another project's distribution, whose package has our package's name
EXTRAS = {
    "streamlit": "explorer",
    "jupyterlab": "notebooks",
    "kaleido": "export",
    "PIL": "export",
    "gguf": "gguf",
    "ray": "ray",
    "mcp": "mcp",
    "tensorboard": "tracking",
    "trackio": "tracking",
}
"""Library -> the extra that brings it."""


def version() -> str:
    """The version of this package; of a checkout that is not installed, the one that it says."""
    try:
        return version_of(DISTRIBUTION)
    except PackageNotFoundError:
        about = Path(__file__).resolve().parents[2] / "pyproject.toml"
        return str(tomllib.loads(about.read_text(encoding="utf-8"))["project"]["version"])


def needs(library: str, what: str) -> None:
    """Raise ValueError, which says what to install, where a library of an extra is missing.

    Args:
        library: one of `EXTRAS`.
        what: what needs it, as the subject of a sentence.
    """
    try:
        missing = find_spec(library) is None
    except ValueError:  # it was taken out of `sys.modules`
        missing = True
    if missing:
        raise ValueError(f"{what} needs {library}: pip install '{DISTRIBUTION}[{EXTRAS[library]}]'")


def mixed_up() -> str | None:
    """What to do if a stranger's distribution has put its files into our package's folder; None where none has."""
    try:
        found, ours = distribution(STRANGER), distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
    if found.metadata["Summary"] == ours.metadata["Summary"]:  # this project under the name that it once had
        return None
    if "workbench/__init__.py" not in map(str, found.files or []):
        return None
    return (
        f"another project, whose distribution is named {STRANGER}, is installed in the same place, and its files and "
        f"ours are mixed: pip uninstall {STRANGER} {DISTRIBUTION}, then pip install {DISTRIBUTION}"
    )


def commit() -> str | None:
    """The commit of this checkout, with `+changes` if the library's files differ from it; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        commands = [
            ["git", "rev-parse", "HEAD"],
            ["git", "status", "--porcelain", "--untracked-files=no", "workbench", "probes"],
        ]
        head, changes = (
            subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+changes" if changes else "")
