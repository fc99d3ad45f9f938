"""Which heads the answers come by: the test is of the head that is named, and the smallest set is found beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
import torch

from workbench import interventions
from workbench.benchmark import subjects
from workbench.benchmark.subjects import chains
from workbench.inspection import Inspected, inspect_run
from workbench.inspection.judged import judgements
from workbench.interventions import ReadBy, SpanEdit
from workbench.judgement.against_controls import Against
from workbench.judgement.claim import Need
from workbench.mechanisms.heads import smallest_set, where_in_words
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks.pointer_chain import PointerChain
from workbench.util.seeds import generator

Heads = Sequence[tuple[int, int]]
FOUR = [(0, 0), (0, 1), (1, 0), (1, 1)]


@cache
def inspected(name: str) -> Inspected:
    return inspect_run(subjects.make(name), n=64, seed=0, only=["chain_following"])  # type: ignore[arg-type]


def judged(name: str) -> tuple[set[Against | None], set[Need]]:
    own = judgements(inspected(name), "chain_following")
    return {one.against for one in own}, {one.need for one in own}


def test_a_decoy_holds_but_is_not_needed_and_the_head_that_works_is_found() -> None:
    found = inspected("decoy")
    assert found.head == (0, 0)  # where all the mass is
    assert "layer 0, head 0" in found["chain_following"].causal.mean.caption
    assert judged("decoy") == ({Against.BEYOND}, {Need.NOT_NEEDED})
    assert found["chain_following"].causal.needed.heads == ((0, 1),)


@pytest.mark.parametrize("name", ["split", "shared_out", "backups"])
def test_heads_that_do_it_together_or_for_each_other_are_found_as_a_set(name: str) -> None:
    needed = inspected(name)["chain_following"].causal.needed
    assert needed.heads == ((0, 0), (0, 1)) and needed.causal is not None
    assert needed.causal.settings["edited"] == "layer 0, heads 0 and 1"
    assert (needed.causal.select(edit="claimed", outcome="as claimed").values == 1).all()


def test_one_of_two_backups_is_not_needed_and_half_the_work_is_not_all_of_it() -> None:
    assert judged("backups") == ({Against.BEYOND}, {Need.NOT_NEEDED})
    holds, needed = judged("split")
    assert holds == {Against.BEYOND} and needed == {Need.AS_CLAIMED}
    alone = inspected("split")["chain_following"].causal.mean.select(edit="claimed", outcome="changed").values
    assert (alone < 0.8).all()


def test_an_answer_of_the_mlp_needs_no_head() -> None:
    found = inspected("mlp_alone")
    assert found["chain_following"].causal.needed.heads == () and judged("mlp_alone")[1] == {Need.NOT_NEEDED}


def test_the_head_is_chosen_on_other_data_whatever_is_asked_for() -> None:
    """Head 1 alone follows chains; in place of it the last layer's head 0 was shown, at 8 % in place of 100 %."""
    with torch.no_grad():
        task, write = chains.chain_decoder(PointerChain, 2, None)
        chains.follow(write, task, 1)
    run = subjects.Planted("second head", write.model.float().eval(), task)
    alone = inspect_run(run, n=16, seed=0, only=["chain_following"], nulls=(), causal=False)  # type: ignore[arg-type]
    with_graph = inspect_run(run, n=16, seed=0, nulls=(), causal=False)  # type: ignore[arg-type]
    assert alone.head == with_graph.head == (0, 1)
    assert (alone["chain_following"].at_head().mean.values == 1).all()
    given = inspect_run(run, n=16, seed=0, only=["chain_following"], nulls=(), causal=False, head=(0, 0))  # type: ignore[arg-type]
    assert given.head == (0, 0) and given["chain_following"].at_head().mean.values.max() < 1


def lose(*needed: set[tuple[int, int]]) -> Callable[[Heads], np.ndarray]:
    """Answers are lost where all heads of one of these sets are edited, in equal parts."""
    return lambda heads: np.array([np.mean([own <= set(heads) for own in needed])])


@pytest.mark.parametrize(
    ("needed", "found"),
    [
        ([{(1, 0)}], [(1, 0)]),  # one head does it
        ([{(0, 0), (1, 1)}], [(0, 0), (1, 1)]),  # each stands in for the other
        ([{(0, 0)}, {(1, 1)}], [(0, 0), (1, 1)]),  # each does a half
        ([{(0, 1), (1, 0)}, {(1, 1)}], [(0, 1), (1, 0), (1, 1)]),
    ],
)
def test_the_smallest_set_loses_what_all_heads_lose(
    needed: list[set[tuple[int, int]]], found: list[tuple[int, int]]
) -> None:
    for order in (FOUR, FOUR[::-1]):
        assert list(smallest_set(lose(*needed), order)) == found


def test_of_two_heads_in_a_row_the_stronger_is_kept() -> None:
    either = lambda heads: np.array([float(bool({(0, 0), (1, 1)} & set(heads)))])  # noqa: E731
    assert smallest_set(either, FOUR) == ((1, 1),) and smallest_set(either, FOUR[::-1]) == ((0, 0),)


def test_where_nothing_is_lost_or_tested_there_is_no_set() -> None:
    assert (
        smallest_set(lambda heads: np.array([0.05]), FOUR) == smallest_set(lambda heads: np.array([np.nan]), FOUR) == ()
    )


def test_hops_that_the_model_fails_do_not_hide_those_that_it_solves() -> None:
    """A mean over hops of .52, 0 and 0 said that no set is needed."""
    first = lambda heads: np.array([0.3 * ((0, 1) in heads), 0.0, np.nan])  # noqa: E731
    assert smallest_set(first, FOUR) == ((0, 1),)


def test_few_of_many_heads_are_found_in_few_tries() -> None:
    many, tries = [(layer, head) for layer in range(12) for head in range(12)], []

    def effect(heads: Heads) -> np.ndarray:
        tries.append(heads)
        return lose({(3, 4), (9, 0)})(heads)

    assert smallest_set(effect, many) == ((3, 4), (9, 0)) and len(tries) < 40


def test_heads_in_words() -> None:
    assert where_in_words(None) == "every head" and where_in_words([]) == "no head"
    assert where_in_words([(2, 3), (0, 1), (0, 0), (0, 2)]) == "layer 0, heads 0, 1 and 2; layer 2, head 3"


@torch.no_grad()
def test_an_edit_that_all_heads_of_a_layer_read_is_the_edit_of_its_input_elsewhere() -> None:
    """At positions that are not edited themselves a layer knows of the edit by its keys and values alone."""
    config = DecoderConfig(n_layers=2, d_model=16, n_heads=4, d_vocab=9, n_ctx=10)
    model = Decoder(config, generator(0)).eval()
    for parameter in model.parameters():
        parameter.mul_(3)
    hooked, tokens = hook(model), torch.randint(0, 9, (5, 10), generator=generator(1))
    span = torch.zeros(5, 10, dtype=torch.bool)
    span[:, 3] = True
    values = interventions.activation(hooked, tokens.flip(0), "blocks.1.hook_resid_pre")
    edit = SpanEdit("blocks.1.hook_resid_pre", span, values, tokens[:, 0])

    def logits(edit: SpanEdit | ReadBy) -> torch.Tensor:
        with hooked.hooks(fwd_hooks=edit.hooks(hooked, tokens)):
            found: torch.Tensor = hooked(tokens)
        return found

    whole, every = logits(edit), logits(ReadBy(lambda layer: edit, [(1, head) for head in range(4)]))
    one, before = logits(ReadBy(lambda layer: edit, [(1, 2)])), hooked(tokens)
    others = [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert torch.allclose(whole[:, others], every[:, others], atol=1e-5)
    after = slice(4, None)
    assert not torch.allclose(one[:, after], before[:, after], atol=1e-3)
    assert not torch.allclose(one[:, after], every[:, after], atol=1e-3)
    with pytest.raises(ValueError, match="no head 4; the model has 4"):
        ReadBy(lambda layer: edit, [(1, 4)]).hooks(hooked, tokens)
