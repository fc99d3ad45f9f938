"""A matrix as a picture inside a drawing: one pixel to an entry, as the address of a PNG."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from workbench.figures.drawing import element
from workbench.figures.style import BLUE, VERMILLION


def pixels(shares: Float[np.ndarray, "row column"], **attributes: Any) -> str:
    """An SVG element of the matrix: blue above 0 and vermillion below, nothing at 0, opaque at 1 and −1.

    Args:
        shares: from −1 to 1; NaN is drawn as 0.
        attributes: `x`, `y`, `width` and `height` in the drawing.
    """
    shares = np.nan_to_num(np.asarray(shares, dtype=np.float64)).clip(-1, 1)
    rgba = np.empty((*shares.shape, 4), dtype=np.uint8)
    rgba[..., :3] = np.where(shares[..., None] < 0, _rgb(VERMILLION), _rgb(BLUE))
    rgba[..., 3] = np.rint(255 * np.abs(shares))
    address = f"data:image/png;base64,{b64encode(_png(rgba)).decode()}"
    style = "image-rendering: pixelated"
    return element("image", **attributes, href=address, preserveAspectRatio="none", style=style)


def _rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _png(rgba: UInt8[np.ndarray, "row column 4"]) -> bytes:
    """The bytes of a PNG file."""
    rows = b"".join(b"\0" + row.tobytes() for row in rgba)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", rgba.shape[1], rgba.shape[0], 8, 6, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
