"""A circuit in the form of others: the MIB benchmark's JSON, and the attribution graphs that Neuronpedia shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from workbench.circuits.circuit import Circuit
from workbench.circuits.graph import INPUT, LOGITS


def to_mib(circuit: Circuit, d_model: int) -> str:
    """The circuit as JSON of the MIB benchmark's circuit track (the graphs of EAP-IG, Hanna et al. 2024).

    Every edge of the model is in it with its score, 0 where none is known, and whether it is in the circuit.

    Raises:
        ValueError: if the graph is one that the format has no names for.
    """
    graph = circuit.graph
    if graph.n_groups is not None or not graph.has_mlps:
        raise ValueError("MIB's graphs have an MLP in each layer, and keys and values of each head; this one has not")
    inside, nodes = set(circuit.names), set(circuit.nodes)
    cfg = {"n_layers": graph.n_layers, "n_heads": graph.n_heads, "parallel_attn_mlp": False, "d_model": d_model}
    edges = {name: {"score": circuit.scores.get(name, 0.0), "in_graph": name in inside} for name in graph.names}
    known = {node: {"in_graph": node in nodes} for node in (*graph.writers, LOGITS)}
    return json.dumps({"cfg": cfg, "nodes": known, "edges": edges})


def to_neuronpedia(circuit: Circuit, *, model: str, prompt: Sequence[str]) -> str:
    """The circuit as JSON of an attribution graph (Neuronpedia's schema 1.0.0), which its frontend shows.

    A node is a head or an MLP over all positions, and stands at the last token; what a head reads through queries, keys
    and values is one link, whose weight is the sum of their scores.

    Args:
        circuit: what is shown.
        model: its name.
        prompt: the words of one input.
    """
    graph, last = circuit.graph, len(prompt) - 1
    ends = {INPUT: ("E", "embedding"), LOGITS: (str(graph.n_layers), "logit")}

    def node(name: str) -> dict[str, object]:
        layer, kind = ends.get(name, (name[1:].split(".")[0], "attention head" if name[0] == "a" else "mlp"))
        about = {"layer": layer, "feature_type": kind, "clerp": f"{name}, all positions", "ctx_idx": last}
        return {"node_id": name, "jsNodeId": name, "feature": None, **about}

    weights: Counter[tuple[str, str]] = Counter()
    for name in circuit.names:
        writer, reader = name.split("->")
        for to in graph.nodes_of(reader):
            weights[writer, to] += circuit.scores.get(name, 0.0)  # type: ignore[assignment]
    metadata = {"slug": "circuit", "scan": model, "prompt_tokens": list(prompt), "prompt": " ".join(prompt)}
    links = [{"source": writer, "target": to, "weight": weight} for (writer, to), weight in weights.items()]
    nodes = [node(name) for name in circuit.nodes]
    return json.dumps({"metadata": metadata, "qParams": {}, "nodes": nodes, "links": links})
