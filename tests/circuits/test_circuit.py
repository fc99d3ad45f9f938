"""Circuits are chosen, pruned, written and compared as they say."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import torch

from workbench.circuits import (
    Circuit,
    Graph,
    chance_overlap,
    greedy_edges,
    overlap,
    overlap_of_halves,
    overlap_of_seeds,
    top_edges,
)
from workbench.circuits.overlap import Choose
from workbench.measurement import Measurement
from workbench.util.seeds import generator

GRAPH = Graph(1, 2)
EDGES = GRAPH.names  # 6 into heads, 3 into the MLP, 4 into the logits


def scores(**given: float) -> Measurement:
    """Scores of all edges, 0 where none is given; names without signs: input_h0q, h0_logits."""
    values = np.zeros(len(EDGES))
    for name, value in given.items():
        writer, reader = name.split("_")
        full = {"input": "input", "h0": "a0.h0", "h1": "a0.h1", "m0": "m0", "logits": "logits"}
        end = full.get(reader) or f"a0.{reader[:2]}<{reader[2]}>"
        values[EDGES.index(f"{full[writer]}->{end}")] = value
    return Measurement("s", values, ("edge",), {"edge": EDGES}, "logits")


def test_the_largest_scores_are_chosen() -> None:
    given = scores(input_h0q=3.0, h0_logits=-5.0, input_m0=1.0)
    assert top_edges(given, GRAPH, 2).names == ("input->a0.h0<q>", "a0.h0->logits")
    assert len(top_edges(given, GRAPH, 0)) == 0 and len(top_edges(given, GRAPH, 13)) == 13


def test_greedy_edges_all_lead_to_the_logits() -> None:
    given = scores(input_h0q=9.0, h0_logits=1.0, h1_logits=2.0, input_h1v=0.5)
    assert greedy_edges(given, GRAPH, 1).names == ("a0.h1->logits",)
    assert set(greedy_edges(given, GRAPH, 3).names) == {"a0.h1->logits", "a0.h0->logits", "input->a0.h0<q>"}
    assert len(greedy_edges(given, GRAPH, GRAPH.n_edges)) == GRAPH.n_edges


def test_pruning_leaves_paths_from_the_input_to_the_logits() -> None:
    names = ["input->a0.h0<q>", "a0.h0->m0", "a0.h1->logits", "input->a0.h1<v>", "input->m0"]
    assert Circuit.of(GRAPH, names).pruned().names == ("input->a0.h1<v>", "a0.h1->logits")
    whole = Circuit.of(Graph(2, 2), Graph(2, 2).names)
    assert whole.pruned().names == whole.names and not whole.complement().names
    assert Circuit.of(GRAPH, ["input->logits"]).pruned().names == ("input->logits",)
    assert not Circuit.of(GRAPH, ["m0->logits"]).pruned().names


def test_a_circuit_is_the_same_after_json_and_has_its_nodes_and_complement() -> None:
    circuit = top_edges(scores(input_h0q=3.0, h0_logits=-5.0), GRAPH, 2)
    again = Circuit.from_json(circuit.to_json())
    assert again.names == circuit.names and again.graph == GRAPH and again.scores["a0.h0->logits"] == -5.0
    assert circuit.nodes == ("input", "a0.h0", "logits")
    assert sorted(circuit.names + circuit.complement().names) == sorted(EDGES)
    assert json.loads(circuit.to_json())["n_heads"] == 2
    for text in ("{", "[]", '{"n_layers": 1}', '{"n_layers": 1, "n_heads": 2, "n_groups": [], "edges": []}'):
        with pytest.raises(ValueError, match="this is no circuit"):
            Circuit.from_json(text)


def test_an_edge_changed_by_hand_is_cut_where_it_was_and_taken_in_where_it_was_not() -> None:
    given = scores(input_h0q=3.0, h0_logits=-5.0)
    circuit = top_edges(given, GRAPH, 2)
    changed = circuit.changed(["a0.h0->logits", "input->m0"])
    assert changed.names == ("input->a0.h0<q>", "input->m0") and changed.scores == circuit.scores
    assert changed.changed(["input->m0", "a0.h0->logits"]).names == circuit.names
    with pytest.raises(ValueError, match="h7"):
        circuit.changed(["a0.h7->logits"])


def test_graphviz_text_has_an_edge_for_each_with_its_part_and_sign() -> None:
    dot = top_edges(scores(input_h0q=2.5, h0_logits=-5.0), GRAPH, 2).to_dot()
    assert dot.startswith("digraph circuit {") and dot.endswith("}\n")
    assert '  "input" -> "a0.h0" [label="q", penwidth=2.50, tooltip="2.5"];' in dot
    assert '  "a0.h0" -> "logits" [penwidth=4.50, tooltip="-5", style=dashed];' in dot


def test_heads_that_share_keys_share_their_edges_and_each_passes_on_what_is_read() -> None:
    graph = Graph(2, 4, 2, has_mlps=False)
    path = ["input->a0.g1<v>", "a0.h3->a1.g0<k>", "a1.h1->logits"]
    circuit = Circuit.of(graph, [*path, "a0.h0->a1.h3<q>", "input->a0.g0<k>"], dict.fromkeys(path, 1.0))
    assert circuit.pruned().names == tuple(path)
    assert circuit.pruned().nodes == ("input", "a0.h2", "a0.h3", "a1.h0", "a1.h1", "logits")
    assert Circuit.from_json(circuit.to_json()) == circuit
    assert '  "a0.h3" -> "a1.h0" [label="k"' in circuit.to_dot() and '"a1.h1" [label="k"' in circuit.to_dot()
    scores = np.array([3.0 if name in path else 1.0 if "->logits" not in name else 0.0 for name in graph.names])
    measured = Measurement("s", scores, ("edge",), {"edge": graph.names}, "logits")
    assert greedy_edges(measured, graph, 3).names == tuple(path)


def test_overlap_of_circuits_by_hand() -> None:
    one, other = Circuit.of(GRAPH, EDGES[:4]), Circuit.of(GRAPH, EDGES[2:6])
    assert overlap(one, other) == 2 / 6 and overlap(one, one) == 1 and overlap(*[Circuit.of(GRAPH, [])] * 2) == 1
    found = overlap_of_seeds([one, other, one], [0, 1, 2])
    assert found.values == pytest.approx([2 / 3, 1 / 3, 2 / 3]) and found.mean("seed").low is not None


def test_halves_agree_where_every_pair_says_the_same_and_by_chance_where_none_does() -> None:
    same = np.tile(np.arange(13.0)[:, None], (1, 20))
    noise = np.random.default_rng(0).normal(size=(13, 20))
    measured = [
        overlap_of_halves(
            Measurement("s", values, ("edge", "example"), {"edge": EDGES, "example": range(20)}, "logits"),
            GRAPH, 4, generator(0),
        )
        for values in (same, noise)
    ]  # fmt: skip
    assert measured[0].values == 1 and measured[0].low == 1
    assert measured[1].values < 0.4 and measured[1].settings["chance"] == pytest.approx(chance_overlap(4, GRAPH))
    assert measured[1].settings["draws"] == 100


@pytest.mark.parametrize("choose", [top_edges, greedy_edges])
def test_the_chance_is_the_overlap_of_halves_that_share_nothing_chosen_in_the_same_way(choose: Choose) -> None:
    """Scores of every pair are noise here, so that what is found on one half says nothing of the other."""
    graph, n = Graph(2, 4), 12
    noise = np.random.default_rng(0).normal(size=(graph.n_edges, 40))
    coords = {"edge": graph.names, "example": range(40)}
    pairs = Measurement("s", noise, ("edge", "example"), coords, "logits")
    means = [pairs.pick(range(start, start + 2)).mean() for start in range(0, 40, 2)]
    circuits = [choose(mean, graph, n) for mean in means]
    shared = np.mean([overlap(one, other) for i, one in enumerate(circuits) for other in circuits[:i]])
    assert chance_overlap(n, graph, choose) == pytest.approx(shared, abs=0.02)


def test_circuits_grown_from_the_logits_share_more_by_chance_than_edges_drawn_at_random() -> None:
    graph = Graph(2, 4)
    at_random = 12 * 12 / graph.n_edges  # common edges, on average
    drawn, grown = (chance_overlap(12, graph, choose, 400) for choose in (top_edges, greedy_edges))
    assert drawn == pytest.approx(at_random / (24 - at_random), abs=0.01) and grown > 1.3 * drawn
    assert chance_overlap(graph.n_edges, graph, greedy_edges) == 1 == chance_overlap(0, graph)


def test_what_there_is_not_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="a circuit has 0 to 13 edges here, not 14"):
        top_edges(scores(), GRAPH, 14)
    with pytest.raises(ValueError, match=r"edges have no score, among them input->a0\.h0<q>"):
        greedy_edges(scores().keep("edge", EDGES[1:]), GRAPH, 3)
    with pytest.raises(ValueError, match="not by a measure with dims layer"):
        top_edges(Measurement("s", np.zeros(2), ("layer",), {"layer": range(2)}, "x"), GRAPH, 1)
    with pytest.raises(ValueError, match="different numbers of layers or heads"):
        overlap(Circuit.of(GRAPH, []), Circuit.of(Graph(2, 2), []))
    with pytest.raises(ValueError, match="of two circuits or more, a seed each, not 1 of 1"):
        overlap_of_seeds([Circuit.of(GRAPH, [])], [0])


@pytest.mark.parametrize("graph", [Graph(3, 4, 2), Graph(2, 2, None, False)], ids=str)
def test_a_circuit_grown_on_a_heap_is_the_one_grown_edge_by_edge(graph: Graph) -> None:
    """Also where scores tie, and heads share keys and values."""
    values = torch.randn(graph.n_edges, generator=generator(0)).round(decimals=1).double().numpy()
    scores = Measurement("scores", values, ("edge",), {"edge": graph.names}, "logits")
    left = [graph.names[i] for i in (-abs(values)).argsort(kind="stable")]
    inside, grown = {"logits"}, []
    while len(grown) < graph.n_edges // 2:
        best = next(name for name in left if not inside.isdisjoint(graph.nodes_of(name.split("->")[1])))
        left.remove(best)
        grown.append(best)
        inside.add(best.split("->")[0])
    assert set(greedy_edges(scores, graph, len(grown)).names) == set(grown)


def test_a_circuit_of_every_edge_of_a_model_of_thirty_layers_is_grown_in_seconds() -> None:
    graph = Graph(30, 9, 3)
    values = torch.randn(graph.n_edges, generator=generator(0)).double().numpy()
    scores = Measurement("scores", values, ("edge",), {"edge": graph.names}, "logits")
    start = time.process_time()
    assert len(greedy_edges(scores, graph, graph.n_edges)) == graph.n_edges == 70_651
    assert time.process_time() - start < 20
