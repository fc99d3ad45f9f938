"""The distribution that this package comes in: its name, its version, and what its extras bring."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "interp-workbench"
STRANGER = "workbench"  # another project's distribution, whose package has our package's name
EXTRAS = {"streamlit": "explorer", "jupyterlab": "notebooks", "kaleido": "export", "ray": "ray"}
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
    if not _is_there(library):
        raise ValueError(f"{what} needs {library}: pip install '{DISTRIBUTION}[{EXTRAS[library]}]'")


def _is_there(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ValueError:  # it was taken out of `sys.modules`
        return False


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
