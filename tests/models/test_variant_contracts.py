"""Every attention variant keeps the contract of `workbench.testing`: a new entry of ATTENTION is picked up by itself.

Variants as a user might write them (`toys`) must do it too, with the least that they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.toys import TOYS
from workbench.models.attention import ATTENTION
from workbench.models.hooked import hook
from workbench.testing import NotTested
from workbench.testing.attention import CHECKS, Variant, queries_keys_values, some_tokens, steps_are_what_they_say

KINDS = {**ATTENTION, **TOYS}
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "tempered": [{}, {"beta": 0.7}, {"beta": 0.7, "n": 7}, {"beta": 0.7, "n": "input", "delimiters": (5, 6)}],
    "scalable": [{}, {"s": 0.7}],
    "chacal": [{"form": form, "diagonal": diagonal} for form in ("eq5", "eq7") for diagonal in (False, True)]
    + [{"gamma": 0.0}, {"gamma": 0.99}],
    "learned_chacal": [{}, {"diagonal": True}, {"per": "head", "gamma": 0.6}],
    "tempered_chacal": [
        {"beta": 0.7},
        {"beta": 0.7, "form": "eq7", "diagonal": True},
        {"beta": 0.7, "n": "input", "delimiters": (5, 6)},
    ],
}
CASES = [(name, settings) for name in KINDS for settings in SETTINGS.get(name, [{}])]
each_case = pytest.mark.parametrize(("name", "settings"), CASES, ids=str)


@pytest.fixture(autouse=True, scope="module")
def known_toys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, kind in TOYS.items():
            patch.setitem(ATTENTION, name, kind)
        yield


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.__name__)
@each_case
def test_a_variant_keeps_its_contract(name: str, settings: dict[str, Any], check: Callable[[Variant], None]) -> None:
    variant = Variant(name, settings)
    try:
        check(variant)
    except NotTested:
        layer = variant.layer()
        assert layer.why_no_steps if check is steps_are_what_they_say else not layer.passes_constants


def test_a_pattern_that_does_not_come_from_scores_has_none_to_be_seen() -> None:
    for name in KINDS:
        seen = hook(Variant(name).model()).run_with_cache(some_tokens())[1]["blocks.0.attn.hook_attn_scores"]
        assert bool(seen.isnan().all()) == (name == "distance"), name


@each_case
def test_pattern_rows_of_our_variants_are_distributions(name: str, settings: dict[str, Any]) -> None:
    layer, (q, k, _) = Variant(name, settings).layer(), queries_keys_values()
    rows = layer.pattern(q, k).sum(-1)
    assert name in TOYS or torch.allclose(rows, torch.ones_like(rows))


@each_case
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_length_in_any_pieces_is_the_textbooks(name: str, settings: dict[str, Any], data: st.DataObject) -> None:
    """Fast path, its gradients, and decoding, each against the whole pattern."""
    n_pos = data.draw(st.integers(1, 70), "positions")
    cuts = sorted(data.draw(st.sets(st.integers(1, n_pos), max_size=5), "cuts") | {n_pos})
    layer, inputs = Variant(name, settings).layer(), [x.requires_grad_() for x in queries_keys_values(pos=n_pos)]
    want = layer.read(layer.pattern(*inputs[:2]), inputs[2])
    got = layer.mix(*inputs)
    torch.testing.assert_close(got, want, atol=1e-10, rtol=1e-10)
    for a, b in zip(*(torch.autograd.grad(z.sin().sum(), inputs) for z in (got, want)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-8, rtol=1e-8)
    q, k, v = (x.detach() for x in inputs)
    memory, read = torch.zeros(2, 3, n_pos, layer.memory_width(4), dtype=torch.float64), []
    with torch.no_grad():
        for start, end in pairwise([0, *cuts]):
            new = slice(start, end)
            read.append(layer.extend(q[:, :, new], k[:, :, :end], v[:, :, new], memory[:, :, :end]))
    torch.testing.assert_close(torch.cat(read, dim=2), want.detach(), atol=1e-10, rtol=1e-10)
