"""The form that starts a demo run, and its progress while that trains."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

import streamlit as st

from workbench.app import config_in_words as words
from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.fields.widgets import choose
from workbench.app.server import demo
from workbench.app.server.guard import may_write
from workbench.measurement.numbers import percent
from workbench.training import preset_config

NO_TOKEN = (
    "This browser tab is view-only. To start runs, open the whole address that `workbench explore` printed, with its "
    "access key."
)


def show(root: Path) -> None:
    """The panel: the progress of a running demo, or else the form and the outcome of the last one."""
    with st.container(border=True, key="panel-demo"):
        current = demo.slot().demo
        running = current is not None and current.running
        with st.container(horizontal=True):
            st.subheader("Demo run" if running else "Start a demo run", anchor=False)
        if running:
            live()
            return
        if current is not None:
            outcome(current)
        form(root)


@st.fragment(run_every=1.0)
def live() -> None:
    """The progress of the run, every second."""
    current = demo.slot().demo
    if current is None or not current.running:
        st.rerun()
    assert current is not None
    so_far = current.progress()
    left = "" if so_far.left is None else f"; about {words.seconds(so_far.left)} left"
    text = f"{plain(current.path.name)}: step {so_far.step:,} of {current.steps:,}{left}"
    if current.stopped:
        text = f"{plain(current.path.name)}: stopping after this step …"
    st.progress(min(1.0, so_far.step / current.steps), text)
    loss, accuracy, button = st.columns([2, 2, 1], vertical_alignment="bottom")
    loss.metric("Loss", f"{so_far.losses[-1]:.3f}" if so_far.losses else "…", chart_data=so_far.losses or None)
    shown = percent(so_far.accuracies[-1]) if so_far.accuracies else "…"
    accuracy.metric("Right on held-out sequences", shown, chart_data=so_far.accuracies or None)
    off = current.stopped or not may_write()
    button.button("Stop", icon=":material/stop:", key="demo_stop", on_click=stop, args=(current,), disabled=off)


def stop(running: demo.Demo) -> None:
    """Stop the run, if this browser may: a disabled button can still be clicked by a script."""
    if may_write():
        running.stop()


def outcome(last: demo.Demo) -> None:
    """The outcome of the last run."""
    name, query = plain(last.path.name), {"run": last.path.name}
    if last.failure is not None:
        st.error(f"{name} failed: {plain(last.failure)}")
        return
    so_far = last.progress()
    if last.stopped and so_far.step < last.steps:
        st.info(f"{name} was stopped at step {so_far.step:,} of {last.steps:,}. To resume it, run:")
        st.code(shlex.join(["workbench", "resume", str(last.path)]), language="bash")
        return
    right = f": {percent(so_far.accuracies[-1])} right on held-out sequences" if so_far.accuracies else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.success(f"{name} is trained{right}.", width=420)
        st.page_link("views/canvas.py", label="Look at it", icon=":material/visibility:", query_params=query)
        st.page_link("views/training.py", label="See it learn", icon=":material/timeline:", query_params=query)


def form(root: Path) -> None:
    """Fields for the preset, the number of steps, the seed and the name."""
    presets = demo.OFFERED
    first, second, third, fourth = st.columns([5, 1.3, 1.3, 3])
    known = "`workbench list presets` shows all presets"
    preset = choose("Preset", list(presets), "demo_preset", next(iter(presets)), in_words, first, help=known)
    config = preset_config(preset, {})
    steps = second.number_input("Steps", 1, demo.MOST_STEPS, config.steps, key=f"demo_steps_{preset}")
    seed = third.number_input("Seed", 0, 10**6, key="demo_seed")
    wanted = demo.free_name(root, preset if not seed else f"{preset}-seed-{seed}")
    name = fourth.text_input("Name of the run", key="demo_name", placeholder=wanted, max_chars=64) or wanted
    wrong = None
    try:
        path = demo.place(root, name)
    except ValueError as error:
        wrong = str(error)
        fourth.error(plain(wrong))
        path = root / wanted
    expected = words.seconds(presets[preset] * steps / config.steps)
    with st.container(horizontal=True, vertical_alignment="center"):
        started = st.button(
            "Train it",
            icon=":material/play_arrow:",
            type="primary",
            key="demo_start",
            disabled=wrong is not None or not may_write(),
        )
        beside = f"Takes about {expected} on one core of this machine. On the command line, run:"
        st.caption(beside if may_write() else NO_TOKEN, width="stretch")
    if started and may_write():
        try:
            demo.slot().start(root, name, preset, steps, seed)
        except (ValueError, OSError) as error:
            st.error(plain(str(error)))
        else:
            st.rerun()
    shown = state.as_seen(path)
    st.code(shlex.join(["workbench", *demo.arguments(shown, preset, steps, seed)]), language="bash", wrap_lines=True)


@cache
def in_words(preset: str) -> str:
    config = preset_config(preset, {})
    task, objectives = words.spaced(config.task["name"]), " + ".join(map(words.spaced, config.objectives))
    return f"{preset}: {task}, {words.attention(config)}, {objectives}; {words.seconds(demo.OFFERED[preset])}"
