"""A picture as SVG, drawn piece by piece: what a page can make clickable, a notebook shows, and a file keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

STYLE = """
text { font-family: system-ui, "DejaVu Sans", sans-serif; fill: var(--ink, #1b1b1b); }
.quiet { fill: var(--muted, #666); }
.gutter rect { fill: var(--paper, #fff); }
.chosen { stroke: var(--ink, #1b1b1b); }
.edge, .step { fill: none; } .far { opacity: 0; }
"""


@dataclass(frozen=True)
class Drawing:
    """An SVG picture.

    Colours of text and paper are the CSS variables `--ink`, `--muted` and `--paper`, so that a page with another theme
    sets them; by default they are those of a light page.

    Attributes:
        title: what is drawn.
        subtitle: of what, how, and what was left out.
        body: the SVG elements. Elements carry `data-tip` (what hovering says), `data-cell`, `data-token`, `data-edge`
            and `data-name` (what a click means), one perhaps `data-focus` (what is scrolled to where there is no room);
            pointing at a `data-node` lights the edges that have it among their `data-ends`.
        width, height: in pixels.
        data: what a page's script draws further from, as JSON; a drawing shows all it says without it.
    """

    title: str
    subtitle: str
    body: str
    width: int
    height: int
    data: Mapping[str, Any] = field(default_factory=dict)

    def svg(self) -> str:
        """The whole picture as an SVG document."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" aria-label="{escape(self.title)}"><style>{STYLE}</style>{self.body}'
            "</svg>"
        )

    def page(self) -> str:
        """The picture with its title, as part of an HTML page."""
        style = "margin:1rem 0;overflow-x:auto;font-family:system-ui,sans-serif"
        words = f"<b>{escape(self.title)}</b><br>{escape(self.subtitle)}"
        return f"<figure style='{style}'><figcaption>{words}</figcaption>{self.svg()}</figure>"

    def _repr_html_(self) -> str:
        return self.page()


def element(tag: str, content: str = "", **attributes: Any) -> str:
    """One SVG element; attributes that are None are left out, `_` in their names becomes `-`, values are escaped.

    Args:
        tag: its name.
        content: SVG inside it, which is not escaped.
        attributes: `class_` for `class`.
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{given}>{content}</{tag}>" if content else f"<{tag}{given}/>"


def text(words: str, x: float, y: float, size: float = 12, **attributes: Any) -> str:
    """Text centred at x, its middle at y."""
    given = {"text_anchor": "middle", "dominant_baseline": "central", "font_size": size} | attributes
    return element("text", escape(words), x=x, y=y, **given)


def _short(value: Any) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
