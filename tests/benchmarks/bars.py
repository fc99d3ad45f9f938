"""Which bars hold: runs benchmarks, and says of each figure that is asked for whether it is reached.

python tests/benchmarks/bars.py                              every benchmark of `make bench`
python tests/benchmarks/bars.py attention:training seq_vcr   some, or some of their tables
python tests/benchmarks/bars.py attention:training --repeat 3
python tests/benchmarks/bars.py --write                      and put the tables into README.md beside this file

The exit status is 0 if all hold, in every repetition.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = (
    "tasks",
    "attention",
    "seq_vcr",
    "entropy",
    "capture",
    "pretrained",
    "language_model",
    "training",
    "explorer",
    "probes",
    "circuits",
    "circuit_page",
)


def bars(benchmark: str, write: bool) -> tuple[list[str], bool]:
    """What was asked in one run of a benchmark, a line each, and whether the run ended well."""
    name, _, tables = benchmark.partition(":")
    command = [sys.executable, str(HERE / f"bench_{name}.py"), *filter(None, tables.split(","))]
    ran = subprocess.run([*command, *["--write"] * write], stdout=subprocess.PIPE, text=True)
    lines = [line.removeprefix("- ") for line in ran.stdout.splitlines() if line.startswith("- ")]
    broke = ran.returncode != 0 and not any("falls short" in line for line in lines)
    return (
        [f"bench_{name}.py ended with {ran.returncode}: **falls short**"] if broke else []
    ) + lines, not ran.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", metavar="NAME[:TABLE,…]", help=f"some of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="so many runs of each in a row")
    parser.add_argument("--write", action="store_true", help="put the tables into the README beside this file")
    options = parser.parse_args()
    missing = [one for one in options.benchmarks if not (HERE / f"bench_{one.partition(':')[0]}.py").exists()]
    if missing:
        parser.error(f"no benchmark {missing[0]!r}; there is: {', '.join(BENCHMARKS)}")
    held = True
    for benchmark in options.benchmarks or BENCHMARKS:
        for number in range(1, options.repeat + 1):
            lines, well = bars(benchmark, options.write)
            held &= well
            of = f", run {number} of {options.repeat}" if options.repeat > 1 else ""
            print(
                f"{benchmark}{of}:",
                *(f"  {line}" for line in lines or ["nothing is asked of it"]),
                sep="\n",
                flush=True,
            )
    print("All bars hold." if held else "Some bars fall short.")
    sys.exit(not held)


if __name__ == "__main__":
    main()
