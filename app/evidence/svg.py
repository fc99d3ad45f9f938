"""SVG that a stranger may have written, cut down to the elements and attributes that only draw."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from workbench.figures.drawing import STYLE

NAMESPACE = "{http://www.w3.org/2000/svg}"
SHAPES = {"svg", "g", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan", "image"}
SHADES = {"title", "desc", "defs", "linearGradient", "radialGradient", "stop", "clipPath", "marker"}
ATTRIBUTES = re.compile(
    r"aria-label|class|clip-path|c[xy]|d|data-tip|dominant-baseline|d[xy]|fill(-opacity|-rule)?|font-(family|size|style|"
    r"weight)|gradient(Transform|Units)|height|id|letter-spacing|marker-?\w+|offset|opacity|orient|paint-order|points|"
    r"preserveAspectRatio|r|ref[XY]|role|r[xy]|stop-(color|opacity)|stroke(-\w+)?|style|text-anchor|textLength|"
    r"transform|viewBox|width|[xy][12]?"
)
SAID = ("aria-label", "data-tip")  # words, which may be any
PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=\s]*")
REACHES_OUT = re.compile(r"url\s*\((?!\s*#)|[@\\]|expression|script:|import|position", re.IGNORECASE)
LONGEST_SIDE = 50_000  # pixels

ET.register_namespace("", NAMESPACE.strip("{}"))


def only_shapes(text: str) -> str:
    """An SVG document without scripts, links, foreign content, styles of its own, and anything that is loaded.

    What is left out is no error: a drawing of a plugin may link its tokens, say, and is shown without the links.

    Raises:
        ValueError: if it is not SVG of a size that can be shown.
    """
    if "<!" in text or "<?" in text:
        raise ValueError("the drawing has declarations, which no drawing of the workbench has")
    try:
        root = ET.fromstring(text)
        if root.tag != f"{NAMESPACE}svg" or "viewBox" not in root.attrib:
            raise ValueError("the drawing is not SVG with a viewBox")
        width, height = (float(root.get(name, "")) for name in ("width", "height"))
        if not (1 <= width <= LONGEST_SIDE and 1 <= height <= LONGEST_SIDE):
            raise ValueError(f"the drawing is {width:g} × {height:g} pixels; each side is from 1 to {LONGEST_SIDE:,}")
        _clean(root)
        ET.SubElement(root, f"{NAMESPACE}style").text = STYLE
        return ET.tostring(root, encoding="unicode")
    except (ET.ParseError, RecursionError) as error:
        raise ValueError(f"the drawing is not SVG: {error}") from None


def _clean(element: ET.Element) -> None:
    """Keep the attributes and elements that draw, at any depth."""
    element.attrib = {name: value for name, value in element.attrib.items() if _draws(element.tag, name, value)}
    for child in list(element):
        if child.tag in {f"{NAMESPACE}{name}" for name in SHAPES | SHADES}:
            _clean(child)
        else:
            element.remove(child)


def _draws(tag: str, name: str, value: str) -> bool:
    if name == "href":
        return tag == f"{NAMESPACE}image" and PICTURE.fullmatch(value) is not None
    return bool(ATTRIBUTES.fullmatch(name)) and (name in SAID or REACHES_OUT.search(value) is None)
