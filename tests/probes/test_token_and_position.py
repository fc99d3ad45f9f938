"""What token and position decide together is not called decodable beyond them; the headline says how it is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

import workbench
from workbench.judgement.decodable import ADDED, PAIRS, TOKEN, UNTRAINED, Decodable, Worth, judge
from workbench.judgement.words import probes as words
from workbench.probes import CONDITIONS
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.probes.fitting import Split
from workbench.probes.positions import Rows
from workbench.probes.probing import measure
from workbench.tasks import Batch

MID = "blocks.0.hook_resid_mid"
Label = Callable[[Tensor, Tensor], Tensor]


def worth_of(label: Label, *, tokens: int, length: int, n: int, holds_token: bool = True) -> Decodable:
    """What a probe of a label is worth, of vectors that hold it in directions of its own; beside it the token, or not.

    Args:
        label: the label of each row by its token and position.
        tokens, length, n: of n sequences of random tokens.
        holds_token: whether the vectors hold the token too.
    """
    chance = torch.Generator().manual_seed(0)
    drawn = torch.randint(tokens, (n, length), generator=chance)
    position, example = torch.arange(length).repeat(n), torch.arange(n).repeat_interleave(length)
    y = label(drawn.flatten(), position)
    x = torch.cat([one_hot(y).float(), one_hot(drawn.flatten()).float() * holds_token], -1)
    source = Source(
        workbench.tasks.make("sorting"),
        Batch(drawn, drawn, torch.ones(n, length) > 0),
        [MID],
        lambda where: x[None, None],
        (),
        "none",
    )
    rows, split = Rows(example, position[None], ("here",)), Split.by_example(example, chance)
    controls = [name for name in CONDITIONS[1:] if name != UNTRAINED]
    found = measure(
        ProbeData(source, rows, [y[None]], example, split, 0), ["label"], "logistic", controls, {"positions": "here"}
    )
    return judge(found.select(label="label", point=MID))


def by_chance(token: Tensor, position: Tensor) -> Tensor:
    """A label that neither tells, as one that attention computes from the other tokens."""
    return torch.randint(7, token.shape, generator=torch.Generator().manual_seed(1))


TOGETHER: dict[str, Label] = {
    "sum modulo 7": lambda token, position: (token + position) % 7,
    "product modulo 7": lambda token, position: token * position % 7,
    "difference modulo 5": lambda token, position: (token - position) % 5,
    "exclusive or of the parities": lambda token, position: token % 2 ^ position % 2,
}


@pytest.mark.parametrize("name", TOGETHER)
def test_a_label_that_token_and_position_decide_together_is_explained_by_their_pairs(name: str) -> None:
    """The baseline that adds what each tells is far from it; the lookup of pairs has it."""
    judged = worth_of(TOGETHER[name], tokens=11, length=8, n=120)
    assert judged.trained.value > 0.99 > 0.8 > judged.baselines[ADDED].value
    assert judged.baselines[PAIRS].value == 1 and judged.worth is Worth.TOKEN_AND_POSITION
    assert "for a lookup of (token, position) pairs" in words.decodable(judged)


@pytest.mark.parametrize("name", TOGETHER)
def test_where_pairs_outnumber_rows_nothing_is_called_decodable(name: str) -> None:
    judged = worth_of(TOGETHER[name], tokens=90, length=16, n=50, holds_token=False)
    assert PAIRS not in judged.baselines and judged.pairs is not None and judged.fitted == 35 * 16 < judged.pairs
    assert judged.worth is Worth.CANNOT_RULE_OUT and judged.worth.open
    said = words.decodable(judged)
    assert said.startswith("undecided, token and position together cannot be ruled out: ")
    assert f"{judged.pairs} pairs, 560 rows fitted" in said


def test_of_few_pairs_a_label_that_they_do_not_decide_is_decodable_whatever_the_probe_can_learn() -> None:
    """That it learns the control task is in the headline, and no reason against what the lookup cannot tell."""
    judged = worth_of(by_chance, tokens=11, length=8, n=120)
    assert judged.worth is Worth.DECODABLE and judged.learns_control and judged.control == 1
    assert max(judged.baselines[name].value for name in (TOKEN, ADDED, PAIRS)) < 0.3
    said = words.decodable(judged)
    assert said.startswith("decodable: 100% [") and " of 288 rows, against " in said
    assert said.endswith(
        "control task 100%, selectivity 0.0 percentage points: the probe can learn any label of the token here"
    )


def test_a_probe_that_learns_the_control_task_as_well_is_no_evidence_where_no_lookup_can_be_made() -> None:
    """Where it does not, the probe is selective, and token and position are what is left to rule out."""
    judged = worth_of(by_chance, tokens=90, length=16, n=50)
    assert judged.learns_control and judged.worth is Worth.LEARNS_ANYTHING
    assert words.decodable(judged).startswith("undecided, the probe can learn anything here: ")
    assert "token and position together cannot be ruled out: " in words.decodable(judged)
    selective = worth_of(by_chance, tokens=90, length=16, n=50, holds_token=False)
    assert not selective.learns_control and selective.worth is Worth.CANNOT_RULE_OUT


def test_a_lookup_is_tested_on_rows_whose_pair_was_fitted() -> None:
    """Of 480 pairs some are not among 560 rows; were they counted as wrong, the label would look like more."""
    judged = worth_of(TOGETHER["sum modulo 7"], tokens=30, length=16, n=50)
    assert judged.pairs is not None and judged.fitted is not None and judged.fitted / 2 < judged.pairs <= judged.fitted
    assert judged.baselines[PAIRS].value == 1 and judged.worth is Worth.TOKEN_AND_POSITION


def test_what_was_judged_saves_and_loads_itself() -> None:
    judged = worth_of(by_chance, tokens=90, length=16, n=50)
    assert Decodable.model_validate_json(judged.model_dump_json()) == judged
