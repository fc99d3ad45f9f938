"""What each layer says through a lens, on this input; a lens that has to be made first is made beside the page."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.fields import url
from workbench.app.fields.widgets import choose
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.panels.measuring import awaited
from workbench.app.panels.panel import Panel, folded
from workbench.app.state import Look
from workbench.instruments import LENSES
from workbench.instruments.lens import jacobian_lens, logit_lens
from workbench.judgement.words import by_place

SEED = 0
MOST = 5e12  # multiplications of a Jacobian lens that the page waits for: some minutes of one core
SAYS = {
    "logit": "Each residual is decoded as if it were the last. What it holds in another basis is not seen.",
    "tuned": "Before it is decoded, each residual goes through an affine map that was trained on other sequences to "
    "agree with the output: a token that it names the model need not read there.",
    "Jacobian": "Before it is decoded, each residual is multiplied by the mean Jacobian of the later layers over other "
    "sequences, effects on later positions added up: what a layer makes likelier to first order in an average context. "
    "Nothing is trained; what later layers make of this very residual it does not show.",
}


@url.fragment
@folded("Through a lens", "lens")
def through_a_lens(p: Panel, look: Look) -> None:
    """The token that every residual of this input decodes to, through the lens that is chosen."""
    first = next(iter(LENSES))
    name = choose("Lens", list(LENSES), "lens", first, lambda name: f"{name.capitalize()} lens", by="row")
    lens = _made(look, name) if hasattr(LENSES[name], "fit") else {}
    if lens is None:
        return
    tokens = code.assign("tokens", logit_lens.lens_tokens, code.seen(look), 0, **lens)
    table = code.value_of(tokens)
    asked = look.batch.loss_mask[0].nonzero()[:, 0].tolist()
    verdict = by_place.named_from(table, asked)
    p.show(code.call(figures.lens_map, tokens), {"tokens": tokens}, f"{table.caption} {SAYS[name]}", verdict=verdict)


def _made(look: Look, name: str) -> dict[str, Symbol] | None:
    """The lens of this model, as a keyword; None while it is made, and where it cannot be, which the page says."""
    opened, fit = look.opened, LENSES[name].fit
    if LENSES[name] is jacobian_lens and jacobian_lens.operations(opened.model, opened.subject.task) > MOST:
        st.info(
            "The Jacobian lens of so large a model takes hours here: make it in Python, with fewer sequences (`n`)."
        )
        return None
    key = ("lens", name, *opened.key)
    made: dict[str, Any] | None = awaited(
        key,
        lambda job: fit(opened.model, opened.subject, SEED),
        f"what the {name} lens needs",
        f"There is no {name} lens of this model",
    )
    if made is None:
        return None
    given = (code.model(opened), code.seen(look).subject, SEED)
    return {"lens": code.named("lens", code.call(fit, *given, computed_by=lambda *_: made)["lens"])}
