"""The residual on both bases at every layer, and behind one cell: its tokens, their ranks, what is unexplained."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.app.fields import address
from workbench.app.fields import widgets as fields
from workbench.app.fields.widgets import choose, first_drawn
from workbench.app.panels import cell as cells
from workbench.app.panels.panel import code, panel
from workbench.app.state import Look, current
from workbench.instruments.residual import projection, unexplained
from workbench.instruments.residual.trajectory import ranks, trajectory

FINAL_NORM = (
    "The decoder basis is read as the model reads its last residual, so that the last row says what the model says. "
    "Off: the residual as it is. The encoder basis has no part in it."
)
HOW: dict[projection.How, str] = {"raw": "inner product", "cosine": "cosine", "coordinates": "least-squares coordinate"}


@address.fragment
def maps(look: Look) -> None:
    seen = look.seen
    with panel("Residual on both bases", "residual") as p:
        left, right, more = st.columns([3, 2, 3], vertical_alignment="bottom")
        how = choose("Measured by", list(HOW), "how_measured", "raw", HOW.__getitem__, left)
        final_norm = fields.toggle("Through the final norm", "final_norm", right, FINAL_NORM, default=True)
        start = first_drawn(len(projection.sequence(seen, 0)), place=more)
        picture = st.container()
        point, position = cells.chosen(look)
        points = projection.from_embedding(seen.subject)
        top = min(8, len(seen.subject.encoder))
        table = projection.top_tokens(seen, top=top, how=how, final_norm=final_norm, points=points)
        settings = f"top={top}, how={how!r}, final_norm={final_norm}, points=projection.from_embedding(seen.subject)"
        imports = ("from workbench import figures", "from workbench.instruments import projection")
        lines = (f"table = projection.top_tokens(seen, {settings})",)
        cell = (point, position)
        p.show(
            figures.residual_maps(seen, table, start=start, cell=cell),
            {"residual": table},
            code(
                look,
                *lines,
                f"figure = figures.residual_maps(seen, table, start={start}, cell={cell!r})",
                imports=imports,
            ),
            "Each cell holds the token whose vector is largest in the residual: among the rows of the embedding "
            "(encoder: read as input) and the columns of the unembedding (decoder: read as output, through the final "
            "norm unless that is switched off). Underlined where it is the right answer. Click a cell, or move with "
            "the arrow keys. Large does not mean used.",
            place=picture,
            cell=cells.move,
        )
    cells.tokens(look, point, position, how=how, final_norm=final_norm)
    with panel("Over the layers at this position", "trajectory") as p:
        by_rank = fields.toggle("By rank among all tokens", "by_rank")
        follow = ranks if by_rank else trajectory
        path = follow(seen, 0, position, how=how, final_norm=final_norm)
        p.show(
            figures.token_trajectory(path),
            {"trajectory": path},
            code(
                look,
                f"path = {follow.__name__}(seen, 0, {position}, how={how!r}, final_norm={final_norm})",
                "figure = figures.token_trajectory(path)",
                imports=(
                    "from workbench import figures",
                    f"from workbench.instruments.residual.trajectory import {follow.__name__}",
                ),
            ),
            f"{path.caption} What wrote a token (attention or MLP) is told apart by the points only.",
        )


@address.fragment
def not_explained(look: Look) -> None:
    seen = look.seen
    with panel("What neither basis explains", "unexplained") as p:
        final_norm = fields.toggle("After the final norm", "unexplained_norm")
        points = projection.from_embedding(seen.subject)
        left_over = unexplained.measure(seen, final_norm=final_norm, points=points).mean("example")
        runs = {seen.subject.name: left_over}
        p.show(
            figures.draw("unexplained", runs, {}, {})[0],
            {"unexplained": left_over},
            code(
                look,
                "points = projection.from_embedding(seen.subject)",
                f"left_over = unexplained.measure(seen, final_norm={final_norm}, points=points).mean('example')",
                "figure = figures.draw('unexplained', {seen.subject.name: left_over}, {}, {})[0]",
                imports=("from workbench import figures", "from workbench.instruments import projection, unexplained"),
            ),
            left_over.caption,
        )


look = current()
maps(look)
not_explained(look)
