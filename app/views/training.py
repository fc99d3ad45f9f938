"""How a run changed over training; all panels follow the checkpoint that is chosen in the sidebar."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any

import streamlit as st

from workbench import figures
from workbench.app import config_in_words as words
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import choose_matrix, other_needed
from workbench.app.fields.values import put
from workbench.app.fields.widgets import first_drawn
from workbench.app.panels import code, how_it_works
from workbench.app.panels.code import Symbol
from workbench.app.panels.collapse import collapse
from workbench.app.panels.grokking import grokking
from workbench.app.panels.head_grid import choose_head
from workbench.app.panels.panel import panel
from workbench.app.panels.watch_it_learn import watch
from workbench.app.sidebar import END, TYPED, last, step_in_words
from workbench.app.state import Look, current
from workbench.figures.token_page import right_at
from workbench.inspection import learning_curves as learning
from workbench.inspection import over_training
from workbench.inspection.over_training import Moment, Timeline
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.interventions import Head, head_in_words
from workbench.judgement.extremes import Rise, steepest_rise
from workbench.judgement.words import by_place
from workbench.judgement.words.extremes import rise_in_words
from workbench.judgement.words.figures import learnt
from workbench.judgement.words.findings import statements
from workbench.measurement import Measurement
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.tasks import Task
from workbench.training import PAPER_PRESETS, PRESETS

N = 64  # sequences of each condition
CONDITIONS = 4
ON_REQUEST = 10.0  # seconds: what takes longer is measured on request
AT_ONCE = 0.4  # seconds within which no progress is shown
AS_LOGGED = (
    "As logged during training: accuracy and test loss on held-out sequences at some training steps, the loss of "
    "single batches. The next-token loss is the same for runs of all objectives. One seed, no intervals. "
)
DOTTED = "Dotted, where drawn: the control, the same model scored with the truth of other examples."
CLAIMS = ("gold_mass", *MECHANISMS)  # what is drawn beside a control
MEASURES = ("overall", *CLAIMS, "entropy")


@url.fragment
def of_a_head(look: Look, kept: list[int]) -> None:
    """The learning curves, and what follows one head: at first the one with the most mass on gold paths at the end."""
    learnt, beside = st.columns(2)
    with learnt:
        curves(look)
    end = moment(look, None)[0]
    best = end.head or (look.opened.subject.n_layers - 1, 0)
    head = choose_head(look, first=best)
    if end.head is not None and head != end.head:
        end = moment(look, None, head)[0]
    names = [name for name in ("overall", *CLAIMS, "entropy") if name in end.measured]
    known = how_it_works.findings(look.opened.run)
    telling = [statement.claims[0] for statement in (statements(known) if known else []) if statement.brief]
    shown = next((name for name in [*telling, *CLAIMS] if name in names), "overall")
    with beside:
        measure(look, end, kept, shown, folded=False)
    picture(look, end, head, chosen=head != best)
    watch(look, head, kept)
    columns, others = st.columns(2), [name for name in names if name != shown]
    for number, name in enumerate(others):
        with columns[number % 2]:
            measure(look, end, kept, name, folded=True)
    if "entropy" in end.measured:
        entropy(look, kept, end.head)


BUTTONS = ((-1, "chevron_left", "b", "before", "Earlier"), (1, "chevron_right", "n", "after", "Later"))


def walk(look: Look, kept: list[int]) -> None:
    """The checkpoint that the sidebar chose, and buttons to the previous and the next one."""
    labels = [*map(str, kept), END]
    at = labels.index(END if look.opened.step is None else str(look.opened.step))
    with st.container(horizontal=True, vertical_alignment="center"):
        for by, icon, key, way, label in BUTTONS:
            st.button(
                label,
                icon=f":material/{icon}:",
                key=f"train_{way}",
                shortcut=key,
                help=f"The checkpoint {way} this one",
                disabled=not 0 <= at + by < len(labels),
                on_click=put,  # it moves the sidebar's slider
                args=("step", labels[min(max(at + by, 0), len(labels) - 1)]),
            )
        where = f"(checkpoint {at + 1} of {len(labels)}). The slider in the sidebar moves it too."
        st.markdown(f"**{step_in_words(look.opened)}** :gray[{where}]")


def chosen_step(look: Look) -> int:
    return look.opened.run.step() if look.opened.step is None else look.opened.step


@url.fragment
def curves(look: Look) -> None:
    run, step = code.run(look.opened), chosen_step(look)
    logged = code.assign("curves", learning.learning_curves, run)
    if not code.value_of(logged):
        return
    with panel("Learning curves", "train-curves") as p:
        log = fields.toggle("Logarithmic steps", "train_log", p.settings())
        spans: dict[str, Any] = {}
        steepest = logged_rise(code.value_of(logged))
        written, shaded = rise_in_words(steepest)
        if steepest is not None:
            rise = code.assign("rise", steepest_rise, logged["accuracy"], computed_by=lambda _: steepest)
            spans = {"spans": [(rise.start, rise.end, written)]}
        events = code.call(learning.events, run)
        drawn = code.call(figures.learning_curves, {look.opened.run.name: logged}, log=log, events=events, **spans)
        figure = code.call(figures.mark_step, drawn, step, step_in_words(look.opened))
        verdict = learnt(code.value_of(logged), look.opened.subject.task)
        p.show(figure, code.value_of(logged), AS_LOGGED + shaded, verdict=verdict)


def logged_rise(curves: dict[str, Measurement]) -> Rise | None:
    """Where the logged accuracy rises most, if it was logged and rises at all."""
    return steepest_rise(curves["accuracy"]) if "accuracy" in curves else None


@url.fragment
def picture(look: Look, end: Moment, place: Head, *, chosen: bool) -> None:
    """The canvas of the input at the checkpoint, of one head throughout."""
    layer, head = place
    with panel("The input at this checkpoint", "train-canvas", folded=True) as p:
        if not p.open:
            return
        left, right = st.columns([2, 3], width=760)
        with left:
            which = choose_matrix(look)
        start = first_drawn(len(projection.sequence(look.seen, 0)), place=right)
        when = "at the end of training" if look.opened.run.finished else "so far"
        best = f"it has the most mass on gold paths {when}, measured on other inputs"
        why = best if "gold_mass" in end.measured else "this task has no gold paths by which to choose one"
        why = "it is chosen above" if chosen else why
        says = f"The page follows layer {layer}, head {head} through all checkpoints, because {why}. One input shows "
        says += "how it looks, not how often; where a head looks does not show what it reads there."
        if st.session_state.get("which", "any") != "any" and st.session_state.get("how") != TYPED:
            says += " The input was chosen by how hard it is for the model at this very checkpoint."
        figure = code.call(figures.canvas, code.seen(look), layer=layer, head=head, which=which, start=start)
        attention = attention_graph.matrices(look.seen, 0, layer, head, n_hops=attention_graph.hop_of(which) or 1)
        verdict = by_place.answered(right_at(look.seen), look.opened.subject.task)
        p.show(figure, {"attention": attention}, says, verdict=verdict)


@url.fragment
def entropy(look: Look, kept: list[int], head: Head | None) -> None:
    """Entropy by layer at the checkpoint beside that at the end; at the end, beside that at the first checkpoint."""
    run, now = look.opened.run, last(look.opened.run)
    step = kept[0] if look.opened.step is None else look.opened.step
    end = "the end" if run.finished else "the latest step"
    other = "the first checkpoint" if look.opened.step is None else f"step {step:,}"
    title = f"Entropy by layer: {other} and {end}"
    with panel(title, "train-entropy", folded=True) as p:
        if not p.open:
            return

        def measured(name: str, step: int | None) -> Symbol:
            how = measuring(look.opened.subject.task, "entropy")
            at = code.assign(name, over_training.moment, code.run(look.opened), step=step, **how, computed_by=taken)
            return at.measured["entropy"]

        def taken(run: Run, step: int | None, **_: Any) -> Moment:
            return moment(look, step, None if step is None else head)[0]

        shown = {f"step {step:,}": measured("here", step), now: measured("end", None)}
        says = f"{code.value_of(shown[now]).caption} {sequences(look.opened.subject.task)}"
        verdict = by_place.least_of_all(code.value_of(shown))
        p.show(code.call(figures.by_layer, shown, {})[0], shown, says, verdict=verdict)


@url.fragment
def measure(look: Look, end: Moment, kept: list[int], name: str, *, folded: bool) -> None:
    """One thing that is measured over sequences, at every checkpoint."""
    with panel(end.measured[name].name, f"train-of-{name}", folded=folded) as p:
        followed = follow(look, end, kept, name) if p.open else None
        if followed is None:
            return
        own, step = followed.measured[name], chosen_step(look)
        rise = logged_rise(learning.learning_curves(look.opened.run))
        timeline = code.assign(
            "followed",
            over_training.measure,
            code.run(look.opened),
            **measuring(look.opened.subject.task, name),
            head=followed.head,
            computed_by=lambda run, **_: followed,
        )
        figure = code.call(figures.mark_step, code.call(figures.timeline, timeline, name), step)
        if rise is not None:
            figure = code.call(figures.shade_steps, figure, rise.start, rise.end)
        numbers = {name: own} | ({f"{name} control": followed.controls[name]} if name in followed.controls else {})
        controlled = name in followed.controls and name in CLAIMS
        control = followed.controls[name] if controlled else None
        dotted = f" {DOTTED}" if controlled else ""
        shaded = " Shaded: where the logged accuracy rises most." if rise is not None else ""
        verdict = by_place.changed(
            at_head(own, followed.head), "step", None if control is None else at_head(control, followed.head)
        )
        if verdict and controlled and followed.head is not None:
            verdict += other_needed(look)
        p.show(
            figure,
            numbers,
            f"{own.caption} {sequences(look.opened.subject.task)}{dotted}{shaded}",
            verdict=verdict,
        )


def at_head(m: Measurement, head: Head | None) -> Measurement:
    """What was measured of the head that is followed, under its name; all of it where it is not of heads."""
    if head is None or "head" not in m.dims:
        return m
    layer, number = head
    return replace(m.select(layer=layer, head=number), name=f"{m.name} at {head_in_words(*head)}")


def follow(look: Look, end: Moment, kept: list[int], name: str) -> Timeline | None:
    """Every checkpoint measured, of which a panel draws `name`: at once if that is quick, else on request."""
    run, moments = look.opened.run, []
    place, began = st.empty(), perf_counter()
    seconds = min(moment(look, step, head)[1] for step, head in ((kept[0], end.head), (None, None)))
    expected = seconds * (len(kept) - 1)
    done, whole = st.session_state.setdefault("followed_runs", set()), (str(run.path), run.version)
    if expected > ON_REQUEST:
        label = f"Measure all {len(kept)} checkpoints (about {words.seconds(expected)}, once)"
        if not fields.toggle(label, f"train_all_{name}", default=whole in done):
            return None
    for number, step in enumerate(kept, 1):
        moments.append(moment(look, step, end.head)[0])
        if perf_counter() - began > AT_ONCE:
            left = words.seconds(seconds * (len(kept) - number))
            place.progress(number / len(kept), f"Measured {number} of {len(kept)} checkpoints; about {left} left")
    place.empty()
    done.add(whole)  # the other panels draw the same measurements
    return over_training.join(run, [*moments, end])


def moment(look: Look, step: int | None, head: Head | None = None) -> tuple[Moment, float]:
    """What is measured of the run at a checkpoint, and the seconds that took."""
    opened = look.opened
    return _moment(str(opened.run.path), opened.run.version_at(step), step, head, opened.run)


@st.cache_resource(show_spinner="Measuring the checkpoint …", max_entries=400)
def _moment(path: str, version: int, step: int | None, head: Head | None, _run: Run) -> tuple[Moment, float]:
    began = perf_counter()
    measured = over_training.moment(_run, step, **measuring(_run.task(), *MEASURES), head=head)
    return measured, perf_counter() - began


def measuring(task: Task, *names: str) -> dict[str, Any]:
    """How this page measures things of these names, as arguments of `over_training`: on few of the test conditions."""
    conditions = list(task.conditions)
    if len(conditions) > CONDITIONS:  # from the first to the last
        step = (len(conditions) - 1) / (CONDITIONS - 1)
        conditions = [conditions[round(i * step)] for i in range(CONDITIONS)]
    return {"n": N, "seed": 0, "only": list(names), "conditions": conditions}


def sequences(task: Task) -> str:
    """The sequences that the page measures on, in words."""
    conditions = measuring(task)["conditions"]
    named = "; ".join(", ".join(f"{key} {value}" for key, value in one.items()) for one in conditions if one)
    each = f"{N} held-out sequences drawn for each of {named}" if named else f"{N} held-out sequences"
    return (
        f"Measured on the same {each}, duplicates left out; 95 % intervals over sequences, not over seeds. Those of "
        "shares leave room for what is rare and far, so that a band may lie mostly on one side of its line."
    )


look = current()
run = look.opened.run
if kept := over_training.checkpoints(run):
    walk(look, kept)
    try:
        of_a_head(look, kept)
        grokking(look.opened, chosen_step(look))
        collapse(look.opened, chosen_step(look))
    except (ValueError, OSError) as error:  # weights of strangers
        st.error(plain(str(error)))
else:
    curves(look)
    if run.config.steps == 0:
        st.info("This model was not trained here, so there is no training to follow.")
    else:
        known = PRESETS | PAPER_PRESETS
        preset = run.config.preset if run.config.preset in known else "PRESET"  # anyone can have written it
        st.info(
            "This run kept no checkpoints, so only its log can be shown. "
            f"`workbench train {preset} --checkpoint_count 20 --out …` trains one like it with 20 checkpoints at "
            "logarithmically spaced steps; this page then follows the canvas, the entropy and every measure through "
            "them."
        )
