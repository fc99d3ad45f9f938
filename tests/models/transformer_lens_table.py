"""Writes docs/concepts/transformer-lens.md: what of TransformerLens works on which model, found out by calling it.

python -m tests.models.transformer_lens_table        (a test calls all of it again and compares)
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import of_words
from tests.models.transformer_lens_calls import TABLES, Subject
from workbench import tasks
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.models.pretrained import Pretrained
from workbench.util.messages import brief
from workbench.util.seeds import generator

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "transformer-lens.md"
HEAD = """# What of TransformerLens works

Here you can look up which calls of TransformerLens give right numbers on the models of this library.

Every public function of TransformerLens's patching, activation cache, head detector and lenses, called on a ChaCAL
and a tempered model of this library and on a GPT-2 (tiny, with random weights) through `workbench.load_model`'s
bridge. *Yes* means that the call gives finite numbers and, where they are known, the right ones: a patch of nothing
changes nothing, parts add up to the residual, the last layer's lens gives the logits. What does not work is there
with the error that it raises: none of these models has state-space layers.

Written by `python -m tests.models.transformer_lens_table`; a test calls all of it again and compares.
"""


def ours(attention: str) -> Subject:
    """A decoder of ours that sorts, with fresh weights, larger than usual so that every edit counts."""
    task = tasks.make("sorting", q=8, min_length=2, max_length=6)
    shape: dict[str, Any] = {"n_layers": 2, "d_model": 16, "n_heads": 2, "attention": attention}
    model = Decoder(DecoderConfig(**shape, d_vocab=len(task.vocabulary), n_ctx=task.n_ctx), generator(0)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(10 if weight.ndim == 2 else 1)
    hooked = hook(model)
    hooked.speak(task.fast_tokenizer())
    return Subject(hooked, "5 3 8 1 5 3 8 ⊥", "5 3 8 1 5 2 8 ⊥")


def gpt2() -> Subject:
    """A random GPT-2 with 38 words."""
    text = "w5 w3 w8 w9 w5 w3 w8 w7"
    return Subject(Pretrained(tiny("gpt2"), of_words()).hooked(), text, text.replace("w3 w8 w7", "w4 w8 w7"))


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "ChaCAL": lambda: ours("chacal"),
    "tempered": lambda: ours("tempered"),
    "GPT-2": gpt2,
}


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in a value."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)


def outcome(call: Callable[[Subject], Any], subject: Subject) -> str:
    """`yes`, or why not, in a line."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            given = call(subject)
        for tensor in tensors(given):
            assert tensor.isfinite().all(), "numbers that are not finite"
        if isinstance(given, tuple) and len(given) == 2 and type(given[0]) is type(given[1]):
            torch.testing.assert_close(*given, rtol=1e-4, atol=1e-4)
    except Exception as error:
        return f"{type(error).__name__}: {brief(error, 200)}"
    return "yes"


def page() -> str:
    """The page: a table for each module, then the reasons."""
    subjects, reasons = {name: make() for name, make in SUBJECTS.items()}, dict[str, int]()
    lines = [HEAD]
    for title, calls in TABLES.items():
        lines += [f"## {title}", "", f"| | {' | '.join(subjects)} |", "| --- |" + " --- |" * len(subjects)]
        for name, call in calls.items():
            cells = [outcome(call, subject) for subject in subjects.values()]
            marks = [cell if cell == "yes" else f"no ({reasons.setdefault(cell, len(reasons) + 1)})" for cell in cells]
            lines.append(f"| `{name}` | {' | '.join(marks)} |")
        lines.append("")
    if reasons:
        lines += ["## Why not", "", *(f"{number}. {words}" for words, number in reasons.items()), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
