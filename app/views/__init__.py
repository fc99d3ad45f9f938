"""The pages of the explorer, one file each. A new page is one new file and one entry in `PAGES`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Page(NamedTuple):
    """A page.

    Attributes:
        title: in the menu.
        file: its script, in this folder.
        needs_run: whether it is about the sidebar's run; in a folder without runs it says so instead.
        of_models: whether it says anything of a model of Hugging Face, which has no training, task or claims.
        of_variants: whether it does so only of one that has a variant of this library.
    """

    title: str
    file: str
    needs_run: bool = True
    of_models: bool = True
    of_variants: bool = False

    @property
    def path(self) -> Path:
        return Path(__file__).parent / self.file


PAGES: dict[str, Page] = {
    "overview": Page("Overview", "overview.py", needs_run=False, of_models=False),
    "story": Page("Story", "story.py"),
    "canvas": Page("Canvas", "canvas.py"),
    "residual": Page("Residual", "residual.py"),
    "entropy": Page("Entropy", "entropy.py"),
    "weights": Page("Weights", "weights.py", of_models=False),
    "hops": Page("Hops", "hops.py", of_variants=True),
    "mechanisms": Page("Mechanisms", "mechanisms.py", of_models=False),
    "circuit": Page("Circuit", "circuit.py", of_models=False),
    "training": Page("Training", "training.py", of_models=False),
    "probes": Page("Probes", "probes.py"),
    "compare": Page("Compare", "compare.py"),
}
"""Name in the URL -> the page, in the order of the menu. The first one opens by default."""

__all__ = ["PAGES", "Page"]
