"""Circuits judged: does one by itself do what the whole model does, on these pairs?"""

from __future__ import annotations

from dataclasses import replace

from workbench.circuits.ablation import Ablation
from workbench.circuits.circuit import Circuit
from workbench.circuits.comparison import Comparison
from workbench.circuits.faithfulness import circuit_answers, faithfulness
from workbench.circuits.graph import Graph
from workbench.judgement.faithful import Agreement, Faithfulness, first_faithful, judge_faithful
from workbench.measurement import Measurement


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
    return judge_faithful(len(circuit), mean, _known(comparison), int((whole == alone).sum()))


def judge_sizes(comparison: Comparison, curve: Measurement) -> tuple[Faithfulness, ...]:
    """Whether the circuit of each size of a `faithfulness_curve` is faithful, on the pairs of the curve."""
    mean, known = curve.mean(), _known(comparison)
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


def _known(comparison: Comparison) -> int:
    """In how many pairs the model has both answers right."""
    return int(answers_both(comparison).values.sum())
