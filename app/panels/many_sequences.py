"""The geometry of one vector a sequence over many held-out sequences: RankMe, LiDAR, DiME, InfoNCE, with controls."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields.widgets import choose
from workbench.app.panels import code
from workbench.app.panels.measuring import awaited
from workbench.app.panels.panel import Panel, folded
from workbench.app.state import Opened
from workbench.inspection.geometry import Geometry, geometry
from workbench.instruments import SETS
from workbench.judgement.words import by_place
from workbench.measurement import Measurement

NAMES = {"rankme": "RankMe", "lidar": "LiDAR", "dime": "DiME", "infonce": "InfoNCE"}
SIZES = ("256", "1024", "4096", "20000")
SEED = 0


@folded("Over many sequences", "entropy-many")
def many_sequences(p: Panel, opened: Opened) -> None:
    """One of the measures of a whole data set, by layer, beside an untrained model and shuffled answers."""
    row = st.container(horizontal=True, vertical_alignment="bottom")
    name = choose("Measure", list(SETS), "set_measure", "rankme", NAMES.__getitem__, row, by="row")
    size = choose("Sequences", SIZES, "set_size", SIZES[0], lambda size: f"{int(size):,}", row, by="row")
    how: dict[str, Any] = {"n": int(size), "seed": SEED, "only": [name], "step": opened.step}
    key = ("geometry", *opened.key, name, size)
    what = f"{NAMES[name]} on {int(size):,} sequences"
    found: Geometry | None = awaited(
        key,
        lambda job: geometry(opened.run, **how, progress=job.tell),
        what,
        f"{NAMES[name]} cannot be measured here",
    )
    if found is None:
        return
    if name in found.left_out:
        st.info(plain(found.left_out[name]))
        return
    measured = code.assign("measured", geometry, code.run(opened), **how, computed_by=lambda run, **_: found)
    m: Measurement = found[name]
    controls = {control: measured.controls[name][control] for control in found.controls[name]}
    p.show(
        code.call(figures.by_layer, {opened.name: measured.measured[name]}, {opened.name: controls})[0],
        {name: m, **{control: found.controls[name][control] for control in controls}},
        f"{m.caption} Beside it: {' and '.join(controls)}, on the same sequences." if controls else m.caption,
        verdict=by_place.at_last(m, found.controls[name]),
    )
