"""A picture as SVG, drawn piece by piece: what a page can make clickable, a notebook shows, and a file keeps.

A matrix is in it as a PNG of one pixel to an entry.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from plotly.colors import hex_to_rgb

from workbench.figures.style import BLUE, VERMILLION

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
    given = ""
    for name, value in attributes.items():
        if value is not None:
            shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            given += f' {name.rstrip("_").replace("_", "-")}="{escape(shown)}"'
    return f"<{tag}{given}>{content}</{tag}>" if content else f"<{tag}{given}/>"


def text(words: str, x: float, y: float, size: float = 12, **attributes: Any) -> str:
    """Text centred at x, its middle at y."""
    given = {"text_anchor": "middle", "dominant_baseline": "central", "font_size": size} | attributes
    return element("text", escape(words), x=x, y=y, **given)


def shortened(word: str, most: int) -> str:
    """A word of at most so many letters, the last of a longer one `…`."""
    return word if len(word) <= most else f"{word[: max(0, most - 1)]}…"


def pixels(shares: Float[np.ndarray, "row column"], **attributes: Any) -> str:
    """An SVG element of the matrix: blue above 0 and vermillion below, nothing at 0, opaque at 1 and −1.

    Args:
        shares: from −1 to 1; NaN is drawn as 0.
        attributes: `x`, `y`, `width` and `height` in the drawing.
    """
    shares = np.nan_to_num(np.asarray(shares, dtype=np.float64)).clip(-1, 1)
    rgba = np.empty((*shares.shape, 4), dtype=np.uint8)
    rgba[..., :3] = np.where(shares[..., None] < 0, hex_to_rgb(VERMILLION), hex_to_rgb(BLUE))
    rgba[..., 3] = np.rint(255 * np.abs(shares))
    address = f"data:image/png;base64,{b64encode(_png(rgba)).decode()}"
    style = "image-rendering: pixelated"
    return element("image", **attributes, href=address, preserveAspectRatio="none", style=style)


def _png(rgba: UInt8[np.ndarray, "row column 4"]) -> bytes:
    """The bytes of a PNG file."""
    rows = b"".join(b"\0" + row.tobytes() for row in rgba)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", rgba.shape[1], rgba.shape[0], 8, 6, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
