"""What is said of a model's heads: the strongest of each role, beside re-initialised models."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.judgement.words.circuits import in_columns
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent, share_with_interval

Share = tuple[float, float | None, float | None]
"""A share with its interval."""


def of_sample(n: int, n_heads: int, removed_on: int, right: float, others: bool) -> str:
    """How many heads were looked at, on what, and how much the model has right of others, or of some of these."""
    heads = f"{n_heads} head{'s' * (n_heads != 1)}"
    return (
        f"Attention of {heads} on {n} sequences, as a share of each query's, over queries that have such a key. "
        f"Answers of {removed_on} {'others' if others else 'of these'}, of which {percent(right)} are right."
    )


def of_roles(rows: Sequence[tuple[str, str, Share, float, Share, Share]], prompts: bool) -> list[str]:
    """A line for each role's strongest heads.

    Args:
        rows: role, head, its share, the largest share that heads of uninformed models reach, the share of right answers
            that fall without it, and of those at the role's queries, or of the logit difference.
        prompts: whether the last is of the logit difference, as on prompts.
    """
    lines = [
        (
            "role",
            "head",
            "share",
            "uninformed, at most",
            "answers lost",
            "of difference" if prompts else "at its queries",
        )
    ]
    for role, head, share, most, lost, there in rows:
        of_all, of_queries = share_with_interval(*lost), share_with_interval(*there)
        lines.append((role, head, share_with_interval(*share), percent(most), of_all, of_queries))
    return in_columns(lines)


def of_absent(roles: Sequence[str]) -> str:
    """The roles that no head has more of than its controls."""
    return f"In these roles no head is clearly beyond its controls: {', '.join(roles)}."


def of_pairs(control: Measurement, corrupted: Measurement) -> str:
    """What is lost when a head holds what it does on control pairs, and on corrupted ones."""
    of_control, of_corrupted = (share_with_interval(float(m.values), *m.ends) for m in (control, corrupted))
    return (
        f"with what it holds on pairs that change nothing relevant, {of_control} of the logit difference is lost; on "
        f"corrupted ones, {of_corrupted}"
    )


NOT_SHOWN = (
    "Uninformed models are re-initialised, or have the model's own weights shuffled; of each the best head counts, and "
    "its own answers. Answers lost: right answers that turn wrong when the head writes nothing. A head whose work "
    "another one can do loses none, a dash stands where no answer is asked or it was not measured, and what a head "
    "attends to is not yet what it writes."
)
BY_PROBABILITY = (
    "Judged is what share of a right answer's probability is lost; on prompts, of its logit difference: ten that lose "
    "half count as five that change."
)
