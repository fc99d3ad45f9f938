"""What one figure shows, in a sentence made from its numbers: what a panel says first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.instruments.attention.strongest_paths import Path
from workbench.judgement.collapse_phases import Phases
from workbench.judgement.grokking import GROKKED, HalfWay, early_rise
from workbench.judgement.shuffled import one_step
from workbench.measurement import Measurement
from workbench.measurement.controls import control_in_words
from workbench.measurement.numbers import counted, number, percent
from workbench.measurement.places import at_point
from workbench.tasks import COUNTED, Task
from workbench.util.words import capitalised

FEWEST_ROWS = 4  # of a map between tokens, of which anything is said
LEVELS = (0.5, 0.95)  # of all answers


def learnt(curves: Mapping[str, Measurement], task: Task) -> str | None:
    """At which evaluation half and nearly all answers first were right, and the last; None of no logged accuracy.

    Args:
        curves: `learning_curves(run)`, of which `accuracy` and `whole_answer` are told.
        task: what was trained, which says what counts as an answer.
    """
    told = {"accuracy": task.counted}
    if task.unit == "position" and not task.running_text:
        told["whole_answer"] = COUNTED["sequence"]
    said = []
    for name, what in told.items():
        if name in curves and len(values := curves[name].values):
            steps, reached = curves[name].coords["step"], []
            for level in LEVELS:
                at = np.flatnonzero(values >= level)
                reached.append(f"{percent(level)} {f'first at step {steps[at[0]]:,}' if len(at) else 'never'}")
            last = f"{percent(float(values[-1]))} at step {steps[-1]:,}, the last evaluation"
            said.append(f"{what.capitalize()} right: {', '.join(reached)}; {last}.")
    return " ".join(said) or None


def right(accuracy: float, task: Task) -> str:
    """How much of what a task counts was right at the last evaluation, for a card."""
    return f"{percent(accuracy)} of {task.counted} right, {task.drawn}"


def strongest_path(path: Path) -> str:
    """How long the strongest of some paths through attention is, and what it weighs."""
    steps = len(path.positions) - 1
    return f"The strongest of them takes {steps} step{'s' * (steps != 1)} and weighs {number(path.weight)}."


def on_top(table: Measurement, right: Sequence[str], what: str = "right answer") -> str | None:
    """At how many scored positions the right answer is the residual's top token, first at all and at the end.

    Args:
        table: `projection.top_tokens(…)` on the decoder basis, rank 1: dims `point`, `position`.
        right: the right answer at each position, empty where none is asked for.
        what: what these are; of running text the next token.

    Returns None where no answer is asked for.
    """
    assert table.labels is not None and table.dims == ("point", "position")
    asked = np.array([bool(word) for word in right])
    if not asked.any():
        return None
    found = [int((row[asked] == np.array(right)[asked]).sum()) for row in table.labels]
    points, n = table.coords["point"], int(asked.sum())
    text = f"The {what} is on top {at_point(points[-1])} at {found[-1]} of {n} scored positions"
    first = next((i for i, count in enumerate(found) if count >= max(1, n / 2)), None)
    if first is None or first == len(points) - 1:
        return f"{text}; at no point before at half of them."
    before = f", before that at {max(found[:first]) or 'none'}" if first else ""
    return f"{text}, at {found[first]} of them already {at_point(points[first])}{before}."


def arrives(steps: Measurement, gold: Sequence[tuple[int, int, int]], query: int) -> str | None:
    """How much of each hop from a query arrives at its true ancestor.

    Args:
        steps: `resolvent.steps(…)`: dims `hop`, `query`, `key`.
        gold: the task's edges as (hop, query, key).
        query: the position that is followed.

    Returns None where the query has no true ancestor within these hops.
    """
    reached: dict[int, float] = {}
    for hop, at, key in gold:
        if at == query and hop <= len(steps.coords["hop"]):
            reached[hop] = reached.get(hop, 0.0) + float(steps.values[hop - 1, query, key])
    if not reached:
        return None
    shares = "; ".join(f"hop {hop}: {percent(share)}" for hop, share in sorted(reached.items()))
    return f"From {steps.coords['query'][query]} this much arrives where the task's true edges lead: {shares}."


def half_way_in_words(measured: Measurement, found: HalfWay | None) -> str:
    """Which of excluded loss and test accuracy is half way first, as far as the checkpoints tell.

    Args:
        measured: `progress_measures(…)`.
        found: `half_way(measured)`.
    """
    steps, right = list(measured.coords["step"]), measured.select(curve="test accuracy").values
    if found is None and right[0] >= GROKKED:
        return f"Test accuracy is {percent(float(right[0]))} at the first checkpoint already, so no order can be told."
    if found is None:
        most = percent(float(right.max()))
        return f"Test accuracy never reaches {percent(GROKKED)} (at most {most}), so no order can be told."
    if found.excluded is None:
        until = f"step {found.end:,}, where test accuracy first is {percent(GROKKED)}"
        return f"The excluded loss does not rise up to {until}."
    apart = steps.index(found.accuracy) - steps.index(found.excluded)
    order = "at the same checkpoint"
    if apart:
        plural = "s" if abs(apart) > 1 else ""
        order = f"the loss {abs(apart)} checkpoint{plural} {'earlier' if apart > 0 else 'later'}"
    return (
        f"Between step {found.start:,} (least excluded loss) and step {found.end:,} (test accuracy first at "
        f"{percent(GROKKED)}), the excluded loss is half way up its {number(found.rise, 'nats')} at step "
        f"{found.excluded:,} and test accuracy half way at step {found.accuracy:,}: {order}."
    )


def early_rise_in_words(measured: Measurement, control: Measurement) -> str:
    """How far the excluded loss rises before test accuracy does, beside that without other frequencies.

    Args:
        measured: `progress_measures(…)`.
        control: the same of `other_frequencies(measured)`.
    """
    key, others = early_rise(measured), early_rise(control)
    if key is None or others is None:
        return (
            f"No two checkpoints lie between the first with {percent(GROKKED)} of the questions trained on right and "
            "the first with half of the held-out ones, so nothing is known of a phase by heart."
        )
    start, end, rise = key
    return (
        f"From step {start:,} to step {end:,}, while the questions trained on are answered and fewer than half "
        f"of the held-out ones, the excluded loss rises by {number(rise, 'nats')}, that without other frequencies "
        f"by {number(others[-1], 'nats')}."
    )


def collapsed(found: Phases) -> str:
    """Whether there are three phases of collapse, with steps and numbers."""
    said = ", ".join(f"{'+' * (change > 0)}{percent(float(np.expm1(change)))}" for change in found.changes)
    where = f"RankMe changes by {said} up to step {found.low:,}, up to step {found.high:,} and up to the end"
    nulls = (
        f"two draws of sequences differ by {percent(float(np.expm1(found.apart)))} at most, and "
        f"{percent(found.random)} of random curves with the same changes have phases as strong"
    )
    if found.found:
        alpha = "moves the other way in each" if found.alpha_agrees else "does not move the other way in each"
        return f"Three phases of collapse are found: {where}; {nulls}. α-ReQ {alpha}."
    return f"Three phases of collapse are not found over {found.steps} checkpoints: at best {where}; {nulls}."


def dispersed(runs: Mapping[str, Measurement], controls: Mapping[str, Mapping[str, Measurement]]) -> str | None:
    """How even rows are with few keys and with many, on average over a run's heads, beside its controls.

    Args:
        runs: name -> `dispersion.measure(…)` averaged over examples.
        controls: name -> control -> the same of that control.

    Returns None where no run has rows of two numbers of keys.
    """
    said = []
    for name, m in runs.items():
        if ends := _ends(m):
            beside = [
                f"{control_in_words(control)} {at}"
                for control, means in controls.get(name, {}).items()
                if (at := _ends(means))
            ]
            said.append(f"{name} {ends}" + (f" ({', '.join(beside)})" if beside else ""))
    return f"Evenness of rows, mean over heads: {'; '.join(said)}." if said else None


def _ends(m: Measurement) -> str:
    """`60% at 2–3 keys, 81% at 32–63 keys`; empty where rows have one number of keys only."""
    by_keys = np.moveaxis(m.values, m.dims.index("keys"), 0).reshape(len(m.coords["keys"]), -1)
    means = [float(np.nanmean(row)) for row in by_keys if not np.isnan(row).all()]
    labels = [label for label, row in zip(m.coords["keys"], by_keys, strict=True) if not np.isnan(row).all()]
    return (
        f"{percent(means[0])} at {labels[0]} keys, {percent(means[-1])} at {labels[-1]} keys" if len(means) > 1 else ""
    )


def told_apart(between: Measurement) -> str | None:
    """How much of the residual's variance lies between a label's classes, beside shuffled labels.

    Args:
        between: of `components(…)`: dims `within`, `labels`.

    Returns None where there is no variance.
    """
    own, shuffled = (between.select(within="all", labels=labels) for labels in between.coords["labels"])
    if np.isnan(own.values) or shuffled.high is None:
        return None
    text = f"{percent(float(own.values))} of the variance lies between classes of {between.settings['label']}"
    # It has to exceed every one of 20 shuffles, as one at random does in 1 of 21 cases.
    most = percent(float(shuffled.high))
    if not own.values > shuffled.high:
        return f"{text}, no more than with shuffled labels (at most {most})."
    best = max(between.coords["within"][:-1], key=lambda k: float(between.select(within=k, labels="true").values))
    share = float(between.select(within=best, labels="true").values)
    return f"{text}, with shuffled labels at most {most}; most of all along component {best} ({percent(share)})."


def spread_of_scores(m: Measurement) -> str | None:
    """Between which keys a head's scores differ most. None where there are no positions to tell tokens from.

    Args:
        m: dim `circuit`: `token_circuits.spreads`.
    """
    if len(m.values) < 2:
        return None
    words = {
        "QK": ("a token scores tokens", "tokens by tokens"),
        "QK token-position": ("a token scores positions", "positions by tokens"),
        "QK position-position": ("a position scores positions", "positions by positions"),
    }
    order = sorted(zip(m.values.tolist(), m.coords["circuit"], strict=True), reverse=True)
    each = ", ".join(f"{number(value)} where {words[kind][0]}" for value, kind in order)
    return f"In its weights the head picks mostly {words[order[0][1]][1]}: scores differ between keys (s.d.) by {each}."


def largest_of_rows(m: Measurement) -> str | None:
    """At which step through the vocabulary the largest entries of the rows stand, beside rows whose columns are mixed.

    Args:
        m: dims `from`, `to`: `token_circuits.circuit`, or a matrix of `token_circuits.reads`. Between tokens and
            positions there is no step, unless tokens are the numbers of positions: then a token may point.

    Returns the sentence; None for a map of few tokens.
    """
    if min(m.values.shape) < FEWEST_ROWS:
        return None
    (step, n, chance), rows = one_step(m.values), len(m.values)
    row = int(np.abs(m.values).max(1).argmax())
    column = int(np.abs(m.values[row]).argmax())
    largest = number(float(m.values[row, column]), m.units)
    most = f"largest of all: {m.coords['from'][row]} → {m.coords['to'][column]}, {largest}"
    kind = m.settings.get("kind")
    if kind == "QK token-position":
        numbers = list(m.coords["from"]) == list(m.coords["to"])  # a token's word is a position's
        if step or not (n > chance and numbers):
            return f"{capitalised(most)}."
        of_all, mixed = counted(n, rows), counted(chance, rows)
        own = f"{of_all} tokens score highest the position of their number"
        return f"{own} (with columns shuffled, at most {mixed}); {most}."
    what, among = ("position", "positions") if kind == "QK position-position" else ("token", "vocabulary")
    of_the, in_the = (" of the vocabulary", " in the vocabulary") if what == "token" else ("", "")
    if not n > chance:
        return f"The largest entries of the {rows} rows follow no one step through the {among}; {most}."
    way, far = "next" if step > 0 else "previous", abs(step)
    where = f"the {what} itself" if not step else f"the {way} {what}{of_the}"
    if far > 1:
        where = f"the {what} {far} places {'after' if step > 0 else 'before'} it{in_the}"
    mixed = f"with columns shuffled, at most {counted(chance, rows)}"
    return f"{counted(n, rows)} rows have their largest entry at {where} ({mixed}); {most}."
