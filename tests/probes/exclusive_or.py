"""How often a line decodes an exclusive or, of which vectors hold the two bits and nothing more.

No line tells it: of the four corners of a square it can have three right at most, and with all corners as frequent the
best fit is no line at all. But in a sample they are never quite as frequent. Where vectors hold the bits exactly, the
fitted weights are then small and not 0, the answer is their sign; where that puts three corners right, three in four
answers are, on held-out sequences too: such draws are called decodable, with about 75 %. Directions that hold noise
hide it.

python -m tests.probes.exclusive_or        how many of 30 draws are called decodable
"""

from __future__ import annotations

import sys

import torch

from workbench import tasks
from workbench.judgement.decodable import BASELINES, Decodable, Worth, judge
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.probes.fitting import Split
from workbench.probes.positions import Rows
from workbench.probes.probing import measure
from workbench.tasks import Batch
from workbench.util.seeds import generator

POINT = "blocks.0.hook_resid_mid"
WIDTH, N, DRAWS = 16, 512, 30
NOISE = {"exactly": 0.0, "with noise": 0.1}  # in what the vectors hold beside the bits


def judged(draw: int, held: str, n: int = N) -> Decodable:
    """What a linear probe of the exclusive or is worth, of n sequences."""
    chance = generator(draw, "exclusive or")
    bits = torch.randint(2, (n, 2), generator=chance)
    directions = torch.linalg.qr(torch.randn(WIDTH, 2, generator=chance)).Q
    x = (2.0 * bits - 1) @ directions.mT + NOISE[held] * torch.randn(n, WIDTH, generator=chance)
    tokens = torch.zeros(n, 1, dtype=torch.long)
    source = Source(
        tasks.make("sorting"), Batch(tokens, tokens, tokens == 0), [POINT], lambda where: x[None, None], (), "none"
    )
    example, y = torch.arange(n), bits[:, 0] ^ bits[:, 1]
    rows, split = Rows(example, torch.zeros(1, n, dtype=torch.long), ("last",)), Split.by_example(example, chance)
    found = measure(
        ProbeData(source, rows, [y[None]], example, split, draw),
        ["differ"],
        "logistic",
        BASELINES,
        {"positions": "last"},
    )
    return judge(found.select(label="differ", point=POINT))


def decodable(held: str) -> list[float]:
    """The share decoded in each of the draws that are called decodable."""
    found = [judged(draw, held) for draw in range(DRAWS)]
    return [one.trained.value for one in found if one.worth is Worth.DECODABLE]


def main() -> None:
    """Count, and print."""
    for held in NOISE:
        shares = decodable(held)
        sys.stdout.write(f"{held}: decodable in {len(shares)} of {DRAWS} draws {[round(x, 2) for x in shares]}\n")


if __name__ == "__main__":
    main()
