"""Circuits in the form of others: every name is theirs, and nothing that their readers require is missing."""

from __future__ import annotations

import json

import jsonschema
import pytest

from workbench.circuits import Circuit, Graph
from workbench.circuits.circuit import to_mib, to_neuronpedia

GRAPH = Graph(n_layers=2, n_heads=2)
NAMES = ("input->a0.h1<q>", "input->a0.h1<v>", "a0.h1->m1", "m1->logits")
CIRCUIT = Circuit.of(
    GRAPH, NAMES, {"input->a0.h1<q>": 0.5, "input->a0.h1<v>": -2.0, "a0.h1->m1": 1.0, "m0->logits": 3.0}
)

STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
NODE: dict[str, object] = {
    **dict.fromkeys(("node_id", "feature_type", "jsNodeId", "clerp"), STRING),
    "layer": {"type": ["string", "integer"]},
    "feature": {"type": ["integer", "null"]},
    "ctx_idx": INTEGER,
}
LINK: dict[str, object] = {"source": STRING, "target": STRING, "weight": NUMBER}
METADATA: dict[str, object] = {
    "slug": STRING,
    "scan": STRING,
    "prompt": STRING,
    "prompt_tokens": {"type": "array", "items": STRING},
}


def required(properties: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def listed(properties: dict[str, object]) -> dict[str, object]:
    return {"type": "array", "items": required(properties)}


NEURONPEDIA = required(
    {"metadata": required(METADATA), "qParams": {"type": "object"}, "nodes": listed(NODE), "links": listed(LINK)}
)
"""What graph-schema.json of Neuronpedia, version 1.0.0, requires."""


def test_every_edge_is_named_as_mib_names_it_with_its_score() -> None:
    read = json.loads(to_mib(CIRCUIT, 16))
    assert read["cfg"] == {"n_layers": 2, "n_heads": 2, "parallel_attn_mlp": False, "d_model": 16}
    writers, expected = ["input"], set()
    for layer in range(2):  # as EAP-IG builds the graph of a model without parallel MLPs
        heads = [f"a{layer}.h{head}" for head in range(2)]
        expected |= {f"{writer}->{head}<{part}>" for writer in writers for head in heads for part in "qkv"}
        writers += heads
        expected |= {f"{writer}->m{layer}" for writer in writers}
        writers.append(f"m{layer}")
    expected |= {f"{writer}->logits" for writer in writers}
    assert set(read["edges"]) == expected and set(read["nodes"]) == {*writers, "logits"}
    assert {name for name, edge in read["edges"].items() if edge["in_graph"]} == set(NAMES)
    assert read["edges"]["input->a0.h1<v>"]["score"] == -2 and read["edges"]["m1->logits"]["score"] == 0
    assert {name for name, node in read["nodes"].items() if node["in_graph"]} == {"input", "a0.h1", "m1", "logits"}


@pytest.mark.parametrize("graph", [Graph(2, 4, n_groups=2), Graph(2, 2, has_mlps=False)])
def test_a_graph_that_mib_has_no_names_for_is_refused(graph: Graph) -> None:
    with pytest.raises(ValueError, match="MIB's graphs have an MLP in each layer"):
        to_mib(Circuit.of(graph, graph.names[:1]), 16)


def test_a_graph_for_neuronpedia_keeps_its_schema_and_its_links_lead_between_its_nodes() -> None:
    read = json.loads(to_neuronpedia(CIRCUIT, model="tiny", prompt=["3", "1", "="]))
    jsonschema.validate(read, NEURONPEDIA)
    links = {(link["source"], link["target"]): link["weight"] for link in read["links"]}
    assert links == {("input", "a0.h1"): -1.5, ("a0.h1", "m1"): 1.0, ("m1", "logits"): 0.0}
    kinds = {node["node_id"]: (node["layer"], node["feature_type"]) for node in read["nodes"]}
    assert kinds == {
        "input": ("E", "embedding"),
        "a0.h1": ("0", "attention head"),
        "m1": ("1", "mlp"),
        "logits": ("2", "logit"),
    }
    assert {end for link in links for end in link} <= set(kinds)
    grouped = Circuit.of(Graph(1, 4, n_groups=2), ["input->a0.g1<k>"], {"input->a0.g1<k>": 1.0})
    read = json.loads(to_neuronpedia(grouped, model="tiny", prompt=["a"]))
    assert [link["target"] for link in read["links"]] == ["a0.h2", "a0.h3"]
