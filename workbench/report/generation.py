"""What a model writes under edits, beside what it writes without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from workbench.capture import Subject
from workbench.capture.directions import Directions
from workbench.interventions import AlongDirection, CutEdge, Edit, Patch, RemoveHead, RemoveWrite
from workbench.interventions.next_token import Step, go_on
from workbench.measurement.numbers import percent
from workbench.runs import load_run, means_run
from workbench.util.lookup import lookup
from workbench.util.settings import as_json
from workbench.util.words import as_it_says

Encode = Callable[[str], Int[Tensor, " pos"]]
EDITS = {
    "add": ("NAME X [POINT]", "X times the direction NAME of the basis is added to the residual"),
    "set": ("NAME X [POINT]", "the residual's coordinate along NAME is X: 0 removes it"),
    "scale": ("NAME X [POINT]", "the residual's coordinate along NAME is X times as large"),
    "head": ("LAYER.HEAD", "a head writes nothing"),
    "write": ("POINT", "an attention layer or an MLP writes nothing: blocks.3.hook_mlp_out"),
    "cut": ("QUERY KEY", "one position cannot read another, in no layer"),
    "patch": ("POINT TEXT", "the prompt's last token holds what the last one of TEXT holds"),
}
"""The kinds of edits as they are typed: what follows, and what is done."""


@dataclass(frozen=True)
class Written:
    """What a model wrote behind a prompt: as text, and token by token with its probability."""

    text: str
    words: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Generation:
    """What a model writes behind a prompt, unedited and edited.

    Attributes:
        name: the model's.
        prompt: the text.
        how: how tokens were chosen, in words.
        edits: the edits, in words.
        unedited, edited: what it wrote; without an edit both are the same.
    """

    name: str
    prompt: str
    how: str
    edits: tuple[str, ...]
    unedited: Written
    edited: Written
    __repr__ = as_it_says

    @property
    def parts_at(self) -> int | None:
        """The first new token, from 0, at which the two differ; None where they do not."""
        pairs = zip(self.unedited.words, self.edited.words, strict=False)
        different = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        lengths = len(self.unedited.words), len(self.edited.words)
        return different if different is not None or lengths[0] == lengths[1] else min(lengths)

    @property
    def says(self) -> str:
        """Both texts, one below the other, and where they part."""
        lines = [f"{self.name} goes on from {self.prompt!r} ({self.how})", ""]
        lines += [f"  unedited  {self.unedited.text!r}"]
        if not self.edits:
            return "\n".join(lines)
        lines += [f"  edited    {self.edited.text!r}", "", *(f"edit: {each}" for each in self.edits)]
        if (at := self.parts_at) is None:
            return "\n".join([*lines, f"The edit changes none of the {len(self.unedited.words)} new tokens."])
        first, second = (
            f"{written.words[at]!r} ({percent(written.probabilities[at])})" if at < len(written.words) else "the end"
            for written in (self.unedited, self.edited)
        )
        part = f"They part at new token {at + 1}: {first} unedited, {second} edited. One text is a case, not a rate."
        return "\n".join([*lines, part])

    def table(self) -> pd.DataFrame:
        """A row for each new token: its place, the word and its probability, of either text."""
        parts = [
            pd.DataFrame({"text": name, "place": range(len(w.words)), "token": w.words, "probability": w.probabilities})
            for name, w in (("unedited", self.unedited), ("edited", self.edited))
        ]
        return pd.concat(parts if self.edits else parts[:1], ignore_index=True)

    def json(self) -> str:
        """All of it, for JSON."""
        texts = {
            name: {"text": w.text, "tokens": list(w.words), "probabilities": list(w.probabilities)}
            for name, w in (("unedited", self.unedited), ("edited", self.edited))
        }
        about = {
            "format": "generate/1",
            "model": self.name,
            "prompt": self.prompt,
            "how": self.how,
            "edits": list(self.edits),
        }
        return as_json({**about, "parts_at": self.parts_at, **texts})


def generate(
    model: Any,
    prompt: str,
    *,
    edits: Sequence[Edit | Sequence[str]] = (),
    basis: str | Path | None = None,
    tokens: int = 20,
    temperature: float = 0.0,
    seed: int = 0,
    step: int | None = None,
) -> Generation:
    """Let a model go on from a prompt, without and with edits: a steering direction, a patch, a removed head.

    Args:
        model: a run or its folder; or a model of Hugging Face: loaded, its folder, or its name on the hub.
        prompt: a text; of a run words of its task.
        edits: of `interventions`, or words as in `EDITS`: `["add", "mood=1", "4"]`; all are made at once.
        basis: a file of named directions (`capture.directions`), for edits along them.
        tokens: the most new tokens; a text may end sooner.
        temperature, seed: 0 takes the likeliest token each time; otherwise tokens are drawn with this seed.
        step: of a run's checkpoint; by default the end.

    Raises:
        ValueError: in one line, if there is no such model, direction or place, or prompt and tokens do not fit its
            context.
    """
    name, hooked, subject, encode, stop = _opened(model, step)
    if basis is not None:
        subject = replace(subject, directions=Directions.read(basis, subject.encoder.shape[1]))
    ids = encode(prompt)
    made: list[Edit] = [_edit(each, ids, encode, subject) if isinstance(each, Sequence) else each for each in edits]
    how: dict[str, Any] = {"temperature": temperature, "seed": seed, "stop": stop}
    unedited = go_on(hooked, subject, ids, tokens, **how)
    edited = go_on(hooked, subject, ids, tokens, made, **how) if made else unedited
    chosen = f"temperature {temperature:g}, seed {seed}" if temperature else "the likeliest token each time"
    written = [_written(subject, steps) for steps in (unedited, edited)]
    return Generation(name, prompt, chosen, tuple(edit.in_words(subject.task) for edit in made), *written)


def _opened(model: Any, step: int | None) -> tuple[str, Any, Subject, Encode, int | None]:
    """A model's name, the hooked model, its facts, what makes tokens of a prompt, and the token that ends a text."""
    if means_run(model):
        run = load_run(model)
        task, name = run.task(), run.name_at(step)
        subject = Subject.of(run.model(step), task, name)
        return name, run.hooked(step), subject, lambda text: torch.tensor(task.vocabulary.encode(text)), None
    if step is not None:
        raise ValueError("step is of a run's checkpoints; leave it out for a model of Hugging Face")
    from workbench.models.pretrained.loading import loaded
    from workbench.models.pretrained.text_file import TypedText

    opened = loaded(model)
    name, typed = Path(opened.config.module).name, TypedText.of(opened)
    stop = getattr(opened.tokenizer, "eos_token_id", None)
    return name, opened.hooked(), Subject.of(opened, typed, name), opened.prompt, stop


def _edit(words: Sequence[str], prompt: Int[Tensor, " pos"], encode: Encode, subject: Subject) -> Edit:
    """The edit of these words, the first of which is one of `EDITS`. Raises ValueError if they are none."""
    kind, *rest = words or [""]
    form, _ = lookup(EDITS, kind, "kind of edit")
    try:
        if kind in ("add", "set", "scale"):
            name, value, point = rest if len(rest) == 3 else (*rest, subject.directions and subject.directions.point)
            return AlongDirection(name, kind, float(value), point)  # type: ignore[arg-type]
        if kind == "head":
            (place,) = rest
            layer, head = map(int, place.split("."))
            return RemoveHead(layer, head)
        if kind == "write":
            (at,) = rest
            return RemoveWrite(at)
        if kind == "cut":
            query, key = map(int, rest)
            return CutEdge(query, key)
        at, other = rest
    except (TypeError, ValueError):
        raise ValueError(f"an edit is typed as `{kind} {form}`, not `{' '.join(words)}`") from None
    return Patch(at, other, position=len(prompt) - 1, other_position=len(encode(other)) - 1)


def _written(subject: Subject, steps: Sequence[Step]) -> Written:
    """What these tokens say."""
    ids = torch.tensor([step.token for step in steps])
    return Written(
        subject.task.question(ids), tuple(subject.task.words(ids)), tuple(step.probability for step in steps)
    )
