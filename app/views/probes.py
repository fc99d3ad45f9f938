"""Cards with controls: what a linear probe decodes from the residual, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from app.fields import choose, position_in
from app.panel import Panel, code, panel
from app.state import Look, Opened, current, plain
from probes import probe_run, verdict
from workbench import figures
from workbench.capture import sample_truth
from workbench.edits import point_in_words
from workbench.instruments import Measurement
from workbench.instruments.projection import from_embedding

COUNTS = (64, 128, 256, 512, 1024)
QUICK = 2_000_000  # vectors times classes, which are fitted in some ten seconds: more is fitted when asked for
FIGURES = "from workbench import figures"
NOT_USED = (
    "Decodable is not used: that a label can be read from the residual does not say that the model reads it, which "
    "only an intervention tests."
)


@dataclass(frozen=True)
class Probe:
    """What is probed: a label, at a point of the residual, at one position or wherever it is, in n sequences."""

    label: str
    point: str
    position: int | None
    n: int

    def settings(self, opened: Opened) -> str:
        """Those that are the same at every point, as a line of Python has them."""
        return f"position={self.position}, n={self.n}{opened.and_at}"


@st.fragment
def cards(look: Look) -> None:
    opened = look.opened
    labels = sample_truth(opened.subject).labels
    if not labels:
        st.info(f"The task {plain(opened.subject.task.name)} labels nothing that a probe could decode; the others do.")
        return
    with panel("Linear probe", "probe-card") as p:
        probe = _fields(opened, list(labels))
        with st.container():
            if not _quick("probe_anyway", opened, probe, 1):
                return
            try:
                _card(p, look, probe, _probed(opened.key, probe, opened))
            except ValueError as error:
                st.error(plain(str(error)))
                return
    with panel("By layer", "probe-layers") as p:
        points = from_embedding(opened.subject)
        if _quick("probe_layers", opened, probe, len(points)):
            _layers(p, look, probe, points)


def _card(p: Panel, look: Look, probe: Probe, found: Measurement) -> None:
    worth = verdict(found)
    st.markdown(f"**{plain(worth[:1].upper() + worth[1:])}.**")
    p.show(
        figures.probe_card(found),
        {"probe": found},
        code(
            look,
            f"found = probe_run(run, {probe.label!r}, point={probe.point!r}, {probe.settings(look.opened)})",
            "figure = figures.probe_card(found)",
            imports=("from probes import probe_run", FIGURES),
            inputs=False,
        ),
        f"{found.caption} It counts as decodable where its whole interval lies above that of every control. {NOT_USED}",
    )


def _layers(p: Panel, look: Look, probe: Probe, points: list[str]) -> None:
    found = _every_layer(look.opened, probe, points)
    p.show(
        figures.probe_by_layer(found),
        {"probes": found},
        code(
            look,
            f"found = probe_layers(run, {probe.label!r}, {probe.settings(look.opened)})",
            "figure = figures.probe_by_layer(found)",
            imports=("from probes import probe_layers", FIGURES),
            inputs=False,
        ),
        "The same probe, fitted anew at every point of the residual. What the embedding holds is no work of the "
        f"layers; what an untrained model has too is no work of training. {NOT_USED}",
    )


def _fields(opened: Opened, labels: list[str]) -> Probe:
    """What to decode, from where, at which position, and from how many sequences."""
    first, second, third, fourth = st.columns([3, 3, 3, 2], vertical_alignment="bottom")
    points = from_embedding(opened.subject)
    label = choose("Label of the task's truth", labels, "probe_label", labels[0], label_in_words, first)
    point = choose("Decoded from", points, "probe_point", points[-1], point_in_words, second)
    n_ctx = opened.subject.task.n_ctx
    position = position_in("At position", n_ctx, "probe_position", None, third, every="every labelled position")
    n = choose("Sequences", COUNTS, "probe_n", 256, str, fourth, help="held out from training; 3 in 10 test the probe")
    return Probe(label, point, position, n)


def label_in_words(label: str) -> str:
    return label.replace("_", " ")


def _quick(key: str, opened: Opened, probe: Probe, fits: int) -> bool:
    """Whether so many probes are fitted at once; what takes long has a field that asks for it."""
    values = sample_truth(opened.subject).labels[probe.label]
    each = 1.0 if probe.position is not None else float((values >= 0).sum()) / len(values)
    vectors, classes = round(probe.n * each), max(2, int(values.max()) + 1)
    if vectors * classes * fits <= QUICK:
        return True
    points = f" at {fits} points" if fits > 1 else ""
    st.info(
        f"Some {vectors:,} vectors of {classes} classes are to be fitted{points}. That can take minutes; one position, "
        "or fewer sequences, are quicker."
    )
    return st.toggle("Fit all the same", key=key, bind="query-params")


def _every_layer(opened: Opened, probe: Probe, points: list[str]) -> Measurement:
    """The probe at every point, with how far it is; each is kept, so that the card's is fitted once."""
    bar = st.progress(0.0, "Fitting probes …")
    parts = []
    for i, point in enumerate(points):
        bar.progress(i / len(points), f"Fitting probes: {point_in_words(point)} …")
        parts.append(_probed(opened.key, replace(probe, point=point), opened))
    bar.empty()
    return Measurement.stack(parts, "point", points)


@st.cache_data(show_spinner="Fitting a probe and its controls …", max_entries=512)
def _probed(key: tuple[Any, ...], probe: Probe, _opened: Opened) -> Measurement:
    at, n = probe.position, probe.n
    return probe_run(_opened.run, probe.label, point=probe.point, position=at, n=n, step=_opened.step)


cards(current())
