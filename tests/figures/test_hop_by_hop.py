"""One token's paths, hop by hop: the drawing shows the numbers of `resolvent.steps`, and gives a page what it needs."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from workbench import figures
from workbench.capture import LOGITS, Capture, Subject, capture
from workbench.instruments.attention import attention_graph, resolvent
from workbench.instruments.residual import projection
from workbench.measurement.numbers import percent
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention.chacal import ChacalAttention
from workbench.models.hooked import hook
from workbench.runs.compiled import compile_run
from workbench.tasks.multiplication import Multiplication
from workbench.util.seeds import generator


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    run = compile_run("chaser", tmp_path_factory.mktemp("hops") / "chaser", {"n": 16, "k": 4})
    return workbench.see(run, workbench.example(run.model(), run.task(), 0))


def tips(body: str, of: str) -> list[str]:
    """The share that hovering over each of a row's cells says."""
    return [unescape(share) for share in re.findall(rf'data-tip="{of}: (\S+) at \d+:', body)]


def test_every_row_is_where_the_paths_of_its_hop_arrive(seen: Capture) -> None:
    drawing = figures.hop_by_hop(seen, layer=0, head=0, query=15, n_hops=3, gamma=0.5)
    steps = resolvent.steps(seen, 0, 0, 0, n_hops=3).values[:, 15]
    for hop in (1, 2, 3):
        shown = tips(drawing.body, f"hop {hop}")
        assert shown == [percent(float(share)) for share in steps[hop - 1]] and len(shown) == 16
    A = attention_graph.pattern(seen, 0)[0, 0]
    whole = tips(drawing.body, "all hops at γ")
    reads = resolvent.resolvent(A, 0.5)[15]
    assert whole == [percent(float(share)) for share in reads]


def test_the_true_ancestor_of_each_hop_is_framed_and_its_edges_are_arcs(seen: Capture) -> None:
    drawing = figures.hop_by_hop(seen, layer=0, head=0, n_hops=3)
    query = drawing.data["far"]
    chain = {hop: key for hop, at, key in attention_graph.gold_edges(seen, 0) if at == query}
    assert max(chain) == 3, "the default is a token from which the longest way is due"
    for hop, key in chain.items():
        assert re.search(rf'data-tip="hop {hop}: [\d.]+% at {key}:\w+, a true ancestor"', drawing.body)
    arcs = re.findall(r'data-tip="hop (\d): (\d+):\w+ reads (\d+):', drawing.body)
    way = [query, *(chain[hop] for hop in (1, 2, 3))]
    assert {(str(h + 1), str(way[h]), str(way[h + 1])) for h in range(3)} <= set(arcs)


def test_of_several_ancestors_of_one_hop_all_are_framed() -> None:
    task = Multiplication(digits=2)
    config = DecoderConfig(n_layers=1, d_model=8, n_heads=2, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx)
    model, names = Decoder(config, generator(0)).eval(), ["blocks.0.attn.hook_pattern", LOGITS]
    batch = task.sample(1, generator(1))
    drawing = figures.hop_by_hop(capture(hook(model), Subject.of(model, task, "it"), batch, names), layer=0, head=0)
    due = [key for _, at, key in drawing.data["gold"] if at == drawing.data["far"]]
    framed = re.findall(r'data-tip="hop 1: [\d.]+% at (\d+):[^"]+, a true ancestor"', drawing.body)
    assert len(due) > 1 and sorted(map(int, framed)) == sorted(due)


def test_a_page_gets_the_whole_pattern_but_what_is_too_little_to_follow(seen: Capture) -> None:
    data = figures.hop_by_hop(seen, layer=0, head=0).data
    A = attention_graph.pattern(seen, 0)[0, 0].numpy()
    sent = np.zeros_like(A)
    for query, row in enumerate(data["rows"]):
        sent[query, [int(key) for key in row[::2]]] = row[1::2]
    assert np.abs(sent - np.where(A >= 0.002, A, 0)).max() <= 5e-5
    assert data["own"] == seen.subject.attention[0].gamma and data["words"] == projection.sequence(seen, 0)


def test_what_is_not_there_is_named(seen: Capture) -> None:
    with pytest.raises(ValueError, match="there is no position 99; the input has 16 tokens"):
        figures.hop_by_hop(seen, layer=0, head=0, query=99)
    with pytest.raises(ValueError, match="there is no head 7"):
        figures.hop_by_hop(seen, layer=0, head=7)
    with pytest.raises(ValueError, match="gamma must be in"):
        figures.hop_by_hop(seen, layer=0, head=0, gamma=1.0)


def test_a_canvas_has_the_data_of_its_head_where_paths_have_several_hops(seen: Capture) -> None:
    drawing = figures.canvas(seen, layer=0, head=0)
    assert drawing.data["hops"] == seen.truth.n_hops and drawing.data["query"] is None
    assert str(drawing.data["rows"][1]) not in drawing.svg(), "the picture alone does not carry it"


@pytest.mark.parametrize("settings", [{"form": "eq7"}, {"diagonal": True}], ids=str)
def test_a_layer_of_another_form_is_followed_in_its_own(seen: Capture, settings: dict[str, Any]) -> None:
    layer = ChacalAttention(gamma=0.5, **settings)
    A = attention_graph.pattern(seen, 0)[0, 0]
    softer = (0.5 * A + 0.5 * torch.ones_like(A).tril() / torch.arange(1, len(A) + 1)[:, None])[None, None]
    other = replace(
        seen,
        subject=replace(seen.subject, attention=(layer,)),
        activations={**seen.activations, "blocks.0.attn.hook_pattern": softer},
    )
    drawing = figures.hop_by_hop(other, layer=0, head=0, query=15, n_hops=2)
    whole = tips(drawing.body, "all hops at γ")
    reads = attention_graph.unit_rows(layer.mixing_matrix(softer[0, 0]))[15]
    assert whole == [percent(float(share)) for share in reads]
    into = [float(w) for w in re.findall(r'data-tip="hop 2: \d+:\w+ reads 0:\w+, weight ([\d.]+)"', drawing.body)]
    inner = softer[0, 0] if layer.settings.diagonal else softer[0, 0] - torch.diag(softer[0, 0].diag())
    first, second = (inner, softer[0, 0]) if layer.settings.form == "eq7" else (softer[0, 0], inner)
    flows = 0.5 * first[15] * second[:, 0]
    assert sorted(into) == pytest.approx(sorted(float(f) for f in flows[1:] if f >= 0.01), abs=1e-3)
