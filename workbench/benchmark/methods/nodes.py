"""Methods that score heads and MLPs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench import circuits
from workbench.benchmark.methods.edges import by_mean
from workbench.benchmark.questions import Answer, Asks, Question
from workbench.benchmark.scoring import Method
from workbench.circuits.nodes import of_whole_nodes
from workbench.measurement import Measurement


def patched(about: str, measure: Callable[..., Measurement]) -> Method:
    """A method that gives every head and MLP the effect of the whole of it, all its positions at once.

    Args:
        about: what it does, in a sentence.
        measure: `circuits.activation_patching` or `circuits.attribution_patching`.
    """

    def method(question: Question) -> Answer | None:
        if question.asks is not Asks.NODES:
            return None
        names = list(question.candidates)
        of_node = of_whole_nodes(question.pairs, measure)
        values = np.stack([of_node[name] for name in names])
        return by_mean(question.pairs.measurement("Effects of nodes", values, {"node": names}, ""), names)

    method.__doc__ = about
    return method


def direct_attribution(question: Question) -> Answer | None:
    """Direct logit attribution: what each head or MLP writes straight into the logit difference."""
    if question.asks is not Asks.NODES:
        return None
    parts = circuits.direct_logit_attribution(question.pairs)
    names = list(question.candidates)
    return by_mean(parts.keep("part", names), names, effects=False)
