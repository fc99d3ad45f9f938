"""What every test may use, and which tests are slow.

`seconds.json` has the seconds of every test that takes a while, as they were measured (`make test-seconds`). What
several tests share, such as a trained run, counts for each of them in equal parts. Those of `SLOW` seconds or more are
marked `slow`: `make test` leaves them out, `make test-slow` runs them. Of a file that would have no test left, the
quickest stays in `make test`, if it takes under `TOO_SLOW` seconds.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from workbench.util import plugins

SECONDS = Path(__file__).with_name("seconds.json")
SLOW = 1.0  # seconds
TOO_SLOW = 5.0  # seconds
KEPT = 0.5  # what takes less is not written down
UNKNOWN = 60.0  # seconds of a slow test that was not measured yet


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Small tensors gain nothing from threads, and busy ones slow each other down."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def numerics() -> dict[str, Any]:
    """Values computed independently in float64, which the mathematics must agree with."""
    return json.loads((Path(__file__).parent / "data" / "numerics.json").read_text(encoding="utf-8"))


@contextmanager
def plugins_restored() -> Iterator[None]:
    """Plugins may be loaded, or parts registered: all is as it was after this context."""
    tables = [kind.parts for kind in plugins.KINDS.values()]
    with ExitStack() as restored:
        for table in (*tables, plugins.ORIGINS, plugins._files, os.environ):
            restored.enter_context(patch.dict(table))
        yield


@pytest.fixture
def no_plugins() -> Iterator[None]:
    """A test that loads plugins, or registers parts: all is as it was after it."""
    with plugins_restored():
        yield


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file can be written beyond so many bytes within this context, as where a quota or the disk ends."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="K/N", help="of N parts that take about as long, the K-th, from 1")
    parser.addoption("--minutes", type=float, help="skip what has not begun by then")
    parser.addoption("--write-seconds", action="store_true", help="write how long each test took into seconds.json")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow; keep one part of the files."""
    seconds = json.loads(SECONDS.read_text(encoding="utf-8"))
    for members in by_file(items).values():
        mark_slow(members, seconds)
    if config.getoption("--part"):
        number, n = map(int, config.getoption("--part").split("/"))
        chosen = parts(items, seconds, n)[number - 1]
        config.hook.pytest_deselected(items=[item for item in items if item.path not in chosen])
        items[:] = [item for item in items if item.path in chosen]


def by_file(items: list[pytest.Item]) -> dict[Path, list[pytest.Item]]:
    files = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    return files


def mark_slow(members: list[pytest.Item], seconds: dict[str, float]) -> None:
    """Mark the slow tests of one file, but for the quickest where none would be left and it is not `TOO_SLOW`."""
    slow = [item for item in members if seconds.get(item.nodeid, 0.0) >= SLOW]
    quick = [item for item in members if item not in slow and item.get_closest_marker("slow") is None]
    if not quick and slow:
        quickest = min(slow, key=lambda item: seconds[item.nodeid])
        if seconds[quickest.nodeid] < TOO_SLOW:
            slow.remove(quickest)
    for item in slow:
        item.add_marker("slow")


def parts(items: list[pytest.Item], seconds: dict[str, float], n: int) -> list[set[Path]]:
    """The files shared out among n parts, so that the slow tests of each take about as long."""
    files: dict[Path, float] = defaultdict(float)
    for item in items:
        if item.get_closest_marker("slow") is not None:
            files[item.path] += seconds.get(item.nodeid, UNKNOWN)
    shared: list[tuple[float, set[Path]]] = [(0.0, set()) for _ in range(n)]
    for path, length in sorted(files.items(), key=lambda file: (-file[1], str(file[0]))):
        place = min(range(n), key=lambda i: shared[i][0])
        total, own = shared[place]
        shared[place] = total + length, own | {path}
    return [own for _, own in shared]


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[BEGAN] = time.monotonic()


BEGAN = pytest.StashKey[float]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = item.config.getoption("--minutes")
    if minutes is not None and time.monotonic() - item.config.stash[BEGAN] > 60 * minutes:
        pytest.skip(f"not begun within {minutes:g} minutes; it runs another time")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    """Time what several tests share, such as a trained run: it is charged to all of them, not to the first."""
    began = time.monotonic()
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            request.config.stash[JUST_MADE][fixture_id(fixturedef, request)] = time.monotonic() - began


def fixture_id(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> str:
    return f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Say in the report, which travels from workers to the main process, what shared fixtures a test made and uses."""
    report = yield
    just_made = item.config.stash[JUST_MADE]
    if report.when == "setup":
        used = [key for key in item.session.config.stash[ALL_MADE] | just_made if uses(item, key)]
        report.user_properties.append(("fixtures", (dict(just_made), used)))
        item.config.stash[ALL_MADE].update(just_made)
        just_made.clear()
    return report


def uses(item: pytest.Item, key: str) -> bool:
    """Whether a test uses a shared fixture, by its id."""
    place, _, rest = key.rpartition("::")
    name = rest.rpartition("[")[0]
    return name in getattr(item, "fixturenames", ()) and item.nodeid.startswith(place)


JUST_MADE = pytest.StashKey[dict[str, float]]()
ALL_MADE = pytest.StashKey[dict[str, float]]()
MEASURED: dict[str, float] = defaultdict(float)  # test -> seconds, without the fixtures that it shares
SHARED: dict[str, float] = {}  # shared fixture -> seconds
USERS: dict[str, set[str]] = defaultdict(set)  # shared fixture -> tests


def pytest_configure(config: pytest.Config) -> None:
    config.stash[JUST_MADE], config.stash[ALL_MADE] = {}, {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    MEASURED[report.nodeid] += report.duration
    if report.when == "setup":
        made, used = dict(report.user_properties)["fixtures"]
        MEASURED[report.nodeid] -= sum(made.values())
        for key, seconds in made.items():
            SHARED[key] = max(seconds, SHARED.get(key, 0.0))
        for key in used:
            USERS[key].add(report.nodeid)
    if report.outcome == "skipped":
        MEASURED.pop(report.nodeid, None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-seconds") and not hasattr(session.config, "workerinput"):
        for key, users in USERS.items():
            for name in users & MEASURED.keys():
                MEASURED[name] += SHARED[key] / len(users)
        known = json.loads(SECONDS.read_text(encoding="utf-8")) | MEASURED
        kept = {name: round(length, 1) for name, length in sorted(known.items()) if length >= KEPT}
        SECONDS.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
