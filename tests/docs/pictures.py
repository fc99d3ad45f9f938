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

CHAIN = ("accuracy", "entropy", "path_mass", "attention_graph", "chain_following", "head_roles", "rollout")
SORTER = ("minimum", "successor", "projection", "logit_lens", "lens_agreement")

# Picture -> the run it is of, and how the name of the exported figure begins.
PICTURES = {
    "accuracy": ("chain", "accuracy-by-depth"),
    "mechanisms": ("chain", "mechanisms"),
    "entropy": ("chain", "matrix-entropy-by-layer"),
    "distribution": ("chain", "matrix-entropy-distribution"),
    "gold-mass": ("chain", "attention-on-gold-paths"),
    "path-mass": ("chain", "path-mass-by-hop"),
    "knockout": ("chain", "causal-tests-knockout"),
    "resolvent": ("chain", "attention-on-one-sequence-*resolvent"),
    "causal": ("sorter", "causal-tests"),
    "top-token": ("sorter", "top-token-of-the-residual-*target"),
    "residual": ("sorter", "residual-of-one-sequence-*decoder-basis"),
    "token": ("sorter", "residual-of-one-sequence-*both-bases"),
}


def make_runs(root: Path) -> None:
    """Train, compile and inspect; figures are then below `root`."""
    commands = [
        ["train", "chain-chacal", "--out", str(root / "chacal"), "--quiet"],
        ["train", "chain-standard", "--out", str(root / "standard"), "--quiet"],
        ["compile", "sorter", "--q", "9", "--out", str(root / "sorter")],
    ]
    inspect = ["--quiet", "--export", "png", "--only"]
    commands.append(["inspect", *(str(root / run) for run in ("chacal", "standard")), "--out", str(root / "chain")])
    commands[-1] += [*inspect, *CHAIN]
    commands.append(["inspect", str(root / "sorter"), "--out", str(root / "of-sorter"), *inspect, *SORTER])
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
        height = round(image.height * WIDTH / image.width)
        small = image.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
        small.quantize(COLOURS).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="a folder for the runs; what is in it is deleted")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the pictures")
    options = parser.parse_args()
    shutil.rmtree(options.root, ignore_errors=True)
    make_runs(options.root)
    options.out.mkdir(parents=True, exist_ok=True)
    folders = {"chain": options.root / "chain/figures", "sorter": options.root / "of-sorter/figures"}
    for name, (run, pattern) in PICTURES.items():
        shrink(exported(folders[run], pattern), options.out / f"{name}.png")
    shutil.copy(BENCHMARKS / "growth.png", options.out / "growth.png")


if __name__ == "__main__":
    main()
