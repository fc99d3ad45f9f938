"""The residual on both bases at every layer, and behind one cell: its tokens, their ranks, what is unexplained."""

from __future__ import annotations

from typing import Any

from workbench import figures
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.widgets import choose, first_drawn
from workbench.app.panels import cell as cells
from workbench.app.panels import code
from workbench.app.panels.canvas import every_layer
from workbench.app.panels.components import components
from workbench.app.panels.lenses import through_a_lens
from workbench.app.panels.panel import Panel, folded, panel
from workbench.app.panels.swaps import swapped
from workbench.app.state import Look, current
from workbench.figures.token_page import answer_rows
from workbench.instruments.residual import projection, unexplained
from workbench.instruments.residual.trajectory import ranks, trajectory
from workbench.judgement.words import by_place
from workbench.judgement.words.figures import on_top

FINAL_NORM = (
    "The decoder basis is read as the model reads its last residual, so that the last row says what the model says. "
    "Off: the residual as it is. The encoder basis is not affected."
)
HOW: dict[projection.How, str] = {"raw": "inner product", "cosine": "cosine", "coordinates": "least-squares coordinate"}


SAYS = (
    "Each cell holds the top token of the residual: the one whose vector has the largest inner product with it, read "
    "as output among the columns of the unembedding W_U (the decoder basis, after the final norm unless that is "
    "switched off), read as input among the rows of the embedding W_E (the encoder basis). Green underline: the right "
    "answer. Click a cell, or move with the arrow keys. That a token is on top does not show that the model uses it."
)


@url.fragment
def maps(look: Look) -> None:
    drawing, inspector = cells.drawing_and_cell()
    with drawing, panel("Residual on both bases", "residual") as p:
        settings = p.settings()
        how = choose("Measured by", list(HOW), "how_measured", "raw", HOW.__getitem__, settings)
        final_norm = fields.toggle("After the final norm", "final_norm", settings, FINAL_NORM, default=True)
        start = first_drawn(len(projection.sequence(look.seen, 0)))
        with inspector:
            cell = cells.tokens(look, how=how, final_norm=final_norm)
        seen, top = code.seen(look), min(8, len(look.seen.subject.encoder))
        drawn = projection.from_embedding if every_layer(look, settings) else projection.some_points
        points = code.call(drawn, seen.subject)
        reading = {"how": how, "final_norm": final_norm}
        table = code.assign("table", projection.top_tokens, seen, top=top, **reading, points=points)
        figure = code.call(figures.residual_maps, seen, table, start=start, cell=cell)
        answers = answer_rows(look.seen)
        best = code.value_of(table).select(basis="decoder", rank=1)
        verdict = on_top(best, answers[1].words, answers[1].name) if len(answers) == 2 else None
        p.show(figure, {"residual": table}, SAYS, verdict=verdict, cell=cells.move)
    over_layers(look, cell[1], reading)


@url.fragment
@folded("Over the layers at this position", "trajectory")
def over_layers(p: Panel, look: Look, position: int, reading: dict[str, Any]) -> None:
    """How the tokens at one position rise and fall from layer to layer."""
    follow = ranks if fields.toggle("By rank among all tokens", "by_rank") else trajectory
    path = code.assign("path", follow, code.seen(look), 0, position, **reading)
    says = "A change from one point to the next was written by attention (at mid) or by the MLP (at post); "
    says += "behind the final norm it is also rescaled."
    figure = code.call(figures.token_trajectory, path)
    verdict = by_place.leads(code.value_of(path))
    p.show(figure, {"trajectory": path}, f"{code.value_of(path).caption} {says}", verdict=verdict)


@url.fragment
@folded("What each basis leaves out", "unexplained")
def not_explained(p: Panel, look: Look) -> None:
    seen = code.seen(look)
    final_norm = fields.toggle("After the final norm", "unexplained_norm")
    points = code.call(projection.from_embedding, seen.subject)
    shares = code.call(unexplained.measure, seen, final_norm=final_norm, points=points)
    mean = code.named("mean", shares.mean("example"))
    figure = code.call(figures.draw, "unexplained", {look.seen.subject.name: mean}, {}, {})[0]
    verdict = by_place.extremes(code.value_of(mean))
    p.show(figure, {"unexplained": mean}, code.value_of(mean).caption, verdict=verdict)


look = current()
maps(look)
through_a_lens(look)
swapped(look)
not_explained(look)
components(look.opened)
