"""Partial products and carries are found where they were planted; their causal tests predict digits by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.measurement.controls.mismatched import mismatched
from workbench.mechanisms import MECHANISMS, carry, partial_product
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.models.hooked import HookedDecoder, hook
from workbench.tasks.multiplication import Multiplication
from workbench.util.seeds import generator

TASK = Multiplication(digits=3)
BATCH = TASK.sample(300, generator(0, "multiplication"))
TRUTH = TASK.truth(BATCH.tokens)
POINTS = ("blocks.0.hook_resid_mid", "blocks.0.hook_resid_post")


def capture_of(**activations: Tensor) -> Capture:
    subject = Subject("planted", TASK, torch.zeros(1), torch.zeros(1), torch.nn.Identity(), (ATTENTION["standard"](),))
    return Capture(activations, BATCH, subject)


def reading(keys: Tensor) -> Capture:
    return capture_of(**{"blocks.0.attn.hook_pattern": (keys / keys.sum(-1, keepdim=True).clamp(min=1))[:, None]})


def test_a_head_on_the_columns_digits_reads_partial_products_and_one_on_the_others_does_not() -> None:
    gold = TRUTH.adjacency(*BATCH.tokens.shape).float()
    operands = gold.amax(1, keepdim=True)
    assert (partial_product.score(reading(gold)).values == 1).all()
    assert (partial_product.score(reading(operands - gold)).values == 0).all()
    assert (partial_product.score(reading(operands.expand_as(gold))).values == 0.5).all()  # evenly: one of two that tie


def test_the_place_without_a_column_and_those_with_every_digit_are_not_scored() -> None:
    n, n_pos = BATCH.tokens.shape
    first = int((TRUTH.labels["digit"][0] == 0).nonzero())
    gold = TRUTH.adjacency(n, n_pos).float()
    spoilt = gold.clone()
    spoilt[:, [first + 2, first + 5]] = 1 - gold[:, [first + 2, first + 5]]  # column 2 takes all six digits, 5 none
    assert (partial_product.score(reading(spoilt)).values == 1).all()


def test_a_planted_carry_is_found_at_its_point_alone_and_not_against_other_examples() -> None:
    noise = torch.randn(2, *BATCH.tokens.shape, 24, generator=generator(1))
    codes = 10 * torch.randn(40, 24, generator=generator(2))
    planted = noise[0] + codes[TRUTH.labels["carry"].clamp(min=0)]
    seen = capture_of(**dict(zip(POINTS, (noise[1], planted), strict=True)))
    found = carry.score(seen).mean("example")
    assert found.select(point=POINTS[1]).values > 0.99 and found.select(point=POINTS[0]).values < 0.3
    assert carry.score(mismatched(seen, generator(3))).mean().select(point=POINTS[1]).values < 0.3


def test_a_batch_too_small_for_means_is_not_scored() -> None:
    seen = capture_of(**{point: torch.zeros(*BATCH.tokens.shape, 4) for point in POINTS})
    one = Capture({name: x[:1] for name, x in seen.activations.items()}, BATCH[:1], seen.subject)
    assert np.isnan(carry.score(one).values).all()


def right_model() -> tuple[HookedDecoder, Subject]:
    """A random model whose logits are replaced by the right answers, whatever is edited."""
    config = DecoderConfig(n_layers=1, d_model=16, n_heads=2, d_vocab=len(TASK.vocabulary), n_ctx=TASK.n_ctx)
    model = Decoder(config, generator(0)).eval()
    hooked = hook(model)
    answers = torch.nn.functional.one_hot(BATCH.tokens.roll(-1, dims=1), len(TASK.vocabulary)).float()
    hooked.add_hook("unembed.hook_out", lambda logits, hook: answers)
    return hooked, Subject.of(model, TASK, "right whatever")


@pytest.mark.parametrize("name", ["partial_product", "carry"])
def test_a_model_that_answers_whatever_is_edited_does_not_bear_the_claims_out(name: str) -> None:
    model, subject = right_model()
    found = MECHANISMS[name].causal(model, subject, BATCH, generator(1)).mean("example")
    assert found.n is not None and found.n.min() > 100
    assert (
        (found.values == 0).all() and found.coords["edit"][0] == "claimed" and found.coords["edit"][-1] == "elsewhere"
    )


def digits_as_they_are(tokens: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(tokens, len(TASK.vocabulary)).float()


def product_of_what_is_found(residual: Tensor) -> Tensor:
    """The product of the operand digits in the residual, at the positions that predict it."""
    found, powers = residual.argmax(-1), 10 ** torch.arange(2 * TASK.digits)
    a, b = ((found[:, i : i + 3] * powers[:3]).sum(-1) for i in (0, 4))
    product = (a * b)[:, None] // powers % 10
    logits = torch.zeros_like(residual)
    logits[TRUTH.labels["digit"] >= 0] = digits_as_they_are(product).flatten(0, 1)
    return logits


def test_a_model_that_multiplies_the_digits_it_reads_bears_partial_products_out(stand_in) -> None:  # type: ignore[no-untyped-def]
    model = stand_in("blocks.0.hook_resid_pre", digits_as_they_are, product_of_what_is_found)
    subject = capture_of().subject
    found = partial_product.causal(model, subject, BATCH, generator(1)).mean("example")
    assert found.n is not None and found.n.min() > 100
    assert found.values.tolist() == [[1, 1], [0, 0]]


def column_and_carry(tokens: Tensor) -> Tensor:
    """Where a digit is predicted its column modulo 10 and its carry, side by side."""
    carried = TRUTH.labels["carry"].clamp(min=0)
    column = (tokens.roll(-1, dims=1) - carried) % 10
    one_hot = torch.nn.functional.one_hot
    return torch.cat([one_hot(column, 10), one_hot(carried, 30)], dim=-1).float()


def their_sum(residual: Tensor) -> Tensor:
    column, carried = residual[..., :10].argmax(-1), residual[..., 10:].argmax(-1)
    return digits_as_they_are((column + carried) % 10)


def test_a_model_that_adds_the_carry_it_holds_bears_the_carry_out(stand_in) -> None:  # type: ignore[no-untyped-def]
    model = stand_in("blocks.0.hook_resid_mid", column_and_carry, their_sum)
    found = carry.causal(model, capture_of().subject, BATCH, generator(1)).mean("example")
    assert found.n is not None and found.n.min() > 100
    assert found.select(edit="residual").values.tolist() == [1, 1]
    # A mean over few examples brings some of their columns along
    assert found.select(edit="claimed", outcome="as claimed").values > 0.85
    assert found.select(edit="elsewhere", outcome="changed").values < 0.1
