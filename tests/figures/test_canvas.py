"""The canvas and the maps of the residual: what is drawn is what was measured, and nothing of it can break a page."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET
import zlib
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import workbench
from workbench import figures
from workbench.capture import LOGITS, Capture, Subject, capture
from workbench.figures.canvas_page import kinds_of_edges
from workbench.figures.drawing import Drawing
from workbench.figures.token_page import WIDEST, TokenPage, answer_rows, confidence_row, label_rows
from workbench.inspection import hook_names
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.measurement import Measurement
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.runs.compiled import compile_run
from workbench.tasks import correct, make

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def sorted_one(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    run = compile_run("sorter", tmp_path_factory.mktemp("canvas") / "sorter", {"q": 9})
    return workbench.see(run, run.task().parse("5 3 3 9"))


@pytest.fixture(scope="module")
def chased(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    run = compile_run("chaser", tmp_path_factory.mktemp("canvas") / "chaser")
    return workbench.see(run, workbench.example(run.model(), run.task(), 0))


def parts(drawing: Drawing, attribute: str) -> list[ET.Element]:
    return [part for part in ET.fromstring(drawing.svg()).iter() if attribute in part.attrib]


def with_logits(seen: Capture, logits: torch.Tensor) -> Capture:
    return replace(seen, activations={**seen.activations, LOGITS: logits})


GOLD = [(1, 1, 0), (1, 2, 1), (2, 2, 0), (1, 3, 2)]


def test_edges_are_right_at_their_own_hop_shortcuts_at_another_and_missing_below_the_threshold() -> None:
    weight = np.zeros((5, 5))
    weight[1, 0], weight[2, 0], weight[3, 0], weight[4, 3], weight[4, 4] = 0.9, 0.8, 0.7, 0.6, 0.4
    found = kinds_of_edges(weight, GOLD, hop=1, threshold=0.05)
    assert found == {
        "right": [(1, 0)],
        "shortcut": [(2, 0)],
        "wrong": [(3, 0)],
        "idle": [(4, 3)],
        "missing": [(2, 1), (3, 2)],
    }


def test_of_a_second_power_the_second_hop_is_due_and_of_a_resolvent_every_one() -> None:
    weight = np.zeros((5, 5))
    weight[2, 0] = weight[2, 1] = 0.5
    second = kinds_of_edges(weight, GOLD, hop=2, threshold=0.05)
    assert second["right"] == [(2, 0)] and second["shortcut"] == [(2, 1)] and second["missing"] == []
    every = kinds_of_edges(weight, GOLD, hop=None, threshold=0.05)
    assert set(every["right"]) == {(2, 0), (2, 1)} and set(every["missing"]) == {(1, 0), (3, 2)}


def test_edges_come_strongest_first_and_the_threshold_is_inclusive() -> None:
    weight = np.zeros((4, 4))
    weight[3, 0], weight[3, 1], weight[3, 2] = 0.1, 0.3, 0.05
    assert kinds_of_edges(weight, [], hop=1, threshold=0.05)["idle"] == [(3, 1), (3, 0), (3, 2)]


def test_cells_hold_the_top_tokens_of_the_basis(sorted_one: Capture) -> None:
    points = projection.from_embedding(sorted_one.subject)
    for basis in projection.BASES:
        drawing = figures.canvas(sorted_one, layer=0, head=0, basis=basis)
        table = projection.top_tokens(sorted_one, top=1, points=points).select(basis=basis, rank=1)
        assert table.labels is not None
        cells = {cell.attrib["data-cell"]: cell for cell in parts(drawing, "data-cell")}
        assert len(cells) == table.values.size
        for (row, i), word in np.ndenumerate(table.labels):
            cell = cells[f"{row},{i}"]
            assert cell.attrib["data-point"] == points[row]
            assert f": {word} (" in cell.attrib["data-tip"]


def test_the_sorter_reads_the_minimum_at_the_delimiter_after_its_first_attention(sorted_one: Capture) -> None:
    cells = parts(figures.canvas(sorted_one, layer=0, head=0), "data-cell")
    tip = next(c.attrib["data-tip"] for c in cells if c.attrib["data-cell"] == "1,4")
    assert tip.startswith("after attention 0 at 4:⊥: 3 (")


def test_every_edge_drawn_carries_its_weight(chased: Capture) -> None:
    drawing = figures.canvas(chased, layer=0, head=0, threshold=0.1)
    weight = attention_graph.matrices(chased, 0, 0, 0).select(matrix="pattern").values
    drawn = {
        tuple(map(int, e.attrib["data-edge"].split(","))): e.attrib["data-tip"] for e in parts(drawing, "data-edge")
    }
    wanted = {(q, k) for q, k in np.argwhere(weight >= 0.1) if q != k}
    assert set(drawn) == wanted and wanted
    assert all(f"{weight[edge]:.3f}" in tip for edge, tip in drawn.items())


def test_in_focus_a_token_has_its_own_edges_alone_and_its_whole_chain(chased: Capture) -> None:
    query = 30
    drawing = figures.canvas(chased, layer=0, head=0, query=query)
    assert {e.attrib["data-edge"].split(",")[0] for e in parts(drawing, "data-edge")} == {str(query)}
    seen = [e for e in parts(drawing, "data-q") if "truth" in e.attrib["class"] and "far" not in e.attrib["class"]]
    chain = {key for _, q, key in attention_graph.gold_edges(chased, 0) if q == query}
    assert {int(e.attrib["data-k"]) for e in seen if e.attrib["data-q"] == str(query)} == chain


def test_edges_that_the_task_does_not_ask_for_show_in_focus_alone(sorted_one: Capture) -> None:
    """The delimiter's query and the answers' have gold edges, the questions' tokens have none."""

    def shown(drawing: Drawing) -> set[int]:
        near = [e for e in parts(drawing, "data-edge") if "far" not in e.attrib["class"].split()]
        return {int(e.attrib["data-edge"].split(",")[0]) for e in near}

    drawing = figures.canvas(sorted_one, layer=0, head=0, threshold=0.01)
    asked = {q for _, q, k in attention_graph.gold_edges(sorted_one, 0) if q != k}
    every = {int(e.attrib["data-edge"].split(",")[0]) for e in parts(drawing, "data-edge")}
    assert shown(drawing) <= asked < every and "shown for a token in focus" in drawing.svg()
    (query, *_) = sorted(every - asked)
    assert shown(figures.canvas(sorted_one, layer=0, head=0, threshold=0.01, query=query)) == {query}


def test_it_is_scrolled_to_the_first_wrong_answer(sorted_one: Capture) -> None:
    assert not parts(figures.canvas(sorted_one, layer=0, head=0), "data-focus")
    scored = sorted_one.batch.loss_mask[0].nonzero()[:, 0].tolist()
    logits = sorted_one.logits.clone()
    logits[0, scored[2]] *= -1
    (focus,) = parts(figures.canvas(with_logits(sorted_one, logits), layer=0, head=0), "data-focus")
    assert focus.attrib["data-token"] == str(scored[2])


def test_a_row_has_the_number_of_the_note_about_it(sorted_one: Capture) -> None:
    drawing = figures.canvas(sorted_one, layer=0, head=0, notes={"after attention 1": "②", "no such row": "③"})
    assert "② after attention 1" in drawing.svg() and "③" not in drawing.svg()


def test_a_thumbnail_has_the_tokens_and_the_strong_edges_of_one_head(sorted_one: Capture) -> None:
    weight = attention_graph.matrices(sorted_one, 0, 1, 1).select(matrix="pattern").values
    drawing = figures.thumbnail(sorted_one, layer=1, head=1)
    ET.fromstring(drawing.svg())
    strong = [(q, k) for q, k in np.argwhere(weight >= 0.1) if q != k]
    assert drawing.svg().count("<path") == len(strong) > 3
    assert drawing.svg().count("<text") == weight.shape[0]
    with pytest.raises(ValueError, match=r"blocks\.5"):
        figures.thumbnail(sorted_one, layer=5, head=0)


def test_every_head_has_a_picture_of_its_pattern_and_its_score(sorted_one: Capture) -> None:
    shares, coords = np.array([[0.25, np.nan], [0.5, 1.0]]), {"layer": range(2), "head": range(2)}
    scores = Measurement("Mass on true edges", shares, ("layer", "head"), coords, "share")
    drawing = figures.head_grid(sorted_one, scores=scores, chosen=(1, 0))
    cells = parts(drawing, "data-cell")
    assert [cell.attrib["data-cell"] for cell in cells] == ["0,0", "0,1", "1,0", "1,1"]
    assert [cell.attrib["data-tip"] for cell in cells] == [
        *("layer 0, head 0: 25% on the task's edges", "layer 0, head 1"),
        *("layer 1, head 0: 50% on the task's edges", "layer 1, head 1: 100% on the task's edges"),
    ]
    assert ["chosen" in cell.attrib["class"] for cell in cells] == [False, False, True, False]
    both = figures.head_grid(sorted_one, scores=scores, fallen=replace(scores, values=1 - shares))
    tips = [cell.attrib["data-tip"] for cell in parts(both, "data-cell")]
    assert tips[2] == "layer 1, head 0: 50% on the task's edges; without it 50% of right answers change"
    assert tips[1] == "layer 0, head 1" and "−75%" in both.body and "answers lost without it" in both.subtitle
    pictures = [b64decode(part.attrib["href"].split(",")[1]) for part in parts(drawing, "href")]
    for picture, (layer, head) in zip(pictures, np.ndindex(2, 2), strict=True):
        weight = sorted_one[f"blocks.{layer}.attn.hook_pattern"][0, head].numpy()
        opacity = unpacked(picture)[..., 3]
        assert opacity.shape == weight.shape
        assert (opacity[weight == weight.max()] == 255).all() and (opacity[weight == 0] == 0).all()


@pytest.mark.parametrize(("n_heads", "side"), [(4, 68), (16, 42), (50, 24)])
def test_many_heads_are_small_and_tell_their_numbers_on_hover(sorted_one: Capture, n_heads: int, side: int) -> None:
    pattern = torch.eye(9).expand(1, n_heads, 9, 9)
    names = {f"blocks.{layer}.attn.hook_pattern": pattern for layer in range(2)}
    seen = replace(sorted_one, activations={**sorted_one.activations, **names})
    coords = {"layer": range(2), "head": range(n_heads)}
    scores = Measurement("Mass on true edges", np.full((2, n_heads), 0.25), ("layer", "head"), coords, "share")
    drawing = figures.head_grid(seen, scores=scores)
    cells = parts(drawing, "data-cell")
    assert len(cells) == 2 * n_heads and {cell.attrib["width"] for cell in cells} == {str(side)}
    assert all(cell.attrib["data-tip"].endswith("25% on the task's edges") for cell in cells)
    assert (">25%<" in drawing.body) == (side > 24) and ("on hover: share" in drawing.subtitle) == (side == 24)
    assert drawing.width <= 850 or n_heads == 50


def unpacked(png: bytes) -> np.ndarray:
    """The pixels `[row, column, 4]` of a PNG of one block of data, without filters."""
    width, height = struct.unpack(">II", png[16:24])
    length = struct.unpack(">I", png[33:37])[0]
    assert png[37:41] == b"IDAT"
    rows = np.frombuffer(zlib.decompress(png[41 : 41 + length]), dtype=np.uint8).reshape(height, 1 + 4 * width)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, 4)


def test_of_a_long_input_the_picture_keeps_the_largest_weights(sorted_one: Capture) -> None:
    pattern = torch.zeros(1, 2, 300, 300)
    pattern[..., 0] = 0.1
    pattern[0, 1, 299, 250] = 1.0
    names = {f"blocks.{layer}.attn.hook_pattern": pattern for layer in range(2)}
    seen = replace(sorted_one, activations={**sorted_one.activations, **names})
    picture = parts(figures.head_grid(seen), "href")[1].attrib["href"].split(",")[1]
    opacity = unpacked(b64decode(picture))[..., 3]
    assert opacity.shape == (64, 64) and opacity[63, 53] == 255 and (opacity[:, 0] > 0).all()


def test_answers_are_those_of_the_model_and_marked_as_they_are_scored(sorted_one: Capture) -> None:
    said, wanted = answer_rows(sorted_one)
    task, batch = sorted_one.subject.task, sorted_one.batch
    right = correct(sorted_one.logits, batch)[0].tolist()
    for i, asked in enumerate(batch.loss_mask[0].tolist()):
        assert said.right[i] == (right[i] == 1 if asked else None)
        assert wanted.words[i] == (task.words(batch.targets[0])[i] if asked else "")


def test_below_each_answer_is_how_likely_the_right_one_is(sorted_one: Capture) -> None:
    scored = sorted_one.batch.loss_mask[0]
    row = confidence_row(sorted_one)
    assert [bool(word) for word in row.words] == scored.tolist()
    right = sorted_one.logits[0].double().softmax(-1).gather(-1, sorted_one.batch.targets[0][:, None])[:, 0]
    position = int(scored.nonzero()[0])
    assert row.words[position].strip("<>") in {f"{100 * right[position]:.0f}", "99", "1"}
    tips = [part.get("data-tip", "") for part in parts(figures.canvas(sorted_one, layer=0, head=0), "data-tip")]
    likeliest = [tip for tip in tips if tip.startswith("p(right)")]
    assert len(likeliest) == int(scored.sum()) and all(tip.count("%") == 6 for tip in likeliest)

    certain = torch.full_like(sorted_one.logits, -50.0)
    certain[0, :, 2] = 0.0
    row = confidence_row(with_logits(sorted_one, certain))
    assert [word for word in row.words if word] == [
        "100" if target == 2 else "0" for target in sorted_one.batch.targets[0][scored].tolist()
    ]


def test_of_a_set_it_is_how_likely_any_of_its_tokens_is(chased: Capture) -> None:
    task = make("pointer_chain", n=32, k=4, reading="chain")
    batch = task.parse(" ".join(chased.subject.task.words(chased.batch.tokens[0])))
    seen = replace(chased, batch=batch, subject=replace(chased.subject, task=task))
    even = confidence_row(with_logits(seen, torch.zeros_like(seen.logits)))
    sizes, classes = batch.targets[0].sum(-1), seen.logits.shape[-1]
    shown = [word for word, asked in zip(even.words, batch.loss_mask[0], strict=True) if asked]
    assert shown == [f"{100 * int(size) / classes:.0f}" for size in sizes[batch.loss_mask[0]]]


def test_labels_that_are_tokens_are_words_and_the_others_numbers(sorted_one: Capture) -> None:
    rows = {row.name: list(row.words) for row in label_rows(sorted_one)}
    assert rows["minimum"] == ["", "", "", "", "3", "", "", "", ""]
    assert rows["copies left"][5:] == ["1", "0", "0", "0"]


def test_a_long_input_is_drawn_in_part_and_says_so() -> None:
    task = make("pointer_chain", n=160, k=4)
    config = workbench.DecoderConfig(d_vocab=len(task.vocabulary), n_ctx=160, n_layers=1, d_model=8, n_heads=1, d_mlp=8)
    model = workbench.Decoder(config, workbench.generator(0)).eval()
    from workbench.capture import Subject, capture
    from workbench.inspection import hook_names

    subject = Subject.of(model, task, "long")
    seen = capture(workbench.hook(model), subject, task.sample(1, workbench.generator(0)), hook_names(subject))
    drawing = figures.canvas(seen, layer=0, head=0, start=20)
    assert "positions 20 to 147 of 160" in drawing.subtitle and "are not drawn" in drawing.subtitle
    assert len(parts(drawing, "data-token")) == WIDEST
    assert "positions 32 to 159 of 160" in figures.residual_maps(seen, projection.top_tokens(seen), start=32).subtitle


def test_what_is_not_there_is_refused_in_one_line(sorted_one: Capture) -> None:
    with pytest.raises(ValueError, match="no position 9; the input has 9 tokens"):
        figures.canvas(sorted_one, layer=0, head=0, start=9)
    with pytest.raises(ValueError, match="no matrix"):
        figures.canvas(sorted_one, layer=0, head=0, which="B")
    with pytest.raises(ValueError, match="basis"):
        figures.canvas(sorted_one, layer=0, head=0, basis="both")
    with pytest.raises(ValueError, match="no example 1"):
        figures.canvas(sorted_one, layer=0, head=0, example=1)
    with pytest.raises(ValueError, match="no head 7"):
        figures.canvas(sorted_one, layer=0, head=7)
    with pytest.raises(ValueError, match="was not captured"):
        figures.canvas(sorted_one, layer=7, head=0)


def test_words_of_a_stranger_cannot_leave_their_place(sorted_one: Capture) -> None:
    evil = '"><script>alert(1)</script>'
    subject = replace(sorted_one.subject, name=evil)
    drawing = figures.canvas(replace(sorted_one, subject=subject), layer=0, head=0)
    assert "<script" not in drawing.page() and evil not in drawing.page()
    ET.fromstring(drawing.svg())
    assert "<script" not in Drawing(evil, evil, "", 10, 10).page()


def test_boxes_are_drawn_with_what_they_hold_after_each_clause() -> None:
    task = make("boxes", style="advanced", n_boxes=3, n_objects=8, capacity=2, max_operations=3)
    tokens = task.sample(1, workbench.generator(0), operations=3).tokens[0]
    states = task.states(tokens)
    truth = task.truth(tokens[None])
    clauses = truth.labels["clause"][0]
    for name, stretches in states.items():
        box = "ABC".index(name[-1])
        covered = [i for first, last, _ in stretches for i in range(first, last + 1)]
        assert covered == sorted(set(covered)) and set(covered) >= set((clauses >= 0).nonzero()[:, 0].tolist())
        for first, last, words in stretches:
            for position in range(first, last + 1):
                if clauses[position] >= 0:
                    held = int(truth.arrays["contents"][0, int(clauses[position]), box].sum())
                    assert held == (len(words.split(", ")) if words else 0)
    assert any(len(stretches) > 1 for stretches in states.values())


def test_a_picture_stands_alone(sorted_one: Capture, tmp_path: Path) -> None:
    svg = figures.canvas(sorted_one, layer=0, head=0).svg()
    assert svg.startswith("<svg xmlns=") and not re.search(r"(href|src)=", svg)
    assert {part.tag for part in ET.fromstring(svg).iter()} <= {
        SVG + t for t in ("svg", "style", "g", "rect", "path", "text", "line")
    }


def test_where_rows_do_not_sum_to_one_a_weight_is_called_a_weight(chased: Capture) -> None:
    """As those of a sigmoid do not: 5 % of a row would say something else."""
    name = "blocks.0.attn.hook_pattern"
    halved = replace(chased, activations={**chased.activations, name: chased[name] / 2})
    for seen, least, colour in (
        (chased, "5% of a row", "share of the row"),
        (halved, "a weight of 0.05", "weight (rows do not sum to 1)"),
    ):
        assert least in figures.canvas(seen, layer=0, head=0).subtitle
        matrices = attention_graph.matrices(seen, 0, 0, 0)
        assert f"arcs from {least}" in figures.attention_arcs(matrices, threshold=0.05).layout.title.subtitle.text
        assert figures.attention_matrix(matrices).data[0].colorbar.title.text == colour
        assert figures.attention_difference(matrices, matrices).data[0].colorbar.title.text == colour
    powers = attention_graph.matrices(halved, 0, 0, 0)
    assert figures.attention_matrix(powers, "A²").data[0].colorbar.title.text == "share of the row"


def test_wide_words_fit_their_column() -> None:
    """A character of Chinese, and an emoji, take the room of two letters."""
    page = TokenPage(["the", "中文字符", "😀😀😀"], range(3))
    for i, word in enumerate(page.words):
        drawn = page.word(word, i, 0.0)
        size = float(re.search(r'font-size="([\d.]+)"', drawn)[1])
        letters = re.search(r">([^<]*)<", drawn)[1]
        assert size * (1.0 if i else 0.62) * len(letters) <= page.column


def test_of_a_deep_model_some_layers_are_drawn_the_last_among_them_and_all_where_asked() -> None:
    task = make("sorting", max_length=3)
    config = DecoderConfig(n_layers=14, d_model=8, n_heads=2, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx)
    model = Decoder(config, torch.Generator().manual_seed(0))
    subject = Subject.of(model, task, "deep")
    seen = capture(hook(model), subject, task.sample(1, torch.Generator().manual_seed(0)), hook_names(subject))
    some, every = projection.some_points(seen.subject), projection.from_embedding(seen.subject)
    assert len(every) == 29 and len(some) <= projection.ROWS
    assert some[0] == every[0] and some[-1] == every[-1] and [*some] == [point for point in every if point in some]
    drawn = [figures.canvas(seen, layer=0, head=0, **how).body.count("data-point") for how in ({}, {"points": every})]
    assert drawn[0] * len(every) == drawn[1] * len(some)
    shallow = Subject.of(Decoder(replace(config, n_layers=8, attention="standard"), torch.Generator()), task, "eight")
    assert projection.some_points(shallow) == projection.from_embedding(shallow)
