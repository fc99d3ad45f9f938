"""What is said of a model's heads: the strongest of each role, beside re-initialised models."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.judgement.words.circuits import in_columns
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


def of_roles(rows: Sequence[tuple[str, str, Share, float, Share, Share]], baseline: str) -> list[str]:
    """A line for each role's strongest heads.

    Args:
        rows: role, head, its share, the largest share that re-initialised heads reach, the share of right answers that
            fall without it, and of those at the role's queries.
        baseline: what the share is held against: `re-initialised` heads, or attention `at random`.
    """
    lines = [("role", "head", "attention", f"{baseline}, at most", "answers lost", "of its queries")]
    for role, head, share, most, lost, there in rows:
        of_all, of_queries = share_with_interval(*lost), share_with_interval(*there)
        lines.append((role, head, share_with_interval(*share), percent(most), of_all, of_queries))
    return in_columns(lines)


def of_absent(roles: Sequence[str], baseline: str) -> str:
    """The roles that no head has more of than the baseline."""
    most = "re-initialised heads do" if baseline == "re-initialised" else "attention drawn at random has"
    return f"No head has more than {most}: {', '.join(roles)}."


NOT_SHOWN = (
    "Answers lost: right answers that turn wrong when the head writes nothing. A head whose work another one can do "
    "loses none, a dash stands where no answer is asked, and what a head attends to is not yet what it writes."
)
