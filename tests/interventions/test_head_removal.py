"""A removed head takes the answers with it that only it brings; one that writes nothing takes none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from workbench.capture import Subject
from workbench.inspection import Inspected, inspect_run
from workbench.inspection.findings import focus
from workbench.interventions import fallen_without
from workbench.judgement.words import findings as words
from workbench.measurement import Measurement
from workbench.runs import Run
from workbench.runs.compiled import compile_run
from workbench.util.seeds import generator


@pytest.fixture(scope="module")
def chaser(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("chaser", tmp_path_factory.mktemp("removal") / "chaser")


def head_in_focus(one: Inspected) -> str | None:
    return words.focus(focus(one))


def test_the_only_head_takes_answers_with_it_unless_it_writes_nothing(chaser: Run) -> None:
    hooked, task = chaser.hooked(), chaser.task()
    subject, batch = Subject.of(chaser.model(), task, "chaser"), task.sample(16, generator(0, "removal"))
    fallen = fallen_without(hooked, subject, batch, [(0, 0)])
    assert fallen.coords["removed"] == ["layer 0, head 0"] and fallen.mean("example").values[0] > 0.5
    hooked.blocks[0].attn.W_O.data.zero_()
    fallen = fallen_without(hooked, subject, batch, [(0, 0)])
    assert not np.nan_to_num(fallen.values).any(), "what reads nothing cannot be missed"
    with pytest.raises(ValueError, match="there is no head 7"):
        fallen_without(hooked, subject, batch, [(0, 7)])


def test_an_inspection_says_what_the_head_in_focus_costs(chaser: Run) -> None:
    one = inspect_run(chaser, n=8, seed=0, only=["gold_mass"])
    assert one.fallen is not None and one.head == (0, 0)
    share = float(one.fallen.values[0])
    told = words.focus(focus(one))
    assert told is not None and told.startswith("Layer 0, head 0 has the most mass") and f"{100 * share:.0f}" in told
    assert inspect_run(chaser, n=8, seed=0, only=["gold_mass"], causal=False).fallen is None
    assert one.with_head((0, 0)).fallen is one.fallen


def test_another_head_whose_removal_costs_more_is_named_and_one_like_its_controls_does_not_stand_out(
    chaser: Run,
) -> None:
    one = inspect_run(chaser, n=8, seed=0, only=["gold_mass"])
    heads = ["layer 0, head 0", "layer 1, head 2"]
    shares, removed = np.array([0.25, 0.5]), ((0, 0), (1, 2))
    near, far = (
        Measurement(
            "Fallen", shares, ("removed",), {"removed": heads}, "share", {}, low=shares - wide, high=shares + wide
        )
        for wide in (0.2, 0.1)
    )
    two = replace(one, fallen=near, removed=removed)
    told = words.focus(focus(two))
    assert two.needed_head == (0, 0), "their intervals overlap"
    assert told is not None and told.endswith(
        "Without it 25% [5, 45] of right answers change; without layer 1, head 2 50% [30, 70]."
    )
    two = replace(one, fallen=far, removed=removed)
    told = words.focus(focus(two))
    assert two.needed_head == (1, 2)
    assert told is not None and told.startswith(
        "The head that answers need most is layer 1, head 2: without it 50% [40, 60] of right answers change."
    )
    assert two.with_head((1, 2)).needed_head == (1, 2), "a head that was chosen stays"
    result = one["gold_mass"]
    same = {name: replace(control, mean=result.mean) for name, control in result.controls.items()}
    told = words.focus(focus(replace(one, results={"gold_mass": replace(result, controls=same)})))
    expected = (
        "Layer 0, head 0 has the most mass on the task's true edges, on other sequences, though not clearly more "
    )
    assert told is not None and told.startswith(f"{expected}than under a control (")
