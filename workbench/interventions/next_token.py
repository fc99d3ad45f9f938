"""What a model takes for the next token of a text, the heads that this rests on, and how it goes on under edits.

What each head's absence would do is estimated for all of them by one gradient, and measured for the foremost. Shows:
heads without which this token is less likely, or more. Does not show: what they hold, how often that is so on other
texts, or heads whose work others do as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments.attention import attention_graph
from workbench.interventions.edit_protocol import Edit, Head, Hooks, edited_logits, put
from workbench.interventions.outcomes import can_remove_heads
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.models.facts import check_editable
from workbench.tasks import Batch
from workbench.util.seeds import generator

LIKELIEST, REMOVED, TOLD = 5, 16, 5  # tokens that are named, heads that are removed, and those of them that are told
AT_ONCE = 1024  # tokens of a batch in which each row is without another head


@dataclass(frozen=True)
class NextToken:
    """What `next_token` found at one position.

    Attributes:
        likeliest: the probability of the likeliest tokens, these in its labels: dim `rank`, from 1.
        without: the probability of the likeliest one without each of the heads that it rests on most, and what they
            read most at the position in its labels: dim `head`; None where the model's heads cannot be removed.
        heads: (layer, head) of these.
    """

    likeliest: Measurement
    without: Measurement | None = None
    heads: tuple[Head, ...] = ()


def next_token(model: AnyHooked, seen: Capture, position: int | None = None) -> NextToken:
    """The tokens that a model finds likeliest after a position, and the heads without which the first changes most.

    Args:
        model: the hooked model.
        seen: what it computes on one input, with the logits, and the patterns where they can be seen.
        position: by default the last one of the input.

    Raises:
        ValueError: if there are several inputs, or the input has no such position.
    """
    task, n_pos = seen.subject.task, int(seen.subject.task.lengths(seen.batch.tokens)[0])
    if len(seen.batch) != 1:
        raise ValueError(f"the next token is that of one input, not of a batch of {len(seen.batch)}")
    position = n_pos - 1 if position is None else position
    if not 0 <= position < n_pos:
        raise ValueError(f"there is no position {position}; the input has {n_pos} tokens")
    top = seen.logits[0, position].double().softmax(-1).topk(min(LIKELIEST, seen.logits.shape[-1]))
    likeliest = Measurement(
        name="Next token",
        values=top.values.cpu().numpy(),
        dims=("rank",),
        coords={"rank": range(1, len(top.values) + 1)},
        units="probability",
        settings={"model": seen.subject.name, "position": position},
        labels=np.array(task.words(top.indices), dtype=object),
        caption="The tokens that the model finds likeliest after this one, given all before it.",
    )
    if not can_remove_heads(model):
        return NextToken(likeliest)
    return NextToken(likeliest, *_without(model, seen, position, int(top.indices[0]), float(top.values[0])))


def _without(
    model: AnyHooked, seen: Capture, position: int, token: int, before: float
) -> tuple[Measurement, tuple[Head, ...]]:
    """A token's probability without each of the heads at which it changes most from `before`, and these heads."""
    tokens = seen.batch.tokens[:, : int(seen.subject.task.lengths(seen.batch.tokens)[0])]
    estimated = _estimated(model, tokens, position, token)
    order = estimated.abs().flatten().argsort(descending=True, stable=True)[:REMOVED].tolist()
    candidates = [divmod(place, estimated.shape[1]) for place in order]
    after = _probabilities_without(model, tokens, candidates, position, token)
    told = (after.log() - math.log(before)).abs().argsort(descending=True, stable=True)[:TOLD].tolist()
    heads = tuple(candidates[place] for place in told)
    about = {"position": position, "heads": estimated.numel(), "removed": len(candidates)}
    without = Measurement(
        name="Next token without a head",
        values=after[told].numpy(),
        dims=("head",),
        coords={"head": [f"{layer}.{head}" for layer, head in heads]},
        units="probability",
        settings={"model": seen.subject.name, **about},
        labels=np.array([_reads(seen, head, position) for head in heads], dtype=object),
        caption=f"The probability of the likeliest token when a head writes nothing: of {estimated.numel()} heads the "
        f"{len(candidates)} were removed, one by one, at which a gradient says that it changes most, and those at "
        f"which it does are told. Heads whose work others do as well do not show.",
    )
    return without, heads


def _estimated(model: AnyHooked, tokens: Tensor, position: int, token: int) -> Float[Tensor, "layer head"]:
    """How much the token's log-probability would change without each head: −Σ z · ∂log p/∂z, to first order."""
    kept: dict[int, Tensor] = {}

    def keep(z: Tensor, hook: Any, layer: int) -> Tensor:
        kept[layer] = z if z.requires_grad else z.detach().requires_grad_()  # weights may be frozen
        return kept[layer]

    layers = range(model.cfg.n_layers)
    hooks: Hooks = [(f"blocks.{layer}.attn.hook_z", partial(keep, layer=layer)) for layer in layers]
    with torch.enable_grad(), model.hooks(fwd_hooks=hooks):
        log_p = model(tokens)[0, position].log_softmax(-1)[token]
        slopes = torch.autograd.grad(log_p, [kept[layer] for layer in layers])
    # z and its gradient are [batch pos head d_head]
    return torch.stack(
        [-(kept[layer].detach() * slope).sum((0, 1, 3)) for layer, slope in zip(layers, slopes, strict=True)]
    )


def _probabilities_without(
    model: AnyHooked, tokens: Int[Tensor, "one pos"], heads: Sequence[Head], position: int, token: int
) -> Float[Tensor, " head"]:
    """The token's probability without each of these heads, in float64: one row of a batch for each."""
    found = []
    for part in torch.tensor(heads).split(max(1, AT_ONCE // tokens.shape[1])):  # [row (layer, head)]
        hooks: Hooks = []
        for layer in part[:, 0].unique().tolist():
            gone = (part[:, :1] == layer) & (part[:, 1:] == torch.arange(model.cfg.n_heads))
            where = gone[:, None, :, None]  # [row pos head d_head]
            hooks.append((f"blocks.{layer}.attn.hook_z", partial(put, where=where, values=torch.zeros(()))))
        logits = edited_logits(model, tokens.expand(len(part), -1), hooks)[:, position]
        found.append(logits.double().softmax(-1)[:, token].cpu())
    return torch.cat(found)


def _reads(seen: Capture, head: Head, position: int) -> str:
    """The token that a head reads most from this position, with its place and share; empty where none is seen."""
    if seen.subject.no_pattern:
        return ""
    row = attention_graph.pattern(seen, head[0])[0, head[1], position, : position + 1]
    key = int(row.argmax())
    word = seen.subject.task.words(seen.batch.tokens[0, key : key + 1])[0]
    return f"{word} at {key}, {float(row[key]):.0%}"


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
