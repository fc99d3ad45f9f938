"""What makes drawings move in a browser: hovering, clicks and keys, hops, a film; one source for every page that does.

Each script is a component as Streamlit has them: a function of `data`, `parentElement` and `setTriggerValue`. The
styles take a page's colours from `--st-text-color`, `--st-background-color`, `--st-secondary-background-color` and
`--st-primary-color`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


def script(name: str) -> str:
    """A component's script as an ES module: `clicks`, of drawings that are pointed at, or `film`, of several frames."""
    return _joined("js", "elements", name, *(("hop_by_hop",) if name == "clicks" else ()))


def style() -> str:
    """The style of both."""
    return _joined("css", "clicks", "hop_by_hop")


@cache  # they are sent with every drawing that is shown
def _joined(kind: str, *names: str) -> str:
    return "\n".join(Path(__file__).with_name(f"{name}.{kind}").read_text(encoding="utf-8") for name in names)
