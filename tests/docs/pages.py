"""The blocks of code of the documentation's pages, with what their markers say of them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]

GOES_ON = "# goes on from the code above\n"  # the first line of a block that does not run on its own

# An optional comment, an opening fence with a language and perhaps a title, code, and the closing fence.
BLOCK = re.compile(
    r"(?:^<!-- test: (?P<marker>\w+), because (?P<reason>[^\n]+?) -->\n\n?)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """One block of code.

    Attributes:
        page: the file it is in.
        line: of its first line of code, from 1.
        language: what follows the fence: `python`, `bash`, `toml`, `text`, …
        title: the file that the block is, if it is one.
        code: its text.
        marker: `parse` (of commands: check them, run nothing), `skip` (of Python), or None.
        reason: why there is a marker.
    """

    page: Path
    line: int
    language: str
    title: str | None
    code: str
    marker: str | None
    reason: str | None

    @property
    def goes_on(self) -> bool:
        """Whether a block of Python says that it needs what the blocks of Python above it made."""
        return self.code.startswith(GOES_ON)

    @property
    def commands(self) -> list[list[str]]:
        """The arguments of each `workbench` command in the block, without the word `workbench`."""
        lines = self.code.replace("\\\n", " ").splitlines()
        words = [shlex.split(line, comments=True) for line in lines]
        return [line[line.index("workbench") + 1 :] for line in words if "workbench" in line]


def blocks(page: Path) -> list[Block]:
    """Every block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text[: found.start("code")].count("\n") + 1, **{name: found[name] for name in BLOCK.groupindex})
        for found in BLOCK.finditer(text)
    ]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))
