"""Fields for a prompt whose right answer is known: the input of a language model, or what it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.app.config_in_words import plain
from workbench.app.fields import widgets as fields
from workbench.app.fields.widgets import choose
from workbench.app.panels import code
from workbench.app.panels.code import Symbol, value_of
from workbench.app.state import Opened
from workbench.models import AnyModel
from workbench.tasks.prompt_sets import PROMPT_SETS, Prompts, prompt_set
from workbench.util.words import capitalised


def prompt(opened: Opened, suffix: str = "") -> Symbol:
    """A prompt, as it is or with the change that changes its answer.

    Args:
        opened: the language model, whose tokenizer cuts the prompts.
        suffix: what the names of a second side's fields end with, as `2`.

    Raises:
        ValueError: if the set does not fit the tokenizer.
    """
    left, right = st.columns(2)
    of_a: Mapping[Any, Any] = st.session_state if suffix else {}  # side B begins with the prompt of side A
    first = of_a.get("prompts", "indirect-objects")
    name = choose("Prompt set", list(PROMPT_SETS), f"prompts{suffix}", first, place=left)

    def drawn(name: str, model: AnyModel) -> Prompts:
        return _drawn(opened.key, name, model)

    prompts = code.assign(f"prompts{suffix}", prompt_set, name, code.model(opened), computed_by=drawn)
    made: Prompts = value_of(prompts)
    last = len(made.pairs) - 1
    number = fields.number("Prompt number", 0, last, f"prompt{suffix}", min(of_a.get("prompt", 0), last), right)
    help = "The same prompt with one thing changed, so that another answer is right."
    changed = fields.toggle("Changed", f"changed{suffix}", help=help, default=bool(suffix))
    batch = prompts.example(number, changed=changed)
    answer = opened.subject.task.vocabulary.words[int(value_of(batch).targets[0, -1])]
    several = len(made.right[number]) > 1 or (changed and not made.made.answers_both)
    asked = f"{capitalised(made.made.asks)}: **{plain(answer)}**{', or another' * several}"
    st.caption("  \n".join([asked, *map(plain, made.notes)]))
    return batch


@st.cache_resource(show_spinner="Drawing prompts…", max_entries=32)
def _drawn(key: tuple[str, int, int | None], name: str, _model: AnyModel) -> Prompts:
    return prompt_set(name, _model)  # type: ignore[arg-type]
