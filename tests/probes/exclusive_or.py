"""How often a line decodes an exclusive or that nothing was trained to compute.

The first two tokens of a sequence are each odd or even; the label is whether just one of them is odd. A re-initialised
layer reads all tokens, and a linear probe reads its residual at the last position after the MLP, of 512 sequences, with
other weights and sequences at every draw. With weights as they are drawn the layer is nearly linear; with weights times
10, about as large as training makes them, it is not. And where seven in ten of the second tokens are even, the first
alone tells the exclusive or in as many.

python -m tests.probes.exclusive_or        how many of 30 draws are called decodable
"""

from __future__ import annotations

import sys
from collections import Counter

import torch

from workbench import tasks
from workbench.judgement.decodable import BASELINES, Worth, judge
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.probes.decoding import Split
from workbench.probes.positions import Rows
from workbench.probes.probing import measure
from workbench.tasks import Batch
from workbench.util.seeds import generator

POINT = "blocks.0.hook_resid_post"
N, LENGTH, TOKENS, DRAWS = 512, 4, 8, 30
CASES = {"as drawn": (1, 0.5), "weights × 10": (10, 0.5), "one bit uneven": (1, 0.3)}
"""Case -> what the weights are multiplied with, and the share of odd tokens at the second position."""


@torch.no_grad()
def worth_of(draw: int, case: str) -> Worth:
    """What a linear probe of the exclusive or is worth."""
    scale, share = CASES[case]
    chance = generator(draw, "sequences")
    made = Decoder(DecoderConfig(1, 32, 2, d_vocab=TOKENS, n_ctx=LENGTH), generator(draw, "weights")).eval()
    for weights in made.parameters():
        weights.mul_(scale)
    tokens = torch.randint(TOKENS, (N, LENGTH), generator=chance)
    tokens[:, 1] = tokens[:, 1] // 2 * 2 + (torch.rand(N, generator=chance) < share)
    x = hook(made).run_with_cache(tokens)[1][POINT][None, None, :, -1]
    odd = tokens % 2
    batch = Batch(tokens, tokens, torch.ones_like(tokens) > 0)
    source = Source(tasks.make("sorting"), batch, [POINT], lambda where: x, (), "none")
    rows = Rows(torch.arange(N), torch.full((1, N), LENGTH - 1), ("last",))
    question = tokens.unique(dim=0, return_inverse=True)[1]  # a sequence drawn twice is never on both sides
    split = Split.by_example(question, generator(draw, "split"))
    data = ProbeData(source, rows, [(odd[:, 0] ^ odd[:, 1])[None]], question, split, draw)
    found = measure(data, ["differ"], "logistic", BASELINES, {"positions": "last"})
    return judge(found.select(label="differ", point=POINT)).worth


def main() -> None:
    """Count, and print."""
    for case in CASES:
        found = Counter(worth_of(draw, case) for draw in range(DRAWS))
        sys.stdout.write(f"{case}: decodable in {found[Worth.DECODABLE]} of {DRAWS} draws; {dict(found)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
