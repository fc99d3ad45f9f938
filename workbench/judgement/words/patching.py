"""What is said of a patch grid: the gap between both runs, and what the strongest places bring back of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.judgement.words.circuits import ends, in_columns, of_mean, of_share
from workbench.measurement import Measurement
from workbench.measurement.intervals import exact
from workbench.measurement.numbers import number, percent

OF_METHOD = {
    "exact": "Every place was patched by itself.",
    "estimate": "The maps are estimates from the gradient, which can be far too small in early layers; the places told "
    "of here were patched exactly.",
}
EFFECT = {"denoise": "comes back", "noise": "is lost"}
"""Direction -> what becomes of the answer."""


def of_answers(
    kind: str, n: int, clean: tuple[int, int], after: tuple[int | None, int | None], notes: Sequence[str]
) -> str:
    """How often a model answers prompts right before any edit, and what is to be said of the prompts.

    Args:
        kind: the prompt set, or the name of a file of pairs.
        n: how many pairs.
        clean: prompts whose right token has a larger logit than the wrong one, and those whose likeliest is right.
        after: the same of the corrupted prompts; None where both tokens are right there.
        notes: sentences about the set.
    """
    changed = "" if after[0] is None else f" With the change: {after[0]} and {after[1]}."
    guess = exact(clean[0], n)[0] <= 0.5
    return " ".join(
        [
            f"Of {n} prompts of {kind} the right answer is preferred to the wrong one after {clean[0]}, and is the "
            f"likeliest of all tokens after {clean[1]}.{changed}",
            *["That is no more than guessing between the two: how the model does it cannot be found here."] * guess,
            *notes,
        ]
    )


def of_gap(means: Measurement, n: int, no_gap: Measurement | None) -> str:
    """The metric in both runs, and what a share is of; or that the model does not tell the questions of a pair apart.

    Args:
        means: the metric by `run`, mean over pairs.
        n: how many pairs.
        no_gap: the gap, where its interval does not lie above 0; else None.
    """
    about = means.settings
    clean, corrupted = (means.select(run=run) for run in ("clean", "corrupted"))
    later = ", later answers" if about["later"] else ""
    way = (
        "clean parts put into the corrupted run"
        if about["direction"] == "denoise"
        else ("corrupted parts put into the clean run")
    )
    gap = number(float(clean.values) - float(corrupted.values))
    text = (
        f"{about['metric']} on {n} pairs of kind {about['pairs']}{later}: {of_mean(clean)} on the clean questions, "
        f"{of_mean(corrupted)} on the corrupted ones. Shares are of this gap of {gap}, {way}."
    )
    if no_gap is None:
        return text
    return (
        f"{text}\nThe gap is {of_mean(no_gap)}: its interval does not lie above 0, so that nothing can be told as a "
        "share of it. Choose pairs whose two questions the model answers differently, each with its own answer, or "
        "more of them."
    )


def of_path(rows: Sequence[tuple[str, str, Measurement]], n: int, direction: str) -> list[str]:
    """The residual's strongest position, a line for each stretch of layers, with the least share of the stretch.

    Args:
        rows: layers, position and share of each stretch.
        n: how many pairs the shares are of.
        direction: of the patching.
    """
    lines = [(f"before layer{'s' * ('-' in layers)} {layers}", at, _share(m, n)) for layers, at, m in rows]
    return [
        f"The residual, where most {EFFECT[direction]} ({n} pairs; of several layers, the least):",
        *in_columns(lines),
    ]


def of_places(what: str, rows: Sequence[tuple[str, Measurement, float | None]], n: int) -> list[str]:
    """The strongest places of a grid, each beside what it brings back on control pairs; none in one line.

    Args:
        what: what they are.
        rows: place, share, and its share on pairs that change nothing relevant, where there are such pairs.
        n: how many pairs the shares are of.
    """
    if not rows:
        return [f"{what}: none with 1% or more."]
    lines = [
        (place, _share(m, n), *([] if control is None else [f"control {percent(control)}"]))
        for place, m, control in rows
    ]
    return [f"{what}:", *in_columns(lines)]


def of_choice(
    n_chosen: int, n_told: int, method: str, control: Mapping[str, float], cut_short: Sequence[str]
) -> list[str]:
    """What the control shows, how places were chosen, by which method, and what was kept if it was interrupted.

    Args:
        n_chosen, n_told: on how many pairs they were chosen, and of how many the shares told are.
        method: of patching.
        control: kind of part -> the largest share on pairs that change nothing relevant; empty without such pairs.
        cut_short: of patching that was interrupted, the parts whose maps are whole; empty of one that was not.
    """
    lines, beside = [], ", without control pairs"
    if control:
        most, beside = ", ".join(f"{percent(value)} ({what})" for what, value in control.items()), ""
        nothing = "On pairs that change nothing relevant, the most that any place changes the metric by is"
        lines.append(f"{nothing} {most} of the gap.")
    lines.append(
        f"Places were chosen on {n_chosen} pairs, and their shares are of the other {n_told}. {OF_METHOD[method]}"
    )
    if cut_short:
        lines.append(
            f"Interrupted: the maps of {', '.join(cut_short)} are whole{beside}; of the strongest places only those "
            "above were patched once more. The same command, not interrupted, measures the rest."
        )
    return lines


def _share(mean: Measurement, n: int) -> str:
    """A share with its interval, and of how many pairs it is where these are not all n."""
    pairs = int(np.asarray(mean.n))
    return f"{of_share(*ends(mean))}{f' ({pairs} of {n} pairs)' if pairs < n else ''}"
