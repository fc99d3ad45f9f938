"""What was found of a run, above its canvas: measured beside the page, one run at a time, and said with its chips."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.support import ask, page
from workbench.app import state
from workbench.app.panels import background, how_it_works
from workbench.app.panels.measuring import in_words
from workbench.inspection import Inspected, found, inspect_run
from workbench.judgement.claim import Judgement, Need, Often
from workbench.judgement.findings import Findings
from workbench.judgement.words.findings import at_a_glance, how_sure, statements
from workbench.runs import load_run


def said(explorer: AppTest) -> str:
    return "\n".join([*(one.value for one in explorer.markdown), *(one.value for one in explorer.caption)])


def with_claim(inspected: Inspected, title: str) -> found.Found:
    """What was measured, and a claim that holds, beyond its controls, and is needed."""
    control = {"against": "untrained", "hits": 0, "n": 800, "models": 8, "most": 0, "p": 0.01, "result": "beyond"}
    rate = {"rate": 0.9, "low": 0.8, "high": 1, "n": 90, "often": Often.MOSTLY, "need": Need.AS_CLAIMED}
    one = Judgement.model_validate(
        {"claim": "minimum", "title": title, "place": {}, "controls": [control], "of_heads": False} | rate
    )
    measured = found.Found(inspected, {"n": 4, "seed": 0})
    claims = {"claims": [{"places": [one]}]}
    vars(measured)["findings"] = Findings.model_validate(dict(measured.findings) | claims)
    return measured


def test_the_page_is_there_before_it_is_measured_and_says_what_was_found_then(
    explorer: AppTest, run_root: Path
) -> None:
    page(explorer, "canvas", run="turned")
    assert "To be measured on held-out sequences" in said(explorer) and explorer.subheader[0].value == "Canvas"
    opened = state.opened(load_run(run_root / "turned"))
    inspected = inspect_run(opened.run, n=4, seed=0, only=["overall"])
    job = ask(opened.key, lambda: with_claim(inspected, "The end: of it <b>"))
    measured = job.future.result(30)
    page(explorer, "canvas", run="turned")
    text = said(explorer).replace("\\", "")
    answers, claim = statements(measured.findings)
    assert answers.text in text and how_sure([measured.findings]) in text
    assert f"**The end: of it <b>**: {claim.rest}" in text
    links = [(link.proto.label, link.proto.query_string) for link in explorer.get("page_link")]
    assert links[:-2] == [("answers", ""), ("holds", "claim=minimum"), ("needed", "causal=true&claim=minimum")]
    assert links[-2:] == [("Its story in pictures", ""), ("Its circuit: which edges carry the answer", "")]


def test_where_it_cannot_be_measured_it_says_why(explorer: AppTest, run_root: Path) -> None:
    def fails() -> None:
        raise ValueError("these weights are not finite")

    opened = state.opened(load_run(run_root / "chaser"))
    ask(opened.key, fails).future.exception(30)
    page(explorer, "canvas", run="chaser")
    assert [error.value.replace("\\", "") for error in explorer.error] == [
        "This cannot be measured: these weights are not finite"
    ]


@pytest.mark.slow
def test_what_is_said_is_what_an_inspection_of_the_same_sequences_finds(run_root: Path) -> None:
    shares: list[float] = []
    *parts, whole = how_it_works.measure(state.opened(load_run(run_root / "chain-chacal")), shares.append)
    assert [bool(part.to_come) for part in parts] == [True, True] and not whole.to_come
    told = [statements(part.findings) for part in (*parts, whole)]
    assert told[0][0].text == told[-1][0].text, "what is said first is not taken back"
    assert "needed" not in {chip for part in told[:-1] for one in part for chip in one.chips}
    assert shares[-1] == 1.0 and shares.count(1.0) == 3
    chain, *_ = [statement for statement in told[-1] if statement.claims == ("chain_following",)]
    assert chain.text.startswith("Chain following")
    assert told[-1][0].text.startswith("chain-chacal gets ")
    assert how_sure([whole.findings]).startswith("Measured on 128 ")


def test_what_is_known_part_by_part_is_there_before_the_rest_and_says_how_long_that_takes() -> None:
    goes, halfway = Event(), Event()

    def parts(job: background.Job) -> Iterator[str]:
        yield "a part"
        job.began -= 8.0  # as if the half of it had taken so long
        job.tell(0.5)
        halfway.set()
        assert goes.wait(30)
        yield "all"

    job = background.ask("test of parts", parts)
    assert halfway.wait(30)
    assert job.so_far == "a part" and not job.future.done()
    assert "on a part, 0 s so far, about 8 s left …" in in_words(job, f"on {job.so_far}")
    goes.set()
    assert job.future.result(30) == "all" and job.left is None


def test_what_waits_gives_way_to_what_is_asked_for_now_and_nothing_is_measured_twice() -> None:
    goes, begun = Event(), Event()

    def slow() -> str:
        begun.set()
        assert goes.wait(30)
        return "first"

    keys = [("test of the queue", i) for i in range(3)]
    first = ask(keys[0], slow)
    assert begun.wait(30)
    waiting = ask(keys[1], lambda: "second")
    now = ask(keys[2], lambda: "third")
    assert ask(keys[0], lambda: "again") is first and background.job(keys[1]) is None
    goes.set()
    assert (first.future.result(30), now.future.result(30)) == ("first", "third") and waiting.future.cancelled()
    assert ask(keys[1], lambda: "second, asked for again").future.result(30) == "second, asked for again"


def test_what_was_found_before_is_on_the_card_and_above_the_canvas_at_once(
    explorer: AppTest, run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run_root / "chaser", tmp_path / "chaser")
    monkeypatch.setattr(how_it_works, "keep", found.keep)
    *_, whole = how_it_works.measure(state.opened(load_run(tmp_path / "chaser")))
    name, numbers = at_a_glance(whole.findings)
    first = (tmp_path / "chaser" / found.FOUND).read_bytes()
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path)])
    page(explorer, "overview")
    assert f"**{name}**: {numbers}" in said(explorer).replace("\\", "")
    page(explorer, "canvas", run="chaser")
    told = said(explorer).replace("\\", "")
    assert "To be measured" not in told
    assert all(one.shorter in told for one in statements(whole.findings)[: how_it_works.MOST]) and "Found on " in told
    assert background.job(state.opened(load_run(tmp_path / "chaser")).key) is None, "nothing is measured again"
    (tmp_path / "chaser" / found.FOUND).unlink()
    page(explorer, "canvas", run="chaser")
    assert "To be measured on held-out sequences" in said(explorer)
    (tmp_path / "chaser" / found.FOUND).write_bytes(first)
    *_, again = how_it_works.measure(state.opened(load_run(tmp_path / "chaser")))
    assert statements(again.findings) == statements(whole.findings)
    assert (tmp_path / "chaser" / found.FOUND).read_bytes() == first
