"""Methods that score heads and MLPs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench import circuits
from workbench.benchmark.methods.edges import by_mean
from workbench.benchmark.questions import Answer, Asks, Question
from workbench.circuits.nodes import of_whole_nodes
from workbench.measurement import Measurement

Patching = Callable[..., Measurement]


def _patched(question: Question, measure: Patching) -> Answer | None:
    """Effects of whole heads and MLPs, all their positions at once."""
    if question.asks is not Asks.NODES:
        return None
    names = list(question.candidates)
    of_node = of_whole_nodes(question.pairs, measure)
    values = np.stack([of_node[name] for name in names])
    return by_mean(question.pairs.measurement("Effects of nodes", values, {"node": names}, ""), names)


def activation_patching(question: Question) -> Answer | None:
    """Activation patching: each head or MLP alone writes what it wrote in the other run."""
    return _patched(question, circuits.activation_patching)


def attribution_patching(question: Question) -> Answer | None:
    """Attribution patching: the same to first order, from one gradient."""
    return _patched(question, circuits.attribution_patching)


def direct_attribution(question: Question) -> Answer | None:
    """Direct logit attribution: what each head or MLP writes straight into the logit difference."""
    if question.asks is not Asks.NODES:
        return None
    parts = circuits.direct_logit_attribution(question.pairs)
    names = list(question.candidates)
    return by_mean(parts.keep("part", names), names, effects=False)
