"""Swap: one input's residual is put into another run, at any layer and position, and the answer there is read.

It is Patchscopes (Ghandeharioun et al., 2024, arXiv 2401.06102) without a prompt: in their notation the residual at
(source, position i, layer l) takes the place of that at (target, position i*, layer l*), with the identity between
them, for all l and l* at once. A single swap is a `Patch` with its `other_point`. Shows: from which layer on the
residual holds what the model needs for the source's own answer, and which layers can still take it up. Does not show:
that the model does so by itself, since layers are given what they never see there. Controls: residuals of other random
sequences, from the same place into the same place; and the target untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import LOGITS, Subject, visit
from workbench.instruments.residual.projection import from_embedding
from workbench.interventions.edit_protocol import edited_logits, put_rows, span
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.util.lookup import lookup
from workbench.util.seeds import generator
from workbench.util.ties import clear, named

RUNS = ("swapped", "random", "untouched")
AT_ONCE = 2**25  # logits in memory
TRIES = 16  # sequences drawn for each random one: some are too short, or the source itself


@dataclass(frozen=True)
class Places:
    """Where a swap takes a residual from, where it is put, and where the answer is read.

    Attributes:
        source: position of the source; its own answer is the model's likeliest token there.
        target: position of the target.
        read_at: the target's position whose answer is read; by default that where the residual is put.
    """

    source: int
    target: int
    read_at: int | None = None

    @property
    def read(self) -> int:
        return self.target if self.read_at is None else self.read_at


@torch.no_grad()
def swap(
    model: AnyHooked,
    subject: Subject,
    source: Int[Tensor, " source_pos"],
    target: Int[Tensor, " target_pos"],
    places: Places,
    *,
    points: Sequence[str] | None = None,
    n_random: int = 8,
    seed: int = 0,
) -> Measurement:
    """The probability of the source's own answer in the target after each swap: dims `run`, `from`, `into` (points).

    `swapped`: the source's residual from each point, put into each point. `random`: the mean over those of random
    sequences of the task. `untouched`: nothing is put. `labels` are the target's answers, empty for `random`.

    Args:
        model, subject: the hooked model (`run.hooked()`), and its facts.
        source, target: token ids of one sequence each; they may be the same.
        places: positions.
        points: hook names of residuals; by default the embedding and those after each attention and MLP.
        n_random, seed: how many random sequences of the test side of the split, and their seed.

    Raises:
        ValueError: in one line, if there is no such position or point, the answer is read before the swap, the source
            has no answer of its own, or no other sequence is long enough.
    """
    points = from_embedding(subject) if points is None else list(points)
    _check(subject, source, target, places, points)
    random_sequences = _others(subject, source, places.source, n_random, seed)
    residual, logits = _residuals(model, source[None], places.source, points)
    answer = _own_answer(logits, places.source)
    put_in = torch.cat([residual, _residuals(model, random_sequences, places.source, points)[0]], dim=1)
    after = [_into(model, target, point, places, put_in) for point in points]
    untouched = edited_logits(model, target[None], [])[:, places.read].float()
    words = subject.task.words(torch.stack([source[places.source], target[places.target], target[places.read]]))
    return _measured(
        subject, points, after, untouched, answer, (places, words, {"n_random": len(random_sequences), "seed": seed})
    )


def _check(subject: Subject, source: Tensor, target: Tensor, places: Places, points: Sequence[str]) -> None:
    for point in points:
        lookup(dict.fromkeys(from_embedding(subject)), point, "point")
    for position, tokens in ((places.source, source), (places.target, target), (places.read, target)):
        span(position, len(tokens))
    if places.read < places.target:
        raise ValueError(f"what is put at position {places.target} is not seen at position {places.read}, before it")


def _own_answer(logits: Float[Tensor, "one class"], position: int) -> int:
    answer = int(clear(logits))
    if answer < 0:
        raise ValueError(f"several tokens tie at position {position} of the source: it has no answer of its own")
    return answer


def _measured(
    subject: Subject,
    points: Sequence[str],
    after: Sequence[Float[Tensor, "from row class"]],
    untouched: Float[Tensor, "one class"],
    answer: int,
    about: tuple[Places, Sequence[str], dict[str, int]],
) -> Measurement:
    """The measurement of the logits after each swap; the first row is the source's, the others are random ones.

    `about` is where: the positions, the tokens there, and how many random sequences were drawn by which seed.
    """
    likely = torch.stack([logits.softmax(-1)[..., answer].double() for logits in after], dim=1)  # [from, into, row]
    here = untouched.softmax(-1)[0, answer].double().expand(likely.shape[:2])
    words_before = named(untouched, subject.task.words)[0]
    words = np.array([named(logits[:, 0], subject.task.words) for logits in after], dtype=object).T
    places, tokens, drawn = about
    at = dict(zip(("source", "target", "read"), tokens, strict=True))
    return Measurement(
        name="The source's answer in the target",
        values=torch.stack([likely[..., 0], likely[..., 1:].mean(-1), here]).cpu().numpy(),
        dims=("run", "from", "into"),
        coords={"run": RUNS, "from": points, "into": points},
        units="probability",
        settings={
            "model": subject.name,
            "answer": subject.task.words(torch.tensor([answer]))[0],
            **{f"{name}_position": getattr(places, name) for name in at},
            **{f"{name}_token": token for name, token in at.items()},
            **drawn,
        },
        labels=np.stack([words, np.full_like(words, ""), np.full_like(words, words_before)]),
        caption="The probability that the target's run gives to the source's own answer once it holds the source's "
        f"residual. Random: the mean of {drawn['n_random']} other sequences' residuals, put there in the same way; "
        "some of these sequences may have the same answer. That a layer can take it up does not show that the model "
        "does so by itself.",
    )


def _others(subject: Subject, source: Tensor, position: int, n: int, seed: int) -> Int[Tensor, "n pos"]:
    """Random sequences of the task that have this position and are not the source."""
    if n < 1:
        raise ValueError(f"the control takes at least 1 random sequence, not {n}")
    drawn = subject.task.sample(TRIES * n, generator(seed, "swap"), split="test").tokens
    long_enough = subject.task.lengths(drawn) > position
    size = min(len(source), drawn.shape[1])
    fits = long_enough & (drawn[:, :size] != source[:size].to(drawn)).any(-1)
    if not fits.any():
        raise ValueError(f"no random sequence has a position {position}, so that there is no control")
    return drawn[fits][:n]


def _residuals(
    model: AnyHooked, tokens: Int[Tensor, "batch pos"], position: int, points: Sequence[str]
) -> tuple[Float[Tensor, "point batch d_model"], Float[Tensor, "batch class"]]:
    """Residuals at one position, and the logits there."""
    seen: dict[str, Tensor] = {}
    visit(model, tokens, [*points, LOGITS], lambda name, activation: seen.update({name: activation[:, position]}))
    return torch.stack([seen[point] for point in points]), seen[LOGITS]


def _into(
    model: AnyHooked, target: Tensor, point: str, places: Places, values: Float[Tensor, "from row d_model"]
) -> Float[Tensor, "from row class"]:
    """The logits of the target where it is read, with each of these residuals at a point."""
    size, parts = max(1, AT_ONCE // (len(target) * model.cfg.d_vocab)), []
    for chunk in values.flatten(0, 1).split(size):
        rows = torch.arange(len(chunk))
        edit = partial(put_rows, example=rows, position=torch.full_like(rows, places.target), values=chunk)
        logits = edited_logits(model, target.expand(len(chunk), -1), [(point, edit)])
        parts.append(logits[:, places.read].float())
    return torch.cat(parts).unflatten(0, values.shape[:2])
