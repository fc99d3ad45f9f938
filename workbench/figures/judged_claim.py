"""A claim as it was judged: how often it holds beside its controls, and what an edit of it does to right answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.style import BLUE, CHANGED, GREY, framed
from workbench.judgement.against_controls import Compared
from workbench.judgement.claim import Judgement, Test
from workbench.measurement.controls import control_in_words
from workbench.measurement.numbers import percent
from workbench.measurement.places import place_in_words

HOLDS, EDITED = "how often it holds", "right answers that change under an edit of it"
ROW, AROUND = 26, 130  # pixels of a bar, and of everything else


class _Bar(NamedTuple):
    """One bar: what it is of, its share with the ends of its whisker, and its colour; a control is hatched."""

    name: str
    share: float
    low: float
    high: float
    of: str
    colour: str
    control: bool


def judged_claim(places: Sequence[Judgement]) -> go.Figure:
    """A judged claim's counts as bars, this model's above those of each control.

    Args:
        places: judgements of one claim, or of several claims; whiskers are 95 % intervals, of several uninformed models
            they reach to the highest of them.
    """
    several = len({judgement.title for judgement in places}) > 1
    rates = [bar for judgement in places for bar in _rates(judgement, several, len(places) > 1)]
    tested = [(judgement, judgement.test) for judgement in places if judgement.test is not None]
    edits = [bar for judgement, test in tested for bar in _edits(judgement, test, len(places) > 1)]
    groups = [(HOLDS, rates), *([(EDITED, edits)] if edits else [])]
    heights = [len(bars) for _, bars in groups]
    figure = make_subplots(
        rows=len(groups),
        cols=1,
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=2 * ROW / (ROW * (sum(heights) + 2)) if len(groups) > 1 else 0.0,
        subplot_titles=[title for title, _ in groups],
    )
    for row, (_, bars) in enumerate(groups, 1):
        _add_bars(figure, bars, row)
    titles = list(dict.fromkeys(judgement.title for judgement in places))
    subtitle = "whiskers: 95 % intervals; of several uninformed models, up to the highest"
    framed(figure, ", ".join(titles), subtitle, height=AROUND + ROW * (sum(heights) + 2 * len(groups)), legend=False)
    figure.update_annotations(x=0.0, xanchor="left", font={"size": 12, "color": GREY})
    figure.update_xaxes(range=[0, 1.03], tickformat=".0%", showticklabels=True)
    return figure.update_yaxes(automargin=True)


def _add_bars(figure: go.Figure, bars: Sequence[_Bar], row: int) -> None:
    """Bars with their whiskers in a row of plots, from its top."""
    figure.add_bar(
        x=[bar.share for bar in bars],
        y=list(range(len(bars))),
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, bar.high - bar.share) for bar in bars],
            "arrayminus": [max(0.0, bar.share - bar.low) for bar in bars],
            "thickness": 2,
            "color": GREY,
        },
        orientation="h",
        marker={
            "color": [bar.colour for bar in bars],
            "pattern": {"shape": ["/" if bar.control else "" for bar in bars]},
        },
        customdata=[bar.of for bar in bars],
        hovertemplate="%{customdata}<extra></extra>",
        row=row,
        col=1,
    )
    names = [bar.name for bar in bars]
    figure.update_yaxes(tickvals=list(range(len(bars))), ticktext=names, autorange="reversed", row=row, col=1)


def _rates(judgement: Judgement, several: bool, places: bool) -> Iterator[_Bar]:
    """How often it holds at a place, and how often under each control."""
    where = place_in_words(judgement.place) if judgement.place and places else ""
    name = ", ".join(filter(None, (judgement.title if several else "", where))) or "this model"
    of = f"{percent(judgement.rate)} of {judgement.n:,}"
    yield _Bar(name, judgement.rate, judgement.low, judgement.high, of, BLUE, False)
    yield from map(_of_control, judgement.controls)


def _edits(judgement: Judgement, test: Test, places: bool) -> Iterator[_Bar]:
    """What the claimed edit and others change at a place, and the claimed one in uninformed models."""
    where = f", {place_in_words(judgement.place)}" if judgement.place and places else ""
    for edited in (test.claimed, *test.others):
        if edited.n:
            share, control = edited.changed / edited.n, edited is not test.claimed
            of = f"{edited.changed:g} of {edited.n:,} change, {edited.as_claimed:g} as claimed"
            name = f"{edited.edit}{'' if control else where}"
            yield _Bar(name, share, edited.low, edited.high, of, GREY if control else CHANGED, control)
    for null in test.nulls:
        yield _of_control(null)._replace(of=f"{null.hits:g} of {null.n:,} {test.decided_by}")


def _of_control(control: Compared) -> _Bar:
    models = f" ({control.models} models)" if control.models else ""
    of = f"{control.hits:g} of {control.n:,}"
    high = max(control.rate, control.most) if control.models else control.rate
    return _Bar(
        f"{control_in_words(control.against, short=True)}{models}", control.rate, control.rate, high, of, GREY, True
    )
