"""The picture of an edit shows its answers as they were measured, marks those that changed, and can break no page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from workbench import figures
from workbench.capture import Capture, Subject, capture
from workbench.figures.drawing import Drawing
from workbench.figures.style import BLUE, CHANGED, SKY, VERMILLION
from workbench.interventions import CutEdge, Edited, Exchange, RemoveHead, try_edit
from workbench.models.compiled import chaser, sorter
from workbench.models.hooked import hook
from workbench.tasks import Task, correct, make
from workbench.util.seeds import generator

SORTING = make("sorting", q=9, max_length=8)


def tried_on(task: Task, text: str, edit: CutEdge | Exchange | RemoveHead, sets: bool = False) -> Edited:
    if task.name == "sorting":
        model = sorter(9, n_ctx=task.n_ctx, pad=True)
    else:
        model = chaser(task.n_ctx, 4, reading="chain" if sets else "root")
    hooked, subject = hook(model), Subject.of(model, task, "<subject>")
    batch = task.parse(text) if text else task.sample(1, generator(0, "drawn"))
    return try_edit(hooked, capture(hooked, subject, batch, ["unembed.hook_out"]), edit)


@pytest.fixture(scope="module")
def exchanged() -> Edited:
    return tried_on(SORTING, "5 3 3 9 1", Exchange("blocks.0.hook_resid_mid", 0, 4, 5))


def parts(drawing: Drawing, **attributes: str) -> list[ET.Element]:
    names = {name.replace("_", "-"): value for name, value in attributes.items()}
    return [p for p in ET.fromstring(drawing.svg()).iter() if all(p.get(n) == value for n, value in names.items())]


def words(drawing: Drawing) -> list[str]:
    return [p.text or "" for p in ET.fromstring(drawing.svg()).iter("{http://www.w3.org/2000/svg}text")]


def test_the_title_is_the_finding_and_the_subtitle_the_edit(exchanged: Edited) -> None:
    drawing = figures.edited(exchanged)
    verdict = exchanged.verdict()
    assert drawing.title == verdict[0].upper() + verdict[1:]
    assert drawing.subtitle == f"{exchanged.in_words()}; <subject>"
    assert "<subject>" not in drawing.svg()


def test_what_is_right_and_said_before_and_after_stands_in_rows(exchanged: Edited) -> None:
    said = words(figures.edited(exchanged))
    at = [said.index(name) for name in ("token", "right answer", "says before", "says after", "Δ log p")]
    assert at == sorted(at)  # the names of the rows are drawn last, in their order
    tips = [p.get("data-tip") for p in parts(figures.edited(exchanged)) if p.get("data-tip")]
    for said_so in ("says before at 5:⊥: 1, right; likeliest: 1 ", "says after at 5:⊥: 5, wrong; likeliest: 5 "):
        assert any(tip.startswith(said_so) for tip in tips)
    assert any(tip.startswith("says after at 6:1: 3, right;") for tip in tips)


def test_an_answer_that_changed_has_a_thick_frame_and_the_edited_token_another_colour(exchanged: Edited) -> None:
    drawing = figures.edited(exchanged)
    framed = [p for p in parts(drawing, stroke=CHANGED) if p.get("data-tip")]
    assert [p.get("data-tip", "").split(";")[0] for p in framed] == ["says after at 5:⊥: 5, wrong"]
    assert [p.get("data-token") for p in parts(drawing, fill=SKY) if p.get("data-token")] == ["5"]
    assert not [p for p in parts(figures.edited(tried_on(SORTING, "5 3", RemoveHead(0, 0))), fill=SKY)]


def test_every_answer_has_its_change_in_log_probability_by_sign_colour_and_number(exchanged: Edited) -> None:
    drawing = figures.edited(exchanged)
    cells = [p for p in parts(drawing) if "log p of the right answer" in p.get("data-tip", "")]
    assert len(cells) == 5
    for cell, change in zip(cells, np.diff(exchanged.answers.values, axis=0)[0][5:10], strict=True):
        found = re.search(r"answer ([+-][\d.]+) nats", cell.get("data-tip", ""))
        assert found and float(found[1]) == pytest.approx(change, abs=6e-4)
        assert cell.get("fill") == (BLUE if change > 0 else VERMILLION)
    assert [cell.get("data-focus") is not None for cell in cells] == [True, False, False, False, False]


def test_cut_edges_are_arcs_from_the_key_to_the_query() -> None:
    task = make("pointer_chain", n=16, k=4, reading="root")
    drawing = figures.edited(tried_on(task, "", CutEdge(15, 11, 0, 0)))
    arcs = [p for p in parts(drawing) if p.get("class") == "edge cut"]
    assert [(p.get("data-q"), p.get("data-k")) for p in arcs] == [("15", "11")]
    row = figures.edited(tried_on(task, "", CutEdge(3, None)))
    assert len([p for p in parts(row) if p.get("class") == "edge cut"]) == 3  # its own is no arc


def test_of_sets_the_rows_say_how_much_of_them_is_found() -> None:
    task = make("pointer_chain", n=16, k=4)
    tried = tried_on(task, "", CutEdge(15, None), sets=True)
    said = words(figures.edited(tried))
    assert "before: found" in said and "after: found" in said and "right answer" not in said
    assert said.count("100%") == 23 and not tried.right[1, 15]
    (changed,) = (p for p in parts(figures.edited(tried), stroke=CHANGED) if p.get("data-tip"))
    share = float(correct(tried.after.logits, tried.after.batch)[0, 15])  # what is cut off ties with all the rest
    assert 0 < share < 1 / 3
    assert re.fullmatch(rf"after: found at 15:\d+: {share:.0%}, wrong", changed.get("data-tip", ""))


def test_of_a_long_input_a_window_is_drawn_and_says_so() -> None:
    task = make("pointer_chain", n=256, k=4, reading="root")
    tried = tried_on(task, "", CutEdge(255, 252))
    drawing = figures.edited(tried, start=100)
    tokens = [p.get("data-token") for p in parts(drawing) if p.get("data-token")]
    assert tokens == [str(i) for i in range(100, 228)] and "positions 100 to 227 of 256" in drawing.subtitle
    with pytest.raises(ValueError, match="no position 256; the input has 256 tokens"):
        figures.edited(tried, start=256)


def test_an_input_without_answers_is_drawn_too() -> None:
    task = make("pointer_chain", n=16, k=4, reading="root")
    drawing = figures.edited(tried_on(task, "5 6 7 8", CutEdge(2, 1)))
    assert drawing.title == "This input asks for no answer" and "Δ log p" not in words(drawing)


def test_words_of_a_task_cannot_break_the_picture(exchanged: Edited) -> None:
    class Wild(type(SORTING)):  # type: ignore[misc]
        def words(self, tokens: torch.Tensor) -> list[str]:
            return ["</svg><script>"] * len(tokens)

    subject = Subject("x", Wild(q=9, max_length=8), *(torch.zeros(1, 1),) * 2, torch.nn.Identity(), ())
    before, after = (Capture(run.activations, run.batch, subject) for run in (exchanged.before, exchanged.after))
    svg = figures.edited(Edited(CutEdge(5, 1), before, after)).svg()
    assert "<script" not in svg
    ET.fromstring(svg)
