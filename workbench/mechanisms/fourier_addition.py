"""Fourier addition: the sum of two numbers modulo p is read from a few frequencies of their embeddings.

Nanda et al., 2023 (arXiv 2301.05217): a model that has grokked modular addition represents a number by its cosine and
sine at a few key frequencies, and its logits are waves in a + b at the same ones. The frequencies are those that the
embedding names (`instruments.weights.fourier`). Scored: whether the answer is still the largest of the logits when, as
a function of the answer, they keep only the waves of these frequencies. It does not show how the waves are multiplied.
The causal test does show that the answer depends on them: with one number's components at the key frequencies exchanged
for another's, the answer must become that number's sum, and with all its other components exchanged it must stay.
Control: the numbers of another example (`mismatched`), and a re-initialised model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench import interventions
from workbench.capture import Capture, Subject
from workbench.instruments.shared import logits_alone
from workbench.instruments.weights.fourier import key_frequencies, without
from workbench.interventions import SpanEdit
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.tasks import Batch, correct
from workbench.tasks.modular_addition import ModularAddition
from workbench.util.ties import hit

CONTROLS = ("mismatched", "untrained")
POINT = "blocks.0.hook_resid_pre"
CAUSAL_CAPTION = (
    "Whether the answer becomes the sum with another number once the first number's components at the key frequencies "
    "are exchanged for that number's (claimed), and whether exchanging all its other components leaves it (elsewhere)."
)


needs = logits_alone


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    return None if isinstance(subject.task, ModularAddition) else f"the task {subject.task.name} is no modular addition"


def _embedding(subject: Subject) -> Float[Tensor, "p d_model"]:
    assert isinstance(subject.task, ModularAddition)
    return subject.encoder[: subject.task.p]


def score(capture: Capture) -> Measurement:
    """1 where the key frequencies of the logits alone give the answer, else 0: dim `example`.

    0 throughout where the embedding names no frequency.
    """
    embedding = _embedding(capture.subject)
    p, key = len(embedding), key_frequencies(embedding)
    at_end = capture.logits[:, -1, :p].double().cpu()
    others = [k for k in range(1, p // 2 + 1) if k not in key]
    kept = without(at_end.T, others).T
    right = hit(kept, capture.truth.labels["sum"][:, -1]).double() if key else torch.zeros(len(kept))
    return Measurement(
        name="Fourier addition",
        values=right.numpy(),
        dims=("example",),
        coords={},
        units="share",
        settings={"model": capture.subject.name, "frequencies": key},
        caption="Whether the waves of the embedding's key frequencies alone, in the logits, give the answer. It does "
        "not show how they are computed.",
    )


def causal(model: AnyHooked, subject: Subject, batch: Batch, generator: torch.Generator) -> Measurement:
    """What becomes of the answer when parts of the first number's embedding are exchanged for another number's.

    Edits at `blocks.0.hook_resid_pre`, at the first number: `claimed`, its components at the key frequencies;
    `elsewhere`, all its other components but the mean. Of a model that names no frequency nothing is tested.

    Returns dims `edit`, `outcome`, `example`; see `interventions.outcomes`.
    """
    tokens, embedding = batch.tokens, _embedding(subject)
    p, key = len(embedding), key_frequencies(embedding)
    other = (tokens[:, 0] + torch.randint(1, p, (len(tokens),), generator=generator)) % p
    rest = [k for k in range(1, p // 2 + 1) if k not in key]
    span = interventions.single_position(
        torch.zeros(len(tokens), dtype=torch.long), 3, torch.full((len(tokens),), bool(key))
    )
    residual, right = interventions.activation(model, tokens, POINT), (tokens[:, 0] + tokens[:, 1]) % p
    edits = {}
    for name, frequencies in (("claimed", key), ("elsewhere", rest)):
        component = (embedding.double().cpu() - without(embedding, frequencies)).to(residual)
        values = residual.clone()
        values[:, 0] += component[other] - component[tokens[:, 0]]
        edits[name] = SpanEdit(POINT, span, values, (other + tokens[:, 1]) % p)
    last = torch.full_like(right, 2)
    return interventions.outcomes(
        model, subject, tokens, last, right, edits, name="Fourier addition", caption=CAUSAL_CAPTION
    )


@torch.no_grad()
def ablation(model: AnyHooked, subject: Subject, batch: Batch, frequencies: Sequence[int]) -> Measurement:
    """Right answers when these frequencies are taken out of both numbers' embeddings, and when others are.

    Returns dims `edit` (`none`; `removed`; `others removed`: all other frequencies), `example`: 1 if right.

    Raises:
        ValueError: if there is no such frequency, or the model's task is another.
    """
    if reason := why_not(subject):
        raise ValueError(reason)
    embedding, tokens = _embedding(subject), batch.tokens
    others = [k for k in range(1, len(embedding) // 2 + 1) if k not in set(frequencies)]
    right = []
    for removed in ([], list(frequencies), others):
        residual = interventions.activation(model, tokens, POINT)
        change = (without(embedding, removed) - embedding.double().cpu()).to(residual)
        residual[:, :2] += change[tokens[:, :2]]
        edit = SpanEdit(POINT, torch.ones_like(tokens, dtype=torch.bool), residual, tokens[:, 0])
        with model.hooks(fwd_hooks=edit.hooks(model, tokens)):
            right.append(correct(model(tokens).cpu(), batch)[:, -1])
    return Measurement(
        name="Without frequencies of the embedding",
        values=torch.stack(right).double().numpy(),
        dims=("edit", "example"),
        coords={"edit": ("none", "removed", "others removed")},
        units="share",
        settings={"model": subject.name, "frequencies": list(frequencies)},
        caption="Right answers when the embeddings of both numbers lose these frequencies, and when they lose all "
        "others. It does not show what is computed from them.",
    )
