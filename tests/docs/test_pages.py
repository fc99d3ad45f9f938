"""What every page says at its top, and what the page on tasks says of the base class."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name
from workbench.tasks import Task

STUDIES = ROOT / "docs" / "studies"  # each begins with its figure and what it found: tests/studies
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if STUDIES not in page.parents]
HOME = ROOT / "docs" / "index.md"


@pytest.mark.parametrize("page", [page for page in PAGES if page != HOME], ids=name)
def test_a_page_begins_with_what_its_reader_can_do_after_it(page: Path) -> None:
    text = re.split(r"^# .+$", page.read_text(encoding="utf-8"), maxsplit=1, flags=re.M)[1]
    first = text.strip().split("\n\n")[0]
    assert re.match(r"(After|Here|At the end)\b.*\byou (can|have)\b", " ".join(first.split())), first


def test_the_page_on_tasks_names_what_a_task_must_have_and_nothing_that_there_is_not() -> None:
    text = (ROOT / "docs" / "how-to" / "own-task.md").read_text(encoding="utf-8")
    tables = [re.findall(r"^\| (`.+?) \|", part, re.M) for part in re.split(r"^\| m\w+ have \|", text, flags=re.M)[1:]]
    must, may = ({word for cell in cells for word in re.findall(r"`(\w+)`", cell)} for cells in tables)
    declared = {each for each, hint in Task.__annotations__.items() if hint.startswith("ClassVar")}
    assert must == Task.__abstractmethods__ | {each for each in declared if not hasattr(Task, each)}
    assert may and all(hasattr(Task, each) for each in may)
