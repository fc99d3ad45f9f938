"""A drawing through training, which the page moves through by itself: every checkpoint's picture is sent once."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.figures import Drawing, scripts


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    still = "[data-cell], [data-token], [data-edge] { cursor: default; }"  # nothing here can be clicked
    return st.components.v2.component("workbench_film", js=scripts.script("film"), css=f"{scripts.style()}\n{still}")


def film(drawing: Drawing, key: str, at: int | None = None) -> None:
    """Show a drawing of several frames.

    Args:
        drawing: `figures.training_film(…)`.
        key: of the element.
        at: the frame that is shown first; by default the last.
    """
    _component()(data={**drawing.data, "at": at}, key=key)
