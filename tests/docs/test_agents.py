"""What is written for programs that read: AGENTS.md is true, and the site has llms.txt and llms-full.txt."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.test_layers import FOLDERS, ROOMS

AGENTS = (ROOT / "AGENTS.md").read_text(encoding="utf-8")


def test_agents_md_is_short_and_has_every_room_once() -> None:
    assert len(AGENTS.splitlines()) <= 120
    rooms = re.findall(r"^\| [^|]+ \| `(?:workbench/)?(\w+)/`", AGENTS, flags=re.M)
    assert sorted(rooms) == sorted(ROOMS) and set(FOLDERS) <= set(rooms)


def test_what_agents_md_names_is_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    named = re.findall(r"\bmake ([a-z-]+)", AGENTS)
    assert len(named) > 5 and set(named) <= set(targets)
    paths = [path for path in re.findall(r"`([\w./-]+/[\w./-]*)`", AGENTS) if not path.startswith(("site", "."))]
    paths += re.findall(r"\]\(([^)#]+)\)", AGENTS) + re.findall(r"\btests/[\w/]+(?:\.py)?", AGENTS)
    assert len(paths) > 30 and not [path for path in paths if not (ROOT / path).exists()]


PAGE = """# First

<!-- a remark: not for people -->

```bash
make demo   # not prose.
```

![a picture](picture.png)

It says **what** [it](second.md) does: in short. And more.
"""


def test_llms_txt_has_a_line_for_each_page_by_section_and_the_full_text_follows_the_navigation(
    tmp_path: Path,
) -> None:
    pytest.importorskip("mkdocs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    docs = tmp_path / "docs"
    (docs / "reference").mkdir(parents=True)
    for name, text in {"index": PAGE, "second": "# Second\n\nIs there a table?\n", "empty": "# Empty\n"}.items():
        (docs / f"{name}.md").write_text(text, encoding="utf-8")
    (docs / "reference" / "room.md").write_text("# Room\n\n::: workbench\n", encoding="utf-8")
    (docs / "reference" / "command-line.md").write_text("# Commands\n\nEach command.\n", encoding="utf-8")
    nav = [{"Home": "index.md"}, {"Reference": ["reference/room.md", "reference/command-line.md"]}]
    nav.insert(1, {"Guides": [{"The second": "second.md"}, "empty.md"]})
    made = {"site_name": "a name", "site_description": "A summary.", "use_directory_urls": False, "nav": nav}
    hooks = {"hooks": [str(ROOT / "docs" / "llms.py")]}
    (tmp_path / "mkdocs.yml").write_text(json.dumps({**made, **hooks}), encoding="utf-8")  # JSON is YAML
    build(load_config(str(tmp_path / "mkdocs.yml")))
    assert (tmp_path / "site" / "llms.txt").read_text(encoding="utf-8") == (
        "# a name\n\n> A summary.\n\n[llms-full.txt](llms-full.txt) is the text of these pages in one file.\n\n"
        "## Start here\n\n- [Home](index.html): It says what it does: in short.\n\n"
        "## Guides\n\n- [The second](second.html): Is there a table?\n- [Empty](empty.html)\n\n"
        "## Optional\n\n- [Room](reference/room.html)\n- [Commands](reference/command-line.html): Each command.\n"
    )
    full = (tmp_path / "site" / "llms-full.txt").read_text(encoding="utf-8")
    assert re.findall(r"^Page: (.+)$", full, flags=re.M) == [
        "index.html", "second.html", "empty.html", "reference/command-line.html"
    ]  # fmt: skip
    assert PAGE.strip() in full and ":::" not in full
