"""Edge scores: exact ones by hand, gradients as TransformerLens and the formulas have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformer_lens import patching
from transformer_lens.tools.analysis.attribution_patching import (
    EdgeAttributionConfig,
    FaithfulnessConfig,
    attribution_patch,
    faithfulness,
)

from tests.circuits.conftest import compared
from tests.models.architecture_table import loaded
from workbench.circuits import Comparison, Graph, eap, eap_ig, gim, path_patching, score_edges
from workbench.circuits.gim import interaction_hooks
from workbench.circuits.metrics import METRICS
from workbench.circuits.rewired import rewired_logits, writes

each_variant = pytest.mark.parametrize("variant", ["standard", "tempered", "chacal"])


def table(graph: Graph, values: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(graph.names, values, strict=True))


def test_the_graph_of_two_layers_of_two_heads() -> None:
    graph = Graph(2, 2)
    assert graph.writers == ("input", "a0.h0", "a0.h1", "m0", "a1.h0", "a1.h1", "m1")
    assert graph.n_edges == len(graph.names) == 6 + 3 + 6 * 4 + 6 + 7
    assert graph.names[0] == "input->a0.h0<q>" and graph.names[-1] == "m1->logits"
    assert "a0.h1->m0" in graph.names and "m0->m0" not in graph.names and "a1.h0->a1.h1<v>" not in graph.names
    for layer, part, reader in ((0, "k", "a0.h1<k>"), (1, "m", "m1"), (1, "logits", "logits")):
        assert graph.readers[graph.columns(layer, part)][-1] == reader
    with pytest.raises(ValueError, match=r"no edge 'a1\.h0->m0'; edges are such as input->a0.h0<q>"):
        graph.mask(["a1.h0->m0"])


@each_variant
@pytest.mark.parametrize("norm", ["layernorm", "none"])
@torch.no_grad()
def test_a_run_whose_every_edge_is_kept_is_itself_and_without_any_it_is_the_other(variant: str, norm: str) -> None:
    comparison = compared(variant, n_heads=3, d_head=5, norm=norm)
    model, pairs, graph = comparison.model, comparison.pairs, Graph.of(comparison.model)
    other = writes(comparison, pairs.corrupted.tokens)
    kept = rewired_logits(comparison, pairs.clean.tokens, graph.edges, other)
    none = rewired_logits(comparison, pairs.clean.tokens, torch.zeros_like(graph.edges), other)
    assert torch.allclose(kept, model(pairs.clean.tokens), atol=1e-12)
    assert torch.allclose(none, model(pairs.corrupted.tokens), atol=1e-10)
    assert not model.cfg.use_split_qkv_input and not model.cfg.use_hook_mlp_in


@each_variant
@pytest.mark.parametrize("component", ["q", "k", "v"])
@torch.no_grad()
def test_path_patching_has_transformerlenss_numbers(variant: str, component: Any) -> None:
    comparison = compared(variant, n=4, rows=13)
    pairs, model = comparison.pairs, comparison.model
    clean, corrupted = (model.run_with_cache(side.tokens)[1] for side in (pairs.clean, pairs.corrupted))
    measured = lambda logits: METRICS["logit_difference"].of(logits, pairs, logits).mean()  # noqa: E731
    for head in range(2):
        names = [f"a0.h{head}->a1.h{to}<{component}>" for to in range(2)]
        theirs = patching.get_act_patch_direct_path(
            model, pairs.corrupted.tokens, clean, corrupted, measured, 0, head, component, verbose=False
        )
        own = path_patching(comparison, names).values.mean(-1) + comparison.baselines[1].mean()
        assert own == pytest.approx(theirs[1].double().numpy(), abs=1e-6)


@each_variant
def test_eap_has_transformerlenss_numbers(variant: str) -> None:
    comparison = compared(variant, n=3, rows=2)
    by_name = table(Graph.of(comparison.model), eap(comparison).values)
    for pair in range(3):
        one = comparison.pairs[pair : pair + 1]
        result = attribution_patch(
            comparison.model, one.clean.tokens, one.corrupted.tokens,
            lambda logits, one=one: METRICS["logit_difference"].of(logits, one, logits).sum(),
            EdgeAttributionConfig("edge"),
        )  # fmt: skip
        assert len(result.edge_scores) == len(by_name) * 12
        theirs = dict.fromkeys(by_name, 0.0)  # theirs are of each position
        for (writer, reader), score in result.edge_scores.items():
            theirs[f"{writer_name(writer)}->{reader_name(reader)}"] += score
        assert {name: values[pair] for name, values in by_name.items()} == pytest.approx(theirs, abs=1e-6)


def writer_name(node: Any) -> str:
    return {"embed": "input", "attn_head_out": f"a{node.layer}.h{node.head}", "mlp_out": f"m{node.layer}"}[node.kind]


def reader_name(node: Any) -> str:
    if node.kind == "logits":
        return "logits"
    return f"m{node.layer}" if node.kind == "mlp_in" else f"a{node.layer}.h{node.head}<{node.kind[0]}>"


@pytest.mark.parametrize("steps", [1, 4])
def test_eap_ig_is_its_formula_computed_a_second_time(steps: int) -> None:
    """With autograd through a forward pass written out here, one pair and one point at a time, of one layer."""
    comparison = compared("standard", n=3, n_layers=1)
    own = table(Graph(1, 2), eap_ig(comparison, steps=steps).values)
    for pair in range(3):
        expected = by_hand(comparison, pair, steps)
        for name, value in expected.items():
            assert own[name][pair] == pytest.approx(value, abs=1e-10)
    if steps == 1:
        same = eap(compared("standard", n=3, n_layers=1, direction="noise"))
        assert np.allclose(same.values, np.stack(list(own.values())), atol=1e-12)


def test_gim_is_its_formula_computed_a_second_time_and_leaves_the_forward_pass_as_it_is() -> None:
    comparison = compared("standard", n=3, n_layers=1, direction="noise")
    own, plain = table(Graph(1, 2), gim(comparison).values), table(Graph(1, 2), eap(comparison).values)
    for pair in range(3):
        expected = by_hand(comparison, pair, 1, Gim)
        assert {name: values[pair] for name, values in own.items()} == pytest.approx(expected, abs=1e-10)
    assert not np.allclose(own["input->a0.h0<q>"], plain["input->a0.h0<q>"], rtol=0.1)
    model, tokens = comparison.model, comparison.pairs.clean.tokens
    with interaction_hooks(model) as hooks:
        assert torch.allclose(model.run_with_hooks(tokens, fwd_hooks=list(hooks)), model(tokens), atol=1e-12)


def test_gim_refuses_a_pattern_that_is_not_the_softmax_of_its_scores() -> None:
    comparison = compared("standard", n=2)
    model, tokens = comparison.model, comparison.pairs.clean.tokens
    uniform = ("blocks.0.attn.hook_attn_scores", lambda scores, hook: scores * 0)
    with interaction_hooks(model) as hooks, pytest.raises(ValueError, match=r"scores; that of blocks\.0 is not"):
        model.run_with_hooks(tokens, fwd_hooks=[*hooks, uniform])


def test_gim_shares_out_gated_mlps_and_refuses_experts_whose_products_it_does_not_know() -> None:
    model, tokens, _ = loaded("llama")
    hooked: Any = model.hooked()
    with interaction_hooks(hooked) as hooks:
        assert {"blocks.0.mlp.gate.hook_out", "blocks.0.mlp.in.hook_out"} <= {name for name, _ in hooks}
        assert torch.allclose(hooked.run_with_hooks(tokens, fwd_hooks=list(hooks)), hooked(tokens), atol=1e-5)
    with (
        pytest.raises(ValueError, match="does not know what is multiplied at"),
        interaction_hooks(loaded("mixtral")[0].hooked()),
    ):
        pass


class Plain:
    """What a backward pass does on its way."""

    softmax = staticmethod(lambda scores: scores.softmax(-1))
    share = staticmethod(lambda x, part: x)
    norm = staticmethod(lambda module, x: module(x))


class Gim:
    """The three modifications of Edin et al. (2025), §4, by values whose gradient is another's."""

    @staticmethod
    def softmax(scores: Tensor) -> Tensor:
        soft = 2 * (scores / 2).softmax(-1)
        return soft - soft.detach() + scores.softmax(-1).detach()

    @staticmethod
    def share(x: Tensor, part: str) -> Tensor:
        scaled = x * (0.5 if part == "v" else 0.25)
        return scaled - scaled.detach() + x.detach()

    @staticmethod
    def norm(module: Any, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.var(-1, keepdim=True, correction=0) + module.eps).sqrt().detach()
        return centred / scale * module.weight + module.bias


def by_hand(comparison: Comparison, pair: int, steps: int, back: Any = Plain) -> dict[str, float]:
    """(z_u − z'_u) · 1/m Σ_k ∂L(z' + k/m (z − z')) / ∂(input of v), Hanna et al. (2024), equation 3."""
    model: Any = comparison.model
    one, block = comparison.pairs[pair : pair + 1], model.blocks[0]
    part = {name: getattr(block.attn, name).original_component for name in "qkvo"}
    ln1, ln2, final = (norm.original_component for norm in (block.ln1, block.ln2, model.ln_final))
    heads = 2

    def forward(x: Tensor) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        readers = {f"a0.h{h}<{p}>": x.clone() for p in "qkv" for h in range(heads)}
        written = {"input": x}
        middle = x + part["o"].bias
        for h in range(heads):
            rows = slice(8 * h, 8 * h + 8)
            q, k, v = (
                back.share(back.norm(ln1, readers[f"a0.h{h}<{p}>"]) @ part[p].weight[rows].T + part[p].bias[rows], p)
                for p in "qkv"
            )
            scores = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(torch.ones(12, 12).triu(1).bool(), -torch.inf)
            written[f"a0.h{h}"] = back.softmax(scores) @ v @ part["o"].weight[:, rows].T
            middle = middle + written[f"a0.h{h}"]
        readers["m0"] = middle.clone()
        mlp = block.mlp
        inner = torch.nn.functional.gelu(getattr(mlp, "in").original_component(back.norm(ln2, readers["m0"])))
        written["m0"] = mlp.out.original_component(inner)
        readers["logits"] = middle + written["m0"]
        logits = model.unembed.original_component(back.norm(final, readers["logits"]))
        return logits, readers, written

    embedded = []
    for side in (one.clean, one.corrupted):
        _, cache = model.run_with_cache(side.tokens)
        embedded.append(cache["blocks.0.hook_resid_pre"].detach().clone())
    (_, _, clean), (_, _, corrupted) = (forward(x) for x in embedded)
    slopes: dict[str, Tensor] = {}
    for k in range(1, steps + 1):
        x = (embedded[1] + k / steps * (embedded[0] - embedded[1])).requires_grad_(True)
        logits, readers, _ = forward(x)
        at = one.asked[0].nonzero()[:, 0]
        loss = torch.stack(
            [logits[0, t, one.clean.targets[0, t]] - logits[0, t, one.corrupted.targets[0, t]] for t in at]
        )
        found = torch.autograd.grad(loss.mean(), list(readers.values()))
        slopes = {name: slopes.get(name, 0) + slope / steps for name, slope in zip(readers, found, strict=True)}
    order = ["input", *(f"a0.h{h}" for h in range(heads)), "m0"]
    reads = {"m0": order[:3], "logits": order}
    return {
        f"{u}->{v}": float(((clean[u] - corrupted[u]) * slope).sum().detach())
        for v, slope in slopes.items()
        for u in reads.get(v, ["input"])
    }


@pytest.mark.parametrize("variant", ["standard", "chacal"])
def test_integrated_gradients_of_all_edges_to_the_logits_and_of_one_small_step(variant: str) -> None:
    """The edges into the logits of a model without a final norm sum to the whole difference: there it is linear."""
    comparison = compared(variant, norm="none", n=3)
    own = table(Graph.of(comparison.model), eap_ig(comparison, steps=3).values)
    clean, corrupted = comparison.baselines
    assert sum(value for name, value in own.items() if name.endswith("->logits")) == pytest.approx(clean - corrupted)


@torch.no_grad()
def test_a_rewired_run_has_transformerlenss_faithfulness() -> None:
    comparison = compared("chacal", n=1)
    pairs, graph = comparison.pairs, Graph.of(comparison.model)
    kept = [name for number, name in enumerate(graph.names) if number % 3]
    clean = comparison.model(pairs.clean.tokens)
    logits = rewired_logits(
        comparison, pairs.clean.tokens, graph.mask(kept), writes(comparison, pairs.corrupted.tokens)
    )
    low, high = comparison.baselines[1, 0], comparison.baselines[0, 0]
    own = (float(comparison.score(logits, pairs, clean)) - low) / (high - low)
    with torch.enable_grad():
        found = attribution_patch(
            comparison.model, pairs.clean.tokens, pairs.corrupted.tokens,
            lambda logits: METRICS["logit_difference"].of(logits, pairs, logits).sum(), EdgeAttributionConfig("edge"),
        )  # fmt: skip
    edges = [edge for edge in found.edge_scores if f"{writer_name(edge[0])}->{reader_name(edge[1])}" in set(kept)]
    theirs = faithfulness(
        comparison.model, pairs.clean.tokens, pairs.corrupted.tokens,
        lambda logits: METRICS["logit_difference"].of(logits, pairs, logits).sum(), edges, FaithfulnessConfig(),
    )  # fmt: skip
    assert own == pytest.approx(theirs.recovered, abs=1e-6)


def test_progress_is_told_after_each_part_of_the_pairs() -> None:
    told: list[tuple[int, int]] = []
    eap(compared(n=5, rows=2, progress=lambda done, of: told.append((done, of))))
    assert told == [(2, 5), (4, 5), (5, 5)]


@each_variant
def test_single_precision_gives_the_same_numbers(variant: str) -> None:
    double = compared(variant)
    single = double.of(double.pairs)
    values = eap_ig(double).values
    single.model.float()
    assert np.allclose(eap_ig(single).values, values, atol=1e-4 * abs(values).max())
    assert np.allclose(path_patching(single).values.shape, values.shape)


def test_a_model_with_another_graph_is_refused() -> None:
    """Attention that is written twice as strong as its heads say, as a norm or a scale behind it would."""
    comparison = compared()
    comparison.model.add_hook("blocks.0.hook_attn_out", lambda write, hook: 2 * write, is_permanent=True)
    for measure in (eap, eap_ig, path_patching):
        with pytest.raises(
            ValueError, match=r"at blocks\.0\.hook_mlp_in the residual is not the sum of what heads and MLPs wrote"
        ):
            measure(comparison)
    comparison.model.reset_hooks(including_permanent=True)
    assert eap(comparison).values.any()


def test_what_there_is_not_is_refused_in_words() -> None:
    comparison = compared()
    with pytest.raises(ValueError, match="steps must be at least 1, not 0"):
        eap_ig(comparison, steps=0)
    with pytest.raises(ValueError, match="unknown method 'acdc'; there is: eap, eap_ig, gim, path_patching"):
        score_edges(comparison, "acdc")
    with pytest.raises(ValueError, match="no edge 'm5->logits'"):
        path_patching(comparison, ["m5->logits"])


GROUPED: dict[str, Any] = {"n_heads": 4, "n_kv_heads": 2, "d_head": 5}
ATTENTION_ONLY: dict[str, Any] = {"n_heads": 2, "d_mlp": 0}
each_shape = pytest.mark.parametrize("shape", [GROUPED, ATTENTION_ONLY, {**GROUPED, "d_mlp": 0, "norm": "none"}])


def test_the_graph_of_grouped_queries_and_of_attention_alone() -> None:
    graph = Graph.of(compared(**GROUPED).model)
    assert graph == Graph(2, 4, 2) and graph.readers[:9] == (
        *(f"a0.h{head}<q>" for head in range(4)), "a0.g0<k>", "a0.g1<k>", "a0.g0<v>", "a0.g1<v>", "m0",
    )  # fmt: skip
    assert graph.n_edges == 8 + 5 + 8 * 6 + 10 + 11 and graph.columns(1, "v") == slice(15, 17)
    assert graph.nodes_of("a1.g1<k>") == ("a1.h2", "a1.h3") and graph.nodes_of("a1.h1<q>") == ("a1.h1",)
    alone = Graph.of(compared(**ATTENTION_ONLY).model)
    assert alone.writers == ("input", "a0.h0", "a0.h1", "a1.h0", "a1.h1") and alone.n_edges == 6 + 6 * 3 + 5


@each_shape
@each_variant
@torch.no_grad()
def test_edges_of_such_models_make_the_whole_model_and_no_edges_the_other_run(
    variant: str, shape: dict[str, Any]
) -> None:
    comparison = compared(variant, **shape)
    graph, other = Graph.of(comparison.model), writes(comparison, comparison.pairs.corrupted.tokens)
    tokens = comparison.pairs.clean.tokens
    kept, none = (rewired_logits(comparison, tokens, mask, other) for mask in (graph.edges, graph.edges & False))
    assert torch.allclose(kept, comparison.model(tokens), atol=1e-12)
    assert torch.allclose(none, comparison.model(comparison.pairs.corrupted.tokens), atol=1e-10)


@each_shape
@torch.no_grad()
def test_path_patching_of_such_models_is_a_forward_pass_written_out_with_one_edge_changed(
    shape: dict[str, Any],
) -> None:
    comparison = compared(n=3, **shape)
    graph, pairs = Graph.of(comparison.model), comparison.pairs
    scores = table(graph, path_patching(comparison).values)
    _, clean = written_out(comparison, pairs.clean.tokens)
    plain, own = written_out(comparison, pairs.corrupted.tokens)
    assert torch.allclose(plain, comparison.model(pairs.corrupted.tokens), atol=1e-12)
    for name in graph.names:
        writer, reader = name.split("->")
        logits, _ = written_out(comparison, pairs.corrupted.tokens, reader, clean[writer] - own[writer])
        expected = comparison.score(logits, pairs, logits) - comparison.score(plain, pairs, plain)
        assert scores[name] == pytest.approx(expected.numpy(), abs=1e-10), name


def written_out(
    comparison: Comparison, tokens: Tensor, reader: str = "", change: Tensor | float = 0.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and what is written, of standard attention, when one reader alone reads a changed residual."""
    model: Any = comparison.model
    cfg, plain = model.cfg, lambda module: module.original_component
    residual = plain(model.embed)(tokens) + plain(model.pos_embed).weight[: tokens.shape[1]]
    written = {"input": residual}
    groups = cfg.n_key_value_heads or cfg.n_heads
    kind = "h" if groups == cfg.n_heads else "g"

    def read(name: str) -> Tensor:
        return residual + (change if name == reader else 0.0)

    def of_head(layer: int, part: str, number: int) -> Tensor:
        linear = plain(getattr(model.blocks[layer].attn, part))
        rows = slice(number * cfg.d_head, (number + 1) * cfg.d_head)
        name = f"a{layer}.{'h' if part == 'q' else kind}{number}<{part}>"
        return plain(model.blocks[layer].ln1)(read(name)) @ linear.weight[rows].T + linear.bias[rows]

    for layer, block in enumerate(model.blocks):
        heads, out = [], plain(block.attn.o)
        for head in range(cfg.n_heads):
            group = head * groups // cfg.n_heads
            q, k, v = of_head(layer, "q", head), of_head(layer, "k", group), of_head(layer, "v", group)
            future = torch.ones(tokens.shape[1], tokens.shape[1]).triu(1).bool()
            pattern = (q @ k.mT / cfg.d_head**0.5).masked_fill(future, -torch.inf).softmax(-1)
            heads.append(pattern @ v @ out.weight[:, head * cfg.d_head : (head + 1) * cfg.d_head].T)
            written[f"a{layer}.h{head}"] = heads[-1]
        residual = residual + sum(heads) + out.bias
        if not cfg.attn_only:
            inner = plain(getattr(block.mlp, "in"))(plain(block.ln2)(read(f"m{layer}")))
            written[f"m{layer}"] = plain(block.mlp.out)(torch.nn.functional.gelu(inner))
            residual = residual + written[f"m{layer}"]
    return plain(model.unembed)(plain(model.ln_final)(read("logits"))), written


@each_shape
def test_eap_of_such_models_is_what_a_small_change_of_an_edge_does(shape: dict[str, Any]) -> None:
    comparison = compared(n=2, **shape)
    graph, pairs = Graph.of(comparison.model), comparison.pairs
    scores, step = table(graph, eap(comparison).values), 1e-6
    with torch.no_grad():
        _, clean = written_out(comparison, pairs.clean.tokens)
        plain, own = written_out(comparison, pairs.corrupted.tokens)
        for name in graph.names:
            writer, reader = name.split("->")
            change = step * (clean[writer] - own[writer])
            logits, _ = written_out(comparison, pairs.corrupted.tokens, reader, change)
            slope = (comparison.score(logits, pairs, logits) - comparison.score(plain, pairs, plain)) / step
            assert scores[name] == pytest.approx(slope.numpy(), rel=1e-3, abs=1e-4 * abs(scores[name]).max() + 1e-5)
