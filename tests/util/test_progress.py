"""What is told of long work, and what Ctrl-C keeps."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from workbench.util import progress
from workbench.util.messages import Notice
from workbench.util.progress import interrupted, shown, steps


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Python's own answer to Ctrl-C, which a process in the background may have been started without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_long_work_says_once_how_long_it_takes_and_that_is_all_where_nobody_waits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 1000, 5))  # every look at the clock is five seconds later
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    assert list(steps(range(4), "looking")) == [0, 1, 2, 3]
    assert capsys.readouterr().err == ""
    with shown():
        assert list(steps(range(20), "looking", keep=True)) == list(range(20))
    first, *more = capsys.readouterr().err.splitlines()
    assert first.startswith("looking: about ") and first.endswith("; Ctrl-C keeps what is done")
    assert more and all(line.startswith("looking: ") and line.endswith(" left") for line in more)


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with shown():
        for _ in steps(range(3), "outer"):
            list(steps(range(3), "inner"))
    assert capsys.readouterr().err == ""


def test_ctrl_c_ends_work_that_keeps_after_the_piece_it_is_at() -> None:
    done = []
    with shown(), pytest.warns(Notice, match="measuring ended after 2 of 5; what is done is kept"):
        for number in steps(range(5), "measuring", keep=True):
            if number == 1:
                os.kill(os.getpid(), signal.SIGINT)
            done.append(number)
        assert interrupted()
    assert done == [0, 1] and not interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_is_raised_where_nothing_can_be_kept() -> None:
    with shown(), pytest.raises(KeyboardInterrupt):
        for _ in steps(range(5), "growing"):
            os.kill(os.getpid(), signal.SIGINT)
