"""Faithfulness: how much of the metric a circuit alone keeps, by its size, and what is left without it; and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int

from workbench.circuits.circuit import SELECTIONS, Circuit
from workbench.circuits.comparison import Comparison
from workbench.circuits.graph import Graph
from workbench.circuits.rewired import IN_WORDS, Ablation, check_graph, rewired_logits, written_outside
from workbench.judgement.faithful import Agreement, Faithfulness, first_faithful, judge_faithful
from workbench.measurement import Measurement
from workbench.util.lookup import lookup
from workbench.util.progress import steps

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""The sizes of circuits at which the MIB benchmark measures, as shares of all edges."""
LEAST_GAP = 1e-9  # of the largest metric: with less between the whole model and none there is nothing to keep


@torch.no_grad()
def kept_metric(comparison: Comparison, circuits: Sequence[Circuit], ablation: Ablation) -> Float[np.ndarray, "c pair"]:
    """The metric of each pair's clean input when a circuit alone carries what this run writes, for each circuit.

    With all edges that is the clean run, and with none, where the others carry the corrupted run, that one: neither is
    run again, and no circuit twice.
    """
    check_graph(comparison)
    known = {Graph.of(comparison.model).names: comparison.baselines[0]}
    if ablation.outside == "patch":
        known[()] = comparison.baselines[1]
    masks = {circuit.names: circuit.mask for circuit in circuits if circuit.names not in known}
    known |= {names: np.zeros(len(comparison.pairs)) for names in masks}
    for where, part, outside in written_outside(comparison, ablation) if masks else ():
        clean = comparison.clean_logits(part)
        for names, mask in steps(masks.items(), "running circuits of all sizes"):
            logits = rewired_logits(comparison, part.clean.tokens, mask, outside)
            known[names][where] = comparison.score(logits, part, clean).double().cpu().numpy()
    return np.stack([known[circuit.names] for circuit in circuits])


@torch.no_grad()
def circuit_answers(
    comparison: Comparison, circuits: Sequence[Circuit], ablation: Ablation | None = None
) -> Int[np.ndarray, "circuit pair"]:
    """The likeliest token at the first answer that a pair asks for, when a circuit alone carries what the run writes.

    Args:
        comparison: the model and the pairs; always the clean run is edited.
        circuits: of this model's graph; with all its edges, the model itself.
        ablation: what the edges outside carry; by default those of the corrupted run.

    Raises:
        ValueError: if a circuit is of another graph.
    """
    _check_graphs(circuits, Graph.of(comparison.model))
    check_graph(comparison)
    answers = np.zeros((len(circuits), len(comparison.pairs)), dtype=np.int64)
    for where, part, outside in written_outside(comparison, ablation or Ablation()):
        first = part.asked.long().argmax(-1)
        for row, circuit in enumerate(circuits):
            logits = rewired_logits(comparison, part.clean.tokens, circuit.mask, outside)
            answers[row, where] = logits[torch.arange(len(part)), first].argmax(-1).cpu().numpy()
    return answers


def faithfulness(comparison: Comparison, circuits: Sequence[Circuit], ablation: Ablation | None = None) -> Measurement:
    """The share of the metric that each circuit alone keeps: 1 as the whole model, 0 as with no edge at all.

    f(C) = (m(C) − m(∅)) / (m(N) − m(∅)) with mean metrics m over pairs, as in the MIB benchmark (Mueller et al. 2025,
    §3.1); it can be below 0 and above 1. Each pair has the value with which the mean over pairs is f and their spread
    that of a ratio of means (the delta method): f + ((m_i(C) − m_i(∅)) − f (m_i(N) − m_i(∅))) / (m(N) − m(∅)).

    Args:
        comparison: the model, the pairs and the metric; always the clean run is edited.
        circuits: of this model's graph. `circuit.complement()` is what is left without a circuit.
        ablation: what the edges outside carry; by default those of the corrupted run.

    Returns dims `size` (of each circuit, in edges), `example`.

    Raises:
        ValueError: if a circuit is of another graph, or the metric is no different with all edges and with none.
    """
    graph, ablation = Graph.of(comparison.model), ablation or Ablation()
    _check_graphs(circuits, graph)
    whole, none = Circuit.of(graph, graph.names), Circuit.of(graph, [])
    values = kept_metric(comparison, [none, whole, *circuits], ablation)
    gap = values[1] - values[0]
    if abs(gap.mean()) <= LEAST_GAP * max(1.0, float(np.abs(values[:2]).max())):
        raise ValueError(
            f"the mean {comparison.measure.name} is the same with all edges and with none ({values[0].mean():.3g}): "
            "there is nothing that a circuit could keep; choose pairs that the model answers differently"
        )
    kept = values[2:] - values[0]
    share = kept.mean(-1, keepdims=True) / gap.mean()
    caption = (
        f"The share of the {comparison.measure.name} that is kept when all other edges carry "
        f"{IN_WORDS[ablation.outside]}. 1 is the whole model, 0 none of it."
    )
    coords = {"size": [len(circuit) for circuit in circuits]}
    result = comparison.measurement("Faithfulness", share + (kept - share * gap) / gap.mean(), coords, caption)
    about = {"outside": ablation.outside, "gap": float(gap.mean())}
    return replace(result, units="share of the metric", settings={**result.settings, **about})


def _check_graphs(circuits: Sequence[Circuit], graph: Graph) -> None:
    """Raise ValueError if a circuit is of another graph than the model's."""
    for circuit in circuits:
        if circuit.graph != graph:
            raise ValueError(
                f"the circuit is of {circuit.graph.n_layers} layers of {circuit.graph.n_heads} heads; the model has "
                f"{graph.n_layers} of {graph.n_heads}"
            )


def faithfulness_curve(
    comparison: Comparison,
    scores: Measurement,
    *,
    shares: Sequence[float] = SHARES,
    selection: Literal["top", "greedy"] = "greedy",
    ablation: Ablation | None = None,
    complement: bool = False,
) -> Measurement:
    """The faithfulness of circuits chosen by scores, by their share of all edges: dims `share`, `example`.

    Edges that lie on no path from the input to the logits are left out of each circuit before it runs.

    Args:
        comparison: the model, the pairs and the metric.
        scores: of every edge (`eap_ig`, …); those of other pairs show whether the circuit holds on these.
        shares: sizes, as shares of all edges, increasing.
        selection: `top`, or `greedy`, grown from the logits.
        ablation: what the edges outside carry.
        complement: measure what is left without each circuit.

    Raises:
        ValueError: as `faithfulness`, or if shares are not increasing within [0, 1].
    """
    if list(shares) != sorted(set(shares)) or not shares or not (shares[0] >= 0 and shares[-1] <= 1):
        raise ValueError(f"shares of all edges increase within 0 … 1, and are not {list(shares)}")
    graph, choose = Graph.of(comparison.model), lookup(SELECTIONS, selection, "selection")
    sizes = [min(graph.n_edges, round(share * graph.n_edges)) for share in shares]
    chosen = [choose(scores, graph, size).pruned() for size in sizes]
    run = faithfulness(comparison, [circuit.complement() if complement else circuit for circuit in chosen], ablation)
    return replace(
        run,
        name="Faithfulness without the circuit" if complement else "Faithfulness by size",
        dims=("share", "example"),
        coords={"share": list(shares), "example": run.coords["example"]},
        settings={**run.settings, "selection": selection, "edges": [len(circuit) for circuit in chosen]},
    )


def areas(curve: Measurement) -> tuple[Measurement, Measurement]:
    """The integrated circuit performance ratio (CPR), and the integrated circuit–model distance (CMD); MIB, §3.2.

    CPR is the area under the faithfulness curve, of which more is better; CMD that between it and 1, of which less is.
    By the trapezium rule over the shares that were measured, as the benchmark does; the area below the smallest share
    is not in it. Of each pair, so that the mean has an interval: |1 − f| is taken of the mean over pairs, and each pair
    has the sign of that.
    """
    if curve.dims != ("share", "example"):
        raise ValueError(f"areas are of a faithfulness curve by share, not of a measure by {', '.join(curve.dims)}")
    shares, coords = np.array(curve.coords["share"], dtype=float), {"example": curve.coords["example"]}
    sign = np.sign(1 - np.nanmean(curve.values, axis=-1, keepdims=True))

    def area(heights: np.ndarray, name: str) -> Measurement:
        values = np.trapezoid(heights, shares, axis=0)
        return replace(curve, name=name, values=values, dims=("example",), coords=coords, units="share of the metric")

    return (
        area(curve.values, "CPR, the area under the faithfulness curve"),
        area(sign * (1 - curve.values), "CMD, the area between faithfulness and 1"),
    )


def answers_both(comparison: Comparison) -> Measurement:
    """Whether the model prefers the right answer to the wrong one in both runs of a pair: dims `example`, 1 or 0.

    It is what faithfulness takes for granted: a circuit can keep all of a difference that is next to nothing.
    """
    by_logits = comparison.metric == "logit_difference"
    clean, corrupted = (comparison if by_logits else replace(comparison, metric="logit_difference")).baselines
    right = (clean > 0) & ((corrupted > 0) if comparison.pairs.is_control else (corrupted < 0))
    caption = "Whether the right answer's logit is above the wrong one's, in the clean and in the corrupted run."
    result = comparison.measurement("Pairs with both answers right", right.astype(float), {}, caption)
    return replace(result, units="share")


def judge_circuit(comparison: Comparison, circuit: Circuit, ablation: Ablation | None = None) -> Faithfulness:
    """Whether one circuit is faithful on these pairs, and in how many of them it gives the whole model's answer.

    Arguments and errors as `faithfulness`. Judge it on other pairs than it was found on.
    """
    mean = faithfulness(comparison, [circuit], ablation).mean().select(size=len(circuit))
    everything = Circuit.of(circuit.graph, Graph.of(comparison.model).names)
    whole, alone = circuit_answers(comparison, [everything, circuit], ablation)
    known = int(answers_both(comparison).values.sum())
    return judge_faithful(len(circuit), mean, known, int((whole == alone).sum()))


def judge_sizes(comparison: Comparison, curve: Measurement) -> tuple[Faithfulness, ...]:
    """Whether the circuit of each size of a `faithfulness_curve` is faithful, on the pairs of the curve."""
    mean, known = curve.mean(), int(answers_both(comparison).values.sum())
    sizes = zip(curve.coords["share"], curve.settings["edges"], strict=True)
    return tuple(judge_faithful(edges, mean.select(share=share), known) for share, edges in sizes)


def smallest_faithful(comparison: Comparison, curve: Measurement) -> float | None:
    """The smallest share of all edges from which on circuits are faithful (`judgement.faithful`); None where none is.

    Part of it is that the model knows what it is asked: it has both answers of a pair right more often than not.
    Without that, what untrained models do has small circuits too: they do little, over few paths.
    """
    first = first_faithful(judge_sizes(comparison, curve))
    return None if first is None else float(curve.coords["share"][first])


def agreement(halves: Measurement) -> Agreement:
    """What `overlap_of_halves` measured, as part of a judgement."""
    about = {name: halves.settings[name] for name in ("chance", "splits", "draws")}
    assert halves.low is not None and halves.high is not None
    return Agreement(overlap=float(halves.values), low=float(halves.low), high=float(halves.high), **about)
