"""Claims about how the task is solved: on this input, on held-out sequences, where they fail, and under edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
import streamlit as st

from workbench import figures
from workbench.app.fields import address
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import choose_head
from workbench.app.fields.widgets import choose
from workbench.app.panels import claim_card
from workbench.app.panels.claim_card import title
from workbench.app.panels.edit import try_an_edit
from workbench.app.panels.panel import code, panel
from workbench.app.state import Look, Opened, current, plain
from workbench.inspection import Inspected, claims, inspect_run
from workbench.interventions import Head
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.places import point_name
from workbench.mechanisms import MECHANISMS

SEED = 0
MOST, NUMBERS = 256, 2**22  # held-out sequences drawn, and numbers in one head's patterns of all of them, at most
TESTED = 64  # sequences of each test condition that a causal test is made on
LISTED = 10  # failing sequences
EVERY = "every hop"
IMPORTS = ("from workbench import figures", "from workbench.inspection import claims, inspect_run")
HAVE_CLAIMS = (
    "sorting (copy, minimum, successor, identity removed), pointer chains and other tasks with paths of several hops "
    "(chain following), boxes (entity state), multiplication (partial products, carry)"
)


@dataclass(frozen=True)
class Held:
    """The claims that can be tested on the run, on held-out sequences.

    Attributes:
        look: the run and the input.
        names: of the claims.
        found: what was measured; its head in focus is the page's.
        measuring: the line of Python that measures the same.
    """

    look: Look
    names: list[str]
    found: Inspected
    measuring: str

    def code(self, *lines: str) -> str:
        return code(self.look, self.measuring, *lines, imports=IMPORTS)


@st.cache_resource(show_spinner="Measuring the claims on held-out sequences …", max_entries=24)
def _held(key: tuple[object, ...], _opened: Opened, names: tuple[str, ...], n: int) -> Inspected:
    return inspect_run(_opened.run, n=n, seed=SEED, only=names, causal=False, step=_opened.step)


@st.cache_resource(show_spinner="Editing the model on held-out sequences …", max_entries=48)
def _tested(key: tuple[object, ...], _opened: Opened, name: str, n: int, head: Head | None) -> Inspected:
    return inspect_run(_opened.run, n=n, seed=SEED, only=[name], nulls=(UNTRAINED,), step=_opened.step, head=head)


def n_each(opened: Opened) -> int:
    """Sequences of each test condition: fewer where they are long."""
    task = opened.subject.task
    return max(4, min(MOST, NUMBERS // task.n_ctx**2) // len(task.conditions))


@address.fragment
def of_the_task(look: Look, names: list[str]) -> None:
    """Everything about claims; one fragment, because all of it depends on the head in focus."""
    n = n_each(look.opened)
    found = _held(look.opened.key, look.opened, tuple(names), n)
    how = ""
    with st.container(border=True, key="panel-claims-here"):
        st.subheader("What is claimed, and whether it holds on this input", anchor=False)
        st.caption(
            "Shares of the cases in which a claim holds: on this input; over held-out sequences "
            f"({found.sample.in_words}), with 95 % intervals in brackets; and under its controls (untrained: mean and "
            "range of eight models with fresh weights). What can be read off the model need not be used by it: for "
            "that see the causal test."
        )
        if any(found[name].of_every_head for name in names):
            with st.container(width=240):
                head = choose_head(look)
            found, how = found.with_head(head), f", head={head}"
        claim_card.cards(look, names, found)
    measuring = f"found = inspect_run(run, n={n}, seed={SEED}, only={names}, causal=False{how}{look.opened.and_at})"
    held = Held(look, names, found, measuring)
    rates(held)
    closer(held)


def rates(held: Held) -> None:
    """Every claim's rate on held-out sequences as a figure."""
    found, names = held.found, held.names
    drawing = "figure = figures.mechanisms({found.name: claims.beside(found)})"
    with panel("On held-out sequences", "claims") as p:
        p.show(
            figures.mechanisms({found.name: claims.beside(found)}),
            {name: found[name].mean for name in names}
            | {f"{name}-{null}": one.mean for name in names for null, one in found[name].controls.items()},
            held.code(drawing),
            f"How often each claim holds over held-out sequences ({found.sample.in_words}), with 95 % intervals, "
            "beside the strongest control at each place. A claim that holds as often under a control says nothing of "
            "this model.",
        )


def closer(held: Held) -> None:
    """One claim: its rate by length or the like, the sequences in which it fails, and its causal test."""
    left, right = st.columns(2, width=620)
    name = choose("One claim, closer", held.names, "claim", held.names[0], title, left)
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
    """How often a claim holds by the hop, or by what the task's test sets differ in."""
    found = held.found
    has_hops = "hop" in found[name].mean.dims
    drawn = None if has_hops and not place else claims.by_condition(found, name, **place)
    how = f"by_condition(found, {name!r}{''.join(f', {dim}={label!r}' for dim, label in place.items())})"
    if drawn is None and has_hops:
        drawn, how = claims.by_hop(found, name), f"by_hop(found, {name!r})"
    if drawn is None:
        st.info("The test sets of this task do not differ in a length or the like that a rate could be drawn over.")
        return
    runs, controls = drawn
    measured = runs[found.name]
    with panel(f"By {measured.dims[0]}", "claim-rates") as p:
        p.show(
            figures.mechanism_rates(runs, controls)[0],
            {"rates": measured} | {f"control-{null}": m for null, m in controls[found.name].items()},
            held.code(f"runs, controls = claims.{how}", "figure = figures.mechanism_rates(runs, controls)[0]"),
            "Dashed: the same score where the claim has nothing to go by; what it reaches there is chance, or the "
            "task's own regularity. A claim that holds says how an answer could be made, not that the model makes it "
            "so: for that see the causal test.",
        )


def failing(held: Held, name: str, place: dict[str, Any]) -> None:
    """The held-out sequences in which a claim fails, worst first, as links to the canvas."""
    fails, tested = claims.failing(held.found, name, **place)
    with st.container(border=True, key="panel-claim-failing"):
        st.subheader("Sequences in which it fails", anchor=False)
        if not fails:
            st.caption(f"It holds in all of the {tested} held-out sequences in which it can be tested.")
            return
        st.caption(
            f"It fails, wholly or in part, in {len(fails)} of the {tested} held-out sequences in which it can be tested"
            + (f"; here are the {LISTED} worst, short ones first" if len(fails) > LISTED else "")
            + ". A link opens the sequence on the canvas, in a tab of its own. Where a claim fails, the answer may "
            "still be right."
        )
        for number, share in fails[:LISTED]:
            _link(held, number, share)


def _link(held: Held, number: int, share: float) -> None:
    """A link to one sequence. It opens a tab: within this one the sidebar's fields would go before what it says."""
    opened, found = held.look.opened, held.found
    text = opened.subject.task.question(found.sample.tokens[number])
    query = {"run": opened.run.name, "how": "Type", "input": text}
    if opened.step is not None:
        query["step"] = str(opened.step)
    left, right = st.columns([5, 2], vertical_alignment="center")
    shown = text if len(text) <= 90 else text[:89] + "…"
    left.markdown(f":material/open_in_new: [{plain(shown)}](canvas?{urlencode(query)})")
    under = ", ".join(f"{what} {value}" for what, value in found.sample.conditions[number].items())
    holds = f"holds in {claim_card.percent(share)} of its cases" if share else "does not hold"
    right.caption(f"{under + ': ' if under else ''}{holds}")


def causal(held: Held, name: str) -> None:
    """What edits of the claimed thing do to answers, beside edits elsewhere; made on request."""
    look, opened, n = held.look, held.look.opened, min(TESTED, n_each(held.look.opened))
    with panel("Causal test", "claim-causal") as p:
        if not fields.toggle("Edit the model on held-out sequences", "causal"):
            st.caption(
                "The claimed thing is edited inside the model, and the same edit is made elsewhere. If the claim is "
                "right, the first turns the answer into what the claim predicts, and the second changes nothing."
            )
            return
        head = held.found.head if held.found[name].of_every_head else None
        found = _tested(opened.key, opened, name, n, head)
        result = found[name].causal
        assert result is not None, "it was measured with its causal test"
        test = result.mean
        if test.n is None or not test.n.any():
            st.info("No answer that is right before the edit allows the test, so there is nothing to draw.")
            return
        for line in claims.causal_lines(found, name):
            st.markdown(plain(line))
        how = "" if head is None else f", head={head}"
        p.show(
            figures.causal({opened.run.name: {name: test}})[0],
            {"causal": test, **({} if result.untrained is None else {"causal-untrained": result.untrained})},
            code(
                look,
                f"found = inspect_run(run, n={n}, seed={SEED}, only=[{name!r}], nulls=({UNTRAINED!r},)"
                f"{how}{opened.and_at})",
                f"figure = figures.causal({{found.name: {{{name!r}: found[{name!r}].causal.mean}}}})[0]",
                imports=IMPORTS,
            ),
            f"{test.caption} As claimed: the answer became what the claim predicts of the edit. Changed: it became any "
            "other one. Elsewhere: an edit of the same kind that by the claim should not matter; where that changes "
            "answers too, the claimed edit proves little.",
        )


def page(look: Look) -> None:
    reasons = {name: claim.why_not(look.opened.subject) for name, claim in MECHANISMS.items()}
    names = [name for name, why in reasons.items() if why is None]
    if names:
        of_the_task(look, names)
    else:
        st.info(
            f"No claim about how this task is solved can be tested on this run. There are claims for {HAVE_CLAIMS}."
        )
    with st.expander(f"{len(reasons) - len(names)} claims that do not apply to this run, and why"):
        for name, why in reasons.items():
            if why is not None:
                st.markdown(f"**{title(name)}**: {claim_card.sentence(name)} :gray[{plain(why)}]")
    try_an_edit(look)


page(current())
