"""Principal components of the residual at one point, coloured by a label of the task's truth."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.fields.widgets import choose
from workbench.app.panels import code
from workbench.app.panels.held_out import SEED, n_each
from workbench.app.panels.measuring import awaited
from workbench.app.panels.panel import panel
from workbench.app.state import Opened
from workbench.inspection.components import components as measured
from workbench.inspection.components import label_names
from workbench.instruments.residual.components import Components
from workbench.instruments.residual.projection import from_embedding
from workbench.judgement.words.figures import told_apart
from workbench.measurement.places import point_name

K = 6


def components(opened: Opened) -> None:
    """Fields for the point, the label and the two components; nothing where the truth has no label."""
    subject = opened.subject
    if not (known := label_names(subject.task)):
        return
    with panel("Principal components by a truth label", "residual-components", folded=True) as p:
        if not p.open:
            return
        row = st.container(horizontal=True, vertical_alignment="bottom")
        points = from_embedding(subject)
        label = choose("Label of the task's truth", known, "components_label", known[0], str, row)
        point = choose("Point", points, "components_point", points[-1], point_name, row)
        k = min(K, subject.encoder.shape[-1])
        x = choose("Across", range(1, k + 1), "components_x", 1, str, row)
        y = choose("Up", range(1, k + 1), "components_y", min(2, k), str, row)
        how: dict[str, Any] = {"label": label, "n": n_each(subject.task), "seed": SEED, "point": point, "k": k}
        how["step"] = opened.step
        key = ("components", *opened.key, label, point)
        found: Components | None = awaited(
            key,
            lambda job: measured(opened.run, **how),
            f"the principal components by {label}",
            f"There are no components by {label} here",
        )
        if found is None:
            return
        result = code.assign("found", measured, code.run(opened), **how, computed_by=lambda run, **_: found)
        numbers = {"scores": result.scores, "explained": result.explained, "between": result.between}
        verdict = told_apart(found.between)
        says = f"{found.scores.caption} Shuffled: the same labels dealt out to other rows, 20 times."
        p.show(code.call(figures.components, result, x, y), numbers, says, verdict=verdict)
