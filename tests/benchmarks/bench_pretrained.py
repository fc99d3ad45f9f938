"""A model of 124 million parameters with random weights: memory of `workbench inspect`, and the explorer's panels.

Every layer of GPT-2's shape, 50,257 tokens, sequences of 256: entropy, projections, attention graphs and lenses. The
peak is that of the whole process, Python and its libraries with it.

python tests/benchmarks/bench_pretrained.py                                print the table (ten minutes)
python tests/benchmarks/bench_pretrained.py --write                        and put it into README.md beside this file
WORKBENCH_SEQUENCES=1000 python tests/benchmarks/bench_pretrained.py       the same over 1,000 sequences (a day)
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from gpt2_sized import MEASURES, make_model, peak, write_text
from harness import Table, main

SEQUENCES = (4, int(os.environ.get("WORKBENCH_SEQUENCES", "16")))
ROOM = 2 * 2**10  # MB beside the model


def memory() -> Table:
    table = Table("pretrained-memory", "sequences of 256 tokens", "peak", "the model", "beside it")
    with tempfile.TemporaryDirectory() as place:
        folder, text = Path(place) / "gpt2", Path(place) / "text.txt"
        size = make_model(folder)
        write_text(text, 257 * max(SEQUENCES))
        peaks = {n: peak(folder, text, n, "--only", *MEASURES)[0] for n in SEQUENCES}
    for n, found in peaks.items():
        table.add(f"{n:,}", f"{found:,.0f} MB", f"{size:,.0f} MB", f"{found - size:,.0f} MB")
    few, many = SEQUENCES
    each = max(0.0, (peaks[many] - peaks[few]) / (many - few))
    expected = peaks[many] + each * max(0, 1000 - many) - size
    table.ask("MB beside the model, over 1,000 sequences (from the growth between these two)", expected, most=ROOM)
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
