"""Spectra of the residual by layer: of this input, over held-out ones, of several runs, over training, by condition."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from workbench import figures
from workbench.app import state
from workbench.app.fields import address
from workbench.app.fields import widgets as fields
from workbench.app.fields.spectra import MEASURES, choose_measure, python
from workbench.app.panels.held_out import SEED, HeldOut, held_out, line, n_each
from workbench.app.panels.panel import code, panel
from workbench.app.state import Look, current, plain
from workbench.measurement import Measurement, by_group
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.groups import conditions_as_groups
from workbench.runs import Run

IMPORTS = ("from workbench import figures", "from workbench.inspection import inspect_run")
MOST_RUNS = 6  # as many as there are colours
MANY_STEPS = 40  # checkpoints from which they are measured on request only
ALONG = ("the steps", "the layers")


@address.fragment
def spectra(look: Look) -> None:
    """The input beside the mean, with the settings that hold for the whole page."""
    with panel("This input beside the mean", "entropy") as p:
        name, settings = choose_measure()
        own = look.opened
        try:
            held = held_out(own.run, [name], step=own.step, settings={name: settings})
        except ValueError as error:
            st.warning(plain(str(error)))
            return
        one = MEASURES[name][1](look.seen, **settings).select(example=0)
        if np.isnan(one.values).all():
            few = "fewer than two tokens" if name == "anisotropy" else "no token"
            st.info(f"This input has {few} in that range, so there is nothing to measure; the mean is below.")
        mean = f"mean of {len(held.sample)} held-out sequences"
        if name == "spectrum":
            figure = figures.spectrum({mean: held[name].mean}, {mean: {"this input": one}})[0]
            drawn = f"figures.spectrum({{{mean!r}: held['spectrum'].mean}}, {{{mean!r}: {{'this input': one}}}})"
        else:
            figure = figures.by_layer({"this input": one, mean: held[name].mean}, {})[0]
            drawn = f"figures.by_layer({{'this input': one, {mean!r}: held[{name!r}].mean}}, {{}})"
        p.show(
            figure,
            {"this-input": one, "held-out": held[name].mean},
            code(look, *measured(look, name, settings), f"figure = {drawn}[0]", imports=instrument(name)),
            f"{held[name].mean.caption} Held-out sequences: {held.sample.in_words}.",
        )
    if name == "spectrum":
        st.info(
            "A spectrum is not one number at a layer, so its distribution, other runs, conditions and training "
            "are not drawn: choose another measure above for those."
        )
        return
    distribution(look, name, settings, held, one)
    overlaid(look, name, settings)
    conditions(look, name, settings, held)
    training(look, name, settings)


def instrument(name: str) -> tuple[str, ...]:
    return (*IMPORTS, f"from workbench.instruments import {name}")


def measured(look: Look, name: str, settings: dict[str, Any]) -> tuple[str, ...]:
    """The lines that measure this input and held-out ones."""
    own = look.opened
    return (
        f"settings = {python(settings)}",
        f"one = {name}.measure(seen, **settings).select(example=0)",
        f"held = {line(own.run, [name], step=own.step, settings=f'{{{name!r}: settings}}')}",
    )


def distribution(look: Look, name: str, settings: dict[str, Any], held: HeldOut, one: Measurement) -> None:
    with panel("Distribution over held-out sequences", "entropy-distribution") as p:
        own = look.opened
        p.show(
            figures.distributions_by_layer({own.name: held[name].examples}, {}, {"this input": one})[0],
            {"held-out": held[name].examples, "this-input": one},
            code(
                look,
                *measured(look, name, settings),
                f"examples = {{{own.name!r}: held[{name!r}].examples}}",
                "figure = figures.distributions_by_layer(examples, {}, {'this input': one})[0]",
                imports=instrument(name),
            ),
            "How the sequences differ at each layer, as smoothed densities that end where the sequences do; the mark "
            "is this input. Where sequences differ in length, that alone can make a density wide.",
        )


@address.fragment
def overlaid(look: Look, name: str, settings: dict[str, Any]) -> None:
    """Several runs over each other, each with a model of its shape that has learnt nothing."""
    own = look.opened
    others = {run.name: run for run in state.runs() if run.path != own.run.path}
    with panel("Runs over each other", "entropy-runs") as p:
        chosen = fields.several("With", list(others), "overlay", MOST_RUNS - 1, "other runs, of any task")
        shown: dict[str, tuple[Run, int | None]] = {own.name: (own.run, own.step)}
        shown |= {other: (others[other], None) for other in chosen}
        runs, controls, each = {}, {}, []
        for label, (run, step) in shown.items():
            try:
                held = held_out(run, [name], step=step, settings={name: settings})
            except (ValueError, OSError) as error:
                st.warning(f"{plain(label)} is left out: {plain(str(error))}")
                continue
            runs[label] = held[name].mean
            controls[label] = {UNTRAINED: held[name].controls[UNTRAINED].mean}
            each.append((label, str(run.path), n_each(run.task()), step))
        if not runs:
            return
        p.show(
            figures.by_layer(runs, controls)[0],
            runs | {f"{label}, {null}": m for label, own in controls.items() for null, m in own.items()},
            code(
                look,
                f"settings = {{{name!r}: {python(settings)}}}",
                "runs, controls = {}, {}",
                f"for label, path, n, step in {each}:",
                f"    how = {{'n': n, 'seed': {SEED}, 'only': [{name!r}], 'settings': settings, 'step': step}}",
                "    held = inspect_run(workbench.load_run(path), causal=False, **how)",
                f"    runs[label] = held[{name!r}].mean",
                f"    controls[label] = {{'untrained': held[{name!r}].controls['untrained'].mean}}",
                "figure = figures.by_layer(runs, controls)[0]",
                imports=IMPORTS,
            ),
            "Each run on held-out sequences of its own task; dotted in its colour, a model of the same shape with "
            "fresh weights on the same sequences. Runs of other tasks or widths differ in much beside what was learnt: "
            "sequences of other lengths alone move these numbers.",
        )


def conditions(look: Look, name: str, settings: dict[str, Any], held: HeldOut) -> None:
    with panel("By condition", "entropy-conditions") as p:
        found = conditions_as_groups(held.sample.conditions)
        if found is None:
            st.info(
                "This task is tested under one condition only. Tasks that are tested at several lengths or numbers of "
                "operations (sorting, increment, arithmetic, boxes) are shown by them here."
            )
            return
        dim, groups = found
        grouped = by_group(held[name].examples, groups, dim)
        own = look.opened.name
        p.show(
            figures.by_layer_and_group({own: grouped}, {})[0],
            {"by-condition": grouped},
            code(
                look,
                *measured(look, name, settings),
                f"groups = [condition[{dim!r}] for condition in held.sample.conditions]",
                f"grouped = by_group(held[{name!r}].examples, groups, {dim!r})",
                f"figure = figures.by_layer_and_group({{{own!r}: grouped}}, {{}})[0]",
                imports=(*instrument(name), "from workbench.measurement import by_group"),
            ),
            "The same sequences apart by the condition that they were drawn under. Longer sequences have more "
            "directions to spread over, trained or not: a rise alone says nothing of what was learnt.",
        )


@address.fragment
def training(look: Look, name: str, settings: dict[str, Any]) -> None:
    """Every checkpoint on the same sequences, one after the other, as far as they are not yet measured."""
    run = look.opened.run
    kept = [step for step in run.checkpoints() if step < run.step()]
    with panel("Over training", "entropy-training") as p:
        if not kept:
            st.info(
                "This run has no checkpoints to follow; train one with `--checkpoint_count 20` and it is drawn here."
            )
            return
        if len(kept) > MANY_STEPS and not fields.toggle(
            f"Measure all {len(kept)} checkpoints: this takes a while", "entropy_all_steps"
        ):
            return
        along = fields.segments("Drawn along", ALONG, "entropy_along", ALONG[0])
        try:
            history = over_steps(run, kept, name, settings)
        except (ValueError, OSError) as error:
            st.warning(plain(str(error)))
            return
        how = f"n={n_each(run.task())}, seed={SEED}, only=[{name!r}], settings={{{name!r}: {python(settings)}}}"
        index = ALONG.index(along)
        p.show(
            figures.by_layer_over_training({run.name: history}, {})[index],
            {"over-training": history},
            code(
                look,
                f"last = inspect_run(run, causal=False, {how})",
                f"history = follow(last, {how}).measured[{name!r}]",
                f"figure = figures.by_layer_over_training({{{run.name!r}: history}}, {{}})[{index}]",
                imports=(*IMPORTS, "from workbench.inspection.over_training import follow"),
            ),
            "The same held-out sequences at every checkpoint. Step 0 is the model before training. What changes "
            "together need not be cause and effect.",
        )


def over_steps(run: Run, kept: list[int], name: str, settings: dict[str, Any]) -> Measurement:
    """The mean at every checkpoint and at the end, with a bar that says how far it is."""
    bar, found = st.progress(0.0, f"Measuring {len(kept) + 1} checkpoints …"), []
    for done, step in enumerate([*kept, None]):
        found.append(held_out(run, [name], step=step, settings={name: settings})[name].mean)
        bar.progress((done + 1) / (len(kept) + 1), f"Measured {done + 1} of {len(kept) + 1} checkpoints")
    bar.empty()
    return Measurement.stack(found, "step", [*kept, run.step()])


spectra(current())
