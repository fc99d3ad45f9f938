"""One run as one page: it asks nothing of anywhere, holds what the run has, and can be played with from a disk."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

import workbench
from workbench.cli import main
from workbench.inspection import inspect_run
from workbench.inspection.found import Found, keep
from workbench.report.run_page import MOST_BYTES, export_page
from workbench.tasks.vocabulary import Vocabulary

NAME, TOKEN = "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"
ZOO = Path(__file__).parents[2] / "app" / "zoo"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A small run with a hostile name, with checkpoints, and with what was found kept beside its weights."""
    small: dict[str, Any] = {"task": {"n": 16, "k": 4}, "model": {"d_model": 16, "n_heads": 2}, "eval_size": 8}
    out = tmp_path_factory.mktemp("runs") / NAME
    made = workbench.train("chain-chacal", out=out, steps=4, eval_every=1, checkpoint_count=2, progress=False, **small)
    found = inspect_run(made, n=4, seed=0, only=["overall", "entropy", "chain_following"], causal=False)
    keep(Found(found, {"n": 4, "seed": 0}))
    return made


@pytest.fixture(scope="module")
def file(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page, whose tokens are hostile too."""
    out = tmp_path_factory.mktemp("page") / "page.html"
    decode, to_id = Vocabulary.decode, Vocabulary.id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Vocabulary, "decode", lambda self, tokens: [word + TOKEN for word in decode(self, tokens)])
        patch.setattr(Vocabulary, "id", lambda self, word: to_id(self, word.removesuffix(TOKEN)))
        assert main(["export", str(run.path), "--page", str(out)]) == 0
    return out


def packed(html: str) -> dict[str, Any]:
    """What the page's script draws from."""
    found = re.search(r'id="packed">([^<]*)<', html)
    assert found is not None
    return json.loads(gzip.decompress(b64decode(found[1])))  # type: ignore[no-any-return]


def drawings(data: Any) -> Iterator[str]:
    """Every SVG in it."""
    if isinstance(data, str):
        yield from [data] if data.startswith("<svg") else []
    elif isinstance(data, dict | list):
        for part in data.values() if isinstance(data, dict) else data:
            yield from drawings(part)


def elements(markup: str) -> list[tuple[str, dict[str, str | None]]]:
    """Every element of a text as a browser reads it, with its attributes."""
    found: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))

    Reader().feed(markup)
    return found


def test_it_asks_nothing_of_anywhere_and_names_tokens_and_inputs_are_text(file: Path) -> None:
    html = file.read_text(encoding="utf-8")
    data = packed(html)
    svgs = list(drawings(data))
    assert len(svgs) > 10 and any("alert(2)" in svg for svg in svgs)
    for markup in [html, *svgs]:
        assert set(re.findall(r"https?://[^\s\"'<>]+", markup)) <= {"http://www.w3.org/2000/svg"}
        for tag, attributes in elements(markup):
            assert tag not in ("img", "link", "iframe", "object") and not [
                name for name in attributes if name[:2] == "on"
            ]
            for name in ("src", "href", "xlink:href", "action"):
                assert (attributes.get(name) or "data:image/png;base64,").startswith(("#", "data:image/png;base64,"))
    assert [tag for tag, _ in elements(html)].count("script") == 2 and "script" not in dict(elements("".join(svgs)))
    assert len(html.encode()) < MOST_BYTES and "default-src 'none'" in html and "script-src 'sha256-" in html


def test_it_holds_what_the_run_has_with_its_numbers(file: Path, run: Any) -> None:
    html = file.read_text(encoding="utf-8")
    data = packed(html)
    assert len(data["inputs"]) == 6 and set(data["inputs"][0]["heads"]) == {"0,0", "0,1"}
    assert data["inputs"][0]["hops"] and data["circuit"] and set(data["charts"]) == {"entropy", "accuracy", "learnt"}
    assert len(data["film"]["data"]["frames"]) == len({*run.checkpoints(), run.step()})
    files = data["files"]
    assert json.loads(files["config.json"])["task"]["n"] == 16
    assert files["claims.csv"].startswith("claim,holds,in,of,nearest control")
    measured = inspect_run(run, n=128, seed=0, only=["entropy"])["entropy"].mean
    assert files["entropy.csv"] == measured.frame().to_csv(index=False)
    texts = re.sub(r"<[^>]+>", " ", html)
    assert "Measured on 4 held-out sequences" in texts and "Nothing that such a page holds was left out." in texts


def test_a_page_is_an_html_file_that_is_not_there_yet(
    run: Any, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out, more, reason in [
        (str(file), [], "already exists"),
        (str(tmp_path / "page.zip"), [], "give it a name that ends in .html"),
        (str(tmp_path / "page.html"), ["--hugging-face"], "ask for one of the two"),
    ]:
        assert main(["export", str(run.path), out, "--page", *more]) == 2
        assert reason in capsys.readouterr().err
    with pytest.raises(ValueError, match="already exists"):
        workbench.export(run, file, page=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in ZOO.iterdir()))
def test_the_page_of_every_model_that_comes_along_is_small(name: str, tmp_path: Path) -> None:
    assert export_page(ZOO / name, tmp_path / "page.html").stat().st_size < MOST_BYTES


def opened(browser: Any, file: Path, *, width: int = 1280, dark: bool = False) -> Page:
    """The page from the disk, with the network off; what goes wrong in it, or is asked for, fails the test."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True)
    page: Page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("request", lambda request: wrong.append(request.url) if request.url != file.as_uri() else None)
    page.wrong = wrong  # type: ignore[attr-defined]
    page.goto(file.as_uri())
    expect(page.locator("#canvas svg")).to_be_attached()
    return page


@pytest.mark.browser
def test_the_finding_and_its_picture_come_first(browser: Any, file: Path) -> None:
    page = opened(browser, file)
    for place in ("h1", "#canvas svg .token >> nth=0"):
        expect(page.locator(place)).to_be_in_viewport()
    assert page.title() == f"{NAME} · workbench" and page.wrong == []  # type: ignore[attr-defined]


@pytest.mark.browser
def test_it_can_be_played_with_by_mouse(browser: Any, file: Path) -> None:
    page = opened(browser, file)
    page.get_by_role("button", name="Next input").click()
    expect(page.locator("#which")).to_contain_text("Input 2 of 6")
    page.locator("#canvas .cell").first.hover()
    expect(page.locator("#canvas .tip")).to_contain_text("embedding at 0")
    page.locator('#grid [data-cell="0,1"]').click()
    expect(page.locator("#canvas-title")).to_contain_text("Layer 0, head 1")
    total = page.locator("#hops .steps").inner_html()
    page.locator("#hops").get_by_label("γ").fill("0.1")
    expect(page.locator("#hops .number")).to_have_text("0.10")
    assert page.locator("#hops .steps").inner_html() != total
    page.get_by_role("button", name="Play through training").click()
    expect(page.locator("#film .says")).to_contain_text("(1 of 3)")
    expect(page.locator("#film .says")).to_contain_text("(3 of 3)")
    with page.expect_download() as saving:
        page.get_by_role("button", name="claims.csv").click()
    assert (
        saving.value.path().read_text(encoding="utf-8")
        == packed(file.read_text(encoding="utf-8"))["files"]["claims.csv"]
    )
    assert page.wrong == []  # type: ignore[attr-defined]


@pytest.mark.browser
def test_it_can_be_played_with_by_keyboard(browser: Any, file: Path) -> None:
    page = opened(browser, file, dark=True)
    page.get_by_role("button", name="Next input").press("Enter")
    expect(page.locator("#which")).to_contain_text("Input 2 of 6")
    page.locator("#grid svg").press("ArrowRight")
    expect(page.locator("#canvas-title")).to_contain_text("Layer 0, head 1")
    page.locator("#canvas svg").press("ArrowDown")
    expect(page.locator("#cell")).to_contain_text("after attention 0 at 0")
    page.locator("#film").get_by_role("slider").press("ArrowLeft")
    expect(page.locator("#film .says")).to_contain_text("(2 of 3)")
    assert page.wrong == []  # type: ignore[attr-defined]


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_wider(browser: Any, file: Path, width: int, dark: bool) -> None:
    page = opened(browser, file, width=width, dark=dark)
    page.locator("details").evaluate_all("all => all.forEach(one => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # Axe is a script of the test's, which the page's policy refuses: it comes in from outside of the page.
    found = Axe().run(page).response["violations"]
    assert not [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]
