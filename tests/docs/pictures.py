"""Draws the figures of docs/pictures with `workbench inspect --export`, from runs trained for them.

python -m tests.docs.pictures --root demo/pictures --out docs/pictures        (or `make pictures`; two minutes)
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from PIL import Image

from workbench import cli

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
WIDTH, COLOURS = 1400, 128

# Report -> the runs that it is of, and what is measured.
REPORTS = {
    "chain": (("chacal", "standard"), ("accuracy", "entropy", "path_mass", "gold_mass", "attention_graph")),
    "claim": (("chacal",), ("chain_following",)),
    "sorting": (("sorter",), ("minimum", "successor", "projection")),
}

# Picture -> the report it is from, and how the name of the exported figure begins.
PICTURES = {
    "accuracy": ("chain", "accuracy-by-depth"),
    "mechanisms": ("claim", "mechanisms"),
    "entropy": ("chain", "matrix-entropy-by-layer"),
    "distribution": ("chain", "matrix-entropy-distribution"),
    "gold-mass": ("chain", "attention-on-gold-paths"),
    "path-mass": ("chain", "path-mass-by-hop"),
    "knockout": ("claim", "causal-tests-knockout"),
    "resolvent": ("chain", "attention-on-one-sequence-*resolvent"),
    "causal": ("sorting", "causal-tests"),
    "top-token": ("sorting", "top-token-of-the-residual-*target"),
    "residual": ("sorting", "residual-of-one-sequence-*decoder-basis"),
    "token": ("sorting", "residual-of-one-sequence-*both-bases"),
}


def make_runs(root: Path) -> None:
    """Train, compile and inspect; figures are then below `root`."""
    commands = [
        ["train", "chain-chacal", "--out", str(root / "chacal"), "--quiet"],
        ["train", "chain-standard", "--out", str(root / "standard"), "--quiet"],
        ["compile", "sorter", "--q", "9", "--out", str(root / "sorter")],
    ]
    for report, (runs, measures) in REPORTS.items():
        of = [str(root / run) for run in runs]
        commands.append(
            ["inspect", *of, "--out", str(root / report), "--quiet", "--export", "png", "--only", *measures]
        )
    for command in commands:
        if cli.main(command):
            raise SystemExit(f"workbench {' '.join(command)} failed")


def exported(folder: Path, pattern: str) -> Path:
    """The figure whose name begins so."""
    found = sorted(folder.glob(f"{pattern}*.png"))
    if not found:
        raise ValueError(f"no figure {pattern} in {folder}: {', '.join(sorted(p.stem for p in folder.glob('*.png')))}")
    return found[0]


def shrink(source: Path, target: Path) -> None:
    """A picture in a width that pages show, and in few colours."""
    with Image.open(source) as image:
        figure = image.convert("RGBA")  # on no background
        page = Image.new("RGBA", figure.size, "white")
        page.alpha_composite(figure)
        small = page.convert("RGB").resize((WIDTH, round(page.height * WIDTH / page.width)), Image.Resampling.LANCZOS)
        small.quantize(COLOURS).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="a folder for the runs; what is in it is deleted")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the pictures")
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    make_runs(options.root)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, (report, pattern) in PICTURES.items():
        shrink(exported(options.root / report / "figures", pattern), options.out / f"{name}.png")
    shutil.copy(BENCHMARKS / "growth.png", options.out / "growth.png")


if __name__ == "__main__":
    main()
