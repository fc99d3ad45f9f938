"""What the explorer's tests share: opening a page, and running the code that a panel shows."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import plotly.graph_objects as go
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from workbench.app.panels import background
from workbench.figures import Drawing

RUNS = (
    "chain-chacal",
    "chain-standard",
    "sort-tempered",
    "multiply-seqvcr",
    "items-in-boxes",
    "sorter",
    "turned",
    "chaser",
)
"""The runs of `run_root`, one of each kind."""


def page(explorer: AppTest, name: str, /, **query: str) -> AppTest:
    """Open a page of the explorer with every panel open, as a link with this query would; it must show no exception."""
    explorer.query_params.update({"unfold": "true"} | query)
    explorer._page_hash = calc_hash(name)  # `switch_page` can only be called after a first run, which is another page's
    explorer.run()
    assert not explorer.exception, explorer.exception[0].value
    return explorer


def ask(key: Hashable, measure: Callable[[], Any]) -> background.Job:
    """Have something measured beside the page that is known at once, not part by part."""
    return background.ask(key, lambda job: iter([measure()]))


def panels(explorer: AppTest) -> list[str]:
    """The titles of the page's panels, those that are folded last."""
    folded = [box.label.strip("*").replace("\\:", ":") for box in explorer.expander if box.label.startswith("**")]
    return [title.value for title in explorer.subheader] + folded


def charts(explorer: AppTest) -> list[dict[str, Any]]:
    """The plotly figures of the page, with their titles, which the page has as words above them."""
    every = [json.loads(chart.proto.spec) for chart in explorer.get("plotly_chart")]
    for chart in every:
        if not chart["layout"].get("title"):
            chart["layout"]["title"] = {"text": chart["layout"]["meta"]["title"]}
    return every


def says(explorer: AppTest, words: str) -> bool:
    """Whether text of the page, such as a figure's subtitle, has these words."""
    return any(words in one.value for one in explorer.markdown)


def titles(explorer: AppTest) -> list[str]:
    """The titles of the plotly figures."""
    return [chart["layout"]["title"]["text"] for chart in charts(explorer)]


def numbers(data: Any) -> np.ndarray:
    """An array of a figure's JSON, which plotly packs."""
    if not isinstance(data, dict):
        return np.array(data, dtype=float)
    shape = [int(size) for size in data["shape"].split(",")] if "shape" in data else [-1]
    return np.frombuffer(base64.b64decode(data["bdata"]), data["dtype"]).reshape(shape)


def drawings(explorer: AppTest) -> list[str]:
    """The SVG of the page's drawings, without the small patterns from which a head is chosen."""
    every = [json.loads(element.proto.json) for element in explorer.get("bidi_component")]
    pictures = [data["svg"] if "svg" in data else data["frames"][-1] for data in every if {"svg", "frames"} & {*data}]
    return [svg for svg in pictures if 'aria-label="Every head' not in svg]


def drawing_titles(explorer: AppTest) -> list[str]:
    """The titles of the page's drawings."""
    return [html.unescape(svg.split('aria-label="')[1].split('"')[0]) for svg in drawings(explorer)]


def check_code(explorer: AppTest) -> int:
    """Run the lines that every panel shows: each must make the very figure beside it. Returns how many there were."""
    shown, drawn = charts(explorer), drawings(explorer)
    blocks = [block for block in explorer.code if block.language == "python"]  # others are command lines
    for block in blocks:
        names: dict[str, Any] = {}
        exec(compile(block.value, "<panel>", "exec"), names)
        figure = names["figure"]
        if isinstance(figure, Drawing):
            assert figure.svg() in drawn, block.value
        else:
            assert isinstance(figure, go.Figure)
            made = json.loads(figure.to_json() or "")["data"]
            assert any(same(made, chart["data"]) for chart in shown), block.value
    return len(blocks)


def same(made: Any, shown: Any) -> bool:
    """Whether two pieces of JSON say the same."""
    return json.dumps(made, sort_keys=True) == json.dumps(shown, sort_keys=True)
