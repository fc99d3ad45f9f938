"""The residual of this input in the run of another one, from every layer into every layer, beside its controls."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.panels import code
from workbench.app.panels.cell import default_position
from workbench.app.panels.code import Symbol
from workbench.app.panels.panel import Panel, folded
from workbench.app.state import Look
from workbench.instruments.residual import projection
from workbench.interventions import Places, swap
from workbench.judgement.words import by_place
from workbench.measurement import Measurement
from workbench.util.seeds import generator

TARGETS = {"another": "Another sequence", "same": "This input"}
N_RANDOM, LAST = 8, 999
MOST = 5e12  # multiplications that the page waits for
HINT = "Which random sequence of the task, on the test side of its split"


@url.fragment
@folded("This input's residual in another run", "swap")
def swapped(p: Panel, look: Look) -> None:
    """Put the residual of one position of this input into another run, and read what that answers."""
    subject, config = look.opened.subject, look.opened.model.config
    n_rows = len(projection.from_embedding(subject)) ** 2 * (1 + N_RANDOM)
    if 2.0 * n_rows * look.batch.tokens.shape[1] * config.n_parameters > MOST:
        st.info("Swaps at all pairs of layers take too long here for so large a model: name `points` in Python.")
        return
    row = st.container(horizontal=True, vertical_alignment="bottom")
    which = fields.choose("Put into", list(TARGETS), "swap_into", "another", TARGETS.__getitem__, row, by="row")
    source = code.seen(look).batch.tokens[0]
    target = source
    if which == "another":
        seed = int(fields.number("Sequence", 0, LAST, "swap_seed", 0, row, help=HINT))
        drawn = code.call(generator, seed, "target")
        target = code.named("target", code.task(look.opened).sample(1, drawn, split="test").tokens[0])
    places = _places(look, code.value_of(target), row)
    try:
        m = _measured(look, source, target, places)
    except ValueError as error:
        st.info(plain(str(error)))
        return
    found: Measurement = code.value_of(m)
    p.show(code.call(figures.swap, m), {"swap": m}, found.caption, verdict=by_place.swapped(found))


def _places(look: Look, target: Any, row: Any) -> Places:
    """Where the residual is taken from and put; by default the last answer of this input, and the same place."""
    n_source = len(projection.sequence(look.seen, 0))
    n_target = int(look.opened.subject.task.lengths(target[None])[0])
    start = default_position(look, n_source)
    source = fields.position_in("From position", n_source, "swap_from", start, row)
    into = fields.position_in("Into position", n_target, "swap_to", min(start, n_target - 1), row)
    assert source is not None and into is not None
    return Places(source, into)


def _measured(look: Look, source: Symbol, target: Symbol, places: Places) -> Symbol:
    ids = tuple(code.value_of(target).tolist())
    return code.assign(
        "swapped",
        swap,
        code.hooked(look.opened),
        code.seen(look).subject,
        source,
        target,
        places,
        computed_by=lambda *given: _run((*look.key, ids, places), look, given),
    )


# A resource, not data: measurements are never changed.
@st.cache_resource(show_spinner="Swapping residuals …", max_entries=64)
def _run(key: tuple[object, ...], _look: Look, _given: tuple[Any, ...]) -> Measurement:
    with _look.opened.lock:
        return swap(*_given)
