"""Edge attribution of 64 pairs beside TransformerLens's, which takes one pair at a time; and what others cost.

python tests/benchmarks/bench_circuits.py            print the tables
python tests/benchmarks/bench_circuits.py --write    and put them into README.md beside this file
"""

from __future__ import annotations

import statistics
from functools import partial

from harness import Table, main, milliseconds, peak_megabytes, ratios, rounds, spread
from transformer_lens.tools.analysis.attribution_patching import EdgeAttributionConfig, Node, attribution_patch

from workbench.circuits import METRICS, Comparison, activation_patching, eap, eap_ig, path_patching
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks import make
from workbench.util.seeds import generator

PAIRS = 64


def compared(variant: str, n: int = 32) -> Comparison:
    """64 pairs of pointer chains, a model of two layers of four heads."""
    task = make("pointer_chain", n=n, k=4, reading="root")
    config = DecoderConfig(n_layers=2, d_model=64, n_heads=4, d_vocab=n, n_ctx=n, attention=variant)
    model = Decoder(config, generator(0, "model")).eval()
    return Comparison(hook(model), task.minimal_pairs(PAIRS, generator(0, "pairs")))


def one_by_one(comparison: Comparison) -> list[dict[tuple[Node, Node], float]]:
    """TransformerLens's scores of every edge at every position, of each pair."""
    measured = METRICS["logit_difference"].of
    scores = []
    for pair in range(PAIRS):
        one = comparison.pairs[pair : pair + 1]
        result = attribution_patch(
            comparison.model, one.clean.tokens, one.corrupted.tokens,
            lambda logits, one=one: measured(logits, one, logits).sum(), EdgeAttributionConfig("edge"),
        )  # fmt: skip
        scores.append(result.edge_scores)
    return scores


def edges() -> Table:
    table = Table(
        "circuits",
        "model",
        "EAP",
        "TransformerLens / EAP",
        "EAP-IG, 5 points",
        "every head patched",
        "every edge patched",
    )
    for variant in ("standard", "tempered", "chacal"):
        comparison = compared(variant)
        taken = rounds(
            {
                "eap": partial(eap, comparison),
                "theirs": partial(one_by_one, comparison),
                "ig": partial(eap_ig, comparison),
                "heads": partial(activation_patching, comparison, "head"),
                "edges": partial(path_patching, comparison),
            },
            5,
        )
        times = ratios(taken, "theirs", "eap")
        cells = [milliseconds(taken[name]) for name in ("ig", "heads", "edges")]
        table.add(f"{variant}, 2 layers of 4 heads, 32 tokens", milliseconds(taken["eap"]), spread(times), *cells)
        table.ask(f"TransformerLens / EAP, 64 pairs, {variant}", statistics.median(times), least=20)
    return table


def memory() -> Table:
    """1,024 pairs of 128 tokens in a model of 4 layers of 8 heads."""
    table = Table("circuits-memory", "what", "memory beyond the model and the pairs")
    setup = """
from workbench.circuits import Comparison, eap
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks import make
from workbench.util.seeds import generator
task = make("pointer_chain", n=128, k=8, reading="root")
config = DecoderConfig(n_layers=4, d_model=128, n_heads=8, d_vocab=128, n_ctx=128, attention="chacal")
comparison = Comparison(hook(Decoder(config, generator(0)).eval()), task.minimal_pairs(1024, generator(0)))
"""
    grown = peak_megabytes(setup, "eap(comparison)")
    table.add("EAP, 1,024 pairs, 4 layers of 8 heads, 128 tokens, d = 128", f"{grown:,.0f} MB")
    table.ask("EAP of 1,024 pairs, GB", grown / 1024, most=4)
    return table


if __name__ == "__main__":
    main(__doc__, edges, memory)
