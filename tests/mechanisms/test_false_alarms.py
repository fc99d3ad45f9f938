"""The false-alarm table: it counts what a verdict says, of models that know nothing, and the whole of it is kept to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.mechanisms import false_alarms
from tests.mechanisms.false_alarms import (
    JUDGES,
    MODELS,
    Row,
    both,
    holds,
    inspected,
    most_of,
    null_model,
    null_runs,
    rows,
    small,
    table,
)
from tests.tables_in_docs import written
from workbench.models.compiled import chaser, sorter
from workbench.runs import save_run
from workbench.tasks import TASKS, Task


def test_every_task_has_null_models_and_no_two_are_alike(tmp_path: Path) -> None:
    assert set(false_alarms.TASKS) == set(TASKS)
    for name in TASKS:
        task = small(name, tmp_path)
        weights = [torch.cat([p.flatten() for p in null_model(task, i).parameters()]) for i in range(6)]
        assert not any(torch.equal(weights[i], weights[j]) for i in range(6) for j in range(i)), name
        assert weights[2].square().mean() > 10 * weights[1].square().mean(), name  # shuffled × 10


def test_null_runs_are_ordinary_run_folders(tmp_path: Path) -> None:
    runs = list(null_runs("text", 2, tmp_path))
    assert [run.path.parent for run in runs] == [tmp_path] * 2 and all(run.finished for run in runs)
    assert inspected(runs[0], 0).results == {}


def test_the_table_counts_what_the_verdict_says() -> None:
    seen: list[str] = []

    def every_other(found: object, claim: str) -> bool:
        seen.append(claim)
        return claim == "copy" or (claim == "minimum" and seen.count("minimum") == 1)

    found = rows({"said": every_other, "never": lambda found, claim: False}, tasks=["sorting", "text"], n=2)
    assert found == [
        Row("sorting", "copy", 2, {"said": 2, "never": 0}),
        Row("sorting", "minimum", 2, {"said": 1, "never": 0}),
        Row("sorting", "successor", 2, {"said": 0, "never": 0}),
        Row("sorting", "identity_removed", 2, {"said": 0, "never": 0}),
    ]
    text = table(found, 2)
    assert "| sorting | copy | 2 | 2 | 0 | 0.1 | 1 |" in text and "| all |  | 8 | 3 | 0 | 0.4 | 2 |" in text


def test_a_row_allows_as_many_alarms_as_chance_has_in_99_of_100() -> None:
    """Binomial(20, .05): P(at most 3) = .984, P(at most 4) = .997."""
    assert Row("t", "c", 20, {}).most == most_of(20) == 4


def compiled(name: str, folder: Path) -> tuple[Task, torch.nn.Module]:
    task = small(name, folder)
    return task, sorter(8, 1, task.n_ctx, pad=True) if name == "sorting" else chaser(16, 4)


@pytest.mark.parametrize(
    ("name", "claims"),
    [("sorting", ["copy", "minimum", "successor", "identity_removed"]), ("pointer_chain", ["chain_following"])],
)
def test_the_verdict_is_not_deaf(name: str, claims: list[str], tmp_path: Path) -> None:
    """Of models that have the mechanism it says so, but for copies, which a fresh model has as well."""
    task, model = compiled(name, tmp_path)
    found = inspected(save_run(tmp_path / "run", model, task), 0)  # type: ignore[arg-type]
    assert [claim for claim in claims if claim != "copy" and not holds(found, claim)] == []
    assert name != "pointer_chain" or all(both(found, claim) for claim in claims)
    assert list(found) == claims


def test_a_file_without_a_place_for_the_table_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- claims: begin -->\nold\n<!-- claims: end -->\nb\n")
    false_alarms.write("new", page)
    assert page.read_text() == "a\n<!-- claims: begin -->\n\nnew\n\n<!-- claims: end -->\nb\n"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="no place for the table"):
        false_alarms.write("new", page)


def in_the_docs() -> list[Row]:
    """The rows of the table in the docs."""
    return [
        Row(task, claim.replace(" ", "_"), int(n), dict(zip(JUDGES, map(int, said), strict=True)))
        for task, claim, n, *said, _, _ in written(false_alarms.CLAIMS, false_alarms.DOCS)[:-1]
    ]


def test_no_claim_is_said_to_hold_of_null_models_beyond_the_stated_error() -> None:
    """Each row within its 99 %; all together within theirs too, so that many small excesses show.

    `make false-alarms` measures the whole table, in an hour.
    """
    found = in_the_docs()
    assert {row.models for row in found} == {MODELS} and {row.claim for row in found} >= {"minimum", "chain_following"}
    for judge in JUDGES:
        assert [row for row in found if row.alarms[judge] > row.most] == [], judge
        assert sum(row.alarms[judge] for row in found) <= most_of(sum(row.models for row in found)), judge


@pytest.mark.slow
def test_the_table_in_the_docs_is_that_of_today() -> None:
    task = "associative_recall"
    assert rows(tasks=[task]) == [row for row in in_the_docs() if row.task == task]
