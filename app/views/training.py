"""A run over training: the sidebar's checkpoint is followed through every panel."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import streamlit as st

from workbench import figures
from workbench.app import words
from workbench.app.fields import address
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import choose_matrix
from workbench.app.fields.widgets import first_drawn
from workbench.app.panels.panel import code, panel
from workbench.app.sidebar import END, last, last_step
from workbench.app.state import Look, current, plain
from workbench.inspection import learning_curves as learning
from workbench.inspection import over_training
from workbench.inspection.over_training import Moment, Timeline
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.measurement import Measurement
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.tasks import Task
from workbench.training import PRESETS

N = 64  # sequences of each condition
CONDITIONS = 4
ON_REQUEST = 10.0  # seconds: what takes longer is measured when it is asked for
AT_ONCE = 0.4  # seconds within which no progress is shown
AS_LOGGED = (
    "As logged while it trained: accuracy on held-out sequences now and then, the loss of single batches; one seed, no "
    "intervals. "
)
MEASURES = ("overall", "attention_graph", *MECHANISMS, "entropy")


def training(look: Look) -> None:
    run = look.opened.run
    kept = over_training.checkpoints(run)
    if kept:
        walk(look, kept)
    curves(look)
    if not kept:
        st.info(no_checkpoints(run))
        return
    try:
        end = moment(look, None)[0]
        picture(look, end)
        measures(look, end, kept)
    except (ValueError, OSError) as error:  # weights of strangers
        st.error(plain(str(error)))


def no_checkpoints(run: Run) -> str:
    if run.config.steps == 0:
        return "The weights of this model were written, not trained: there is no training to follow."
    preset = run.config.preset if run.config.preset in PRESETS else "PRESET"  # anyone can have written it
    return (
        "This run kept no checkpoints, so that nothing but its log is known of its training. With "
        f"`workbench train {preset} --checkpoint_count 20 --out …` one like it keeps 20, at logarithmically spaced "
        "steps, and this page follows the canvas, the entropy and every measure through them."
    )


def walk(look: Look, kept: list[int]) -> None:
    """The checkpoint that the sidebar chose, and buttons to the one before and after."""
    labels = [*map(str, kept), END]
    at = labels.index(END if look.opened.step is None else str(look.opened.step))
    with st.container(horizontal=True, vertical_alignment="center"):
        for by, icon, key, way in ((-1, "chevron_left", "b", "before"), (1, "chevron_right", "n", "after")):
            st.button(
                "",
                icon=f":material/{icon}:",
                key=f"train_{way}",
                shortcut=key,
                help=f"the checkpoint {way}",
                disabled=not 0 <= at + by < len(labels),
                on_click=go,
                args=(labels[min(max(at + by, 0), len(labels) - 1)],),
            )
        st.markdown(f"**{in_words(look)}** :gray[{at + 1} of {len(labels)}; the slider on the left moves it too]")


def go(label: str) -> None:
    """Move the sidebar's slider."""
    fields.put("step", label)


def in_words(look: Look) -> str:
    step = look.opened.step
    return last_step(look.opened.run) if step is None else f"step {step:,}"


def chosen_step(look: Look) -> int:
    return look.opened.run.step() if look.opened.step is None else look.opened.step


@address.fragment
def curves(look: Look) -> None:
    run, step = look.opened.run, chosen_step(look)
    found = learning.learning_curves(run)
    if not found:
        return
    with panel("Learning curves", "train-curves") as p:
        log = fields.toggle("Logarithmic steps", "train_log")
        rise = logged_rise(found)
        spans = [(rise.start, rise.end, rise.words)] if rise else []
        figure = figures.learning_curves({run.name: found}, log=log, events=learning.events(run), spans=spans)
        lines = ["curves = learning.learning_curves(run)"]
        marked = f"log={log}, events=learning.events(run)"
        if rise:
            lines.append("rise = learning.steepest_rise(curves['accuracy'])")
            marked += ", spans=[(rise.start, rise.end, rise.words)]"
        lines += [
            f"figure = figures.learning_curves({{run.name: curves}}, {marked})",
            f"figures.mark_step(figure, {step}, {in_words(look)!r})",
        ]
        made = code(
            look,
            *lines,
            imports=(
                "from workbench import figures",
                "from workbench.inspection import learning_curves as learning",
            ),
            inputs=False,
        )
        p.show(figures.mark_step(figure, step, in_words(look)), found, made, AS_LOGGED + of_rise(rise))


def logged_rise(found: dict[str, Measurement]) -> learning.Rise | None:
    return learning.steepest_rise(found["accuracy"]) if "accuracy" in found else None


def of_rise(rise: learning.Rise | None) -> str:
    """What the shading says and does not."""
    if rise is None:
        return f"Between no two evaluations does accuracy rise by {learning.LEAST:.0%} or more; nothing is shaded."
    return (
        f"Shaded: between the evaluations at steps {rise.start:,} and {rise.end:,} accuracy rises most per step. That "
        "is arithmetic, not a test: when in between the change came, and whether it was sudden, it does not say."
    )


@address.fragment
def picture(look: Look, end: Moment) -> None:
    """The canvas of the input at the checkpoint, of one head throughout."""
    seen, (layer, head) = look.seen, end.head or (look.opened.subject.n_layers - 1, 0)
    with panel("The input at this checkpoint", "train-canvas") as p:
        left, right = st.columns([2, 3], width=760)
        with left:
            which = choose_matrix(look)
        start = first_drawn(len(projection.sequence(seen, 0)), place=right)
        how = f"layer={layer}, head={head}, which={which!r}, start={start}"
        n_hops = attention_graph.hop_of(which) or 1
        matrices = attention_graph.matrices(seen, 0, layer, head, n_hops=n_hops)
        when = "at the end of training" if look.opened.run.finished else "so far"
        best = f"the one with the most mass on gold paths {when}, on other inputs"
        why = best if "gold_mass" in end.measured else "as this task has no paths to choose one by"
        says = f"Layer {layer}, head {head} is followed through all checkpoints: {why}. One input shows how it looks, "
        says += "not how often; where a head looks does not show what it reads there."
        if st.session_state.get("which", "any") != "any" and st.session_state.get("how") != "Type":
            says += " Which input this is, is decided by how hard it is for the model at this very checkpoint."
        p.show(
            figures.canvas(seen, layer=layer, head=head, which=which, start=start),
            {"attention": matrices},
            code(look, f"figure = figures.canvas(seen, {how})", imports=("from workbench import figures",)),
            says,
        )


@address.fragment
def measures(look: Look, end: Moment, kept: list[int]) -> None:
    """What is measured over sequences: of each thing claimed a panel, two beside each other, then entropy."""
    if "entropy" in end.measured:
        entropy(look, end, kept)
    followed = follow(look, end, kept)
    if followed is None:
        return
    rise = logged_rise(learning.learning_curves(look.opened.run))
    names = [name for name in ("overall", "gold_mass", *MECHANISMS) if name in followed.measured]
    for pair in (names[i : i + 2] for i in range(0, len(names), 2)):
        for name, place in zip(pair, st.columns(2) if len(pair) == 2 else [st.container()], strict=True):
            with place:
                measure(look, followed, name, rise)
    if "entropy" in followed.measured:
        measure(look, followed, "entropy", rise)


def entropy(look: Look, end: Moment, kept: list[int]) -> None:
    """Entropy by layer at the checkpoint beside that at the end; at the end, beside that at the first."""
    run, now = look.opened.run, last(look.opened.run)
    other = kept[0] if look.opened.step is None else look.opened.step
    here = moment(look, other, end.head)[0]
    with panel(
        f"Entropy by layer, here and {'at the end' if run.finished else 'at the latest step'}", "train-entropy"
    ) as p:
        shown = {f"step {other:,}": here.measured["entropy"], now: end.measured["entropy"]}
        lines = [
            f"here = over_training.moment(run, {other}, {settings(look, 'entropy')})",
            f"end = over_training.moment(run, {settings(look, 'entropy')})",
            f"shown = {{{f'step {other:,}'!r}: here.measured['entropy'], {now!r}: end.measured['entropy']}}",
            "figure = figures.by_layer(shown, {})[0]",
        ]
        imports = ("from workbench import figures", "from workbench.inspection import over_training")
        says = f"{end.measured['entropy'].caption} {sequences(look)}"
        p.show(figures.by_layer(shown, {})[0], shown, code(look, *lines, imports=imports, inputs=False), says)


def measure(look: Look, followed: Timeline, name: str, rise: learning.Rise | None) -> None:
    own, step = followed.measured[name], chosen_step(look)
    with panel(own.name, f"train-of-{name}") as p:
        figure = figures.mark_step(figures.timeline(followed, name), step)
        lines = [
            f"followed = over_training.measure(run, {settings(look, name)}, head={followed.head})",
            f"figure = figures.mark_step(figures.timeline(followed, {name!r}), {step})",
        ]
        if rise is not None:
            figures.shade_steps(figure, rise.start, rise.end)
            lines.append(f"figures.shade_steps(figure, {rise.start}, {rise.end})")
        numbers = {name: own} | ({f"{name} control": followed.controls[name]} if name in followed.controls else {})
        imports = ("from workbench import figures", "from workbench.inspection import over_training")
        controlled = any((trace.name or "").endswith(", control") for trace in figure.data)
        dotted = " Dotted: beside the truth of other examples." if controlled else ""
        shaded = " Shaded: where the logged accuracy rises most." if rise is not None else ""
        says = f"{own.caption} {sequences(look)}{dotted}{shaded}"
        p.show(figure, numbers, code(look, *lines, imports=imports, inputs=False), says)


def follow(look: Look, end: Moment, kept: list[int]) -> Timeline | None:
    """Every checkpoint measured, at once if that is quick, else when asked for; None until then."""
    run, moments = look.opened.run, []
    place, began = st.empty(), perf_counter()
    seconds = min(moment(look, step, head)[1] for step, head in ((kept[0], end.head), (None, None)))
    expected = seconds * (len(kept) - 1)
    if expected > ON_REQUEST:
        label = f"Measure all {len(kept)} checkpoints (about {words.seconds(expected)}, once)"
        if not fields.toggle(label, "train_all"):
            return None
    for number, step in enumerate(kept, 1):
        moments.append(moment(look, step, end.head)[0])
        if perf_counter() - began > AT_ONCE:
            left = words.seconds(seconds * (len(kept) - number))
            place.progress(number / len(kept), f"Measured {number} of {len(kept)} checkpoints; about {left} left")
    place.empty()
    return over_training.join(run, [*moments, end])


def moment(look: Look, step: int | None, head: tuple[int, int] | None = None) -> tuple[Moment, float]:
    """What is measured of the run as of a step, and the seconds that took."""
    opened = look.opened
    return _moment(str(opened.run.path), opened.run.version_at(step), step, head, opened.run)


@st.cache_data(show_spinner="Measuring the checkpoint …", max_entries=400)
def _moment(path: str, version: int, step: int | None, head: tuple[int, int] | None, _run: Run) -> tuple[Moment, float]:
    began = perf_counter()
    how: dict[str, Any] = {"n": N, "seed": 0, "only": MEASURES, "head": head}
    return over_training.moment(_run, step, **how, conditions=some(_run.task())), perf_counter() - began


def some(task: Task) -> list[dict[str, Any]]:
    """A few of the task's test conditions, from the first to the last."""
    every = task.conditions
    if len(every) <= CONDITIONS:
        return list(every)
    return [every[round(i * (len(every) - 1) / (CONDITIONS - 1))] for i in range(CONDITIONS)]


def settings(look: Look, name: str) -> str:
    """How this page measures, as arguments."""
    return f"n={N}, seed=0, only=[{name!r}], conditions={some(look.opened.subject.task)}"


def sequences(look: Look) -> str:
    """On what it was measured, in words."""
    conditions = some(look.opened.subject.task)
    named = "; ".join(", ".join(f"{key} {value}" for key, value in one.items()) for one in conditions if one)
    each = f"{N} sequences drawn of each of {named}" if named else f"{N} sequences drawn"
    return f"On the same {each}, held out, each distinct one once; 95 % intervals over sequences, not over seeds."


training(current())
