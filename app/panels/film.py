"""A drawing through training, which the page moves through by itself: every checkpoint's picture is sent once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from workbench.figures import Drawing

_HERE = Path(__file__).parent


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    style = "\n".join((_HERE / f"{name}.css").read_text(encoding="utf-8") for name in ("clicks", "hop_by_hop"))
    still = "[data-cell], [data-token], [data-edge] { cursor: default; }"  # nothing here can be clicked
    script = (_HERE / "film.js").read_text(encoding="utf-8")
    return st.components.v2.component("workbench_film", js=script, css=f"{style}\n{still}")


def film(drawing: Drawing, key: str, at: int | None = None) -> None:
    """Show a drawing of several frames.

    Args:
        drawing: `figures.training_film(…)`.
        key: of the element.
        at: the frame that is shown first; by default the last.
    """
    _component()(data={**drawing.data, "at": at}, key=key)
