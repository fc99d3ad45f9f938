"""Single patches begin at the layer that is patched, and give the numbers of whole passes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.models.architecture_table import build
from workbench.circuits import Comparison
from workbench.circuits.comparison import activations
from workbench.circuits.nodes import SITES
from workbench.circuits.patched import Patches
from workbench.models.pretrained import Pretrained
from workbench.tasks.prompt_sets import prompt_set

ARCHITECTURES = ("gpt2", "gpt_neox", "llama", "gemma3", "falcon", "opt", "gpt_oss", "bloom", "nanochat")


def compared(name: str) -> Comparison:
    model = Pretrained(build(name))
    return Comparison(model.hooked(), prompt_set("repeated-tokens", model, n=8).pairs, rows=5)


def in_whole_passes(comparison: Comparison, site: str, layer: int, mask: torch.Tensor) -> np.ndarray:
    pairs, name = comparison.pairs, SITES[site].hook.format(layer)
    base, source = comparison.sides(pairs)
    taken = activations(comparison, source, [name])[name]

    def put(activation: torch.Tensor, hook: Any) -> torch.Tensor:
        return torch.where(mask, taken, activation)

    with torch.no_grad():
        scores = comparison.score(comparison.run(base, [(name, put)]), pairs, torch.empty(0))
    return scores.double().numpy() - comparison.unedited(slice(None))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_patch_has_the_effect_of_a_whole_pass(name: str) -> None:
    comparison = compared(name)
    places = [("resid_pre", 0), ("resid_pre", 1), ("attn_out", 1), ("mlp_out", 0), ("head", 1)]
    patches, asked = Patches(comparison, places), comparison.pairs.asked[..., None]
    changed = 0.0
    for site, layer in places:
        mask = asked[..., None].expand(-1, -1, 4, 1) if site == "head" else asked
        expected = in_whole_passes(comparison, site, layer, mask)
        assert patches.effect((site, layer), mask) == pytest.approx(expected, abs=1e-5)
        changed += float(np.abs(expected).max())
    assert changed > 0.01
    parts = (*comparison.model.blocks, comparison.model.unembed)
    assert not any("forward" in part.__dict__ for part in parts), "the model is as it was"


def test_blocks_before_the_patched_one_are_not_run_again() -> None:
    comparison, runs = compared("llama"), [0, 0]
    patches, mask = Patches(comparison, [("mlp_out", 1), ("mlp_out", 0)]), comparison.pairs.asked[..., None]
    patches.effect(("mlp_out", 1), mask)

    def counted(block: Any, given: Any, output: Any, number: int) -> None:
        runs[number] += 1

    for number in range(2):
        block: Any = comparison.model.blocks[number].mlp
        block.register_forward_hook(partial(counted, number=number))
    patches.effect(("mlp_out", 1), mask)
    assert runs == [0, 2], "two parts of the pairs, and no pass of the other run"
    patches.effect(("mlp_out", 0), mask)
    assert runs == [2, 4]


def test_a_pair_of_which_nothing_is_patched_has_no_effect_to_tell() -> None:
    comparison = compared("gpt2")
    mask = comparison.pairs.asked[..., None].clone()
    mask[3] = False
    effect = Patches(comparison, [("resid_pre", 1)]).effect(("resid_pre", 1), mask)
    assert np.isnan(effect).tolist() == [number == 3 for number in range(8)]
