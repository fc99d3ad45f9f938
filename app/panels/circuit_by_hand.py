"""Edges of a circuit cut or taken in by hand, and what the circuit answers then, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
import torch

from workbench.app.config_in_words import plain
from workbench.app.fields import widgets as fields
from workbench.app.fields.url import memory
from workbench.app.fields.values import put, start_anew
from workbench.app.panels.circuit import Asked, Found
from workbench.circuits import Circuit, circuit_answers, faithfulness
from workbench.judgement.words import circuits as words
from workbench.util.words import capitalised

CHANGED = "changed"  # the field: edges in the order in which they were changed
MOST = 24  # edges
NAMED = 3  # changes that the sentence names


@dataclass(frozen=True)
class Answers:
    """What circuits answer on the pairs that they are tested on, at the first answer asked for.

    Attributes:
        of: token of each pair, by the whole model, the circuit as found, and the circuit as changed by hand.
        right: whether each of these is right.
        kept: the share of the metric kept by the circuit as found, as changed, and by all edges that the latter lacks.
    """

    of: np.ndarray
    right: np.ndarray
    kept: tuple[float, float, float]

    @property
    def same(self) -> int:
        """To how many pairs the circuit as found gives the whole model's answer."""
        return int((self.of[1] == self.of[0]).sum())


def choose(asked: Asked, circuit: Circuit, size: int, place: Any) -> list[str]:
    """The field for the edges that are changed by hand; another size, or another question, starts without any.

    Args:
        asked, size: what the circuit was found for.
        circuit: as it was found.
        place: where the field goes.
    """
    start_anew([CHANGED], (*asked.key, size), CHANGED)
    with place:
        return fields.several(
            "Edges cut or taken in by hand",
            circuit.graph.names,
            CHANGED,
            MOST,
            "none: click an edge in the drawing, or type its name",
        )


def toggle(circuit: Circuit, name: str) -> None:
    """For a click on an edge: cut it or take it in; on a second click it is as it was. What is no edge does nothing."""
    if name not in circuit.graph.names:  # a browser may send anything
        return
    now: list[str] = memory().held.get(CHANGED, [])
    if name in now:
        put(CHANGED, [other for other in now if other != name])
    elif len(now) < MOST:
        put(CHANGED, [*now, name])
    else:
        st.toast(f"At most {MOST} edges are changed by hand.", icon=":material/info:")


def show(asked: Asked, found: Found, circuit: Circuit, names: list[str], place: Any) -> None:
    """What the circuit answers, as found and as changed by hand, in one line with undo.

    Args:
        asked, found: the circuit with its pairs.
        circuit: as it was found.
        names: the edges changed by hand, the last one last.
        place: where the line goes.
    """
    answers = measured(asked, found, circuit, names)
    n, right = answers.of.shape[1], answers.right.sum(-1)
    with place.container(key="by-hand"):
        if not names:
            st.markdown(plain(words.of_answers(answers.same, int(right[1]), n)))
        else:
            own, more = set(circuit.names), len(names) - NAMED
            # Such as: Cut a0.h0 → logits, taken in input → m0
            said = [f"{'cut' if name in own else 'taken in'} {name.replace('->', ' → ')}" for name in names[-NAMED:]]
            change = capitalised(", ".join(said) + (f" and {more} more" if more > 0 else ""))
            before, after, rest = answers.kept
            same = int((answers.of[2] == answers.of[0]).sum()), answers.same
            rights, metric = (int(right[2]), int(right[1])), found.summary.comparison.measure.name
            st.markdown(f"**{plain(words.of_change(change, n, same, rights, (after, before), rest, metric))}**")
            row = st.container(horizontal=True)
            icon = ":material/undo:"
            row.button("Undo", icon=icon, key="by-hand-undo", on_click=put, args=(CHANGED, names[:-1]))
            if len(names) > 1:
                row.button("Undo all", icon=icon, key="by-hand-undo-all", on_click=put, args=(CHANGED, []))


def table(asked: Asked, found: Found, circuit: Circuit, names: list[str]) -> None:
    """Every pair with its answers, those first that the changes move."""
    pairs, task = found.summary.comparison.pairs, asked.opened.subject.task
    box = fields.fold(f"What the circuit answers, pair by pair ({len(pairs)})", "show-circuit-answers")
    if not box.open:
        return
    answers = measured(asked, found, circuit, names)
    # One at the first position asked for, or all of a set.
    there = pairs.right[torch.arange(len(pairs)), pairs.asked.long().argmax(-1)]  # [pair] or [pair, token]
    right = there[:, None].tolist() if there.ndim == 1 else [row.nonzero()[:, 0].tolist() for row in there]
    rows = pd.DataFrame(
        {
            "question": [task.question(row) for row in pairs.clean.tokens],
            "changed question": [task.question(row) for row in pairs.corrupted.tokens],
            "right answer": [" or ".join(task.vocabulary.decode(ids)) for ids in right],
            **{
                name: task.vocabulary.decode(tokens)
                for name, tokens in zip(("whole model", "circuit", "changed by hand"), answers.of, strict=True)
            },
        }
    )
    rows["right"] = answers.right[2]
    if not names:
        rows = rows.drop(columns="changed by hand")
    moved = np.argsort(answers.of[1] == answers.of[2], kind="stable")
    with box:
        st.dataframe(rows.iloc[moved], hide_index=True, width="stretch", height=360)


def measured(asked: Asked, found: Found, circuit: Circuit, names: Sequence[str]) -> Answers:
    """The answers of the whole model, of the circuit, and of the circuit with these edges changed."""
    everything, changed = Circuit.of(circuit.graph, circuit.graph.names), circuit.changed(names)
    answers = np.stack([_answers((asked.key, one.names), asked, found, one) for one in (everything, circuit, changed)])
    pairs = found.summary.comparison.pairs
    there = pairs.right[torch.arange(len(pairs)), pairs.asked.long().argmax(-1)].cpu().numpy()  # first one asked for
    if there.ndim == 1:  # the class: [pair]
        right = answers == there
    else:  # one of a set: [pair, token]
        right = np.take_along_axis(there[None].repeat(len(answers), 0), answers[..., None], -1)[..., 0]
    three = (circuit, changed, changed.complement())
    before, now, rest = (_kept((asked.key, one.names), asked, found, one) for one in three)
    return Answers(answers, np.asarray(right), (before, now, rest))


@st.cache_resource(show_spinner="Running the circuit …", max_entries=400)
def _answers(key: tuple[Any, ...], _asked: Asked, _found: Found, _circuit: Circuit) -> np.ndarray:
    with _asked.opened.lock:  # another session may run the same model
        return np.asarray(circuit_answers(_found.summary.comparison, [_circuit])[0])


@st.cache_resource(show_spinner="Running the circuit …", max_entries=400)
def _kept(key: tuple[Any, ...], _asked: Asked, _found: Found, _circuit: Circuit) -> float:
    with _asked.opened.lock:
        return float(faithfulness(_found.summary.comparison, [_circuit]).mean().values[0])
