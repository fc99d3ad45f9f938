"""The panel "Watch it learn": an input's canvas at every checkpoint, which the page moves through by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.fields import url
from workbench.app.panels import code
from workbench.app.panels.panel import panel
from workbench.app.state import Look
from workbench.figures import Drawing
from workbench.figures.token_page import WIDEST
from workbench.figures.training_film import film_steps
from workbench.instruments.residual import projection
from workbench.interventions import Head
from workbench.runs import Run
from workbench.tasks import Batch


@url.fragment
def watch(look: Look, head: Head, kept: Sequence[int]) -> None:
    """The canvas of this input at every checkpoint, of one head throughout.

    Args:
        look: the run and the input.
        head: whose attention is drawn.
        kept: the run's checkpoints.
    """
    run, now = look.opened.run, look.opened.step
    with panel("Watch it learn: this input at every checkpoint", "train-film", folded=True) as p:
        if not p.open:
            return
        every = [*(step for step in kept if step < run.step()), run.step()]
        steps = film_steps(every)
        figure = code.call(
            figures.training_film,
            code.run(look.opened),
            look.input,
            steps,
            layer=head[0],
            head=head[1],
            start=max(0, len(projection.sequence(look.seen, 0)) - WIDEST),
            computed_by=lambda run, batch, steps, **how: _film(
                str(run.path), tuple(map(run.version_at, steps)), look.key[-1], tuple(steps), how, run, batch
            ),
        )
        at = len(steps) - 1 if now is None else max((i for i, step in enumerate(steps) if step <= now), default=0)
        left_out = f" {len(steps)} of {len(every)} checkpoints are drawn." if len(every) > len(steps) else ""
        says = (
            "Move the slider, press ▶ or use the arrow keys: all pictures are in the page. "
            f"Layer {head[0]}, head {head[1]} throughout.{left_out} One input shows how it looks, not how often."
        )
        labels = code.value_of(figure).data["labels"]
        p.show(figure, {}, says, verdict=f"{labels[0]}; {labels[-1]}.".capitalize(), at=at)


# A resource, not data: the pictures of all checkpoints are some megabytes, which are never changed.
@st.cache_resource(show_spinner=False, max_entries=8)
def _film(
    path: str,
    versions: tuple[int, ...],
    tokens: tuple[int, ...],
    steps: tuple[int, ...],
    how: dict[str, Any],
    _run: Run,
    _batch: Batch,
) -> Drawing:
    place = st.empty()  # made in here: what comes out of the cache is shown again with it, and may hold nothing else

    def tell(share: float) -> None:
        place.progress(share, f"Drawn {round(share * len(steps))} of {len(steps)} checkpoints")

    film = figures.training_film(_run, _batch, steps, progress=tell, **how)
    place.empty()
    return film
