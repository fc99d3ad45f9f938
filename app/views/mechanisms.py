"""Claims about how the task is solved: on this input, on held-out sequences, where they fail, and under edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.url import memory
from workbench.app.fields.widgets import choose
from workbench.app.panels import claim_card, code, how_it_works
from workbench.app.panels.code import Symbol, value_of
from workbench.app.panels.dispersion import dispersion
from workbench.app.panels.edit import try_an_edit
from workbench.app.panels.head_grid import choose_head
from workbench.app.panels.held_out import SEED, n_each
from workbench.app.panels.panel import UNFOLD, panel
from workbench.app.sidebar import TYPED
from workbench.app.state import Look, current
from workbench.inspection import Inspected, claims, inspect_run
from workbench.inspection.judged import judged_claims, judgements
from workbench.interventions import Head
from workbench.judgement.words import by_place
from workbench.judgement.words import claims as claims_in_words
from workbench.judgement.words.findings import statements
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.numbers import percent
from workbench.measurement.places import point_name
from workbench.mechanisms import MECHANISMS, sentence, title
from workbench.runs import Run
from workbench.util.words import capitalised

LISTED = 10  # failing sequences
EVERY = "every hop"


@dataclass(frozen=True)
class Held:
    """The claims that can be tested on the run, on held-out sequences.

    Attributes:
        look: the run and the input.
        names: of the claims.
        inspection: what was measured, with the code that measures it; its head in focus is the page's.
    """

    look: Look
    names: list[str]
    inspection: Symbol

    @property
    def found(self) -> Inspected:
        found: Inspected = value_of(self.inspection)
        return found


@st.cache_resource(show_spinner="Measuring the claims on held-out sequences …", max_entries=24)
def _held(key: tuple[object, ...], _run: Run, how: dict[str, Any]) -> Inspected:
    return inspect_run(_run, **how)


@st.cache_resource(show_spinner="Editing the model on held-out sequences …", max_entries=48)
def _tested(key: tuple[object, ...], _run: Run, how: dict[str, Any]) -> Inspected:
    return inspect_run(_run, **how)


def inspected(look: Look, names: list[str], head: Head | None, *, causal: bool = False) -> Symbol:
    """The claims measured on held-out sequences, or their causal tests.

    Args:
        look: the run and the input.
        names: of the claims.
        head: the head in focus, at which claims about single heads are seen; they are measured once for all heads.
        causal: with their causal tests, made in that head.
    """

    def once(run: Run, head: Head | None, **how: Any) -> Inspected:
        if causal:
            return _tested(look.opened.key, run, {**how, "head": head})
        found = _held(look.opened.key, run, how)
        return found if head is None else found.with_head(head)

    run, step = code.run(look.opened), look.opened.step
    how = {"n": n_each(look.opened.subject.task), "seed": SEED, "only": names}
    how |= {"nulls": (UNTRAINED,)} if causal else {"causal": False}
    return code.assign("measured", inspect_run, run, **how, head=head, step=step, computed_by=once)


@url.fragment
def of_the_task(look: Look, names: list[str]) -> None:
    """Everything about claims; one fragment, because all of it depends on the head in focus."""
    every = Held(look, names, inspected(look, names, None))
    found, known = every.found, how_it_works.findings(look.opened.run, look.opened.step)
    needs = {claim.claim: claims_in_words.need_in_a_word(claim.places) for claim in known.claims} if known else {}
    with panel("On held-out sequences", "claims") as p:
        p.show(
            code.call(figures.mechanisms, {found.name: code.call(claims.beside, every.inspection)}),
            {name: found[name].mean for name in names}
            | {f"{name}-{null}": one.mean for name in names for null, one in found[name].controls.items()},
            f"How often each claim holds on held-out sequences ({found.sample.in_words}), with 95 % intervals, beside "
            "the nearest control at each place. A claim that holds as often under a control says nothing about this "
            "model.",
            verdict=claims_in_words.how_many([judgements(found, name) for name in names], needs),
        )
    head = None
    with st.container(border=True, key="panel-claims-here"):
        st.subheader("What is claimed, and whether it holds on this input", anchor=False)
        st.caption(
            "How often each claim holds, of the positions or sequences that it is about: on this input; on held-out "
            f"sequences ({found.sample.in_words}; 95 % interval); and under its controls: scored against another "
            "example's truth, or in eight re-initialised models (mean and range). A claim can hold although the model "
            "does not use it: for that see the causal test."
        )
        if any(found[name].of_every_head for name in names):
            head = choose_head(look)
        held = Held(look, names, inspected(look, names, head))
        claim_card.cards(look, names, held.found, known)
    closer(held)


def closer(held: Held) -> None:
    """One claim: its rate by condition, the sequences in which it fails, and its causal test.

    At first it is the one that exceeds its nearest control by the most, at the place where it does.
    """

    def gap(name: str) -> float:
        judged = judgements(held.found, name)
        gaps = [one.rate - (one.strongest.rate if one.strongest else 0.0) for one in judged]
        return max((gap for gap in gaps if not np.isnan(gap)), default=-1.0)

    left, right = st.columns(2, width=620)
    name = choose("One claim in detail", held.names, "claim", max(held.names, key=gap), title, left)
    place = _place(held.found[name].at_head().mean, right)
    by_condition(held, name, place)
    failing(held, name, place)
    causal(held, name)


def _place(measured: Measurement, where: Any) -> dict[str, Any]:
    """A field for the point or the hop at which a claim is read, where there are several."""
    if measured.dims == ("point",):
        best = measured.coords["point"][int(np.nan_to_num(measured.values).argmax())]
        return {"point": choose("Read at", list(measured.coords["point"]), "claim_point", best, point_name, where)}
    if measured.dims == ("hop",):
        hop = choose("Hop", [EVERY, *measured.coords["hop"]], "claim_hop", EVERY, str, where)
        return {} if hop == EVERY else {"hop": hop}
    return {}


def by_condition(held: Held, name: str, place: dict[str, Any]) -> None:
    """How often a claim holds by the hop, or by what the task's test conditions differ in."""
    has_hops = "hop" in held.found[name].mean.dims
    both = code.call(claims.by_condition, held.inspection, name, **place) if place or not has_hops else None
    if has_hops and (both is None or value_of(both) is None):
        both = code.call(claims.by_hop, held.inspection, name)
    if both is None or value_of(both) is None:
        st.info("This task is tested on inputs of one length or kind, so there is no rate by length to draw.")
        return
    both = code.named("rates", both)
    runs, controls = value_of(both)
    measured = runs[held.found.name]
    with panel(f"By {measured.dims[0]}", "claim-rates", folded=True) as p:
        if not p.open:
            return
        p.show(
            code.call(figures.mechanism_rates, both[0], both[1])[0],
            {"rates": measured} | {f"control-{null}": m for null, m in controls[held.found.name].items()},
            "Dashed and dotted: controls. A score that a control reaches too comes from chance or from the task "
            "itself. A claim that holds shows how an answer could be made, not that the model makes it so: for that "
            "see the causal test.",
            verdict=by_place.extremes(measured),
        )


def failing(held: Held, name: str, place: dict[str, Any]) -> None:
    """The held-out sequences in which a claim fails, worst first, as links to the canvas."""
    fails, testable = claims.failing(held.found, name, **place)
    with (
        st.container(key="panel-claim-failing"),
        fields.fold("**Sequences in which it fails**", "show-claim-failing", bool(memory().held.get(UNFOLD))) as box,
    ):
        if not box.open:
            return
        if not fails:
            st.caption(f"{title(name)} holds in all {testable} held-out sequences that can test it.")
            return
        st.caption(
            f"It fails, wholly or in part, in {len(fails)} of the {testable} held-out sequences that can test it"
            + (f"; these are the {LISTED} worst, short ones first" if len(fails) > LISTED else "")
            + ". A link opens the sequence on the canvas, in a new tab. The answer may still be right where a claim "
            "fails."
        )
        opened, sample = held.look.opened, held.found.sample
        for number, share in fails[:LISTED]:  # links in a new tab: in this one the sidebar's fields would win over them
            text = opened.subject.task.question(sample.tokens[number])
            query = {"run": opened.run.name, "how": TYPED, "input": text}
            if opened.step is not None:
                query["step"] = str(opened.step)
            left, right = st.columns([5, 2], vertical_alignment="center")
            shown = text if len(text) <= 90 else text[:89] + "…"
            left.markdown(f":material/open_in_new: [{plain(shown)}](canvas?{urlencode(query)})")
            under = ", ".join(f"{what} {value}" for what, value in sample.conditions[number].items())
            holds = f"holds in {percent(share)} of its cases" if share else "does not hold"
            right.caption(f"{under + ': ' if under else ''}{holds}")


def causal(held: Held, name: str) -> None:
    """How edits of the claimed part change answers, beside edits elsewhere; made on request."""
    with panel("Causal test", "claim-causal") as p:
        known = how_it_works.findings(held.look.opened.run, held.look.opened.step)
        said = [one for one in statements(known) if one.claims == (name,)] if known else []
        if not fields.pressed("Draw the causal test" if said else "Run the causal test", "causal"):
            for one in said:
                st.markdown(how_it_works.in_words(one))
            st.caption(
                "The claimed part is edited inside the model, and the same edit is made elsewhere. If the claim is "
                "right, the first turns the answer into what the claim predicts, and the second changes nothing."
            )
            return
        head = held.found.head if held.found[name].of_every_head else None
        edited = inspected(held.look, [name], head, causal=True)
        found: Inspected = value_of(edited)
        result = found[name].causal
        assert result is not None, "it was measured with its causal test"
        test = result.mean
        if test.n is None or not test.n.any():
            st.info("No answer is right before the edit in a way that allows the test, so there is nothing to draw.")
            return
        for claim in judged_claims(found):
            for line in claims_in_words.tested(claim):
                st.markdown(plain(line))
        p.show(
            code.call(figures.causal, {found.name: {name: edited[name].causal.mean}})[0],
            {"causal": test} | {f"causal-{kind}": null for kind, null in result.nulls.items()},
            f"{test.caption} As claimed: the answer became what the claim predicts of the edit. Changed: it became "
            "another one, that one or any other. Elsewhere: an edit of the same kind that by the claim should not "
            "matter; if that changes answers too, the claimed edit proves little.",
        )


look = current(attention=True)
reasons = {name: claim.why_not(look.opened.subject) for name, claim in MECHANISMS.items()}
names = [name for name, why in reasons.items() if why is None]
if names:
    of_the_task(look, names)
else:
    st.info("No claim about how this task is solved can be tested on this run. The list below says why.")
with st.expander(f"{len(reasons) - len(names)} claims that do not apply to this run, and why"):
    for name, why in reasons.items():
        if why is not None:
            st.markdown(f"**{title(name)}**: {plain(capitalised(sentence(name)))} :gray[{plain(why)}]")
dispersion(look.opened)
try_an_edit(look)
