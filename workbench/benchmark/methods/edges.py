"""Methods that score edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from workbench.benchmark.questions import Answer, Asks, Question
from workbench.benchmark.scoring import Method
from workbench.circuits import Comparison, Graph
from workbench.circuits.rewired import rewired_logits
from workbench.measurement import Measurement
from workbench.tasks import Pairs

ROUNDING = 1e-5  # of the largest effect: a single-precision effect below it is none


def by_mean(measured: Measurement, names: list[str], *, effects: bool = True) -> Answer:
    """An answer from effects of each pair `[name, example]`: the mean scores, and is called where it is not 0.

    Where the interval of the mean over pairs excludes 0, or all pairs agree on what is not 0, it is called. Where all
    agree their spread is not known, and there is no interval.

    Args:
        measured: the effects, one row a name.
        names: of the rows.
        effects: whether the intervals are of the effects that are asked for.
    """
    mean = measured.mean()
    assert mean.low is not None and mean.high is not None
    known, least = ~np.isnan(mean.low), ROUNDING * np.abs(mean.values).max()
    apart = np.where(known, (mean.low > 0) | (mean.high < 0), True) & (np.abs(mean.values) > least)
    ends = zip(names, known, mean.low, mean.high, strict=True)
    return Answer(
        scores=dict(zip(names, mean.values.tolist(), strict=True)),
        calls=dict(zip(names, apart.tolist(), strict=True)),
        intervals={name: (float(low), float(high)) for name, has, low, high in ends if has and effects},
    )


def scored(about: str, measure: Callable[[Comparison], Measurement], *, effects: bool = True) -> Method:
    """A method that gives every edge the effects that a measure of the pairs finds.

    Args:
        about: what it does, in a sentence.
        measure: one of `circuits`, which gives dims `edge`, `example`.
        effects: as for `by_mean`.
    """

    def method(question: Question) -> Answer | None:
        if question.asks is not Asks.EDGES:
            return None
        return by_mean(measure(question.pairs), list(question.candidates), effects=effects)

    method.__doc__ = about
    return method


@torch.no_grad()
def edge_cutting(question: Question) -> Answer | None:
    """Each edge alone is cut in the clean run, so that its reader gets nothing from its writer."""
    if question.asks is not Asks.EDGES:
        return None
    comparison, graph, names = question.pairs, Graph.of(question.pairs.model), question.candidates
    pairs = comparison.pairs
    nothing = torch.zeros(len(graph.writers), 1, 1, question.run.decoder.config.d_model)
    run = partial(rewired_logits, comparison, pairs.clean.tokens, other=nothing)
    lost = [comparison.score(run(keep=graph.edges & ~graph.mask([name])), pairs, torch.empty(0)) for name in names]
    values = comparison.baselines[0] - torch.stack(lost).double().numpy()
    return by_mean(comparison.measurement("Cut", values, {"edge": names}, ""), list(names), effects=False)


def transformer_lens_eap(question: Question) -> Answer | None:
    """Edge attribution patching of TransformerLens, one pair after the other, of heads that share no keys."""
    if question.asks is not Asks.EDGES or Graph.of(question.pairs.model).n_groups is not None:
        return None
    from transformer_lens.tools.analysis import attribution_patching as peer

    comparison, edge = question.pairs, peer.EdgeAttributionConfig(granularity="edge")
    values = np.zeros((len(question.candidates), len(comparison.pairs)))
    number = {name: at for at, name in enumerate(question.candidates)}
    for at in range(len(comparison.pairs)):
        pair = comparison.pairs[at : at + 1]

        def total(logits: torch.Tensor, pair: Pairs = pair) -> torch.Tensor:
            return comparison.score(logits, pair, torch.empty(0)).sum()

        found = peer.attribution_patch(comparison.model, pair.clean.tokens, pair.corrupted.tokens, total, edge)
        for (writer, reader), value in found.edge_scores.items():  # of each position
            values[number[f"{_named(writer)}->{_named(reader)}"], at] += value
    measured = comparison.measurement("EAP of TransformerLens", values, {"edge": question.candidates}, "")
    return by_mean(measured, list(question.candidates))


def _named(node: Any) -> str:
    """The name in our graph of a node of TransformerLens's."""
    head = f"a{node.layer}.h{node.head}"
    return {
        "embed": "input",
        "attn_head_out": head,
        **{f"{part}_input": f"{head}<{part}>" for part in "qkv"},
        "logits": "logits",
    }.get(node.kind, f"m{node.layer}")
