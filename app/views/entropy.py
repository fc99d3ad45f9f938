"""Entropy of the residual by layer: one input, held-out sequences, several runs, by condition, over training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from workbench import figures
from workbench.app import state
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.sides import others_first
from workbench.app.fields.spectra import MEASURES, choose_measure
from workbench.app.panels import code
from workbench.app.panels.code import Symbol
from workbench.app.panels.held_out import HeldOut, held_out, settings_of
from workbench.app.panels.many_sequences import many_sequences
from workbench.app.panels.panel import Panel, folded, panel
from workbench.app.state import Look, current
from workbench.inspection.over_training import Timeline, follow
from workbench.instruments.residual.dominant_rows import WITHOUT, has_dominant, without_dominant
from workbench.judgement import entropy as judgement
from workbench.judgement.words import by_place
from workbench.judgement.words.entropy import dominated, of_layers
from workbench.measurement import Measurement, by_group
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.groups import conditions_as_groups
from workbench.runs import Run
from workbench.util.words import capitalised

MOST_RUNS = 6  # as many as there are colours
FEW = {"anisotropy": "fewer than two tokens", "curvature": "fewer than three tokens", "alpha_req": "too few tokens"}
COLLAPSED_LOW = ("entropy", "effective_rank")  # the less of it, the fewer directions are used
EMBEDDING = "The embedding, which no layer has worked on, is not said to collapse."
MANY_STEPS = 40  # with more checkpoints than this, they are measured on request only
BY_STEP, BY_LAYER = ALONG = ("the steps", "the layers")


@dataclass(frozen=True)
class Chosen:
    """What every panel of the page measures.

    Attributes:
        look: the run and the input.
        name: the instrument.
        settings: its arguments.
    """

    look: Look
    name: str
    settings: dict[str, Any]

    def held_out(self, run: Symbol, step: int | None) -> Symbol:
        """A run on held-out sequences, with these settings."""
        return held_out(run, [self.name], step=step, settings={self.name: self.settings})

    @property
    def held(self) -> Symbol:
        """The measurement of the page's run on held-out sequences."""
        return code.named("held", self.held_out(code.run(self.look.opened), self.look.opened.step))

    @property
    def one(self) -> Symbol:
        """The page's input alone."""
        measured = code.call(MEASURES[self.name][1], code.seen(self.look), **self.settings)
        return code.named("one", measured.select(example=0))

    def untrained(self, held: Symbol) -> dict[str, Symbol]:
        """What re-initialised models have of it, by the control's name; of a model from elsewhere there are none."""
        measured = held[self.name]
        return {UNTRAINED: measured.controls[UNTRAINED].mean} if UNTRAINED in code.value_of(measured).controls else {}


@url.fragment
def spectra(look: Look) -> None:
    """The input beside the mean, and every other panel with the same settings."""
    with panel("This input beside the mean", "entropy") as p:
        chosen = Chosen(look, *choose_measure(p.settings()))
        try:
            held = chosen.held
        except ValueError as error:
            st.warning(plain(str(error)))
            return
        one = chosen.one
        if np.isnan(code.value_of(one).values).all():
            few = FEW.get(chosen.name, "no token")
            st.info(f"This input has {few} in that range, so only the mean over held-out sequences is drawn.")
        of_runs = held[chosen.name].mean
        kind = code.value_of(held).sample.kind
        mean = f"mean of {len(code.value_of(held).sample)} {kind} sequences"
        of_controls, each = chosen.untrained(held), held[chosen.name].examples
        drawn = {"this input": one, mean: of_runs}
        verdict, dominant, apart = _verdict(chosen, held, code.value_of(of_runs))
        if has_dominant(code.value_of(each)) and apart:
            drawn[f"{mean}, {WITHOUT}"] = code.call(without_dominant, each).mean()
        if chosen.name == "spectrum":
            figure = code.call(figures.spectrum, {mean: of_runs}, {mean: {"this input": one}})[0]
        else:
            figure = code.call(figures.by_layer, drawn, {mean: of_controls} if of_controls else {})[0]
        of_sequences = f"{capitalised(kind)} sequences: {code.value_of(held).sample.in_words}."
        says = " ".join(filter(None, (dominant, code.value_of(of_runs).caption, of_sequences)))
        p.show(figure, {"this-input": one, "held-out": of_runs} | of_controls, says, verdict=verdict)
        _twin(look)
    if chosen.name == "spectrum":
        st.info(
            "The other panels draw one number per layer, which a spectrum is not. For the distribution over sequences, "
            "other runs, conditions and training, choose another measure above."
        )
    else:
        distribution(chosen)
        overlaid(chosen)
        conditions(chosen)
        training(chosen)
    many_sequences(look.opened)


def _twin(look: Look) -> None:
    """A link to the comparison with the run of this task that is most alike, where there is one."""
    own = look.opened.run
    other = next(iter(others_first(own).values()), own)
    if other.path != own.path and other.config.task["name"] == own.config.task["name"]:
        query = {"run": own.name, "run2": other.name}
        label = f"Is it higher than that of {plain(other.name)}, of the same task?"
        st.page_link("views/compare.py", label=label, icon=":material/compare_arrows:", query_params=query)


def _verdict(chosen: Chosen, held: Symbol, mean: Measurement) -> tuple[str | None, str, bool]:
    """What the mean by layer shows, None of a spectrum, or where there is no number; which rows dominate; and whether
    they do so often enough to be drawn apart.
    """
    if mean.dims != ("layer",):
        return None, "", True
    if chosen.name not in COLLAPSED_LOW:
        return by_place.extremes(mean), "", True
    result = code.value_of(held[chosen.name])
    judged = judgement.judge(mean, result.examples, result.control_draws.get(UNTRAINED))
    if judged is None:
        return None, "", True
    notes = " ".join(filter(None, (dominated(judged) if judged.in_some else "", EMBEDDING if judged.models else "")))
    return of_layers(judged), notes, judged.in_some


@folded("Distribution over held-out sequences", "entropy-distribution")
def distribution(p: Panel, chosen: Chosen) -> None:
    each = chosen.held[chosen.name].examples
    examples = {chosen.look.opened.name: each}
    p.show(
        code.call(figures.distributions_by_layer, examples, {}, {"this input": chosen.one})[0],
        {"held-out": each, "this-input": chosen.one},
        "How the sequences differ at each layer: smoothed densities between the lowest and the highest sequence. "
        "The mark is this input. Different lengths of the sequences alone can widen a density.",
        verdict=by_place.widest_spread(code.value_of(each)),
    )


@url.fragment
def overlaid(chosen: Chosen) -> None:
    """Several runs in one figure, each with re-initialised models of its shape."""
    own = chosen.look.opened
    others = {run.name: run for run in state.runs() if run.path != own.run.path}
    with panel("Several runs", "entropy-runs", folded=True) as p:
        if not p.open:
            return
        beside = fields.several("Compare with", list(others), "overlay", MOST_RUNS - 1, "other runs, of any task")
        shown: dict[str, tuple[Run, int | None]] = {own.name: (own.run, own.step)}
        shown |= {other: (others[other], None) for other in beside}
        runs: dict[str, Symbol] = {}
        controls: dict[str, dict[str, Symbol]] = {}
        for number, (label, (run, step)) in enumerate(shown.items(), 1):
            loaded = code.loaded(run)
            try:
                held = code.named(f"held_{number}", chosen.held_out(loaded, step))
            except (ValueError, OSError) as error:
                st.warning(f"{plain(label)} is left out: {plain(str(error))}")
                continue
            runs[label] = held[chosen.name].mean
            if chosen.untrained(held):
                controls[label] = chosen.untrained(held)
        if not runs:
            return
        p.show(
            code.call(figures.by_layer, runs, controls)[0],
            runs | {f"{label}, {name}": m for label, own in controls.items() for name, m in own.items()},
            "Each run on held-out sequences of its own task. Dotted in the same colour: re-initialised models of the "
            "same shape on the same sequences. Runs of other tasks or widths differ in more than what was learnt; the "
            "length of the sequences alone changes these numbers.",
            verdict=by_place.least_of_all(code.value_of(runs)),
        )


@folded("By condition", "entropy-conditions")
def conditions(p: Panel, chosen: Chosen) -> None:
    held = chosen.held
    grouping = conditions_as_groups(code.value_of(held).sample.conditions)
    if grouping is None:
        st.info(
            "This task is tested under one condition only. For tasks that are tested at several lengths or numbers "
            "of operations, such as sorting, this panel shows each condition."
        )
        return
    dim, _ = grouping
    groups = code.named("group_of_each", code.call(conditions_as_groups, held.sample.conditions)[1])
    grouped = code.assign("grouped", by_group, held[chosen.name].examples, groups, dim)
    p.show(
        code.call(figures.by_layer_and_group, {chosen.look.opened.name: grouped}, {})[0],
        {"by-condition": grouped},
        "The same sequences, grouped by the condition under which they were drawn. Longer sequences can spread "
        "over more directions, trained or not: a rise alone does not show that anything was learnt.",
        verdict=by_place.extremes(code.value_of(grouped)),
    )


@url.fragment
def training(chosen: Chosen) -> None:
    """Every checkpoint on the same sequences."""
    run = chosen.look.opened.run
    kept = [step for step in run.checkpoints() if step < run.step()]
    with panel("Over training", "entropy-training", folded=True) as p:
        if not p.open:
            return
        if not kept:
            st.info("This run kept no checkpoints. Train one with `--checkpoint_count 20` to see this over training.")
            return
        if len(kept) > MANY_STEPS and not fields.toggle(
            f"Measure all {len(kept)} checkpoints: this takes a while", "entropy_all_steps"
        ):
            return
        along = fields.choose("Horizontal axis", ALONG, "entropy_along", BY_STEP, by="row")
        try:
            history = over_steps(chosen, kept)
        except (ValueError, OSError) as error:
            st.warning(plain(str(error)))
            return
        p.show(
            code.call(figures.by_layer_over_training, {run.name: history}, {})[ALONG.index(along)],
            {"over-training": history},
            "The same held-out sequences at every checkpoint. Training step 0 is the model before training. Two "
            "things that change together need not be cause and effect.",
            verdict=by_place.changed(code.value_of(history), "step"),
        )


def over_steps(chosen: Chosen, kept: list[int]) -> Symbol:
    """The mean at every checkpoint and at the end; a progress bar shows how many are measured."""
    run, name = code.run(chosen.look.opened), chosen.name

    def measured_one_by_one(last: HeldOut, **how: Any) -> Timeline:
        bar, moments = st.progress(0.0, f"Measuring {len(kept) + 1} checkpoints …"), []
        for done, step in enumerate(kept, 1):
            moments.append(code.value_of(chosen.held_out(run, step))[name].mean)
            bar.progress(done / (len(kept) + 1), f"Measured {done} of {len(kept) + 1} checkpoints")
        bar.empty()
        steps = [*kept, chosen.look.opened.run.step()]
        stacked = Measurement.stack([*moments, last[name].mean], "step", steps)
        return Timeline(chosen.look.opened.run, chosen.look.opened.run.name, steps, {name: stacked}, {}, None, [])

    how = settings_of(chosen.look.opened.run, [name], {name: chosen.settings})
    last = code.named("last", chosen.held_out(run, None))
    return code.named("history", code.call(follow, last, **how, computed_by=measured_one_by_one).measured[name])


spectra(current())
