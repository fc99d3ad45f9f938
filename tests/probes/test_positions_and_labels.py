"""Where probes look and what they ask for, on inputs written out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from workbench.probes.positions import RULES, rows, rules_for
from workbench.tasks import TASKS, Batch, Sequences, make
from workbench.tasks.boxes_world import OBJECTS
from workbench.tasks.labels import DERIVED, is_labelled, label_names, labels
from workbench.util.seeds import generator

SORT = make("sorting", q=9, min_length=2, max_length=4)
ITEMS = OBJECTS[:3]
STORY = (
    f"The {ITEMS[0]} is in Box B , the {ITEMS[1]} and the {ITEMS[2]} are in Box A . "
    "Move the contents of Box B to Box C ."
)


def everywhere(batch: Batch) -> Tensor:
    return torch.ones_like(batch.tokens, dtype=torch.bool)


def places(task_batch: tuple, rule: object) -> dict[str, list[int]]:
    task, batch = task_batch
    found = rows(task, batch, rule, everywhere(batch))
    return {name: at.tolist() for name, at in zip(found.names, found.position, strict=True)}


@pytest.fixture(scope="module")
def two() -> tuple:
    """5 3 ⊥ 3 5 and 7 1 2 ⊥ 1 2 7."""
    return SORT, Batch.cat([SORT.parse("5 3"), SORT.parse("7 1 2")], SORT.pad)


def test_rules_of_a_sorted_sequence(two: tuple) -> None:
    assert places(two, "delimiter") == {"delimiter": [2, 3]}
    assert places(two, "each output") == {"output 0": [3, 4], "output 1": [4, 5], "output 2": [-1, 6]}
    assert places(two, "outputs") == {"outputs": [3, 4, 4, 5, 6]}
    assert places(two, "scored") == {"scored": [2, 3, 3, 4, 5]}
    assert places(two, 1) == {"1": [1, 1]} and places(two, (0, 3)) == places(two, "0,3") == {"0": [0, 0], "3": [3, 3]}
    assert list(places(two, "each")) == [str(i) for i in range(7)]


def test_a_label_says_nothing_where_there_is_no_place(two: tuple) -> None:
    task, batch = two
    found = labels(task, batch.tokens)
    where = rows(task, batch, "each output", is_labelled(found["identity"]))
    assert where.label(found["identity"]).tolist() == [[2, 0], [4, 1], [-1, 6]]
    assert where.label(found["copies_left"]).tolist() == [[0, 0], [0, 0], [-1, 0]]
    nowhere = rows(task, batch, "outputs", is_labelled(found["identity"]))
    assert nowhere.example.tolist() == [0, 0, 1, 1, 1]


def test_rules_of_a_story() -> None:
    task = make("boxes", style="advanced", n_boxes=4, n_objects=12, capacity=3, max_operations=6, filled="any")
    batch = task.parse(STORY)
    words = task.words(batch.tokens[0])
    ends = [i for i, word in enumerate(words) if word in ".,"][:3]
    found = rows(task, batch, "clauses", everywhere(batch))
    assert found.position[:, 0].tolist() == ends and found.names == ("clause 0", "clause 1", "clause 2")
    known = labels(task, batch.tokens)
    contents = {box: found.label(known[f"contents_{box}"])[:, 0].sum(-1).tolist() for box in "ABC"}
    assert contents == {"A": [0, 2, 2], "B": [1, 1, 0], "C": [0, 0, 1]}
    for box, held in (("A", 2), ("C", 1)):
        asked = rows(task, batch, f"box {box}", is_labelled(known[f"contents_{box}"]))
        at = int(asked.position[0, 0])
        assert words[at - 1 : at + 1] == ["Box", box] and at > ends[-1]
        assert int(asked.label(known[f"contents_{box}"]).sum()) == held
    with pytest.raises(ValueError, match="nothing to decode is labelled"):
        rows(task, batch, "box B", is_labelled(known["contents_B"]))  # it is empty, and advanced answers leave it out
    with pytest.raises(ValueError, match="name no box 'Z'"):
        rows(task, batch, "box Z", everywhere(batch))


def test_the_rows_of_a_multiplication_add_up() -> None:
    task = make("multiplication", digits=2)
    batch = task.parse("12 * 34")
    found = labels(task, batch.tokens)
    at = (found["digit"][0] >= 0).nonzero()[:, 0]
    first, second = (found[f"partial_product_{row}"][0, at].tolist() for row in range(2))
    assert first == [8, 4, 0, 0] and second == [0, 6, 3, 0]  # 12 × 4 = 48, 12 × 30 = 360, lowest digit first
    assert found["running_sum_1"][0, at].tolist() == [8, 0, 4, 0]


def test_ancestors_are_those_of_the_drawing() -> None:
    task = make("pointer_chain", n=9, k=3)
    found = labels(task, task.parse("7 0 4 2 0 1 5 3 4").tokens)
    assert found["ancestor_1"][0].tolist() == [-1, -1, -1, 2, 0, 1, 5, 3, 4]
    assert found["ancestor_2"][0].tolist() == [-1] * 6 + [1, 2, 0]


@pytest.mark.parametrize("name", TASKS)
def test_every_task_has_labels_and_rules_that_can_be_followed(name: str, tmp_path: Path) -> None:
    (tmp_path / "prose.txt").write_text("what is there to say " * 99, encoding="utf-8")
    task = make(name, **({"path": str(tmp_path / "prose.txt"), "block": 20} if name == "text" else {}))
    batch = task.sample(6, generator(0, "probe"))
    found = labels(task, batch.tokens)
    assert {"token", "position"} <= set(found) and set(label_names(task)) <= set(found)
    for values in found.values():
        assert values.shape[:2] == batch.tokens.shape and values.dtype == torch.long and int(values.min()) >= -1
    for rule in rules_for(task):
        if not rule.startswith("box "):
            assert int((rows(task, batch, rule, everywhere(batch)).position >= 0).sum())
    assert set(DERIVED) <= {*TASKS, Sequences.name} and {r for r in rules_for(task) if not r.startswith("box ")} <= set(
        RULES
    )
