"""A circuit: some edges of a model's graph, chosen by their scores; as JSON (MIB's, Neuronpedia's) and as Graphviz."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from heapq import heappop, heappush

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.circuits.graph import INPUT, LOGITS, Graph
from workbench.measurement import Measurement, intervals
from workbench.util.files import parse_json


@dataclass(frozen=True)
class Circuit:
    """Edges that are kept; what all others carry is decided where the circuit is run (`faithfulness`).

    Attributes:
        graph: the graph of the model.
        names: the edges, in the graph's order.
        scores: edge -> its mean score, where the circuit was chosen by scores.
    """

    graph: Graph
    names: tuple[str, ...]
    scores: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, names: Sequence[str], scores: Mapping[str, float] | None = None) -> Circuit:
        """The circuit of these edges. Raises ValueError if the graph has no such edge."""
        return cls.numbered(graph, graph.numbers_of(names), scores or {})

    @classmethod
    def numbered(cls, graph: Graph, numbers: Sequence[int], scores: Mapping[str, float]) -> Circuit:
        """The circuit of the edges with these places in `graph.names`."""
        return cls(graph, tuple(graph.names[number] for number in sorted(set(numbers))), dict(scores))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def mask(self) -> Bool[Tensor, "writer reader"]:
        return self.graph.mask(self.names)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The writers and readers at the ends of its edges, heads and MLPs once each."""
        ends = {node for name in self.names for end in name.split("->") for node in self.graph.nodes_of(end)}
        return tuple(node for node in (*self.graph.writers, LOGITS) if node in ends)

    def changed(self, names: Sequence[str]) -> Circuit:
        """The circuit without those of these edges that it has, and with the others.

        Raises ValueError if the graph has no such edge.
        """
        return Circuit.of(self.graph, sorted({*self.names} ^ {*names}), self.scores)

    def complement(self) -> Circuit:
        """The circuit of all other edges."""
        inside = set(self.names)
        return Circuit(self.graph, tuple(name for name in self.graph.names if name not in inside), self.scores)

    def pruned(self) -> Circuit:
        """The circuit without edges that lie on no path from the input to the logits."""
        nodes, places = self.graph.nodes_of, {name: at for at, name in enumerate((*self.graph.writers, LOGITS))}
        # By their reader and then their writer, an edge comes after all that lead to its writer.
        edges = [(writer, reader) for writer, reader in (name.split("->") for name in self.names)]
        edges.sort(key=lambda edge: (places[nodes(edge[1])[0]], places[edge[0]]))
        reached, needed = {INPUT}, {LOGITS}
        for writer, reader in edges:
            if writer in reached:
                reached.update(nodes(reader))
        for writer, reader in reversed(edges):
            if not needed.isdisjoint(nodes(reader)):
                needed.add(writer)
        kept = [f"{w}->{r}" for w, r in edges if w in reached and not needed.isdisjoint(nodes(r))]
        return Circuit.of(self.graph, kept, self.scores)

    def to_json(self) -> str:
        """The circuit as JSON: the graph's shape, and each edge with its score."""
        edges = [{"edge": name, "score": self.scores.get(name)} for name in self.names]
        return json.dumps({**asdict(self.graph), "edges": edges}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Circuit:
        """The circuit that `to_json` wrote. Raises ValueError if this is none."""
        try:
            given = parse_json(text)
            groups = given.get("n_groups")
            shape = (int(given["n_layers"]), int(given["n_heads"]), None if groups is None else int(groups))
            graph = Graph(*shape, bool(given.get("has_mlps", True)))
            scores = {str(each["edge"]): each["score"] for each in given["edges"]}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is no circuit: it needs n_layers, n_heads and edges ({error})") from None
        return cls.of(graph, list(scores), {name: score for name, score in scores.items() if score is not None})

    def to_dot(self) -> str:
        """The circuit as Graphviz text, layers from the bottom up; widths by score, dashed where it is negative."""
        largest = max((abs(self.scores.get(name, 0.0)) for name in self.names), default=0.0) or 1.0
        lines = ["digraph circuit {", "  rankdir=BT;", "  node [shape=box];"]
        lines += [f'  "{node}";' for node in self.nodes]
        for name in self.names:
            writer, reader = name.split("->")
            part = reader.partition("<")[2].strip(">")
            score = self.scores.get(name)
            style = [f'label="{part}"'] if part else []
            if score is not None:
                style += [f"penwidth={0.5 + 4 * abs(score) / largest:.2f}", f'tooltip="{score:.4g}"']
                style += ["style=dashed"] if score < 0 else []
            lines += [f'  "{writer}" -> "{node}" [{", ".join(style)}];' for node in self.graph.nodes_of(reader)]
        return "\n".join([*lines, "}"]) + "\n"


def _ranked(scores: Measurement, graph: Graph, n: int) -> tuple[dict[str, float], Int[Tensor, " edge"]]:
    """Every edge's mean score, and the edges by its size, as one may speak for the answer or against it.

    Raises ValueError if there are not n edges, or one has no score.
    """
    if not 0 <= n <= graph.n_edges:
        raise ValueError(f"a circuit has 0 to {graph.n_edges} edges here, not {n}")
    if set(scores.dims) - {"example"} != {"edge"}:
        raise ValueError(f"a circuit is chosen by scores of edges, not by a measure with dims {', '.join(scores.dims)}")
    values = (
        intervals.mean(np.moveaxis(scores.values, scores.axis("example"), -1))[0]
        if "example" in scores.dims
        else scores.values
    )
    names = scores.coords["edge"]
    names = names if names is graph.names else tuple(map(str, names))  # to make words of all of them takes a while
    by_name = dict(zip(names, values.tolist(), strict=True))
    if names != graph.names:
        if missing := [name for name in graph.names if name not in by_name]:
            raise ValueError(f"{len(missing)} of {graph.n_edges} edges have no score, among them {missing[0]}")
        values = np.array([by_name[name] for name in graph.names])
    size = torch.from_numpy(np.asarray(values, dtype=float)).abs()
    return by_name, size.argsort(descending=True, stable=True)


def top_edges(scores: Measurement, graph: Graph, n: int) -> Circuit:
    """The circuit of the n edges with the largest scores, whatever their sign.

    Args:
        scores: dims `edge` and perhaps `example`, whose mean then counts.
        graph: the model's.
        n: how many edges.

    Raises:
        ValueError: if n is more than there are edges, or an edge has no score.
    """
    by_name, order = _ranked(scores, graph, n)
    return Circuit.numbered(graph, order[:n].tolist(), by_name)


def greedy_edges(scores: Measurement, graph: Graph, n: int) -> Circuit:
    """The circuit grown from the logits: n times the edge of the largest score that leads to what is in it already.

    So each of its edges has a path to the logits (Hanna et al. 2024). Arguments and errors as `top_edges`.
    """
    by_name, order = _ranked(scores, graph, n)
    writer, reader = graph.edges.nonzero()[order].T
    places = reader.argsort(stable=True).split(reader.bincount(minlength=len(graph.readers)).tolist())
    waiting, writers = dict(enumerate(places)), writer.tolist()
    ready: list[tuple[int, int]] = []  # of each reader that is in the circuit, the place of its best edge that is left
    chosen: list[int] = []
    left: dict[int, Iterator[int]] = {}

    def enter(node: str) -> None:
        for number in graph.readers_of.get(node, ()):
            if number in waiting:
                left[number] = iter(waiting.pop(number).tolist())
                proceed(number)

    def proceed(number: int) -> None:
        if (best := next(left[number], None)) is not None:
            heappush(ready, (best, number))

    enter(LOGITS)
    while ready and len(chosen) < n:
        best, number = heappop(ready)
        chosen.append(best)
        proceed(number)
        enter(graph.writers[writers[best]])
    return Circuit.numbered(graph, order[chosen].tolist(), by_name)


SELECTIONS = {"top": top_edges, "greedy": greedy_edges}
"""Ways to choose so many edges."""


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
