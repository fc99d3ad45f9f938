"""Attribution to nodes has TransformerLens's numbers, and direct attributions sum to what they attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformer_lens import patching
from transformer_lens.tools.analysis.attribution_patching import attribution_patch

from tests.circuits.conftest import compared, random_model
from tests.models.own_modules import CONTEXT, KINDS, VOCABULARY
from workbench.circuits import (
    Comparison,
    activation_patching,
    attribution_patching,
    baselines,
    direct_logit_attribution,
    eap,
    node_scores,
)
from workbench.circuits.metrics import METRICS
from workbench.models import OwnModel
from workbench.models.hooked import hook
from workbench.tasks import make
from workbench.util.seeds import generator

VARIANTS = ("standard", "tempered", "chacal")
each_variant = pytest.mark.parametrize("variant", VARIANTS)


def metric_of(comparison: Comparison) -> Callable[[Tensor], Tensor]:
    pairs = comparison.pairs
    clean = comparison.model(pairs.clean.tokens)
    return lambda logits: METRICS[comparison.metric].of(logits, pairs, clean).mean()


@each_variant
@pytest.mark.parametrize(
    ("site", "by", "theirs"),
    [
        ("resid_pre", ("position",), "get_act_patch_resid_pre"),
        ("resid_mid", ("position",), "get_act_patch_resid_mid"),
        ("mlp_out", ("position",), "get_act_patch_mlp_out"),
        ("attn_out", ("position",), "get_act_patch_attn_out"),
        ("head", ("head",), "get_act_patch_attn_head_out_all_pos"),
        ("head", ("position", "head"), "get_act_patch_attn_head_out_by_pos"),
        ("q", ("head",), "get_act_patch_attn_head_q_all_pos"),
        ("k", ("position", "head"), "get_act_patch_attn_head_k_by_pos"),
        ("v", ("head",), "get_act_patch_attn_head_v_all_pos"),
        ("pattern", ("head",), "get_act_patch_attn_head_pattern_all_pos"),
        ("pattern", ("head", "query", "key"), "get_act_patch_attn_head_pattern_dest_src_pos"),
    ],
)
@torch.no_grad()
def test_activation_patching_has_transformerlenss_numbers(
    variant: str, site: str, by: tuple[str, ...], theirs: str
) -> None:
    comparison = compared(variant, rows=23)
    pairs, model = comparison.pairs, comparison.model
    own = activation_patching(comparison, site, by)
    assert own.dims == ("layer", *by, "example")
    _, cache = model.run_with_cache(pairs.clean.tokens)
    function: Any = getattr(patching, theirs)
    expected = function(model, pairs.corrupted.tokens, cache, metric_of(comparison)).double()
    mean = torch.from_numpy(own.mean().values + comparison.baselines[1].mean())
    scale = float(expected.abs().max())
    assert torch.allclose(mean, expected, atol=1e-6 * max(1.0, scale), rtol=0)  # theirs are kept in float32
    assert own.values.std() > 1e-3


@each_variant
def test_attribution_patching_has_transformerlenss_numbers(variant: str) -> None:
    comparison = compared(variant, n=4)
    pairs = comparison.pairs
    own = {
        site: attribution_patching(comparison, site, by).values
        for site, by in (("head", ("position", "head")), ("mlp_out", None))
    }
    for pair in range(len(pairs)):
        one = pairs[pair : pair + 1]
        clean = comparison.model(one.clean.tokens).detach()
        result = attribution_patch(
            comparison.model, one.clean.tokens, one.corrupted.tokens,
            lambda logits, one=one, clean=clean: METRICS["logit_difference"].of(logits, one, clean).sum(),
        )  # fmt: skip
        for node, score in result.node_scores.items():
            if node.kind == "attn_head_out":
                assert own["head"][node.layer, node.position, node.head, pair] == pytest.approx(score, abs=1e-6)
            elif node.kind == "mlp_out":
                assert own["mlp_out"][node.layer, node.position, pair] == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("direction", ["denoise", "noise"])
@pytest.mark.parametrize("reading", ["root", "chain"])
def test_all_of_the_residual_moves_the_whole_metric(metric: str, direction: str, reading: str) -> None:
    """Patched at every position before the first layer, one run is the other."""
    comparison = compared("chacal", reading=reading, metric=metric, direction=direction)
    whole = activation_patching(comparison, "resid_pre", by=())
    clean, corrupted = comparison.baselines
    assert whole.values[0] == pytest.approx(clean - corrupted, abs=1e-12)
    assert baselines(comparison).mean().low is not None


@pytest.mark.parametrize("variant", [*VARIANTS, "tempered_chacal"])
@pytest.mark.parametrize(("n_heads", "d_head", "norm"), [(2, 8, "layernorm"), (3, 5, "layernorm"), (3, 5, "none")])
def test_direct_attributions_sum_to_the_logit_difference(variant: str, n_heads: int, d_head: int, norm: str) -> None:
    comparison = compared(variant, n=7, n_heads=n_heads, d_head=d_head, norm=norm, rows=3)
    parts = direct_logit_attribution(comparison)
    assert parts.coords["part"][:3] == ["embedding", "positions", "a0.h0"] and parts.coords["part"][-1] == "constants"
    assert parts.values.sum(0) == pytest.approx(comparison.baselines[0], abs=1e-9)
    shapes: tuple[dict[str, Any], ...] = ({"reading": "chain"}, {"d_mlp": 0}, {"n_heads": 4, "n_kv_heads": 2})
    for shape in shapes:
        one = compared(variant, **shape)
        assert direct_logit_attribution(one).values.sum(0) == pytest.approx(one.baselines[0], abs=1e-9)


@pytest.mark.parametrize("shape", [{}, {"d_mlp": 0}, {"n_heads": 4, "n_kv_heads": 2}])
def test_node_scores_are_those_of_heads_and_mlps_by_position(shape: dict[str, Any]) -> None:
    comparison = compared("chacal", n=3, **shape)
    for exact, measure in ((True, activation_patching), (False, attribution_patching)):
        nodes = node_scores(comparison, exact=exact)
        assert nodes.dims == ("node", "position", "example")
        heads = measure(comparison, "head", ("position", "head"))
        last = len(heads.coords["head"]) - 1
        assert np.array_equal(nodes.select(node=f"a1.h{last}").values, heads.select(layer=1, head=last).values)
        mlps = [node for node in nodes.coords["node"] if str(node).startswith("m")]
        assert mlps == ([] if "d_mlp" in shape else ["m0", "m1"])
        for layer, node in enumerate(mlps):
            expected = measure(comparison, "mlp_out").select(layer=layer).values
            assert np.array_equal(nodes.select(node=node).values, expected)


def test_batches_do_not_change_the_numbers_and_the_last_may_be_smaller() -> None:
    for measure in (
        lambda comparison: activation_patching(comparison, "head", ("position", "head")),
        lambda comparison: attribution_patching(comparison, "pattern", ("head", "query", "key")),
        direct_logit_attribution,
    ):
        whole, parts = measure(compared(n=7)), measure(compared(n=7, rows=3))
        assert whole.values == pytest.approx(parts.values, abs=1e-12)
        assert (whole.mean().low <= whole.mean().values)[(whole.values != 0).any(-1)].all()


def test_attribution_to_an_entry_of_a_pattern_is_its_derivative() -> None:
    """Of a layer that solves, against a difference quotient: the entry moves a little towards the other run's."""
    comparison = compared("chacal", n=1)
    estimates = attribution_patching(comparison, "pattern", ("head", "query", "key")).values[..., 0]
    name, small = "blocks.0.attn.hook_pattern", 1e-5
    head, query, key = np.unravel_index(abs(estimates[0]).argmax(), estimates[0].shape)
    estimate = estimates[0, head, query, key]
    pairs, model = comparison.pairs, comparison.model
    _, clean = model.run_with_cache(pairs.clean.tokens, names_filter=[name])

    def move(pattern: Tensor, hook: Any) -> Tensor:
        moved = pattern.clone()
        moved[:, head, query, key] += small * (clean[name] - pattern)[:, head, query, key]
        return moved

    with torch.no_grad():
        moved = model.run_with_hooks(pairs.corrupted.tokens, fwd_hooks=[(name, move)])
    change = float(metric_of(comparison)(moved)) - comparison.baselines[1, 0]
    assert change / small == pytest.approx(estimate, rel=1e-4) and abs(estimate) > 1e-4


def test_modules_of_ones_own_have_nodes_and_say_so_where_they_have_no_edges() -> None:
    task = make("sorting", q=VOCABULARY - 2, max_length=5)
    pairs = task.minimal_pairs(5, generator(0, "pairs"))

    def own(kind: str) -> Comparison:
        module = KINDS[kind].fresh({}, generator(1, kind))
        return Comparison(OwnModel(module, KINDS[kind].parts, CONTEXT, name=kind).hooked(), pairs)

    library = own("library")
    assert activation_patching(library, "head").values.any() and attribution_patching(library, "mlp_out").values.any()
    with pytest.raises(ValueError, match="does not show what its heads write"):
        direct_logit_attribution(library)
    with pytest.raises(ValueError, match="cannot read inputs of their own, so it has no edges"):
        eap(library)
    with pytest.raises(ValueError, match=r"the model has no hook point 'blocks\.0\.attn\.hook_z'"):
        activation_patching(own("softmax"), "head")


def test_what_there_is_not_is_refused_in_words() -> None:
    comparison = compared()
    with pytest.raises(ValueError, match=r"unknown site 'heads' \(did you mean 'head'"):
        activation_patching(comparison, "heads")
    with pytest.raises(ValueError, match="mlp_out has no axis 'head'; there is: position"):
        activation_patching(comparison, "mlp_out", ("head",))
    with pytest.raises(ValueError, match="unknown metric 'logits'"):
        compared(metric="logits")
    with pytest.raises(ValueError, match="unknown direction 'both'; there is: denoise, noise"):
        compared(direction="both")
    with pytest.raises(ValueError, match="direct attribution is of the logit_difference, not of kl"):
        direct_logit_attribution(compared(metric="kl"))
    with pytest.raises(ValueError, match="rows must be at least 1"):
        compared(rows=0)
    comparison.model.train()
    with pytest.raises(ValueError, match=r"call model.eval\(\)"):
        comparison.of(comparison.pairs)


def test_means_by_position_are_of_the_pairs_that_have_a_token_there() -> None:
    task = make("sorting", q=6, max_length=6)
    pairs = task.minimal_pairs(12, generator(0, "pairs"))
    comparison = Comparison(hook(random_model(task)), pairs)
    longer = torch.maximum(task.lengths(pairs.clean.tokens), task.lengths(pairs.corrupted.tokens))
    for exact in (False, True):
        nodes = node_scores(comparison, exact=exact)
        there = ~np.isnan(nodes.values)
        assert (there == (np.arange(there.shape[1])[:, None] < longer.numpy())).all()
        assert (nodes.mean().n[0] == there[0].sum(-1)).all() and there[:, -1].sum() < there[:, 0].sum()
