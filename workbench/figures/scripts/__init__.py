"""What makes drawings move in a browser: hovering, clicks and keys, hops, a film; one source for every page that does.

Each script is a component as Streamlit has them: a function of `data`, `parentElement` and `setTriggerValue`. The
styles take a page's colours from `--st-text-color`, `--st-background-color`, `--st-secondary-background-color` and
`--st-primary-color`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FILES = {
    "clicks": ("elements.js", "clicks.js", "hop_by_hop.js"),
    "film": ("elements.js", "film.js"),
    "style": ("clicks.css", "hop_by_hop.css"),
}
"""A component's script, `clicks` of drawings that are pointed at or `film` of several frames; the `style` of both."""


@cache  # they are sent with every drawing that is shown
def source(name: str) -> str:
    """One of `FILES` as a text; a script is an ES module."""
    return "\n".join(Path(__file__).with_name(file).read_text(encoding="utf-8") for file in FILES[name])
