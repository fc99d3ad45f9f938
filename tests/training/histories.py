"""Random histories of kills: a command that trains is ended again and again, at random moments, then left to finish.

Commands run in processes forked from this one, which has imported everything: a kill costs a fraction of a second
instead of the seconds that imports take. A command as people type it is `typed=True`.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.util import _exit_function
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import torch

from tests.training.settings import Setting
from workbench.cli import main
from workbench.training.sweeps import local
from workbench.util.files import load_tensors

SECONDS_TO_END = 120.0
SECONDS_TO_BE_GONE = 10.0
KINDS = ("KILL", "TERM", "INT", "INT INT", "HUP", "TERM TERM", "STOP CONT", "STOP KILL")
CLOCKS = ("seconds", "tokens_per_second", "peak_megabytes")


@dataclass(frozen=True)
class Kill:
    """What ends a command: signals, to it alone or to its group as a terminal's are, `after` seconds or in a write.

    `write` counts the times that a file is made safe on disk (fsync) or gets its name (rename).
    """

    signals: tuple[int, ...]
    apart: float
    group: bool
    after: float = 0.0
    write: int | None = None

    @staticmethod
    def draw(rng: random.Random, seconds: float, writes: int) -> Kill:
        numbers = tuple(getattr(signal, f"SIG{name}") for name in rng.choice(KINDS).split())
        in_write = signal.SIGSTOP not in numbers and rng.random() < 0.35
        return Kill(
            numbers,
            apart=rng.choice((0.0, rng.uniform(0, 0.05))),
            group=rng.random() < 0.5,
            after=rng.uniform(0, seconds * 1.05),
            write=rng.randrange(writes) if in_write else None,
        )

    def __str__(self) -> str:
        names = "+".join(signal.Signals(number).name for number in self.signals)
        when = f"in write {self.write}" if self.write is not None else f"after {self.after:.2f} s"
        return f"{names}{' (group)' if self.group else ''} {when}"

    def send(self, pid: int) -> None:
        send = os.killpg if self.group else os.kill
        for number in self.signals:
            with suppress(ProcessLookupError, PermissionError):
                send(pid, number)
            time.sleep(self.apart)
        if self.signals[-1] == signal.SIGCONT:  # a process forked at that very moment may stop after the first
            time.sleep(0.1)
            with suppress(ProcessLookupError, PermissionError):
                send(pid, signal.SIGCONT)


class Forked:
    """A command in a process forked from this one, the first of a session of its own."""

    def __init__(self, arguments: list[str], said: Path, kill: Kill | None = None) -> None:
        # Whatever the command starts has the writing end too: it ends when all of them have.
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            with said.open("ab") as file:
                _become(partial(_command, arguments, kill), os.open(os.devnull, os.O_RDONLY), file)
        os.close(writer)
        self.code: int | None = None

    def wait(self, seconds: float) -> int | None:
        """Its exit code, negative for a signal; None if it still runs."""
        until = time.monotonic() + seconds
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > until:
                return None
            else:
                time.sleep(0.002)
        return self.code

    def gone(self) -> bool:
        """Whether nothing that it started lives, after some seconds at most."""
        ended = bool(select.select([self.reader], [], [], SECONDS_TO_BE_GONE)[0])
        os.close(self.reader)
        return ended


def _become(work: Callable[[], int], given: int, said: IO[bytes]) -> None:
    """Turn this forked process into one that does some work and ends."""
    code = 70
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, source in enumerate((given, said.fileno(), said.fileno())):
            os.dup2(source, number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        code = work()
        _exit_function()  # of multiprocessing, which Python calls as it ends
    except KeyboardInterrupt:
        code = 130
    except SystemExit as end:
        code = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _command(arguments: list[str], kill: Kill | None) -> int:
    local.subprocess = SimpleNamespace(Popen=ForkedWorker, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    if kill is not None and kill.write is not None:
        _kill_in_a_write(kill, kill.write)
    return main(arguments)


def _kill_in_a_write(kill: Kill, at: int) -> None:
    left, fsync, replace = [at], os.fsync, Path.replace

    def count() -> None:
        left[0] -= 1
        if left[0] == -1:
            kill.send(os.getpid())

    def counted_fsync(file: int) -> None:
        count()
        fsync(file)

    def counted_replace(self: Path, target: Any) -> Path:
        count()
        return replace(self, target)

    os.fsync, Path.replace = counted_fsync, counted_replace  # type: ignore[assignment,method-assign]


class ForkedWorker:
    """What a sweep needs of `subprocess.Popen`, for a worker that is forked instead of started anew."""

    inputs: list[IO[bytes]] = []  # noqa: RUF012  those of all workers: each keeps its own

    def __init__(self, command: list[str], stdout: IO[bytes], env: Mapping[str, str], **_: Any) -> None:
        given, own = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            for number in (own, *(file.fileno() for file in self.inputs if not file.closed)):
                os.close(number)
            _let_go_of("/.sweep.lock")
            _become(partial(_worker, command[-2:]), given, stdout)
        os.close(given)
        self.stdin = os.fdopen(own, "wb")
        self.inputs.append(self.stdin)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(0.002)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _worker(folder_and_kind: list[str]) -> int:
    sys.argv = [sys.argv[0], *folder_and_kind]
    runpy.run_module("workbench.training.sweeps", run_name="__main__")
    return 0


def _let_go_of(ending: str) -> None:
    """Close files that a process started anew would not have."""
    for entry in Path("/dev/fd").iterdir():
        with suppress(OSError):
            if str(entry.readlink()).endswith(ending):
                os.close(int(entry.name))


class Typed(Forked):
    """A command as people type it."""

    def __init__(self, arguments: list[str], said: Path, kill: Kill | None = None) -> None:
        assert kill is None or kill.write is None, "writes are counted in forked processes only"
        self.reader, writer = os.pipe()
        command = [sys.executable, "-m", "workbench", *arguments]
        with said.open("ab") as file:
            how = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file, "start_new_session": True}
            self.process = subprocess.Popen(command, pass_fds=(writer,), **how)  # type: ignore[call-overload]
        os.close(writer)
        self.pid, self.code = self.process.pid, None

    def wait(self, seconds: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.code = self.process.wait(seconds)
        return self.code


@dataclass
class History:
    """What was done to a command, and what is wrong with what came of it."""

    setting: Setting
    kills: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.setting}: {'; '.join(self.kills)}: {'; '.join(self.problems)}"


def unbroken(setting: Setting, folder: Path, start: type[Forked] = Forked) -> float:
    """Train without a kill; how many seconds it took."""
    started = time.monotonic()
    process = start(setting.first(folder), folder.with_suffix(".said"))
    code = process.wait(SECONDS_TO_END)
    assert code == 0, (setting, code, folder.with_suffix(".said").read_text())
    assert process.gone()
    return time.monotonic() - started


def run_history(setting: Setting, place: Path, rng: random.Random, start: type[Forked] = Forked) -> History:
    """One history in a folder of its own, which is removed if nothing is wrong."""
    place.mkdir()
    history, whole, broken = History(setting), place / "whole", place / "broken"
    seconds = unbroken(setting, whole, start)
    writes = 2 + 2 * sum(1 for _ in whole.rglob("*.safetensors")) + 3 * setting.saves
    earlier: list[Forked] = []
    for _ in range(rng.randint(1, 5)):
        if setting.finished(broken):
            break
        kill = Kill.draw(rng, seconds, writes)
        while start is Typed and kill.write is not None:
            kill = Kill.draw(rng, seconds, writes)
        earlier.append(killed(setting.following(broken), kill, history, broken.with_suffix(".said"), start))
        if rng.random() < 0.5:  # else the next command comes at once
            _check_gone(earlier, history)
    _check_gone(earlier, history)
    if history.problems:
        return history
    code: int | None = 0
    for _ in range(3 if setting.kind == "sweep" else 1):  # its lost attempts may count as its failure
        if setting.finished(broken):
            break
        process = start(setting.following(broken), broken.with_suffix(".said"))
        code = process.wait(SECONDS_TO_END)
        _check_gone([process], history)
    if code != 0 or not setting.finished(broken):
        history.problems.append(f"it did not finish: {code}, {broken.with_suffix('.said').read_text()[-300:]}")
    else:
        history.problems += differences(whole, broken)
    if not history.problems:
        shutil.rmtree(place)
    return history


def killed(arguments: list[str], kill: Kill, history: History, said: Path, start: type[Forked]) -> Forked:
    """A command, started and ended."""
    process = start(arguments, said, kill)
    if kill.write is None and process.wait(kill.after) is None:
        kill.send(process.pid)
    code = process.wait(SECONDS_TO_END)
    history.kills.append(f"{kill}: {code}")
    if code is None:
        history.problems.append(f"{kill}: it hangs")
        os.killpg(process.pid, signal.SIGKILL)
    return process


def _check_gone(processes: list[Forked], history: History) -> None:
    while processes:
        if not processes.pop(0).gone():
            history.problems.append("it left a process behind")


def differences(first: Path, second: Path) -> list[str]:
    """What differs between two folders of runs: files, weights and checkpoints to the bit, figures without clocks."""

    def files(root: Path) -> dict[str, Path]:
        names = {p.relative_to(root): p for p in root.rglob("*") if p.is_file()}
        # Beside runs: a sweep's own files, and what is left of a folder where a kill came while it was made.
        return {name.as_posix(): p for name, p in names.items() if not name.parts[0].startswith((".", "results."))}

    a, b = files(first), files(second)
    found = [f"only one has {name}" for name in sorted(a.keys() ^ b.keys())]
    for name in sorted(a.keys() & b.keys()):
        contents = CONTENTS.get(Path(name).suffix, Path.read_bytes)
        if contents(a[name]) != contents(b[name]):
            found.append(f"{name} differs")
    return found


def weights(path: Path) -> tuple[dict[str, tuple[str, bytes]], dict[str, str]]:
    """Every tensor's bits; a file's own bytes hold its header in any order."""
    tensors, metadata = load_tensors(path)
    bits = {name: x.contiguous().flatten().view(torch.uint8).numpy().tobytes() for name, x in tensors.items()}
    return {name: (f"{x.dtype} {list(x.shape)}", bits[name]) for name, x in tensors.items()}, metadata


def log(path: Path) -> tuple[dict[int, Any], set[str]]:
    """What each step's row says, as last done, and the events, without clocks and what started when."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [{key: value for key, value in row.items() if key not in CLOCKS} for row in rows]
    events = {json.dumps(row) for row in rows if row.get("event") not in (None, "started", "resumed")}
    return {row["step"]: row for row in rows if "event" not in row}, events


CONTENTS: dict[str, Callable[[Path], Any]] = {".jsonl": log, ".safetensors": weights}


def warm(place: Path) -> None:
    """Do here once what every forked process would otherwise do first."""
    torch.set_num_threads(1)
    setting = Setting.draw(random.Random(0), "single")
    settled = {**setting.fields, "workers": 0}
    assert main(Setting("single", setting.preset, settled).first(place / "warm")) == 0
