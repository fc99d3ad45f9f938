"""Attention against the gold graph: planted patterns have known shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import DECODED, LOGITS, Capture
from workbench.instruments import INSTRUMENTS
from workbench.instruments.attention import attention_graph, attention_hops
from workbench.measurement.controls.mismatched import mismatched
from workbench.tasks import Truth
from workbench.tasks.pointer_chain import PointerChain
from workbench.util.seeds import generator

TASK = PointerChain(n=16, k=4)
Stage = Callable[..., Capture]


def chains(n: int = 6) -> Tensor:
    return TASK.sample(n, generator(0, "chains")).tokens


def parent_pattern(tokens: Tensor, share: float = 1.0) -> Tensor:
    """One head: `share` of each row on the position's parent, the rest on itself; roots attend to themselves."""
    n_pos = tokens.shape[1]
    parent = TASK.truth(tokens).labels["parent"]
    target = torch.where(parent < 0, torch.arange(n_pos), parent)
    one_hot = torch.nn.functional.one_hot(target, n_pos).double()
    return (share * one_hot + (1 - share) * torch.eye(n_pos, dtype=torch.float64))[:, None]


def chain_stage(stage: Stage, pattern: Callable[[Tensor], Tensor], variant: str = "standard", n: int = 6) -> Capture:
    tokens = chains(n)
    capture = stage(tokens, n_layers=1, variant=variant, patterns=[pattern(tokens)], truth=TASK.truth(tokens))
    return replace(capture, subject=replace(capture.subject, task=TASK))


def uniform(tokens: Tensor) -> Tensor:
    n, n_pos = tokens.shape
    rows = torch.ones(n_pos, n_pos, dtype=torch.float64).tril()
    return (rows / rows.sum(-1, keepdim=True)).expand(n, 2, n_pos, n_pos)


@pytest.mark.parametrize("variant", ["standard", "chacal"])
def test_perfect_parent_attention_puts_all_mass_on_gold_paths(stage: Stage, variant: str) -> None:
    found = attention_graph.measure(chain_stage(stage, parent_pattern, variant))
    assert found.dims == ("matrix", "layer", "head", "example") and found.values.shape == (2, 1, 1, 6)
    assert found.values == pytest.approx(1.0)


def test_mass_of_uniform_attention_is_depth_over_position(stage: Stage) -> None:
    capture = chain_stage(stage, uniform)
    depth = np.arange(16) // 4
    expected = (depth / np.arange(1, 17))[4:].mean()
    assert attention_graph.measure(capture).values == pytest.approx(expected)


def test_half_of_the_attention_on_itself_halves_the_mass(stage: Stage) -> None:
    found = attention_graph.measure(chain_stage(stage, lambda tokens: parent_pattern(tokens, 0.5)))
    assert found.values == pytest.approx(0.5)


def test_resolvent_reaches_every_hop_and_the_pattern_one(stage: Stage) -> None:
    capture = chain_stage(stage, parent_pattern, "chacal")
    mixing = attention_graph.resolvent(capture, 0)[:, 0]
    for hop in (1, 2, 3):
        on_hop = mixing[capture.truth.adjacency(6, 16, hop)]
        assert (on_hop > 0.1).all()
    assert mixing.sum(-1) == pytest.approx(1)


def test_powers_of_perfect_attention_lie_on_their_hop(stage: Stage) -> None:
    found = attention_hops.measure(chain_stage(stage, parent_pattern))
    assert found.dims == ("layer", "head", "hop", "example") and list(found.coords["hop"]) == [1, 2, 3]
    assert found.values == pytest.approx(1.0)


def test_hops_beyond_the_truth_are_not_a_number(stage: Stage) -> None:
    found = attention_hops.measure(chain_stage(stage, parent_pattern), n_hops=5)
    assert np.isnan(found.values[:, :, 3:]).all() and not np.isnan(found.values[:, :, :3]).any()
    with pytest.raises(ValueError, match="at least 1"):
        attention_hops.measure(chain_stage(stage, parent_pattern), n_hops=0)


def test_power_two_of_half_attention_holds_a_quarter_on_the_second_hop(stage: Stage) -> None:
    found = attention_hops.measure(chain_stage(stage, lambda tokens: parent_pattern(tokens, 0.5)))
    assert found.values[0, 0].mean(-1) == pytest.approx([0.5, 0.25, 0.125])


def test_the_truth_of_other_examples_is_worth_chance(stage: Stage) -> None:
    capture = chain_stage(stage, parent_pattern, n=400)
    found = attention_graph.measure(mismatched(capture, generator(0, "control")))
    assert found.values.mean() == pytest.approx(1 / TASK.k, abs=0.02)


def test_best_head_is_chosen_on_one_set_and_measured_on_another(stage: Stage) -> None:
    def heads(*shares: float) -> Any:
        pattern = lambda tokens: torch.cat([parent_pattern(tokens, share) for share in shares], dim=1)  # noqa: E731
        return attention_graph.measure(chain_stage(stage, pattern))

    layer, head = attention_graph.best_head(heads(0.25, 0.75))
    found = heads(0.9, 0.5).select(matrix="resolvent", layer=layer, head=head).mean("example")
    assert found.dims == () and found.values == pytest.approx(0.5)
    assert (found.settings["layer"], found.settings["head"], found.n) == (0, 1, 6)


def test_no_head_is_chosen_without_gold_edges(stage: Stage) -> None:
    capture = replace(chain_stage(stage, parent_pattern), given_truth=Truth())
    found = attention_graph.measure(capture)
    assert np.isnan(found.values).all()
    with pytest.raises(ValueError, match="gold edge"):
        attention_graph.best_head(found)


def test_matrices_of_one_head_are_pattern_powers_and_resolvent(stage: Stage) -> None:
    capture = chain_stage(stage, parent_pattern, "chacal")
    found = attention_graph.matrices(capture, example=2, layer=0, head=0, n_hops=3)
    A = capture["blocks.0.attn.hook_pattern"][2, 0].numpy()
    assert list(found.coords["matrix"]) == ["pattern", "A²", "A³", "resolvent"]
    assert found.values[2] == pytest.approx(A @ A @ A)
    assert found.coords["query"][5] == f"5:{int(capture.batch.tokens[2, 5])}"
    for _, query, key in attention_graph.gold_edges(capture, 2):
        assert found.values[3, query, key] > 0


def test_every_instrument_measures_and_names_its_settings(stage: Stage) -> None:
    capture = chain_stage(stage, uniform, "chacal")
    batch = TASK.sample(6, generator(0, "chains"))
    logits = torch.randn(6, 16, 16, generator=generator(0, "logits"))
    bases = torch.randn(2, 16, 8, generator=generator(0, "bases"))
    subject = replace(capture.subject, encoder=bases[0], decoder=bases[1])
    capture = replace(capture, batch=batch, subject=subject, activations={**capture.activations, LOGITS: logits})
    for name, instrument in INSTRUMENTS.items():
        if hasattr(instrument, "fit") or DECODED in instrument.needs(capture.subject):
            continue  # it needs a model, to train its lens on or to decode with, and has tests of its own
        assert set(instrument.needs(capture.subject)) <= set(capture.activations)
        found = instrument.measure(capture)
        assert found.dims[-1] == "example" and found.values.shape[-1] == 6, name
        assert found.settings["model"] == "stage" and found.caption and found.units
        assert instrument.__doc__ is not None and "not show" in instrument.__doc__, name
        found.mean("example").to_dict()


def test_one_matrix_alone_is_that_of_both_and_an_unknown_one_is_refused(stage: Stage) -> None:
    capture = chain_stage(stage, uniform, "chacal")
    both, one = attention_graph.measure(capture), attention_graph.measure(capture, ("resolvent",))
    assert (one.select(matrix="resolvent").values == both.select(matrix="resolvent").values).all()
    with pytest.raises(ValueError, match="matrix"):
        attention_graph.measure(capture, ("resolvant",))
