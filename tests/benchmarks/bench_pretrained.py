"""Models of GPT-2's size with random weights: memory of `workbench inspect`, and the explorer's panels.

Entropy, projections, attention graphs and lenses of every layer, on sequences of 256 tokens. The peak is that of the
whole process, Python and its libraries with it. The first model has 100 million parameters in few layers, and 1,024
tokens, so that a thousand sequences take an hour, not a day; the second is GPT-2's shape, with 50,257 tokens, over a
few sequences.

python tests/benchmarks/bench_pretrained.py                            print the tables (twenty minutes)
python tests/benchmarks/bench_pretrained.py --write                    and put them into README.md beside this file
WORKBENCH_SEQUENCES=1000 python tests/benchmarks/bench_pretrained.py   the first over 1,000 sequences (an hour)
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from gpt2_sized import MEASURES, WORDS, make_model, peak, write_text
from harness import Table, main

SEQUENCES = int(os.environ.get("WORKBENCH_SEQUENCES", "40"))
MODELS: dict[str, tuple[dict[str, int], tuple[int, ...]]] = {  # shape, and over how many sequences
    "4 wide layers, 1,024 tokens": ({"vocab_size": 1024, "n_layer": 4, "n_embd": 1408, "n_head": 11}, (20, SEQUENCES)),
    "GPT-2's shape": ({"vocab_size": WORDS}, (2, 6)),
}
ROOM = 2 * 2**10  # MB beside the model


def memory() -> Table:
    table = Table("pretrained-memory", "model", "parameters", "sequences", "minutes", "peak", "of it beside the model")
    for name, (shape, lengths) in MODELS.items():
        with tempfile.TemporaryDirectory() as place:
            folder, text = Path(place) / "gpt2", Path(place) / "text.txt"
            size = make_model(folder, **shape)
            write_text(text, 257 * max(lengths), shape["vocab_size"])
            for n in lengths:
                start = time.monotonic()
                found, _ = peak(folder, text, n, "--only", *MEASURES)
                minutes = (time.monotonic() - start) / 60
                parameters = f"{size / 4 * 1.048576:.0f} million"  # four bytes each
                cells = (name, parameters, f"{n:,}", f"{minutes:.0f}", f"{found:,.0f} MB", f"{found - size:,.0f} MB")
                table.add(*cells)
                table.ask(f"{name}, {n:,} sequences: MB beside the model", found - size, most=ROOM)
    return table


def panels() -> Table:
    """The explorer's panels on a sentence of 12 tokens, each computed by itself, in seconds of processor time."""
    from dataclasses import replace

    import workbench
    from workbench import figures
    from workbench.instruments import entropy
    from workbench.instruments.residual import projection
    from workbench.runs import open_model

    table = Table("pretrained-panels", "panel", "seconds")
    with tempfile.TemporaryDirectory() as place:
        make_model(Path(place) / "gpt2")
        run = open_model(str(Path(place) / "gpt2"))
        batch = run.task().parse(" ".join(f"w{37 * i}" for i in range(12)))
        seen = workbench.see(run, batch)
        drawn = {
            "the model run, with all that pages need": lambda: workbench.see(run, batch),
            "canvas": lambda: figures.canvas(replace(seen), layer=0, head=0),
            "residual, one basis": lambda: projection.top_tokens(replace(seen), bases=("decoder",)),
            "a token hop by hop": lambda: figures.hop_by_hop(replace(seen), layer=0, head=0),
            "entropy": lambda: entropy.measure(replace(seen)),
        }
        for name, draw in drawn.items():
            start = time.process_time()
            draw()
            seconds = time.process_time() - start
            table.add(name, f"{seconds:.2f}")
            table.ask(f"{name}, seconds", seconds, most=2)
    return table


if __name__ == "__main__":
    main(__doc__, panels, memory)
