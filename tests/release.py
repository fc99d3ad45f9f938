"""Whether this commit can be released: what is built from it, and how it runs where it is installed.

python -m tests.release                               # with Python 3.11, 3.12 and 3.13, as many as there are
python -m tests.release --pythons 3.13 /opt/python    # with these

Only tracked files are built: a source archive, and the wheel out of that. An environment of each Python gets the wheel
with its extra `explorer`, and there, outside the repository, a model is trained, inspected and explored. `uv` makes the
environments where there is one, else `venv` and `pip`. It takes minutes and 2 GB of disk a Python, one after another.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
MOST = 15_000_000  # bytes of the wheel
UV = shutil.which("uv")
FAILED = "FAILED"
SMALL = ["--steps", "20", "--task.n", "16", "--task.k", "4", "--eval_size", "32", "--batch_size", "16", "--quiet"]
FEW = ["--n", "16", "--only", "accuracy", "entropy", "--out", "report", "--quiet"]
COMMANDS: dict[str, list[str]] = {
    "version": ["--version"],
    "list": ["list", "presets"],
    "train": ["train", "chain-chacal", "--out", "runs/chacal", *SMALL],
    "stack": ["train", "chain-standard", "--out", "runs/standard", "--seeds", "2", *SMALL],
    "inspect": ["inspect", "runs/chacal", "runs/standard/seed-0", *FEW],
    "runs": ["runs", "--root", "runs"],
    "check": ["check", "runs/chacal", "--quiet"],
}
"""Column of the table -> command."""

FIRST_PAGE = """
import sys
from pathlib import Path
import workbench
from streamlit.testing.v1 import AppTest
sys.argv = ["main.py", "--root", "empty"]
first = AppTest.from_file(str(Path(workbench.__file__).parent / "app" / "main.py"), default_timeout=120).run()
assert not first.exception and not first.error, [one.value for one in [*first.exception, *first.error]]
assert any("came with the workbench" in one.value for one in first.caption)
"""


class ReleaseError(Exception):
    """A step did not do what it should."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints, in an environment without variables of Python's. Raises ReleaseError if it fails."""
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WORKBENCH", "VIRTUAL"))
    }
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=plain, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"[-3000:])
    return done.stdout


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def environment(python: str, folder: Path) -> Path:
    """A fresh environment of a Python; returns its own Python."""
    run(*([UV, "venv", "--quiet", "--python", python] if UV else [python, "-m", "venv"]), folder)
    return folder / "bin" / "python"


def install(python: Path, *what: str | Path) -> None:
    """Install into an environment, PyTorch in the version that `constraints.txt` has."""
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    constraint = python.parents[1] / "torch.txt"
    constraint.write_text(torch)
    pip = [UV, "pip", "install", "--python", python] if UV else [python, "-m", "pip", "install", "--no-compile"]
    run(*pip, "--quiet", "--constraint", constraint, *what)


def build(folder: Path) -> tuple[Path, Path]:
    """The source archive and the wheel out of it, of the files that git tracks, as they are now."""
    source, out = folder / "source", folder / "dist"
    for name in run("git", "ls-files", "-z", cwd=ROOT).rstrip("\0").split("\0"):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    if UV:
        run(UV, "build", "--quiet", "--out-dir", out, source)
    else:
        python = environment(sys.executable, folder / "builder")
        install(python, "build")
        run(python, "-m", "build", "--outdir", out, source)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def check_wheel(wheel: Path) -> None:
    """Raise ReleaseError if the wheel is too large, or installs what it should not."""
    if wheel.stat().st_size > MOST:
        raise ReleaseError(
            f"the wheel has {megabytes(wheel.stat().st_size)}, and should have less than {megabytes(MOST)}"
        )
    with ZipFile(wheel) as whole:
        top = {name.split("/")[0] for name in whole.namelist()}
        if others := {name for name in top if name != "workbench" and not name.endswith(".dist-info")}:
            raise ReleaseError(f"the wheel installs {', '.join(sorted(others))} beside workbench")


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def largest(wheel: Path, n: int = 5) -> Iterator[str]:
    """The folders of the wheel that take most of it."""
    sizes: dict[str, int] = {}
    with ZipFile(wheel) as whole:
        for one in whole.infolist():
            folder = "/".join(one.filename.split("/")[:3])
            sizes[folder] = sizes.get(folder, 0) + one.compress_size
    for folder, size in sorted(sizes.items(), key=lambda item: -item[1])[:n]:
        yield f"{megabytes(size):>9}  {folder}"


@contextmanager
def explorer(script: Path, folder: Path) -> Iterator[str]:
    """The explorer as a command starts it; the address that it prints."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    command = [str(script), "explore", "--root", "empty", "--port", port, "--headless"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            address = next((part for part in line.split() if part.startswith("http")), None)
            if address is None:
                raise ReleaseError(f"the explorer said no address, but: {line.strip() or 'nothing'}")
            yield address
        finally:
            server.terminate()


def explored(python: Path, folder: Path) -> None:
    """Open the explorer on no runs of one's own: the page is served, and drawn with the runs that come along."""
    (folder / "empty").mkdir()
    with (
        explorer(python.with_name("workbench"), folder) as address,
        urllib.request.urlopen(address, timeout=60) as page,
    ):
        if page.status != 200:
            raise ReleaseError(f"the explorer answers {page.status}")
    run(python, "-P", "-c", FIRST_PAGE, cwd=folder)


def steps(python: str, wheel: Path, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Everything that is tried with one Python, by the column of the table."""
    own, work = folder / "env" / "bin" / "python", folder / "work"
    work.mkdir()

    def installed() -> None:
        environment(python, folder / "env")
        install(own, "torch")
        install(own, f"interp-workbench[explorer] @ {wheel.as_uri()}")

    yield "install", installed
    for name, words in COMMANDS.items():
        yield name, lambda words=words: run(own.with_name("workbench"), *words, cwd=work)  # type: ignore[misc]
    yield "explore", lambda: explored(own, work)


def tried(python: str, wheel: Path, folder: Path) -> dict[str, str]:
    """The seconds that each step took, up to the first that failed."""
    row: dict[str, str] = {}
    for name, do in steps(python, wheel, folder):
        began = time.monotonic()
        try:
            do()
        except (ReleaseError, OSError) as error:
            say(f"{python}, {name}: {error}")
            return row | {name: FAILED}
        row[name] = f"{time.monotonic() - began:.0f} s"
    return row


def found(names: list[str]) -> dict[str, str]:
    """Version -> the Python that is run for it, of names that are versions or paths."""
    pythons = {}
    for name in names:
        command = f"python{name}" if re.fullmatch(r"3\.\d+", name) else name
        with TemporaryDirectory() as folder:
            try:
                text = run(command, "--version", cwd=Path(folder))
            except (ReleaseError, OSError):
                say(f"there is no {command}; it is left out")
                continue
        pythons[text.split()[1]] = command
    return pythons


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="*", default=PYTHONS, help="versions, or paths of Pythons")
    pythons = found(parser.parse_args().pythons)
    with TemporaryDirectory(prefix="release-") as place:
        sdist, wheel = build(Path(place))
        say("\n".join(f"{megabytes(one.stat().st_size):>9}  {one.name}" for one in (sdist, wheel)))
        say("\n".join(largest(wheel)))
        check_wheel(wheel)
        columns, failed = ["install", *COMMANDS, "explore"], not pythons
        say("".join(f"{name:>9}" for name in ["Python", *columns]))
        for version, python in pythons.items():
            with TemporaryDirectory(prefix="python-", dir=place) as folder:
                row = tried(python, wheel, Path(folder))
            say("".join(f"{cell:>9}" for cell in [version, *(row.get(column, "–") for column in columns)]))
            failed = failed or FAILED in row.values()
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ReleaseError as error:
        sys.exit(str(error))
