"""A cut edge is gone from what the layer reads, and nothing else is."""

from __future__ import annotations

import pytest
import torch

from workbench.interventions import cut_edges
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.models.compiled import chaser
from workbench.models.hooked import hook
from workbench.tasks import make
from workbench.util.seeds import generator

BATCH = make("pointer_chain", n=16, k=4).sample(4, generator(0, "cut"))


def small(variant: str = "standard", n_layers: int = 2) -> Decoder:
    config = DecoderConfig(
        n_layers=n_layers, d_model=16, n_heads=2, d_vocab=16, n_ctx=16, attention={"variant": variant}
    )
    return Decoder(config, generator(0, "model")).eval()


@pytest.mark.parametrize("variant", sorted(ATTENTION))
def test_positions_before_a_cut_and_other_examples_stay_as_they_are(variant: str) -> None:
    model = hook(small(variant))
    whole, cut = model(BATCH.tokens), cut_edges(model, BATCH, 0, [(1, 9, 3)])
    assert torch.equal(cut[[0, 2, 3]], whole[[0, 2, 3]]) and torch.equal(cut[1, :9], whole[1, :9])
    assert not torch.allclose(cut[1, 9], whole[1, 9])
    assert torch.equal(cut_edges(model, BATCH, 0, []), whole) and torch.equal(model(BATCH.tokens), whole)


def test_a_cut_edge_is_an_entry_of_the_pattern_set_to_zero() -> None:
    """Recomputed from the pattern and values of a model with one layer and no MLP output."""
    decoder = small(n_layers=1)
    model, edges = hook(decoder), torch.tensor([[0, 5, 2], [0, 5, 4], [3, 15, 0]])
    _, cache = model.run_with_cache(BATCH.tokens)
    A = cache["blocks.0.attn.hook_pattern"].clone()
    A[edges[:, 0], 1, edges[:, 1], edges[:, 2]] = 0
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", lambda pattern, hook: A)]):
        expected = model(BATCH.tokens)
    assert torch.allclose(cut_edges(model, BATCH, None, edges, heads=[(0, 1)]), expected, atol=1e-5)


def test_a_row_that_loses_everything_reads_nothing() -> None:
    assert cut_edges(hook(small(n_layers=1)), BATCH, None, [(0, 0, 0)]).isfinite().all()


def test_without_its_edge_the_chaser_stops_at_the_position_before() -> None:
    """In reading `root` what is left of the sum telescopes to the token of the last position reached."""
    task = make("pointer_chain", n=16, k=4, reading="root")
    batch = task.sample(32, generator(1, "cut"))
    model, ancestors = hook(chaser(16, 4, reading="root")), task.truth(batch.tokens).arrays["ancestors"]
    first = ancestors[:, 15, 0]
    edges = [(example, int(here), int(ancestors[example, here, 0])) for example, here in enumerate(first)]
    assert torch.equal(cut_edges(model, batch, 0, edges)[:, 15].argmax(-1), batch.tokens[torch.arange(32), first])


def test_edges_that_are_not_there_are_refused() -> None:
    model = hook(small())
    with pytest.raises(ValueError, match="no layer 2; the model has 2, from 0"):
        cut_edges(model, BATCH, 2, [])
    with pytest.raises(ValueError, match="no head -1; the model has 2, from 0"):
        cut_edges(model, BATCH, None, [], heads=[(0, -1)])
    for edge in ((4, 3, 2), (0, 16, 2), (0, 3, 4), (0, 3, -1)):
        with pytest.raises(ValueError, match="in 4 examples of 16 positions"):
            cut_edges(model, BATCH, 0, [edge])
