"""Mechanisms are found where they were planted, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject
from workbench.measurement.controls.mismatched import mismatched
from workbench.mechanisms import (
    MECHANISMS,
    carry,
    chain_following,
    copy,
    entity_state,
    identity_removed,
    minimum,
    partial_product,
    successor,
)
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.models.hooked import hook
from workbench.tasks import Task
from workbench.tasks.associative_recall import AssociativeRecall
from workbench.tasks.boxes import Boxes
from workbench.tasks.modular_addition import ModularAddition
from workbench.tasks.multiplication import Multiplication
from workbench.tasks.pointer_chain import PointerChain
from workbench.tasks.sorting import Sorting
from workbench.util.seeds import generator

SORTING = Sorting(q=20, max_length=6)
CHAIN = PointerChain(n=16, k=4)
BOXES = Boxes(n_boxes=3, n_objects=12, min_operations=2, max_operations=4)
MULTIPLICATION = Multiplication(digits=3)
ADDITION = ModularAddition(p=11)
RECALL = AssociativeRecall(d_vocab=16, length=16, pairs=2)
Plant = Callable[[Tensor, Subject], dict[str, Tensor]]


def capture_of(
    task: Task, plant: Plant | None = None, n: int = 64, n_layers: int = 2, variant: str = "standard"
) -> Capture:
    rng = generator(0, "mechanism test")
    batch = task.sample(n, rng)
    size = len(task.vocabulary)
    encoder, decoder = torch.linalg.qr(torch.randn(2, 64, size, generator=rng)).Q.mT
    attention = tuple(ATTENTION[variant]() for _ in range(n_layers))
    subject = Subject("planted", task, encoder, decoder, torch.nn.Identity(), attention)
    n_pos = batch.tokens.shape[1]
    acts = {}
    for layer in range(n_layers):
        for point in ("hook_resid_mid", "hook_resid_post", "hook_attn_out"):
            acts[f"blocks.{layer}.{point}"] = torch.randn(n, n_pos, 64, generator=rng)
        scores = torch.randn(n, 1, n_pos, n_pos, generator=rng)
        future = torch.ones(n_pos, n_pos, dtype=torch.bool).triu(1)
        acts[f"blocks.{layer}.attn.hook_pattern"] = scores.masked_fill(future, -torch.inf).softmax(-1)
    acts[LOGITS] = torch.randn(n, n_pos, size, generator=rng)
    acts |= plant(batch.tokens, subject) if plant else {}
    return Capture(acts, batch, subject)


def sorter(tokens: Tensor, subject: Subject) -> dict[str, Tensor]:
    """The residuals of a model that sorts as the paper says."""
    labels = SORTING.truth(tokens).labels
    own, following = subject.decoder[labels["identity"]], subject.decoder[labels["successor"]]
    return {
        "blocks.0.hook_resid_mid": subject.encoder[tokens] + 2 * subject.decoder[labels["minimum"]],
        "blocks.1.hook_resid_mid": 0.9 * own + following,
    }


def parents(tokens: Tensor, subject: Subject) -> dict[str, Tensor]:
    """A head that attends to each position's parent and nothing else."""
    parent = CHAIN.truth(tokens).labels["parent"]
    target = torch.where(parent < 0, torch.arange(tokens.shape[1]), parent)
    one_hot = torch.nn.functional.one_hot(target, tokens.shape[1]).float()
    return {"blocks.0.attn.hook_pattern": one_hot[:, None]}


def test_a_planted_sorter_copies_its_inputs_where_they_were_planted() -> None:
    found = copy.score(capture_of(SORTING, sorter)).mean("example")
    by_point = dict(zip(found.coords["point"], found.values, strict=True))
    # The minimum was written at every position with weight 2, but in the decoder basis.
    assert by_point["blocks.0.hook_resid_mid"] > 0.9 and by_point["blocks.1.hook_resid_post"] < 0.2


def test_a_planted_sorter_writes_the_minimum_and_the_pair() -> None:
    capture = capture_of(SORTING, sorter)
    assert (minimum.score(capture).values == 1).all()
    assert minimum.score(capture, layer=1).mean().values < 0.5  # there it is the outputs' pair that was planted
    with pytest.raises(ValueError, match=r"minimum.layer must be one of 0..1, not 2"):
        minimum.score(capture, layer=2)
    share = successor.score(capture).values
    long = SORTING.lengths(capture.batch.tokens) > 3
    assert (share[long.numpy()] == 1).all() and not np.isnan(share).any()


def test_an_own_token_that_was_never_there_or_is_still_there_was_not_removed() -> None:
    def removed(before: float, after: float) -> float:
        def plant(tokens: Tensor, subject: Subject) -> dict[str, Tensor]:
            labels = SORTING.truth(tokens).labels
            own, following = subject.decoder[labels["identity"]], subject.decoder[labels["successor"]]
            next_symbol = (labels["identity"] + 1) % SORTING.q
            third = torch.where(next_symbol == labels["successor"], (labels["identity"] + 2) % SORTING.q, next_symbol)
            delimiter = subject.decoder[SORTING.vocabulary.id("⊥")]  # which is no symbol: it may be as large as it will
            return {
                "blocks.1.hook_resid_mid": before * own + following + 0.5 * subject.decoder[third] + 2 * delimiter,
                "blocks.1.hook_resid_post": after * own + following,
            }

        return float(identity_removed.score(capture_of(SORTING, plant)).mean().values)

    assert removed(before=0.9, after=0.1) == removed(before=1.1, after=0.9) == 1
    assert removed(before=0.4, after=0.1) == removed(before=1.1, after=1.1) == 0


def test_random_residuals_hold_none_of_it() -> None:
    capture = capture_of(SORTING)
    assert minimum.score(capture).mean().values < 0.2
    assert successor.score(capture).mean().values < 0.1
    assert copy.score(capture).mean().values.max() < 0.2


def test_planted_mechanisms_do_not_hold_against_other_examples() -> None:
    control = mismatched(capture_of(SORTING, sorter, n=300), generator(0, "control"))
    assert minimum.score(control).mean().values < 0.35
    assert successor.score(control).mean().values < 0.1
    assert copy.score(control).select(point="blocks.0.hook_resid_mid").mean().values < 0.1


def test_equal_neighbours_need_only_be_on_top() -> None:
    def one_token(tokens: Tensor, subject: Subject) -> dict[str, Tensor]:
        following = SORTING.truth(tokens).labels["successor"]  # where it is another token, it is the last of all
        away = subject.decoder[following] * (following != tokens)[..., None]
        return {"blocks.1.hook_resid_mid": subject.decoder[tokens] - away}

    capture = capture_of(SORTING, one_token, n=300)
    labels = capture.truth.labels
    equal = (labels["identity"] == labels["successor"]) & (labels["successor"] >= 0)
    expected = equal.sum(-1) / (labels["successor"] >= 0).sum(-1)
    assert equal.any() and not equal.all()
    assert successor.score(capture).values == pytest.approx(expected.numpy(), nan_ok=True)


@pytest.mark.parametrize(("variant", "expected"), [("standard", [1, 0, 0]), ("chacal", [1, 1, 1])])
def test_parent_attention_resolves_one_hop_alone_and_all_through_the_resolvent(
    variant: str, expected: list[float]
) -> None:
    found = chain_following.score(capture_of(CHAIN, parents, variant=variant)).mean("example")
    assert found.dims == ("layer", "head", "hop")
    assert found.values[0, 0].tolist() == expected


def test_random_attention_resolves_chains_no_better_than_its_control() -> None:
    capture = capture_of(CHAIN, n=300)
    control = chain_following.score(mismatched(capture, generator(0, "control"))).mean("example")
    found = chain_following.score(capture).mean("example")
    assert np.abs(found.values - control.values).max() < 0.06


def test_claims_that_cannot_be_tested_say_why() -> None:
    sorting, chain = capture_of(SORTING).subject, capture_of(CHAIN).subject
    shallow = capture_of(SORTING, n_layers=1).subject
    assert [name for name, m in MECHANISMS.items() if m.why_not(sorting) is None] == [
        "copy",
        "minimum",
        "successor",
        "identity_removed",
    ]
    assert [name for name, m in MECHANISMS.items() if m.why_not(chain) is None] == ["chain_following"]
    assert successor.why_not(shallow) == "needs 2 layers, the model has 1" and minimum.why_not(shallow) is None
    assert minimum.why_not(chain) == "the task pointer_chain has no label 'minimum'"
    assert carry.why_not(sorting) == partial_product.why_not(sorting) == "the task sorting is not multiplication"
    assert entity_state.why_not(sorting) == "the task sorting has no label 'clause'"
    assert (
        partial_product.why_not(capture_of(Multiplication(digits=1)).subject) == "operands of one digit have one column"
    )
    assert [entity_state.why_not(capture_of(BOXES).subject), carry.why_not(capture_of(MULTIPLICATION).subject)] == [
        None
    ] * 2
    assert chain_following.why_not(sorting) == "the task sorting has no chains of two hops or more"


def test_every_mechanism_captures_what_it_needs_and_scores_every_example() -> None:
    captures = [capture_of(task) for task in (SORTING, CHAIN, BOXES, MULTIPLICATION, ADDITION, RECALL)]
    for name, mechanism in MECHANISMS.items():
        capture = next(capture for capture in captures if mechanism.why_not(capture.subject) is None)
        assert set(mechanism.needs(capture.subject)) <= set(capture.activations)
        found = mechanism.score(capture)
        assert found.dims[-1] == "example" and found.values.shape[-1] == 64 and found.units == "share", name
        assert mechanism.__doc__ is not None and "not show" in " ".join(mechanism.__doc__.split()), name


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("task", [SORTING, BOXES, MULTIPLICATION, ADDITION, RECALL], ids=lambda task: str(task.name))
def test_causal_tests_run_on_models_of_any_depth_and_batches_of_any_size(task: Task, n_layers: int) -> None:
    config = DecoderConfig(n_layers=n_layers, d_model=16, n_heads=2, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx)
    model = Decoder(config, generator(0)).eval()
    subject, hooked = Subject.of(model, task, "untrained"), hook(model)
    offered = {name: claim for name, claim in MECHANISMS.items() if not claim.why_not(subject)}
    for name, claim in offered.items():
        for n in (1, 16):
            found = claim.causal(hooked, subject, task.sample(n, generator(1)), generator(2))
            assert found.dims[:2] == ("edit", "outcome") and found.dims[-1] == "example", name
            assert found.values.shape[1] == 2 and found.values.shape[-1] == n, name
            assert found.coords["edit"][0] == "claimed" and found.coords["edit"][-1] == "elsewhere"
            if "hop" in found.dims:
                continue  # of several answers each, lost or not
            assert np.isin(found.values[~np.isnan(found.values)], (0, 1)).all()
            assert (found.values[:, 0] <= found.values[:, 1])[~np.isnan(found.values[:, 0])].all()
    assert offered
