"""A page as one HTML file: words that hold no markup, and a file that takes no other's place."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

from workbench.util.files import check_free, write_atomically
from workbench.util.messages import harmless


def in_html(text: str) -> str:
    """Text as HTML shows it: no markup, and no signs that cannot be seen; its lines stay."""
    return escape("\n".join(map(harmless, text.split("\n"))))


def write_page(out: Path, make: Callable[[], str]) -> Path:
    """Write a page, which is made once its file is known to be free.

    Raises:
        ValueError: if `out` is taken, or its name does not end in .html.
    """
    if out.suffix.lower() != ".html":
        raise ValueError(f"a page is an HTML file, not {out.name!r}: give it a name that ends in .html")
    check_free(out, file=True)
    text = make()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.encode())
    return out
