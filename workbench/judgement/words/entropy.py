"""How far representations spread, in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.judgement.against_controls import FEWEST_NULLS
from workbench.judgement.entropy import Spread
from workbench.judgement.words.extremes import at_places
from workbench.measurement.numbers import between, counted, percents
from workbench.measurement.places import at_point
from workbench.util.words import uncapitalised


def in_words(spread: Spread) -> str:
    """Whether it lies below re-initialised models; where it is least, or its range; which rows dominate, if any."""
    return " ".join(filter(None, (of_layers(spread), dominated(spread))))


def of_layers(spread: Spread) -> str:
    """The same without the rows that dominate."""
    name = f"{spread.name}{' without the dominant tokens' if spread.in_some else ''}"
    models = f"{spread.models} re-initialised models"
    parts = []
    if spread.collapsed:
        where = _layers(spread.collapsed)
        fewer = "representations collapse there, into fewer directions than theirs"
        parts.append(f"{name} lies below {models} {where}: {fewer}.")
    elif spread.models >= FEWEST_NULLS:
        parts.append(f"At no layer is {uncapitalised(name)} clearly below {models}: no collapse is seen.")
    least, subject = spread.least, "It" if parts else name
    if least.anywhere:
        clear = "" if least.n == 1 else f" over {least.n} layers, none of them clearly the least"
        parts.append(f"{subject} is {between((spread.low, spread.high), spread.units)}{clear}.")
    else:  # `It is least after MLP 1 (0.31 nats; 8 re-initialised models 1.41 to 1.48).`
        value = between((least.value, least.reach), spread.units)
        beside = "" if spread.at_least is None else f"; {models} {between(spread.at_least)}"
        parts.append(f"{subject} is least {at_places(least)} ({value}{beside}).")
    if 0 < spread.models < FEWEST_NULLS:
        parts.append("So few re-initialised models are too few to compare with.")
    return " ".join(parts)


def dominated(spread: Spread) -> str:
    """`After MLP 3 one token holds 99.8% of the squared norm in 256 of 256 sequences, …`; empty where none does."""
    layers = spread.dominated
    if not layers:
        return ""
    most = max(layers, key=lambda layer: layer.share)
    rows = max(layer.rows for layer in layers)
    who = "one token holds" if rows == 1 else f"up to {rows} tokens hold"
    share = percents([layer.share for layer in layers])
    where = _layers([layer.layer for layer in layers])
    which = "that" if rows == 1 else "most of it that"
    seen = f"{counted(most.sequences, most.of)} sequences, {which} at position {most.position} in {most.at_position:,}"
    text = f"{where[0].upper()}{where[1:]} {who} {share} of the squared norm in {seen}"
    own, others = (between((getattr(layer, of) for layer in layers), spread.units) for of in ("value", "without"))
    return f"{text}: {spread.name.lower()} is {own} with {'it' if rows == 1 else 'them'}, {others} without."


def _layers(layers: Sequence[str | int]) -> str:
    """`after MLP 3`, `at 5 points from the embedding to after MLP 3`."""
    names = [at_point(layer) if isinstance(layer, str) else f"at layer {layer}" for layer in layers]
    if len(names) < 3:
        return " and ".join(names)
    return f"at {len(names)} points from {names[0].removeprefix('at ')} to {names[-1].removeprefix('at ')}"
