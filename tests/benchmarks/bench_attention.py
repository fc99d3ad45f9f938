"""ChaCAL in blocks beside its textbook form and PyTorch's fused standard attention, in one run, on one thread.

python tests/benchmarks/bench_attention.py            print the table
python tests/benchmarks/bench_attention.py --write    and put it into README.md beside this file
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.models.attention import ATTENTION, chacal_attention
from workbench.seeds import generator

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- attention: begin -->", "<!-- attention: end -->"
SHAPES = [(16, 128), (4, 512), (2, 1024), (1, 2048)]
ROUNDS = 9


def textbook(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Eq. 5 as it is written: the whole pattern, one triangular solve, PyTorch's own derivatives."""
    layer = ATTENTION["chacal"](gamma=0.9)
    return layer.read(layer.pattern(q, k), v)


FORMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "fused standard": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "textbook": textbook,
    "blocks": chacal_attention,
}


def timed(form: Callable[[Tensor, Tensor, Tensor], Tensor], inputs: list[Tensor]) -> float:
    start = time.perf_counter()
    form(*inputs).sum().backward()
    return (time.perf_counter() - start) * 1e3


def row(batch: int, n_pos: int) -> str:
    """Every form once a round, so that what slows the machine slows all; ratios are taken within a round."""
    rng = generator(0)
    inputs = [torch.randn(batch, 8, n_pos, 64, generator=rng).requires_grad_() for _ in range(3)]
    for form in FORMS.values():
        timed(form, inputs)
    rounds = [{name: timed(form, inputs) for name, form in FORMS.items()} for _ in range(ROUNDS)]
    times = {name: statistics.median(r[name] for r in rounds) for name in FORMS}
    faster = [r["textbook"] / r["blocks"] for r in rounds]
    slower = [r["blocks"] / r["fused standard"] for r in rounds]
    return (
        f"| {batch} | {n_pos} | {times['fused standard']:.0f} ms | {times['textbook']:.0f} ms | "
        f"{times['blocks']:.0f} ms | {spread(faster)} | {spread(slower)} |"
    )


def spread(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into the README beside this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    heading = "| batch | length | fused standard | textbook | blocks | textbook / blocks | blocks / fused |"
    rows = [heading, "|---:" * 7 + "|"]
    for shape in SHAPES:
        rows.append(row(*shape))
        print(rows[-1], flush=True)
    if options.write:
        before, rest = README.read_text(encoding="utf-8").split(BEGIN)
        README.write_text("\n".join([f"{before}{BEGIN}", *rows, f"{END}{rest.split(END)[1]}"]), encoding="utf-8")


if __name__ == "__main__":
    main()
