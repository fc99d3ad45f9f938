"""A pin: one figure as it was on a page, with what it is of, a note, and what leads back to the page."""

from __future__ import annotations

import json
import re
import secrets
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import plotly.graph_objects as go
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from workbench.app.evidence.svg import only_shapes
from workbench.app.server.guard import TOKEN
from workbench.figures import Drawing
from workbench.util.messages import first_problem

MOST_BYTES = 12_000_000  # of a pin on disk
LONGEST_NOTE = 2_000
TRACES = ("scatter", "bar", "heatmap", "histogram", "box", "violin", "contour", "histogram2d", "scatter3d", "surface")
"""Kinds of charts that draw what they are given; those that are left out load maps or pictures."""
NOT_FIELDS = re.compile(rf"{TOKEN}|embed.*", re.IGNORECASE)  # of the server, and of Streamlit

Line = Annotated[str, Field(max_length=500)]
Words = Annotated[str, Field(max_length=20_000)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,59}$")]


class Pin(BaseModel):
    """One figure as it was when it was pinned. A file of it may come from a stranger: see `Pin.read`.

    Attributes:
        id: says when it was pinned, and so the order.
        date: the same for people.
        title: of its panel.
        says: its caption: what it shows and what it does not show.
        code: the lines of Python that make it; never run here.
        runs: the runs of the page, that of the sidebar first.
        checkpoint: the training step that the page was at; None for the end.
        head: in focus on the page, `layer 0, head 0`; empty if none was.
        input: the input that the figure is about, as the task writes it; empty if it is about none.
        n: the number of examples behind the figure, if it is about more than the one input.
        page, query: which page, and what its fields held: what leads back.
        note: of who pinned it.
        drawing: the figure as SVG, or
        chart: as plotly's JSON.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]
    date: AwareDatetime
    title: Line
    says: Words
    code: Annotated[str, Field(max_length=200_000)]
    runs: Annotated[tuple[Line, ...], Field(max_length=100)] = ()
    checkpoint: Annotated[int, Field(ge=0, lt=2**53)] | None = None
    head: Line = ""
    input: Words = ""
    n: Annotated[int, Field(ge=1, lt=2**53)] | None = None
    page: Name
    query: Annotated[dict[Name, tuple[Words, ...]], Field(max_length=200)]
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    drawing: Annotated[str, Field(max_length=MOST_BYTES), AfterValidator(only_shapes)] | None = None
    chart: Annotated[str, Field(max_length=MOST_BYTES)] | None = None

    @model_validator(mode="after")
    def _is_one_figure(self) -> Pin:
        if (self.drawing is None) == (self.chart is None):
            raise ValueError("a pin has either a drawing or a chart")
        unknown = [name for name in self.query if NOT_FIELDS.fullmatch(name)]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a field of a page")
        return self

    @staticmethod
    def of(figure: go.Figure | Drawing, **about: Any) -> Pin:
        """A pin of a figure, made now; `about` are the other attributes.

        Raises:
            ValueError: in one line, if something is too long.
        """
        about |= {"drawing": figure.svg()} if isinstance(figure, Drawing) else {"chart": figure.to_json()}
        about |= {
            "id": f"{time.time_ns():016x}{secrets.token_hex(4)}",
            "date": datetime.now(UTC).replace(microsecond=0),
        }
        try:
            return Pin(**about)
        except ValidationError as error:
            raise ValueError(first_problem(error, Pin)) from None

    @staticmethod
    def read(text: str) -> Pin:
        """A pin from the JSON of a file, which anyone may have written: text, numbers, and shapes, each within limits.

        Raises:
            ValueError: in one line, if it is not one.
        """
        try:
            return Pin.model_validate_json(text)
        except ValidationError as error:
            raise ValueError(first_problem(error, Pin)) from None

    def where(self) -> str:
        """`chain-chacal, step 200 · layer 0, head 0`: which run, checkpoint and head."""
        step = f", step {self.checkpoint:,}" if self.checkpoint is not None else ""
        return " · ".join(filter(None, (" and ".join(self.runs) + step if self.runs else "", self.head)))

    def behind(self) -> str:
        """How much is behind the figure: `n = 512`, or `one input`."""
        return f"n = {self.n:,}" if self.n is not None else "one input" if self.input else ""


def figure_of(chart: str) -> go.Figure:
    """The figure of a chart's JSON, checked by plotly, on white.

    Raises:
        ValueError: in one line, if it is not a figure, or if it would load something.
    """
    try:
        read = json.loads(chart)
        figure = go.Figure(data=read["data"], layout={**read["layout"], "template": None})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"this chart cannot be read: {str(error).strip().splitlines()[0]}") from None
    other = next((trace.type for trace in figure.data if trace.type not in TRACES), None)
    if other is not None:
        raise ValueError(f"this chart cannot be read: charts of the kind {other!r} may load something")
    if any(not str(image.source).startswith("data:image/png;base64,") for image in figure.layout.images):
        raise ValueError("this chart cannot be read: it loads a picture")
    return figure.update_layout(template="plotly_white")
