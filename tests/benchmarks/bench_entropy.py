"""Matrix entropy beside a loop over sequences by the method of the package that people use, and beside its products.

The peer is representation-itl's method, from its definition: K = Z Zᵀ of one sequence, its full eigendecomposition, the
positive eigenvalues over their sum. (The package itself installs no code.)

python tests/benchmarks/bench_entropy.py            print the tables
python tests/benchmarks/bench_entropy.py --write    and put them into README.md beside this file
"""

from __future__ import annotations

import statistics
from functools import partial

import torch
from harness import Table, grew, main, milliseconds, ratios, rounds, spread
from torch import Tensor

from workbench.instruments import matrix_entropy
from workbench.util.seeds import generator

HERE = __file__.rsplit("/", 1)[0]


def loop(z: Tensor, alpha: float, dtype: torch.dtype) -> Tensor:
    """One sequence after the other, in this precision."""
    found = []
    for one in z.to(dtype):
        p, _ = torch.linalg.eigh(one @ one.T)
        p = p[p > 0] / p[p > 0].sum()
        found.append(-(p * p.log()).sum() if alpha == 1 else (alpha * p.log()).exp().sum().log() / (1 - alpha))
    return torch.stack(found)


def products(z: Tensor, dtype: torch.dtype) -> Tensor:
    """What no method can do without: Z Zᵀ of every sequence, by PyTorch's batched product."""
    z = z.to(dtype)
    return z @ z.mT


def comparison() -> Table:
    table = Table(
        "entropy",
        "sequences × tokens × d",
        "α = 1",
        "float64 loop / ours",
        "α = 2",
        "float32 loop / ours",
        "ours / float32 products",
        "α = 3",
        "α = 1 apart",
    )
    for shape in [(256, 32, 64), (256, 64, 128), (256, 128, 512), (64, 256, 512), (16, 512, 512)]:
        z = torch.randn(shape, generator=generator(0))
        taken = rounds(
            {
                "loop 64": partial(loop, z, 1, torch.float64),
                "1": partial(matrix_entropy, z),
                "loop 32": partial(loop, z, 2, torch.float32),
                "2": partial(matrix_entropy, z, alpha=2),
                "products": partial(products, z, torch.float32),
                "3": partial(matrix_entropy, z, alpha=3),
            },
            9,
        )
        by_spectrum, by_products = ratios(taken, "loop 64", "1"), ratios(taken, "loop 32", "2")
        over_products = ratios(taken, "2", "products")
        apart = (matrix_entropy(z) - loop(z, 1, torch.float64)).abs().max().item()
        cells = [milliseconds(taken["1"]), spread(by_spectrum), milliseconds(taken["2"]), spread(by_products)]
        table.add(" × ".join(map(str, shape)), *cells, spread(over_products), milliseconds(taken["3"]), f"{apart:.0e}")
        if shape == (256, 128, 512):
            table.ask("float64 loop / ours, α = 1, 256 × 128 × 512", statistics.median(by_spectrum), least=2)
            table.ask("float32 loop / ours, α = 2, 256 × 128 × 512", statistics.median(by_products), least=4)
            table.ask("ours, α = 2 / float32 products, 256 × 128 × 512", statistics.median(over_products), most=1.2)
    return table


def growth() -> Table:
    """16 sequences of ever more tokens, d = 512."""
    table = Table("entropy-growth", "tokens", "loop, α = 1", "α = 1", "α = 2", "float32 products")
    for n_pos in (16, 32, 64, 128, 256, 512, 1024):
        z = torch.randn(16, n_pos, 512, generator=generator(0))
        forms = {
            "loop of eigendecompositions, α = 1": partial(loop, z, 1, torch.float64),
            "workbench, α = 1": partial(matrix_entropy, z),
            "workbench, α = 2": partial(matrix_entropy, z, alpha=2),
            "products alone": partial(products, z, torch.float32),
        }
        taken = rounds(forms, 5)
        for name, times in taken.items():
            grew("Matrix entropy, 16 sequences", "ms", "tokens", name, n_pos, statistics.median(times))
        table.add(n_pos, *map(milliseconds, taken.values()))
    return table


if __name__ == "__main__":
    main(__doc__, comparison, growth)
