"""The explorer in a real headless Chromium, started by its own command: what a person does there."""

from __future__ import annotations

import io
import re
import socket
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

import workbench
from tests.app.browsing import address_of, choose, choose_head, fields, measured, open_page, settle
from workbench import figures
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection

pytestmark = pytest.mark.browser


CANVAS = 'svg:not([aria-label^="Every head"])'  # not the small patterns above it
BARS = 'svg[aria-label^="Tokens at position"]'


def bars_title(page: Page) -> str:
    return str(page.locator(BARS).first.get_attribute("aria-label"))


def test_from_opening_the_page_to_reading_what_a_cell_projects_on(browser: Any, address: str, run_root: Path) -> None:
    page = open_page(browser, address)
    page.get_by_role("link", name="Canvas").click()
    settle(page)
    choose(page, "Run", "sorter")
    page.get_by_label("Input number", exact=True).fill("4")
    page.get_by_label("Input number", exact=True).press("Enter")
    settle(page)
    run = workbench.load_run(run_root / "sorter")
    seen = workbench.see(run, workbench.example(run.model(), run.task(), 4))
    words = projection.sequence(seen, 0)
    at = words.index("⊥")
    page.locator(f'{CANVAS} [data-cell="1,{at}"]').click()
    expect(page.locator(f'svg[aria-label="Tokens at position {at}:⊥, after attention 0"]')).to_be_visible()
    minimum = min(words[:at], key=int)
    assert page.locator(f"{BARS} .token-decoder").first.text_content() == minimum  # the largest on top
    assert page.locator('[data-testid="stException"]').count() == 0


def test_arrow_keys_walk_over_the_cells(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/residual?run=sorter&how=Type&input=5+3+9")
    page.locator(f'{CANVAS} [data-cell="1,3"]').first.click()
    settle(page)
    assert "position 3:⊥, after attention 0" in bars_title(page)
    page.locator(f"{CANVAS}[tabindex]").first.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert "position 2:9, after MLP 0" in bars_title(page)
    page.keyboard.press("ArrowDown")  # the picture has been drawn anew and still has the keys
    settle(page)
    assert "position 2:9, after attention 1" in bars_title(page)


def test_a_link_opens_the_same_view_in_a_fresh_browser(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/canvas?run=sort-tempered")
    choose_head(page, 1, 1)
    page.get_by_text("Own input", exact=True).click()
    settle(page)
    page.get_by_label("Input, as the task writes it").fill("9 4 4 30")
    page.get_by_label("Input, as the task writes it").press("Enter")
    settle(page)
    page.locator('[data-token="6"]').first.click()
    settle(page)
    page.locator(f'{CANVAS} [data-cell="2,5"]').first.click()
    settle(page)
    chosen = parse_qs(urlparse(page.url).query)
    assert chosen["input"] == ["9 4 4 30"] and chosen["head"] == ["layer 1, head 1"] and chosen["focus"] == ["6"]
    again = open_page(browser, page.url)
    for wanted in (page, again):
        expect(wanted.locator(f'{CANVAS} [data-cell="2,5"].chosen')).to_have_count(1, timeout=30_000)
    assert (
        again.locator(f"{CANVAS}[role=img]").first.inner_html()
        == page.locator(f"{CANVAS}[role=img]").first.inner_html()
    )
    assert bars_title(again) == bars_title(page)


def test_hovering_a_token_shows_what_it_reads(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/canvas?run=chaser")
    page.locator('[data-token="20"]').first.hover()
    lit = page.locator(".edge.lit")
    assert lit.count() > 0
    assert {lit.nth(i).get_attribute("data-q") for i in range(lit.count())} == {"20"}
    expect(page.locator(".tip:visible")).to_contain_text("position 20")


FOLLOWED = 'svg[aria-label*="hop by hop"]'
SET = """async ([selector, value]) => {
  const find = (root) => root.querySelector(selector) ?? [...root.querySelectorAll("*")]
    .map((host) => host.shadowRoot && find(host.shadowRoot)).find(Boolean)
  const field = find(document), start = performance.now()
  field.value = value
  field.dispatchEvent(new Event("input", { bubbles: true }))
  return performance.now() - start
}"""


def cells(tips: list[str | None], row: str) -> dict[int, float]:
    """Position -> per cent, of what hovering over the cells of a row says."""
    found = [re.match(rf"{row}: [<>]?([\d.]+)% at (\d+):", unescape(tip or "")) for tip in tips]
    return {int(match[2]): float(match[1]) for match in found if match}


def test_the_page_follows_hops_and_gamma_by_itself_and_gives_the_librarys_numbers(
    browser: Any, address: str, run_root: Path
) -> None:
    page = open_page(browser, f"{address}/hops?run=chain-chacal&head=layer+0,+head+1")
    run = workbench.load_run(run_root / "chain-chacal")
    seen = workbench.see(run, workbench.example(run.model(), run.task()))
    page.locator(f'{FOLLOWED} [data-token="20"]').hover()
    expect(page.locator(".hops .says")).to_contain_text("20:")
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request.url))
    for gamma in (0.9, 0.35, 0.0):
        took = page.evaluate(SET, ['.hops input[aria-label^="γ"]', str(gamma)])
        assert took < 50, f"γ took {took} ms in the page"
        drawn = figures.hop_by_hop(seen, layer=0, head=1, query=20, n_hops=seen.truth.n_hops, gamma=gamma)
        wanted = re.findall(r'data-tip="([^"]+)"', drawn.body)
        tips = page.locator(f"{FOLLOWED} .steps rect").evaluate_all("all => all.map(one => one.dataset.tip)")
        for row in ("hop 1", "hop 2", "hop 3", "all hops at γ"):
            own, library = cells(tips, row), cells(wanted, row)
            assert len(own) == 32 and own == pytest.approx(library, abs=1.5)
    assert not sent and page.locator('[data-test-script-state="notRunning"]').count()


def test_the_canvas_plays_the_chain_of_the_token_pointed_at_and_rests_when_it_is_left(
    browser: Any, address: str
) -> None:
    page = open_page(browser, f"{address}/canvas?run=chaser")
    says, steps = page.locator(".hops .says"), page.locator(f"{CANVAS} .steps path")
    expect(page.locator(".st-key-panel-how")).to_contain_text("Measured on", timeout=60_000)
    settle(page)  # then nothing moves
    expect(says).to_contain_text("Hover a token")
    page.locator(f'{CANVAS} [data-token="31"]').hover()
    expect(says).to_contain_text("31:24, hop 7: 100% at 0:30, its true ancestor", timeout=10_000)
    assert steps.count() == 7
    page.mouse.move(5, 5)
    expect(says).to_contain_text("Hover a token")
    expect(steps).to_have_count(0)
    page.get_by_role("button", name="Play hop by hop").click()
    expect(says).to_contain_text("hop 1", timeout=10_000)


def test_checkpoints_are_moved_through_in_the_page_by_mouse_and_by_keys(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/training?run=chain-chacal&show-train-film=true")
    film = page.locator(".st-key-panel-train-film")
    says, slider = film.locator(".says"), film.get_by_role("slider", name="Checkpoint")
    expect(says).to_contain_text("step 300: ", timeout=60_000)
    settle(page)
    at_last, url = film.locator(".holder svg").inner_html(), page.url
    page.route("**/*", lambda route: route.abort())  # nothing more is asked for
    slider.focus()
    page.keyboard.press("Home")
    expect(says).to_contain_text("step 0: ")
    expect(film.get_by_role("button", name="Checkpoint before")).to_be_disabled()
    assert film.locator(".holder svg").inner_html() != at_last, "the picture is that of the checkpoint"
    film.get_by_role("button", name="Checkpoint after").click()
    expect(says).to_contain_text("(2 of ")
    film.get_by_role("button", name="Play through training").click()
    expect(says).to_contain_text("step 300: ", timeout=10_000)
    assert film.locator(".holder svg").inner_html() == at_last and page.url == url


def test_a_folded_panel_is_made_when_it_is_opened_and_the_link_has_it_open(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/residual?run=sorter")
    expect(page.locator(".js-plotly-plot")).to_have_count(0)
    page.get_by_text("What each basis leaves out").click()
    expect(page.locator('[class*="st-key-panel-unexplained"] .js-plotly-plot')).to_be_visible(timeout=20_000)
    settle(page)
    assert address_of(page)["show-unexplained"] == "true"
    again = open_page(browser, page.url)
    expect(again.locator('[class*="st-key-panel-unexplained"] .js-plotly-plot')).to_be_visible(timeout=20_000)
    again.get_by_text("Open every panel").click()
    expect(again.locator('[class*="st-key-panel-trajectory"] .js-plotly-plot')).to_be_visible(timeout=20_000)


def test_a_click_on_a_small_pattern_chooses_its_head_and_the_arrow_keys_go_on(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/canvas?run=multiply-seqvcr")
    page.locator('[data-cell="1,2"][data-point="1"]').dispatch_event("click")
    expect(page.locator('svg[aria-label="Layer 1, head 2: attention pattern A"]')).to_be_visible(timeout=20_000)
    settle(page)
    page.locator('svg[aria-label="Every head on this input"]').focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator('svg[aria-label="Layer 0, head 2: attention pattern A"]')).to_be_visible(timeout=20_000)


def test_an_edge_that_is_clicked_is_cut_and_the_answers_that_rest_on_it_change(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/canvas?run=chaser")
    query = 4  # of the first block that points anywhere: whole chains rest on its edge
    edge = page.locator(f'[data-edge^="{query},"]').first
    key = int(str(edge.get_attribute("data-edge")).split(",")[1])
    edge.dispatch_event("click")
    expect(page.locator(f'[data-edge="{query},{key}"][stroke-dasharray="2 4"]')).to_have_count(1, timeout=20_000)
    framed = page.locator('[data-point][data-tip*="before the edit: "]')
    assert framed.count() > 0, "the cells that it changed"
    settle(page)
    again = open_page(browser, page.url)  # the link alone, with no panel open
    expect(again.locator(".st-key-clicked")).to_contain_text(f"Cut {query} → {key}", timeout=20_000)
    assert again.locator('[data-point][data-tip*="before the edit: "]').count() == framed.count()
    again.close()
    page.locator(".st-key-clicked").get_by_role("button", name="Details").click(timeout=20_000)
    verdict = page.get_by_text(f"position {query} cannot read position {key}").first
    expect(verdict).to_be_visible(timeout=20_000)
    settle(page)
    text = str(page.locator('[class*="st-key-panel-edit"]').inner_text())
    changed = next(line for line in text.splitlines() if "answers change" in line)
    assert not changed.startswith("None") and f"position {query} says" in changed
    line = page.locator(".st-key-clicked")
    expect(line).to_contain_text(f"Cut {query} → {key} (layer 0, head 0)")
    expect(line).to_contain_text(changed.split("\u2002")[0].strip(), ignore_case=True)
    drawing, below = page.locator(f"{CANVAS}[role=img]").first.bounding_box(), line.bounding_box()
    assert 0 < below["y"] - (drawing["y"] + drawing["height"]) < 60, "it stands right under the drawing"
    line.get_by_role("button", name="Undo").click()
    settle(page)
    expect(line).to_have_count(0)
    expect(framed).to_have_count(0)
    page.wait_for_url(lambda url: "cut=" not in url)  # the address comes after the page


def test_an_edge_that_is_dragged_to_another_key_is_moved_there(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/canvas?run=chaser")
    edge = page.locator('[data-edge^="9,"]:not(.truth)').first
    key = int(str(edge.get_attribute("data-edge")).split(",")[1])
    to = 0 if key else 1
    edge.scroll_into_view_if_needed()
    token = page.locator(f'[data-token="{to}"]').bounding_box()
    assert token is not None
    half = "(e) => { const at = e.getPointAtLength(e.getTotalLength() / 2), m = e.getScreenCTM(); "
    x, y = edge.evaluate(half + "return [m.a * at.x + m.e, m.d * at.y + m.f] }")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y - 20, steps=3)
    page.mouse.move(token["x"] + token["width"] / 2, token["y"] + token["height"] / 2, steps=5)
    expect(page.locator(f'[data-token="{to}"].target')).to_have_count(1)
    page.mouse.up()
    done = page.locator(".st-key-clicked")
    expect(done).to_contain_text(f"Moved 9 → {key} to {to} (layer 0, head 0)", timeout=20_000)
    expect(page.locator(".drag")).to_have_count(0)
    done.get_by_role("button", name="Details").click()
    expect(page.get_by_text(f"position 9 reads position {to} in place of {key}").first).to_be_visible(timeout=20_000)


def test_an_edge_of_a_circuit_is_cut_by_a_click_and_by_the_keyboard_and_brought_back(
    browser: Any, address: str
) -> None:
    page = open_page(browser, f"{address}/circuit?run=chaser")
    measured(page)
    line, field = page.locator(".st-key-by-hand"), page.locator(".st-key-changed")
    expect(line).to_contain_text("whole model's answer to 32 of 32 pairs")
    drawing, below = (one.bounding_box() for one in (page.locator('svg[aria-label^="A circuit of"]'), line))
    assert 0 < below["y"] - (drawing["y"] + drawing["height"]) < 60, "it stands right under the drawing"
    x, y = page.locator('.reach[data-name="input->a0.h0<q>"]').evaluate(
        "line => { line.scrollIntoView({ block: 'center' }); const box = line.getBoundingClientRect();"
        " return [box.left + box.width / 2 + 3, box.top + box.height / 2] }"
    )
    page.mouse.move(x, y)  # near the line is enough
    expect(page.locator(".tip").first).to_contain_text("input → a0.h0, as its query")
    page.mouse.click(x, y)
    expect(line).to_contain_text("Cut input → a0.h0<q>", timeout=20_000)
    expect(field).to_contain_text("input->a0.h0<q>")
    settle(page)
    assert parse_qs(urlparse(page.url).query)["changed"] == ["input->a0.h0<q>"]
    line.get_by_role("button", name="Undo").click()
    expect(line).not_to_contain_text("Cut", timeout=20_000)
    settle(page)
    page.locator('svg[aria-label^="A circuit of"]').focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    chosen = page.locator(".edge.at").first
    assert chosen.get_attribute("data-rank") == "0"
    name = str(chosen.get_attribute("data-name"))
    for words in ("Cut", "The circuit alone"):
        page.keyboard.press("Enter")
        expect(line).to_contain_text(words, timeout=20_000)
        settle(page)
        assert page.locator(".edge.at").first.get_attribute("data-name") == name, "the keys go on from there"
    field.locator("input").fill("input->m0")
    page.keyboard.press("Enter")
    expect(line).to_contain_text("Taken in input → m0", timeout=20_000)


def test_a_cell_of_a_heads_weights_shows_how_it_comes_about_by_a_click_and_by_the_arrow_keys(
    browser: Any, address: str
) -> None:
    page = open_page(browser, f"{address}/weights?run=sorter")
    grid = page.locator("[data-grid]")
    rows, columns = map(int, str(grid.get_attribute("data-grid")).split(","))
    box = grid.bounding_box()
    assert box is not None
    place = {"x": 2.5 * box["width"] / columns, "y": 1.5 * box["height"] / rows}
    grid.hover(position=place)  # type: ignore[arg-type]
    words, value = str(page.locator(".tip:visible").text_content()).removesuffix(" score").split(": ")
    assert words == "2 → 3"  # row 1 and column 2 of symbols from 1
    grid.click(position=place)  # type: ignore[arg-type]
    settle(page)
    expect(page.locator(".st-key-panel-weights-entry")).to_contain_text(f"{words}: {float(value):.2f}"[:-1])
    assert "entry_from=2" in page.url and "entry_to=3" in page.url
    page.locator("svg[aria-label^='QK circuit']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    settle(page)
    assert page.locator("[data-at]").get_attribute("data-at") == "2,3" and "entry_to=4" in page.url


@pytest.mark.parametrize("where", ["hops", "weights", "mechanisms", "training"])
def test_another_head_is_chosen_by_a_click_and_by_the_arrow_keys(browser: Any, address: str, where: str) -> None:
    page = open_page(browser, f"{address}/{where}?run=chain-chacal&head=layer+0,+head+0")
    choose_head(page, 0, 2)
    assert address_of(page)["head"] == "layer 0, head 2"
    page.keyboard.press("ArrowRight")
    settle(page)
    assert address_of(page)["head"] == fields(page)["head"] == "layer 0, head 3"
    page.keyboard.press("ArrowRight")  # there is none after it
    settle(page)
    assert address_of(page)["head"] == "layer 0, head 3"
    if where != "mechanisms":  # whose cards have no head in their titles
        assert "layer 0, head 3" in page.get_by_test_id("stMain").inner_text().lower()
    again = open_page(browser, page.url)
    assert fields(again)["head"] == "layer 0, head 3"


def test_after_the_last_head_of_a_layer_comes_the_first_of_the_next(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/hops?run=sort-tempered")
    choose_head(page, 0, 0)
    for key, head in [("Right", "0, head 1"), ("Right", "1, head 0"), ("Left", "0, head 1"), ("Down", "1, head 1")]:
        page.keyboard.press(f"Arrow{key}")
        settle(page)
        assert address_of(page)["head"] == f"layer {head}"


def gamma_in(url: str) -> float:
    return float(parse_qs(urlparse(url).query).get("gamma", ["nan"])[0])  # the address comes after the page


def test_another_gamma_is_computed_while_one_looks_and_is_in_the_link(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/hops?run=chain-chacal&show-hops-gamma=true")
    expect(page.locator(".annotation-text", has_text="γ = 0.9").first).to_be_visible(timeout=60_000)
    settle(page)
    page.locator(".st-key-gamma input").first.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.wait_for_url(lambda url: gamma_in(url) < 0.9)
    settle(page)
    moved = gamma_in(page.url)
    expect(page.locator(".annotation-text", has_text=f"γ = {moved:g}").first).to_be_visible(timeout=60_000)
    again = open_page(browser, page.url)
    expect(again.locator(".annotation-text", has_text=f"γ = {moved:g}").first).to_be_visible(timeout=60_000)


def test_what_is_downloaded_is_what_is_on_the_screen(browser: Any, address: str, run_root: Path) -> None:
    page = open_page(browser, f"{address}/canvas?run=chaser&Edges+from=0.05")
    page.locator(".st-key-panel-canvas").get_by_role("button", name="Code").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").first.click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    part = text.split("# residual\n")[0].removeprefix("# attention\n")
    frame = pd.read_csv(io.StringIO(part)).query("matrix == 'pattern'").set_index(["query", "key"])["value"]
    words = page.locator("[data-token]")
    names = [
        str(words.nth(i).get_attribute("data-tip")).removeprefix("position ").replace(": ", ":")
        for i in range(words.count())
    ]
    edges = page.locator("[data-edge]")
    assert edges.count() > 10
    for i in range(edges.count()):
        query, key = map(int, str(edges.nth(i).get_attribute("data-edge")).split(","))
        assert f": {frame[names[query], names[key]]:.3f} —" in str(edges.nth(i).get_attribute("data-tip"))
    run = workbench.load_run(run_root / "chaser")
    seen = workbench.see(run, workbench.example(run.model(), run.task(), 0))
    weight = attention_graph.matrices(seen, 0, 0, 0).select(matrix="pattern").values
    assert frame.to_numpy() == pytest.approx(weight.reshape(-1), abs=1e-12)


def test_a_panel_is_maximised_and_comes_back(browser: Any, address: str) -> None:
    page = open_page(browser, f"{address}/canvas?run=sorter")
    before = page.locator(f"{CANVAS}[role=img]").first.bounding_box()
    page.locator(".st-key-panel-canvas button.bigger").last.click()  # the first is that of the small patterns
    page.wait_for_timeout(500)
    after = page.locator(f"{CANVAS}[role=img]").first.bounding_box()
    assert before is not None and after is not None and after["width"] > 1.15 * before["width"]
    page.evaluate("document.exitFullscreen()")
    page.wait_for_timeout(500)
    back = page.locator(f"{CANVAS}[role=img]").first.bounding_box()
    assert back is not None and abs(back["width"] - before["width"]) < 2


def test_the_server_listens_on_localhost_alone(address: str) -> None:
    """A server bound to every interface would answer on any loopback address, not only on localhost's."""
    port = int(address.rsplit(":", 1)[1])
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), timeout=1):
        pass


READ = """() => {
  const caption = [...document.querySelectorAll('[data-testid="stCaptionContainer"] p')].at(-1)
  let opacity = 1
  for (let at = caption; at?.nodeType === 1; at = at.parentElement) opacity *= getComputedStyle(at).opacity
  const paper = getComputedStyle(document.querySelector(".stApp")).backgroundColor
  const numbers = (colour) => colour.match(/[0-9.]+/g).map(Number)
  return [opacity, numbers(getComputedStyle(caption).color), numbers(paper)]
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_captions_are_dark_enough_and_the_page_has_a_name(browser: Any, address: str, scheme: str) -> None:
    def luminance(colour: list[float]) -> float:
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    page = browser.new_page(color_scheme=scheme)
    page.goto(f"{address}/entropy?run=sorter")
    settle(page)
    opacity, ink, paper = page.evaluate(READ)
    assert opacity == 1 and len(ink) == 3
    low, high = sorted(map(luminance, (ink, paper)))
    assert (high + 0.05) / (low + 0.05) >= 4.5
    assert page.title() == "Entropy · workbench"
    heard = [page.get_by_role("heading", level=level).first.inner_text() for level in (1, 2)]
    assert heard[0] == "workbench" and heard[1].startswith("Entropy")
