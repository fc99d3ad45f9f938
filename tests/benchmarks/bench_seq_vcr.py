"""Seq-VCR beside its textbook form, which builds every position's covariance: time and memory, forward and backward.

python tests/benchmarks/bench_seq_vcr.py            print the tables
python tests/benchmarks/bench_seq_vcr.py --write    and put them into README.md beside this file
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from harness import Table, grew, main, milliseconds, peak_megabytes, ratios, rounds, spread
from torch import Tensor

from workbench.objectives import seq_vcr
from workbench.util.seeds import generator

HERE = __file__.rsplit("/", 1)[0]
POSITIONS = 30


def textbook(x: Tensor) -> Tensor:
    """The equation as it is written, all positions at once."""
    centred = x - x.mean(0)
    C = torch.einsum("ntj,ntk->tjk", centred, centred) / (len(x) - 1)
    variance = C.diagonal(dim1=1, dim2=2)
    hinge = (1 - (variance + 1e-3).sqrt()).clamp(min=0).sum(-1)
    covariance = C.square().sum((1, 2)) - variance.square().sum(-1)
    return (hinge + 0.004 * covariance).mean() / x.shape[-1]


def ours(x: Tensor) -> Tensor:
    return seq_vcr(x, variance_weight=1.0, covariance_weight=0.004)


FORMS = {"textbook": textbook, "workbench": ours}

SETUP = f"""
import sys; sys.path.insert(0, {HERE!r})
from bench_seq_vcr import FORMS
form = FORMS[{{form!r}}]
form(torch.randn(4, 2, 64, requires_grad=True)).backward()
x = torch.randn({{n}}, {{pos}}, {{d}}, requires_grad=True)
"""


def step(form: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    def run() -> None:
        x.grad = None
        form(x).backward()

    return run


def comparison() -> Table:
    table = Table(
        "seq-vcr", "sequences × features", "textbook", "workbench", "textbook / workbench", "memory", "textbook's"
    )
    for n, d in [
        (32, 64),
        (32, 128),
        (32, 512),
        (32, 1024),
        (32, 2048),
        (32, 4096),
        (128, 64),
        (128, 128),
        (512, 128),
        (2048, 128),
    ]:
        x = torch.randn(n, POSITIONS, d, generator=generator(0), requires_grad=True)
        forms = {name: step(form, x) for name, form in FORMS.items() if d <= 2048 or name == "workbench"}
        taken = rounds(forms, 15 if n * d < 1 << 15 else 5 if d < 1024 else 3)
        memory = {
            name: peak_megabytes(SETUP.format(form=name, n=n, pos=POSITIONS, d=d), "form(x).backward()")
            for name in forms
        }
        if n == 32:
            for name in forms:
                grew("Seq-VCR, forward and backward", "ms", "features", name, d, statistics.median(taken[name]))
                grew("Seq-VCR, memory", "MB", "features", name, d, memory[name])
        both = "textbook" in forms
        faster = ratios(taken, "textbook", "workbench") if both else []
        table.add(
            f"{n} × {d}",
            milliseconds(taken["textbook"]) if both else "not run",
            milliseconds(taken["workbench"]),
            spread(faster) if both else "",
            f"{memory['workbench']:.0f} MB",
            f"{memory['textbook']:,.0f} MB" if both else "not run",
        )
        if both:
            least = 100 if (n, d) == (32, 2048) else 1
            table.ask(f"textbook / workbench at {n} × {d}", statistics.median(faster), least=least)
        if (n, d) == (32, 2048):
            table.ask("memory beside the input at 32 × 2048, gradient included, MB", memory["workbench"], most=20)
            with torch.no_grad():
                apart = abs(ours(x).item() - textbook(x.double()).item())
            table.ask("distance from the textbook in float64 at 32 × 2048", apart, most=1e-6)
    return table


if __name__ == "__main__":
    main(__doc__, comparison)
