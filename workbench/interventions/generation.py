"""Generation under edits: a model goes on from a prompt token by token, and each pass is edited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.interventions.edit import Edit, edited_logits
from workbench.models import AnyHooked
from workbench.models.facts import check_editable
from workbench.tasks import Batch
from workbench.util.seeds import generator


class Step(NamedTuple):
    """One new token, and the probability that the model gave it."""

    token: int
    probability: float


def go_on(
    model: AnyHooked,
    subject: Subject,
    prompt: Int[Tensor, " pos"],
    n_new: int,
    edits: Sequence[Edit] = (),
    *,
    temperature: float = 0.0,
    seed: int = 0,
    stop: int | None = None,
) -> list[Step]:
    """The new tokens behind a prompt; every edit is made anew in each pass, on all tokens that there are by then.

    Args:
        model, subject: the hooked model, and its facts.
        prompt: token ids.
        n_new: the most new tokens.
        edits: what is changed; none leaves the model as it is. A position is counted from the start of the prompt; an
            edit of every position is one of the new tokens too.
        temperature: 0 takes the likeliest token; otherwise a token is drawn, its logits divided by this.
        seed: of what is drawn. With one seed, edited and unedited draw by the same noise (Gumbel), so that they differ
            by the edit alone.
        stop: the token that ends a text; it is the last one then.

    Raises:
        ValueError: if prompt and new tokens do not fit the context, or as an edit's `hooks`.
    """
    _check(len(prompt), n_new, model.cfg.n_ctx, temperature)
    noise, tokens, steps = generator(seed, "generation"), prompt, list[Step]()
    while len(steps) < n_new and (not steps or steps[-1].token != stop):
        seen = Capture({}, Batch.next_token(tokens[None], 0, len(tokens) - 1), subject)
        hooks = [hook for edit in edits for hook in edit.hooks(model, seen)]
        check_editable(model, [name for name, _ in hooks])
        logits = edited_logits(model, tokens[None], hooks)[0, -1].float().cpu()
        token = _drawn(logits, temperature, noise)
        steps.append(Step(token, float(logits.softmax(-1)[token])))
        tokens = torch.cat([tokens, torch.tensor([token], device=tokens.device)])
    return steps


def _check(n_prompt: int, n_new: int, n_ctx: int, temperature: float) -> None:
    """Raise ValueError unless so many tokens can follow a prompt of so many, at such a temperature."""
    if not n_prompt or n_new < 1 or n_prompt + n_new > n_ctx:
        raise ValueError(
            f"a prompt of 1 token or more goes on by 1 or more, within the context of {n_ctx}; not {n_prompt} tokens "
            f"by {n_new}"
        )
    if not 0 <= temperature < float("inf"):
        raise ValueError(f"a temperature is 0 or a positive number, not {temperature}")


def _drawn(logits: Float[Tensor, " token"], temperature: float, noise: torch.Generator) -> int:
    """The likeliest token at temperature 0; else one drawn by Gumbel noise, of which each call takes as much."""
    uniform = torch.rand(len(logits), generator=noise, dtype=torch.float64)
    scores = logits / temperature - (-uniform.log()).log() if temperature else logits
    return int(scores.argmax())
