"""An edit of one input, drawn: the tokens, what is right, what the model says before and after, and how sure it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workbench.figures.drawing import Drawing, element, text
from workbench.figures.style import BLUE, CHANGED, SKY, VERMILLION
from workbench.figures.token_page import GUTTER, LINE, TokenPage, answer_rows, part_drawn, window
from workbench.instruments.residual import projection
from workbench.interventions import CutEdge, Edited, MoveEdge
from workbench.measurement.numbers import difference, percent
from workbench.util.words import capitalised

HEADROOM = 16  # pixels for what a page lays over the picture's corner
MOST_ARCS = 160
FAINTEST = 0.1  # nats: where no answer moves by more, the shades say so


def edited(tried: Edited, *, start: int = 0) -> Drawing:
    """One input's answers before and after an edit, position by position.

    From top to bottom: the edges that were cut or moved, the tokens (those in blue where something was changed), what
    is right, what the model says before and after (an answer that changed has a thick frame), and the change of the
    right answer's log-probability. At most `WIDEST` positions are drawn, from `start`.

    Args:
        tried: `edits.try_edit(...)`.
        start: the first position drawn.

    Raises:
        ValueError: if there is no such position.
    """
    words = projection.sequence(tried.before, 0)
    drawn = window(len(words), start)
    places = tried.edit.places(len(words))
    page = TokenPage(words, drawn, () if len(places) == len(words) else set(places))
    page.height += HEADROOM
    if isinstance(tried.edit, CutEdge):
        _cuts(page, tried.edit.edges(len(words)))
    elif isinstance(tried.edit, MoveEdge):
        _cuts(page, [(tried.edit.query, tried.edit.key)], (tried.edit.query, tried.edit.to))
    page.tokens()
    before, after = answer_rows(tried.before), answer_rows(tried.after)
    framed = set(np.flatnonzero(tried.changed).tolist())
    rows = [replace(before[0], name="before"), replace(after[0], name="after", framed=framed)]
    form = "{}: found" if len(before) == 1 else "says {}"  # of a set of answers, what share was found
    page.rows([*before[1:], *(replace(row, name=form.format(row.name)) for row in rows)])
    what = tried.before.subject.task.sought
    _changes(page, tried.answers.values, tried.most, what)
    _legend(page, bool(page.chosen), what)
    notes = f"{tried.in_words()}; {tried.before.subject.name}{part_drawn(drawn, len(words))}"
    return Drawing(capitalised(tried.verdict()), notes, page.body(), page.width, page.height)


def _cuts(page: TokenPage, edges: list[tuple[int, int]], moved: tuple[int, int] | None = None) -> None:
    """The cut edges as dashed arcs that stand on the tokens, and as a whole one where an edge was moved to."""
    drawn = [(q, k) for q, k in edges if page.holds(q, k) and q != k][:MOST_ARCS]
    to = moved if moved is not None and page.holds(*moved) and moved[0] != moved[1] else None
    if not drawn and to is None:
        return
    base = page.height + page.high([(1, q, k) for q, k in [*drawn, *([to] if to else [])]]) + 8
    page.name("cut" if moved is None else "moved", base - 14, "what may no longer be read, from the key to the query")
    for q, k in drawn:
        tip = f"cut: {page.at(q)} cannot read {page.at(k)}"
        style = {"stroke": VERMILLION, "stroke_width": 1.8, "stroke_dasharray": "5 3", "data_tip": tip}
        page.arc(q, k, base, -1, class_="edge cut", **style)
        if len(drawn) <= 4:
            page.parts.append(
                text("✕", (page.x(q) + page.x(k)) / 2, base - page.height_of(q, k), 11, style=f"fill:{VERMILLION}")
            )
    if to is not None:
        tip = f"moved: {page.at(to[0])} reads {page.at(to[1])}"
        page.arc(*to, base, -1, class_="edge", stroke=CHANGED, stroke_width=2.2, data_tip=tip)
    page.height = base + 4


def _changes(page: TokenPage, log_right: np.ndarray, most: int | None, what: str) -> None:
    """A shaded cell for every answer: how much more or less likely the right one, or the next token, became."""
    change, share = log_right[1] - log_right[0], np.exp(log_right)
    if np.isnan(change[list(page.window)]).all():
        return
    y, largest = page.height + LINE / 2 + 1, max(FAINTEST, float(np.nanmax(np.abs(change))))
    page.name("Δ log p", y, f"change of the log-probability of the {what}, in nats")
    for i in page.window:
        if np.isnan(change[i]):
            continue
        value = float(change[i])
        was, now = (percent(float(one)) for one in share[:, i])
        tip = f"{page.at(i)}: log p of the {what} {difference(value, units='nats')} ({was} to {now})"
        cell = element(
            "rect",
            x=page.x(i) - page.column / 2 + 0.5,
            y=page.height + 1,
            width=page.column - 1,
            height=LINE,
            fill=BLUE if value > 0 else VERMILLION,
            fill_opacity=0.04 + 0.5 * abs(value) / largest,
            data_tip=tip,
            data_focus="" if i == most else None,
        )
        shown = "0" if abs(value) < 0.05 else f"{value:+.0f}" if abs(value) >= 9.95 else f"{value:+.1f}"
        page.parts.append(cell + page.word(shown, i, y, size=10))
    page.height += LINE + 8


def _legend(page: TokenPage, somewhere: bool, what: str) -> None:
    """What frames and shades mean; it stays in view like the names of the rows."""
    x, y = float(GUTTER), page.height + 8
    marks = [
        ("edited here", f"fill:{SKY};fill-opacity:.45"),
        (
            "the answer changed" if what == "right answer" else "the likeliest changed",
            f"fill:none;stroke:{CHANGED};stroke-width:2.5",
        ),
        (f"{what} less likely", f"fill:{VERMILLION};fill-opacity:.5"),
        ("more likely", f"fill:{BLUE};fill-opacity:.5"),
    ]
    for words, style in marks if somewhere else marks[1:]:
        box = element("rect", x=x, y=y - 6, width=14, height=12, rx=3, style=style)
        page.names.append(box + text(words, x + 20, y, 11, text_anchor="start"))
        x += 40 + 6.2 * len(words)
    page.width = max(page.width, round(x))
    page.height = round(y + 14)
