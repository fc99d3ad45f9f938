"""Methods that score heads and MLPs."""

from __future__ import annotations

from workbench import circuits
from workbench.benchmark.methods.edges import by_mean
from workbench.benchmark.questions import Answer, Asks, Question
from workbench.benchmark.scoring import Method


def patched(about: str, *, exact: bool) -> Method:
    """A method that gives every head and MLP the effect of the whole of it, all its positions at once.

    Args:
        about: what it does, in a sentence.
        exact: as for `circuits.node_scores`.
    """

    def method(question: Question) -> Answer | None:
        if question.asks is not Asks.NODES:
            return None
        measured, names = circuits.node_scores(question.pairs, exact=exact, by_position=False), question.candidates
        return by_mean(measured.keep("node", names), list(names))

    method.__doc__ = about
    return method


def direct_attribution(question: Question) -> Answer | None:
    """Direct logit attribution: what each head or MLP writes straight into the logit difference."""
    if question.asks is not Asks.NODES:
        return None
    parts = circuits.direct_logit_attribution(question.pairs)
    names = list(question.candidates)
    return by_mean(parts.keep("part", names), names, effects=False)
