"""The site is built without a warning, and is whole when it is opened from a disk: its search works there too."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.browsing import browsing, chromium
from tests.docs.pages import ROOT

MISSING = [
    name for name in ("mkdocs", "material", "mkdocstrings", "latex2mathml") if not importlib.util.find_spec(name)
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(MISSING), reason=f"the docs extra is not installed (`make docs` does): no {', '.join(MISSING)}"
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, where a broken link or a page that is nowhere in the menu is an error."""
    folder = tmp_path_factory.mktemp("docs") / "the site"  # a blank, as folders of people have
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert (site / "reference" / "instruments.html").is_file()
    links = (site / "llms.txt").read_text(encoding="utf-8")
    assert (
        links.startswith("# workbench\n\n> ")
        and "- [Find a circuit](how-to/circuit.html): After this page you can" in links
    )
    assert not [page for page in re.findall(r"\]\(([^)]+)\)", links) if not (site / page).is_file()]
    assert "<math" not in (site / "llms-full.txt").read_text(encoding="utf-8")


@pytest.mark.browser
def test_search_works_from_a_disk_and_asks_no_network(site: Path) -> None:
    if chromium() is None:
        pytest.skip("needs Chromium or Google Chrome")
    with browsing() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "how-to" / "share.html").as_uri())  # a page in a folder: addresses are relative to it
        page.get_by_role("textbox", name="Search").click()
        page.keyboard.type("tempered softmax")
        results = page.locator(".md-search-result__item a")
        results.first.wait_for()
        models = results.filter(has_text="Four kinds of model").first
        models.click()
        page.wait_for_url("**/concepts/models.html*")
        assert page.locator("h1").inner_text().startswith("Four kinds of model")
    assert asked and [url for url in asked if not url.startswith("file:")] == []
