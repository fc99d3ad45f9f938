"""What is said of a model's heads: the strongest of each role, beside re-initialised models."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.judgement.words.circuits import in_columns
from workbench.measurement.numbers import share_with_interval

NO_MORE = "no more than re-initialised heads"
Share = tuple[float, float | None, float | None]
"""A share with its interval."""


def of_sample(n: int, n_heads: int, right: float) -> str:
    """How many heads were looked at, on what, and how much of it the model has right."""
    return (
        f"{n_heads} heads on {n} sequences, of whose answers {share_with_interval(right, None, None)} are right. "
        "Shares are of a query's attention, over queries that have such a key."
    )


def of_roles(rows: Sequence[tuple[str, str, Share, float | None, Share, Share]]) -> list[str]:
    """A line for each role's strongest heads.

    Args:
        rows: role, head, its share, the largest share that re-initialised heads reach, the share of right answers that
            fall without it, and of those at the role's queries.
    """
    lines = [("role", "head", "attention", "re-initialised, at most", "answers lost", "of its queries")]
    for role, head, share, baseline, lost, there in rows:
        control = share_with_interval(float("nan") if baseline is None else baseline, None, None)
        lines.append(
            (role, head, share_with_interval(*share), control, share_with_interval(*lost), share_with_interval(*there))
        )
    return in_columns(lines)


def of_absent(roles: Sequence[str]) -> str:
    """The roles that no head has more of than re-initialised heads."""
    return f"No head has {NO_MORE.removeprefix('no ')}: {', '.join(roles)}."


NOT_SHOWN = (
    "Answers lost: right answers that turn wrong when the head writes nothing. A head whose work another one can do "
    "loses none; and what a head attends to is not yet what it writes."
)
