"""A run's config in a few words, for tables and captions."""

from __future__ import annotations

import re

from workbench.runs import RunConfig


def attention(config: RunConfig) -> str:
    """`2 × standard`, `standard, then chacal (γ = 0.9)`, `2 × tempered (n = input)`."""
    kinds = []
    for layer in config.model.attention:
        settings = {"γ": layer.get("gamma"), "n": layer.get("n")}  # tempering's n is said unless it is the position
        parts = [f"{name} = {value}" for name, value in settings.items() if value not in (None, "position")]
        kinds.append(spaced(layer["variant"]) + (f" ({', '.join(parts)})" if parts else ""))
    return f"{len(kinds)} × {kinds[0]}" if len(set(kinds)) == 1 else ", then ".join(kinds)


def spaced(name: str) -> str:
    """A name as words: `pointer chain`, `next token`."""
    return name.replace("_", " ")


def seconds(value: float) -> str:
    """`16 s`, `2 min`."""
    return f"{value:.0f} s" if value < 90 else f"{value / 60:.0f} min"


def plain(text: str) -> str:
    """A text for what shows Markdown, which would make links and pictures of a stranger's names."""
    return re.sub(r"([\\`*_\[\]<>$:~!|#&])", r"\\\1", text)
