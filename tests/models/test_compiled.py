"""Compiled models do what they are said to do, exactly; a rotated one computes the same along no axis."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.models import Decoder
from workbench.models.compiled import chaser, rotation, sorter
from workbench.tasks import correct, make
from workbench.util.seeds import generator

FORMS: list[dict[str, Any]] = [
    {},
    {"rotate_seed": 1},
    {"form": "layernorm"},
    {"form": "layernorm", "rotate_seed": 2},
    {"pad": True},
]


def multisets(q: int, length: int, n: int, g: torch.Generator) -> dict[str, Tensor]:
    """What Theorem 5.1 claims for any input: uniform ones, many copies, and those that come closest to failing."""

    def mixed(symbols: Tensor) -> Tensor:
        return symbols.gather(1, torch.rand(n, length, generator=g).argsort(-1))

    some = torch.rand(n, q, generator=g).argsort(-1)[:, :3]
    found = {
        "uniform": torch.randint(0, q, (n, length), generator=g),
        "all equal": some[:, :1].expand(n, length),
        "two values": torch.where(torch.rand(n, length, generator=g) < 0.5, some[:, :1], some[:, 1:2]),
        "one other among copies": mixed(torch.cat([some[:, 1:2], some[:, :1].expand(n, length - 1)], 1)),
    }
    if length > 2:
        found["two others among copies"] = mixed(torch.cat([some[:, 1:], some[:, :1].expand(n, length - 2)], 1))
    for r in range(2, 6):
        if r <= length and length // r <= q:
            distinct = torch.rand(n, q, generator=g).argsort(-1)[:, : length // r].repeat_interleave(r, 1)
            found[f"rep({r})"] = mixed(torch.cat([distinct, torch.randint(0, q, (n, length % r), generator=g)], 1))
    return found


@torch.no_grad()
def sorted_exactly(model: Decoder, q: int, symbols: Tensor) -> Tensor:
    ordered, n = symbols.sort(-1).values, symbols.shape[1]
    tokens = torch.cat([symbols, torch.full((len(symbols), 1), q), ordered], 1)
    return (model(tokens)[:, n : 2 * n].argmax(-1) == ordered).all(-1)


@pytest.mark.parametrize("settings", FORMS, ids=str)
@pytest.mark.parametrize("q", [10, 100])
def test_the_sorter_sorts_every_multiset(q: int, settings: dict[str, Any]) -> None:
    model, g = sorter(q, **settings), generator(q, str(settings))
    for length in (2, 3, 4, 5, 9, 20, 50, 100, 200):
        for name, symbols in multisets(q, length, 8 if length >= 100 else 32, g).items():
            assert sorted_exactly(model, q, symbols).all(), f"{name} of {length}"


@pytest.mark.slow
@pytest.mark.parametrize("settings", FORMS, ids=str)
def test_the_sorter_sorts_every_length(settings: dict[str, Any]) -> None:
    for q in (3, 10, 100):
        model, g = sorter(q, **settings), generator(q, "every", str(settings))
        for length in range(2, 201):
            for name, symbols in multisets(q, length, 8, g).items():
                assert sorted_exactly(model, q, symbols).all(), f"{name} of {length}, q={q}"


def test_the_plain_sorter_is_exact_in_half_precision() -> None:
    model, g = sorter(100).bfloat16(), generator(0)
    for length in (2, 5, 20, 100):
        assert sorted_exactly(model, 100, torch.randint(0, 100, (16, length), generator=g)).all()


def test_the_sorter_sorts_when_it_decodes_by_itself() -> None:
    model = sorter(10)
    tokens = torch.tensor([[3, 7, 0, 3, 9, 10]])
    for _ in range(5):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    assert tokens[0, 6:].tolist() == [0, 3, 3, 7, 9]


def test_vocabulary_and_shape() -> None:
    assert sorter(10).config.d_vocab == 11
    assert sorter(10, pad=True).config.d_vocab == len(make("sorting", q=10).vocabulary)
    assert sorter(10).config.n_ctx == 512


def test_a_rotated_sorter_is_the_same_function_along_no_axis() -> None:
    plain, turned = sorter(10), sorter(10, rotate_seed=3)
    tokens = torch.randint(0, 11, (16, 21), generator=generator(0))
    with torch.no_grad():
        (a, kept), (b, turned_kept) = (m(tokens, keep=["blocks.0.hook_resid_mid"]) for m in (plain, turned))
    assert torch.allclose(a, b, atol=1e-2)  # of logits up to 514
    x, y = kept["blocks.0.hook_resid_mid"], turned_kept["blocks.0.hook_resid_mid"]
    turn = rotation(33, 3).float()
    assert torch.allclose(x @ turn, y, atol=1e-4)
    assert (x.abs() > 0.5).sum(-1).float().mean() < 4 < (y.abs() > 0.05).sum(-1).float().mean()


def test_rotations_are_orthogonal_and_differ() -> None:
    one, other = rotation(20, 0), rotation(20, 1)
    assert torch.allclose(one @ one.T, torch.eye(20, dtype=torch.float64), atol=1e-12)
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("settings", [{"q": 1}, {"q": 5, "n_ctx": 513}, {"q": 5, "n_ctx": 2}], ids=str)
def test_wrong_settings_of_the_sorter_are_said(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="sorter"):
        sorter(**settings)


@pytest.mark.parametrize("reading", ["chain", "root"])
@pytest.mark.parametrize("rotate_seed", [None, 5])
@pytest.mark.parametrize(("n", "k"), [(8, 4), (32, 4), (128, 8)])
@torch.no_grad()
def test_the_chaser_solves_every_chain(n: int, k: int, rotate_seed: int | None, reading: Any) -> None:
    task = make("pointer_chain", n=n, k=k, reading=reading)
    batch = task.sample(64, generator(n))
    for gamma in (0.5, 0.9, 0.99):
        right = correct(chaser(n, k, rotate_seed, gamma=gamma, reading=reading)(batch.tokens), batch)
        assert (right.sum() / batch.loss_mask.sum()).item() == 1, gamma


def test_the_chaser_weighs_each_hop_by_gamma() -> None:
    model = chaser(8, 2, gamma=0.5)
    tokens = torch.tensor([[5, 6, 1, 0, 2, 3, 4, 5]])  # 6 → 4 → 2 → 1
    with torch.no_grad():
        logits = model(tokens)[0, 6]
    expected = {4: 0.5, 2: 0.25, 1: 0.125}
    assert all(math.isclose(logits[i], expected.get(i, 0), abs_tol=1e-6) for i in range(8))


@pytest.mark.parametrize("settings", [{"n": 9, "k": 2}, {"n": 4, "k": 4}, {"n": 8, "k": 4, "gamma": 0.0}], ids=str)
def test_wrong_settings_of_the_chaser_are_said(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="chaser"):
        chaser(**settings)


def test_null_models_have_the_shape_and_none_of_the_knowledge() -> None:
    model, symbols = sorter(10), torch.randint(0, 10, (64, 8), generator=generator(0))
    assert sorted_exactly(model, 10, symbols).all()
    for null in (untrained(model, generator(1)), shuffled(model, generator(1))):
        assert null.config == model.config
        assert sorted_exactly(null, 10, symbols).float().mean() < 0.05
    mixed = shuffled(model, generator(1))
    for own, other in zip(model.parameters(), mixed.parameters(), strict=True):
        assert torch.equal(own.flatten().sort().values, other.flatten().sort().values)
    assert sorted_exactly(model, 10, symbols).all()
