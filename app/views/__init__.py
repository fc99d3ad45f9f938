"""The pages of the explorer, one file each. A new page is one new file and one entry in `PAGES`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Page(NamedTuple):
    """A page.

    Attributes:
        title: in the menu, and above the page.
        file: its script, in this folder.
        group: what the menu says above the first page of those that stand together.
        says: the one thing that it is there to say, behind its title.
        needs_run: whether it is about the sidebar's run; in a folder without runs it says so instead.
        of_models: whether it says anything of a model of Hugging Face, which has no training, task or claims.
        of_variants: whether it does so only of one that has a variant of this library.
    """

    title: str
    file: str
    group: str = "your own"
    says: str = ""
    needs_run: bool = True
    of_models: bool = True
    of_variants: bool = False

    @property
    def path(self) -> Path:
        return Path(__file__).parent / self.file


_RUNS, _FINDINGS, _INPUT, _MODEL, _OTHERS = (
    "all runs",
    "what was found",
    "on one input",
    "in the whole model",
    "beside others",
)
PAGES: dict[str, Page] = {
    "overview": Page(
        "Overview", "overview.py", _RUNS, "what these models were found to do", needs_run=False, of_models=False
    ),
    "story": Page("Story", "story.py", _FINDINGS, "what was found of this run, each with its picture"),
    "mechanisms": Page(
        "Mechanisms",
        "mechanisms.py",
        _FINDINGS,
        "which claims hold, how often, and whether answers need them",
        of_models=False,
    ),
    "canvas": Page("Canvas", "canvas.py", _INPUT, "what a head reads, and what breaks without it"),
    "hops": Page("Hops", "hops.py", _INPUT, "where a token's reading leads, hop by hop", of_variants=True),
    "residual": Page("Residual", "residual.py", _INPUT, "where the answer appears"),
    "entropy": Page("Entropy", "entropy.py", _MODEL, "whether representations collapse, and beside what"),
    "weights": Page(
        "Weights", "weights.py", _MODEL, "what a head matches and writes, whatever the input", of_models=False
    ),
    "circuit": Page("Circuit", "circuit.py", _MODEL, "which edges carry the answer", of_models=False),
    "probes": Page("Probes", "probes.py", _MODEL, "what can be decoded, and whether it is used"),
    "training": Page("Training", "training.py", _OTHERS, "what was learnt when", of_models=False),
    "compare": Page("Compare", "compare.py", _OTHERS, "how B differs from A"),
}
"""Name in the URL -> the page, in the order of the menu. The first one opens by default."""

__all__ = ["PAGES", "Page"]
