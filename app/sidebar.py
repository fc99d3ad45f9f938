"""The sidebar: which run, as of which checkpoint, and the input that every page is about. All of it is in the URL."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import streamlit as st

from workbench.app import evidence, state
from workbench.app.config_in_words import attention, plain
from workbench.app.fields import widgets as fields
from workbench.app.fields.prompts import prompt
from workbench.app.fields.values import OF_A_RUN, put, start_anew
from workbench.app.fields.widgets import choose, choose_there
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.panels.panel import UNFOLD
from workbench.app.state import Look, Opened
from workbench.inspection import over_training
from workbench.inspection.examples import SEARCHED, WHICH, example, next_wrong
from workbench.inspection.learning_curves import logged_on
from workbench.measurement.numbers import percent
from workbench.report.glossary import GLOSSARY
from workbench.runs import ModelRun, Run
from workbench.tasks import Task
from workbench.tasks.accuracy import COUNTED
from workbench.util.messages import brief
from workbench.util.seeds import generator
from workbench.util.words import capitalised

SAMPLE_HELP = "The same number gives the same input. The model never trained on it."
LAST_INPUT = 10**6
LONGEST = 20_000  # characters of a typed input
RANDOM = 10_000  # a random input's number is below this, so that it can be told and typed
END = "the end"
SAMPLED, TYPED, PROMPT = "Sample", "Type", "Prompt"
LAST = "last_look"  # in the session


def show(runs: dict[str, Run]) -> None:
    """Fill the sidebar; `state.current()` is what was chosen, or nothing where that cannot be opened."""
    st.session_state["look"] = None
    name = choose_there("Run", list(runs), "run", state.first(list(runs.values())))
    if name is not None:
        run = runs[name]
        start_anew(OF_A_RUN, str(run.path), "run")
        try:
            opened = state.opened(run, checkpoint(run))
            config = run.config
            steps = f"{run.step():,} steps" if run.finished else f"{run.step():,} of {config.steps:,} steps"
            trained = f"{steps}, seed {config.seed}; " if config.steps else ""
            heads = f"{config.model.n_heads} head{'s' * (config.model.n_heads != 1)}"
            st.caption(
                f"{plain(capitalised(opened.subject.task.summary))}.  \n"
                f"{plain(attention(config))}; width {config.model.d_model}, {heads}; "
                f"{trained}{right(run, opened.step)}"
            )
        except (ValueError, OSError) as error:
            st.error(plain(str(error)))
        else:
            st.session_state["look"] = entry(opened)
    fields.toggle("Open every panel", UNFOLD, help="Also those that are folded; a page then takes longer.")
    evidence.show()
    with st.popover("Glossary", icon=":material/menu_book:", width="stretch"):
        st.markdown("\n\n".join(f"**{word}**: {meaning}" for word, meaning in GLOSSARY.items()))


def checkpoint(run: Run, key: str = "step", default: int | None = None) -> int | None:
    """A field for the run's checkpoint; None for the latest weights, and where the run kept no checkpoints."""
    steps = over_training.checkpoints(run)
    if not steps:
        return None
    options, first = [*map(str, steps), END], END if default is None else str(default)
    chosen = choose(
        "Checkpoint (training step)",
        options,
        key,
        first,
        lambda label: last(run) if label == END else label,
        by="slider",
    )
    return None if chosen == END else int(chosen)


def last(run: Run) -> str:
    """What the run's latest weights are called: "the end" only if its training is finished."""
    return END if run.finished else "latest"


def step_in_words(opened: Opened) -> str:
    """`step 100`; of the latest weights `the end, step 500`, for an unfinished run `latest, step 200 of 500`."""
    run = opened.run
    if opened.step is not None:
        return f"step {opened.step:,}"
    return f"{last(run)}, step {run.step():,}" + ("" if run.finished else f" of {run.config.steps:,}")


def right(run: Run, step: int | None) -> str:
    """Accuracy on held-out sequences and the step of its measurement; a checkpoint's own where it was measured."""
    if run.config.steps == 0:
        return f"**not trained here** ({plain(run.config.preset)})" if run.config.preset else "**not trained here**"
    metrics = run.metrics()
    if "accuracy" not in metrics or metrics["accuracy"].dropna().empty:
        return "**accuracy not measured**"
    logged = metrics.dropna(subset="accuracy").set_index("step")
    accuracy, whole = logged["accuracy"], logged.get("whole_answer")
    at, counted = step if step in accuracy.index else accuracy.index[-1], run.task().counted
    too = "" if whole is None or counted == COUNTED["sequence"] else f"; {COUNTED['sequence']} {percent(whole[at])}"
    of = f" ({counted}, on {logged_on(run)}{too})"
    if step in accuracy.index:
        return f"**accuracy {percent(accuracy[step])} at step {step:,}**{of}"
    measured = int(accuracy.index[-1])
    when = "the end" if run.finished and measured == run.step() else f"step {measured:,}, the last measured"
    at_last = f"accuracy {percent(accuracy.iloc[-1])} at {when}"
    return f"**{at_last}**{of}" if step is None else f"**not measured at step {step:,}** but {at_last}{of}"


def inputs(opened: Opened) -> dict[str, str]:
    """The kinds of input in words: those of the task, what is typed, and prompts for a language model."""
    own = {SAMPLED: f"{capitalised(opened.subject.task.measured_on)} input", TYPED: "Own input"}
    return own | ({PROMPT: PROMPT} if isinstance(opened.run, ModelRun) else {})


def entry(opened: Opened) -> Look | None:
    """A sampled or a typed input; with a message under the field the one before, if what was typed is none."""
    kinds = inputs(opened)
    how = choose("Input", list(kinds), "how", SAMPLED, kinds.__getitem__, by="row")
    try:
        if how == TYPED:
            batch = typed(opened, opened.subject.task.typed, "input")
        else:
            batch = prompt(opened) if how == PROMPT else _sampled(opened)
    except ValueError as error:
        st.error(plain(str(error)))
        before: Look | None = st.session_state.get(LAST)
        if before is None or before.opened.key != opened.key:
            return None
        st.caption("The page still shows the input before it.")
        return before
    st.session_state[LAST] = look = Look(opened, code.named("batch", batch))
    return look


def typed(opened: Opened, label: str, key: str, suffix: str = "") -> Symbol:
    """A field for an input as the task writes it; while the field is empty, its placeholder is the input.

    Args:
        opened: the run whose task it is.
        label, key: of the field.
        suffix: what the run's names in code end with.

    Raises:
        ValueError: if what was typed is no input of the task.
    """
    task = opened.subject.task
    default = task.question(task.sample(1, generator(0, "example")).tokens[0])
    words = fields.text(label, key, default[:200], LONGEST) or default
    try:
        return code.task(opened, suffix).parse(words)
    except ValueError as error:
        shown = default if len(default) <= 80 else f"{default[:79]}…"
        st.button("Use the example", key=f"{key}-example", on_click=put, args=(key, default[:LONGEST]))
        raise ValueError(f"This input cannot be read: {brief(error, 200)}. Example: {shown}") from None


def _sampled(opened: Opened) -> Symbol:
    left, right = st.columns(2)
    number = fields.number("Input number", 0, LAST_INPUT, "sample", 0, left, help=SAMPLE_HELP)
    asks = not opened.subject.task.running_text
    which = choose("Which inputs", list(WHICH), "which", "any", WHICH.__getitem__, right) if asks else "any"
    steps = st.container(horizontal=True, gap="small", key="steps")
    condition = _condition(opened.subject.task)
    _steps(opened, number, condition, steps, which == "any")
    return code.call(example, code.model(opened), code.task(opened), number, which=which, **condition)


def _steps(opened: Opened, number: int, condition: dict[str, Any], place: Any, any_input: bool) -> None:
    """Buttons that go to another input: the one before, the one after, any, and the next that is answered wrongly."""

    def wrong() -> int | None:
        return next_wrong(opened.model, opened.subject.task, number, **condition)

    goes: list[tuple[str, str, str, Callable[[], int | None], bool]] = [
        ("previous", "‹", "Previous input", lambda: number - 1, number == 0),
        ("next", "›", "Next input", lambda: number + 1, number == LAST_INPUT),
        ("random", "Random", "A random input", lambda: secrets.randbelow(RANDOM), not any_input),
        ("wrong", "Next wrong", f"The next input with a wrong answer, of {SEARCHED}", wrong, not any_input),
    ]
    others = [name for one in opened.subject.task.conditions for name in one if name not in condition]
    elsewhere = f"Choose another {others[0]} below: the model may fail there." if others else ""
    for key, label, help, to, disabled in goes[: 3 if opened.subject.task.running_text else 4]:
        place.button(label, key=f"step-{key}", help=help, disabled=disabled, on_click=_go, args=(to, elsewhere))


def _go(to: Callable[[], int | None], elsewhere: str = "") -> None:
    """Go to the input of this number, if there is one; else say where there may be."""
    number = to()
    if number is None:
        says = f"None of the next {SEARCHED} inputs of this kind has a wrong answer."
        st.toast(f"{says} {elsewhere}".strip(), icon=":material/check:")
    else:
        put("sample", number)


def _condition(task: Task) -> dict[str, Any]:
    """Fields for what the task's test conditions differ in (a length, a number of operations): those filled in."""
    possible: dict[str, list[int]] = {}
    for condition in task.conditions:
        for name, value in condition.items():
            possible.setdefault(name, []).append(value)
    chosen = {
        name: fields.number(name.capitalize(), min(values), max(values), name, None, placeholder="any")
        for name, values in possible.items()
    }
    return {name: value for name, value in chosen.items() if value is not None}
