"""Circuits of models whose circuit is known: the written edges keep everything, the others nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.circuits.conftest import doubled_chaser, random_model
from workbench.circuits import (
    METHODS,
    METRICS,
    Ablation,
    Circuit,
    Comparison,
    Graph,
    activation_patching,
    answers_both,
    areas,
    attribution_patching,
    circuit_answers,
    faithfulness,
    faithfulness_curve,
    path_patching,
    score_edges,
    smallest_faithful,
)
from workbench.circuits.faithfulness import kept_metric
from workbench.circuits.rewired import _other_pairs, writes, written_outside
from workbench.measurement import Measurement
from workbench.models import Decoder
from workbench.models.compiled import chaser, sorter
from workbench.models.hooked import hook
from workbench.tasks import make
from workbench.util.seeds import generator

# What `_write_sorter` writes, edge by edge; and of these, what a changed symbol of the input can be seen by up to the
# first answer that it changes: until then all tokens from ⊥ on are the same, so that what only they look for, and the
# MLPs, which act on outputs, make no difference. Later answers have other outputs before them, and are moved by all
# but what says that an output is behind ⊥, as it is in both questions.
SORTER_FIRST = (
    *(f"input->a0.h0<{part}>" for part in "qkv"),
    *(f"input->a0.h1<{part}>" for part in "kv"),
    "input->a1.h0<k>", "a0.h0->a1.h0<v>", "input->a1.h1<k>", "input->a1.h1<v>",
    "a0.h1->logits", "a1.h0->logits", "a1.h1->logits",
)  # fmt: skip
SORTER_LATER = (
    *SORTER_FIRST, "input->a0.h1<q>", "input->m0", "input->a1.h0<q>", "m0->a1.h0<v>", "input->a1.h1<q>", "m0->m1",
    "m1->logits",
)  # fmt: skip
SORTER = (*SORTER_LATER, "a0.h0->m0", "a0.h0->m1")
CHASER_MOVED = ("input->a0.h0<q>", "input->a0.h0<v>", "a0.h0->logits", "input->logits")
CHASER = (*CHASER_MOVED, "input->a0.h0<k>")  # keys are positions, which no pair changes


def known(
    name: str, turned: int | None = None, n: int = 32, *, later: bool = False, **given: Any
) -> tuple[Comparison, Circuit, set[str]]:
    """A compiled model on pairs, the circuit of what is written, and the edges of it that the pairs move."""
    if name == "sorter":
        task, model = make("sorting", q=6, max_length=6), sorter(6, turned, n_ctx=13, pad=True)
    else:
        task = make("pointer_chain", n=16, k=4, reading="root")
        model = chaser(16, 4, turned, reading="root")
    comparison = Comparison(hook(model.double()), task.minimal_pairs(n, generator(0, "pairs"), later=later), **given)
    moved = CHASER_MOVED if name == "chaser" else SORTER_LATER if later else SORTER_FIRST
    written = SORTER if name == "sorter" else CHASER
    return comparison, Circuit.of(Graph.of(comparison.model), written), set(moved)


def ranking(scores: Measurement, right: set[str]) -> float:
    """The area under the ROC curve: how often a right edge is ranked above another one; ties count half."""
    values = abs(scores.mean().values)
    is_right = np.array([name in right for name in scores.coords["edge"]])
    above = values[is_right][:, None] - values[~is_right][None]
    above[abs(above) < 1e-6] = 0  # weights were turned in float32
    return float((above > 0).mean() + (above == 0).mean() / 2)


each_known = pytest.mark.parametrize(("name", "later"), [("sorter", False), ("sorter", True), ("chaser", False)])


@pytest.mark.parametrize("turned", [None, 3])
@each_known
def test_path_patching_ranks_the_written_edges_that_pairs_can_move_first(
    name: str, later: bool, turned: int | None
) -> None:
    for direction in ("denoise", "noise"):
        comparison, written, moved = known(name, turned, later=later, direction=direction)
        assert moved <= set(written.names)
        scores = path_patching(comparison)
        assert ranking(scores, moved) == 1.0
        assert {
            name for name, mean in zip(written.graph.names, scores.mean().values, strict=True) if abs(mean) > 1e-4
        } == moved


@pytest.mark.parametrize("turned", [None, 3])
@pytest.mark.parametrize(
    ("name", "later", "by_eap"), [("sorter", False, 0.917), ("sorter", True, 0.868), ("chaser", False, 0.875)]
)
def test_integrated_gradients_rank_them_first_too_and_single_gradients_miss_saturated_queries(
    name: str, later: bool, by_eap: float, turned: int | None
) -> None:
    """A softmax as sharp as these has no gradient: EAP gives the edges into the queries nothing at all."""
    comparison, _, moved = known(name, turned, later=later)
    assert ranking(score_edges(comparison, "eap_ig"), moved) == 1.0
    scores = score_edges(comparison, "eap")
    assert ranking(scores, moved) == pytest.approx(by_eap, abs=2e-3)
    assert abs(scores.select(edge="input->a0.h0<q>").values).max() < 1e-4
    flat = replace(comparison, metric="kl", direction="noise")  # its gradient at the clean run is 0 everywhere
    assert ranking(score_edges(flat, "eap"), moved) == 0.5
    by_divergence = ranking(score_edges(replace(comparison, metric="kl"), "eap_ig"), moved)
    assert by_divergence == pytest.approx(0.875 if name == "chaser" else 1.0, abs=2e-3)


@pytest.mark.parametrize("turned", [None, 3])
@pytest.mark.parametrize("metric", sorted(METRICS))
@each_known
def test_the_written_edges_keep_everything_and_the_others_nothing(
    name: str, later: bool, metric: str, turned: int | None
) -> None:
    comparison, written, _ = known(name, turned, n=16, later=later, metric=metric)
    for ablation in (Ablation(), Ablation("mean"), Ablation("resample", generator(0))):
        kept, lost = faithfulness(comparison, [written, written.complement()], ablation).mean().values
        assert kept == pytest.approx(1, abs=1e-5) and lost == pytest.approx(0, abs=1e-5)  # turned in float32


@pytest.mark.parametrize(
    ("edge", "later"), [(edge, False) for edge in SORTER_FIRST] + [(edge, True) for edge in SORTER_LATER]
)
def test_without_one_of_the_edges_that_pairs_move_a_sorter_keeps_less_or_other(edge: str, later: bool) -> None:
    comparison, written, _ = known("sorter", n=16, later=later)
    without = Circuit.of(written.graph, [name for name in written.names if name != edge])
    assert abs(faithfulness(comparison, [without]).values - 1).max() > 1e-3


def test_the_curve_and_its_areas_by_hand() -> None:
    shares = [0.1, 0.5, 1.0]
    values = np.array([[0.0, 0.4], [0.7, 0.9], [1.3, 1.1]])  # means 0.2, 0.8, 1.2
    curve = Measurement("f", values, ("share", "example"), {"share": shares, "example": range(2)}, "x")
    cpr, cmd = (area.mean().values for area in areas(curve))
    assert cpr == pytest.approx(0.4 * (0.2 + 0.8) / 2 + 0.5 * (0.8 + 1.2) / 2)
    assert cmd == pytest.approx(0.4 * (0.8 + 0.2) / 2 + 0.5 * (0.2 + 0.2) / 2)
    with pytest.raises(ValueError, match="areas are of a faithfulness curve by share"):
        areas(curve.mean())


def test_the_share_kept_is_a_ratio_of_means_and_its_spread_that_of_a_ratio() -> None:
    comparison, written, _ = known("sorter", n=40)
    graph = written.graph
    some = Circuit.of(graph, [name for name in written.names if name != "a1.h1->logits"])
    result = faithfulness(comparison, [some])
    whole_and_none = [Circuit.of(graph, []), Circuit.of(graph, graph.names)]
    none, whole, part = kept_metric(comparison, [*whole_and_none, some], Ablation())
    ratio = (part - none).mean() / (whole - none).mean()
    assert result.mean().values[0] == pytest.approx(ratio) and 0.5 < ratio < 0.99
    draws = np.random.default_rng(0).integers(0, 40, (2000, 40))
    redrawn = (part - none)[draws].mean(1) / (whole - none)[draws].mean(1)
    assert 0.8 < redrawn.std() / (result.values[0].std(ddof=1) / 40**0.5) < 1.25


def test_a_curve_ends_with_the_whole_model_and_its_complement_begins_with_it() -> None:
    comparison, written, _ = known("chaser", n=16)
    scores = score_edges(comparison, "path_patching")
    curve = faithfulness_curve(comparison, scores, shares=[0.0, 0.3, 0.6, 1.0])
    without = faithfulness_curve(comparison, scores, shares=[0.0, 0.3, 0.6, 1.0], complement=True)
    assert curve.mean().values[[0, -1]] == pytest.approx([0, 1]) and curve.mean().values[2] == pytest.approx(1)
    assert without.mean().values[[0, -1]] == pytest.approx([1, 0])
    assert curve.settings["edges"][-1] <= written.graph.n_edges and curve.dims == ("share", "example")
    cpr, cmd = (float(area.mean().values) for area in areas(curve))
    assert cmd < cpr <= 1.0


def test_untrained_models_have_no_faithful_circuit_and_a_compiled_one_has() -> None:
    """By the ratio alone some untrained models would have one: they do next to nothing, and that over few paths."""
    shares = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0]
    comparison, written, _ = known("sorter")
    curve = faithfulness_curve(comparison, path_patching(comparison), shares=shares)
    smallest = smallest_faithful(comparison, curve)
    assert smallest is not None and smallest <= len(written) / written.graph.n_edges
    assert answers_both(comparison).mean().values == 1
    task = make("sorting", q=6, max_length=6)
    for seed in range(3):
        fresh = Decoder(random_model(task, seed=seed).config, generator(seed, "fresh")).double().eval()
        for model in (fresh, random_model(task, seed=seed)):
            untrained = replace(comparison, model=hook(model))
            for method in METHODS:
                curve = faithfulness_curve(untrained, score_edges(untrained, method), shares=shares)
                assert smallest_faithful(untrained, curve) is None
            assert answers_both(untrained).mean().values < 0.5


def test_a_head_that_looks_and_writes_nothing_is_in_no_circuit() -> None:
    comparison = doubled_chaser((1.0, 0.0))
    tokens = comparison.pairs.clean.tokens
    _, cache = comparison.model.run_with_cache(tokens)
    pattern = cache["blocks.0.attn.hook_pattern"]
    assert torch.equal(pattern[:, 0], pattern[:, 1])  # it looks at the right key as the other does
    for method in METHODS:
        scores = score_edges(comparison, method).mean()
        chosen = [name for name, mean in zip(scores.coords["edge"], scores.values, strict=True) if mean]
        assert "a0.h0->logits" in chosen and not [name for name in chosen if "h1" in name]
    for attribution in (activation_patching, attribution_patching):
        effects = attribution(comparison, "head").values
        assert (effects[0, 1] == 0).all() and abs(effects[0, 0]).mean() > 0.01


def test_two_heads_that_do_the_same_are_both_found_and_by_whom_not() -> None:
    """Answers are so sure that the gradient of their probability is 0: only patching sees what one head alone does."""
    comparison = replace(doubled_chaser((0.5, 0.5), sharper=2000.0), metric="probability")
    edges = ["a0.h0->logits", "a0.h1->logits", "input->a0.h0<q>", "input->a0.h1<q>"]
    exact = path_patching(comparison, edges).mean()
    assert (
        (exact.values[:2] > 0.1).all()
        and (exact.values[2:] > 0.01).all()
        and exact.values[0] == pytest.approx(exact.values[1])
    )
    assert (activation_patching(comparison, "head").mean().values > 0.1).all()
    for method, most in (("eap", 1e-3), ("eap_ig", 0.02)):
        missed = score_edges(comparison, method).mean()
        assert max(abs(float(missed.select(edge=edge).values)) for edge in edges) < most
        by_logits = score_edges(replace(comparison, metric="logit_difference"), method).mean()
        first, second = (float(by_logits.select(edge=edge).values) for edge in edges[:2])
        assert first == pytest.approx(second) and first > 1


@pytest.mark.parametrize("rows", [None, 5])
def test_the_answers_of_a_circuit_are_right_with_its_edges_and_the_other_questions_without(rows: int | None) -> None:
    comparison, circuit, _ = known("chaser", rows=rows)
    pairs, everything = comparison.pairs, Circuit.of(circuit.graph, circuit.graph.names)
    first = pairs.asked.long().argmax(-1)
    cut = circuit.changed(["input->a0.h0<q>"])
    whole, alone, without, broken = circuit_answers(comparison, [everything, circuit, circuit.complement(), cut])
    of_model = comparison.model(pairs.clean.tokens)[torch.arange(len(pairs)), first].argmax(-1)
    assert (whole == of_model.numpy()).all() and (alone == whole).all()
    corrupted = comparison.model(pairs.corrupted.tokens)[torch.arange(len(pairs)), first].argmax(-1)
    assert (without == corrupted.numpy()).all() and (broken != whole).any()
    resampled = circuit_answers(comparison, [circuit], Ablation("resample", generator(0)))
    assert resampled.shape == (1, len(pairs))
    with pytest.raises(ValueError, match="the circuit is of 1 layers of 3 heads"):
        circuit_answers(comparison, [Circuit.of(Graph(1, 3), [])])


def test_pairs_that_change_nothing_relevant_show_next_to_nothing() -> None:
    """The control of the compiled chaser: pointers off the chain are exchanged, and no edge matters."""
    comparison, _, _ = known("chaser")
    task = make("pointer_chain", n=16, k=4, reading="root")
    control = comparison.of(task.minimal_pairs(32, generator(1, "pairs"), relevant=False))
    for method in METHODS:
        own, other = (abs(score_edges(each, method).mean().values).max() for each in (comparison, control))
        assert own > 0.1 and other < 0.05 * own
    assert score_edges(control).settings["control"] and not score_edges(comparison).settings["control"]


def test_mean_ablation_is_the_mean_over_the_pairs_that_have_a_token_there() -> None:
    """Beside a loop over pairs and positions, in float64; padding would be up to nearly half of the rows."""
    task = make("sorting", q=6, max_length=6)
    pairs = task.minimal_pairs(12, generator(0, "pairs"))
    lengths = task.lengths(pairs.corrupted.tokens).tolist()
    assert min(lengths) < max(lengths)
    comparison = Comparison(hook(random_model(task)), pairs, rows=5)
    (_, _, mean), *_ = written_outside(comparison, Ablation("mean"))
    for at in range(max(lengths)):
        there = [writes(comparison, pairs.corrupted.tokens[i : i + 1])[:, 0, at] for i in range(12) if lengths[i] > at]
        assert torch.allclose(mean[:, 0, at], sum(there) / len(there), atol=1e-12)


def test_resampling_takes_another_pair_that_is_as_long_where_there_is_one() -> None:
    pairs = make("sorting", q=6, max_length=6).minimal_pairs(16, generator(0, "pairs"))
    needed, lengths = pairs.real(pairs.clean).sum(-1), pairs.real(pairs.corrupted).sum(-1)
    for seed in range(5):
        other = _other_pairs(pairs, generator(seed))
        assert (other != torch.arange(16)).all() and len(set(other.tolist())) > 4
        for row, drawn in enumerate(other.tolist()):
            longest = int(lengths[torch.arange(16) != row].max())
            assert lengths[drawn] >= min(int(needed[row]), longest)


def test_what_there_is_not_is_refused_in_words() -> None:
    comparison, written, _ = known("chaser", n=4)
    with pytest.raises(ValueError, match="unknown ablation 'zero'; there is: patch, mean, resample"):
        Ablation("zero")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give it a generator"):
        Ablation("resample")
    with pytest.raises(ValueError, match="of 2 layers of 2 heads; the model has 1 of 1"):
        faithfulness(comparison, [Circuit.of(Graph(2, 2), [])])
    same = replace(comparison.pairs, corrupted=comparison.pairs.clean)
    with pytest.raises(ValueError, match="nothing that a circuit could keep"):
        faithfulness(comparison.of(same), [written])
    with pytest.raises(ValueError, match="shares of all edges increase within 0 … 1"):
        faithfulness_curve(comparison, path_patching(comparison), shares=[0.5, 0.1])
    with pytest.raises(ValueError, match="needs at least two pairs"):
        faithfulness(comparison.of(comparison.pairs[:1]), [written], Ablation("resample", generator(0)))
