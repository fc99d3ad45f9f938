"""What comes next in a text, in a sentence or two."""

from __future__ import annotations

from workbench.interventions import NextToken, head_in_words
from workbench.measurement.numbers import percent

FELT = 0.01  # a change of a probability that is worth a word


def comes_next(found: NextToken, before: str) -> str:
    """The likeliest tokens, and the head without which the first changes most.

    Args:
        found: `interventions.next_token(…)`.
        before: the text that they come after.
    """
    likeliest, without = found.likeliest, found.without
    assert likeliest.labels is not None
    tokens = [f"“{word}” ({percent(p)})" for word, p in zip(likeliest.labels, likeliest.values.tolist(), strict=True)]
    others = f", then {' and '.join(tokens[1:3])}" if len(tokens) > 1 else ""
    said = f"After “{before}” comes most likely {tokens[0]}{others}."
    if without is None or without.labels is None:
        return said
    now, was = float(without.values[0]), float(likeliest.values[0])
    removed = f"{without.settings['removed']} of {without.settings['heads']} heads that were removed"
    if abs(now - was) < FELT:
        return f"{said} None of {removed} moves that by a percentage point."
    reads = f", which reads {without.labels[0]}," if without.labels[0] else ""
    return f"{said} Without {head_in_words(*found.heads[0])}{reads} it is {percent(now)}: the most of {removed}."
