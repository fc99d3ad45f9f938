"""Heads that read the answer from a slot of a prompt and write it: in Wang et al. (2022) name movers, which move IO.

A head moves a slot where, at the position that is asked, it attends to this slot more than to any other of the prompt
(the position itself among them), and what it writes there raises the answer's logit against the wrong one, directly.
It does not show that the answer depends on it: another head may do the same (backup name movers).
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float

from workbench.circuits.comparison import Comparison, activations
from workbench.circuits.direct import direct_logit_attribution
from workbench.circuits.nodes import SITES
from workbench.interventions import Head
from workbench.interventions.edit_protocol import put
from workbench.measurement import Measurement
from workbench.tasks import Pairs


@torch.no_grad()
def moves(comparison: Comparison, slot: str) -> Measurement:
    """Whether each head moves a slot on each clean prompt, 1 or 0: dims `layer`, `head`, `example`.

    NaN on a prompt that has no such slot, and on one that is asked at several positions.

    Raises:
        ValueError: if the pairs have no such slot, the patterns cannot be seen, or as `direct_logit_attribution`.
    """
    cfg, pairs = cast(Any, comparison.model.cfg), comparison.pairs
    if slot not in pairs.slots:
        raise ValueError(f"the prompts have no slot {slot!r}; there is: {', '.join(pairs.slots) or 'none'}")
    others = torch.stack([mask for name, mask in pairs.slots.items() if name != slot]).any(0) | pairs.asked
    named = [SITES["pattern"].hook.format(layer) for layer in range(cfg.n_layers)]
    reads = []
    for where, part in comparison.parts():
        patterns, query = activations(comparison, part.clean.tokens, named), part.asked.long().argmax(-1)
        # [layer, pair, head, key] of the query that is asked
        rows = torch.stack([patterns[name][torch.arange(len(query)), :, query] for name in named]).cpu()
        on_slot, on_others = (
            rows.masked_fill(~mask[where][None, :, None], -1.0).amax(-1) for mask in (pairs.slots[slot], others)
        )
        reads.append((on_slot > on_others).movedim(1, -1))
    direct = direct_logit_attribution(comparison)
    at = {part: number for number, part in enumerate(direct.coords["part"])}
    heads = [[at[f"a{layer}.h{head}"] for head in range(cfg.n_heads)] for layer in range(cfg.n_layers)]
    values = (torch.cat(reads, dim=-1).numpy() & (direct.values[np.array(heads)] > 0)).astype(float)
    told = (pairs.slots[slot].sum(-1) == 1) & (pairs.asked.sum(-1) == 1)
    values[..., ~told.cpu().numpy()] = np.nan
    caption = (
        f"Share of the prompts on which a head attends to {slot} more than to any other slot, and writes what raises "
        "the answer against the wrong one. It does not show that the answer depends on it."
    )
    coords = {"layer": range(cfg.n_layers), "head": range(cfg.n_heads)}
    return comparison.measurement(f"Heads that move {slot}", values, coords, caption)


@torch.no_grad()
def difference_lost(comparison: Comparison, head: Head, source: Pairs | None = None) -> Float[np.ndarray, " pair"]:
    """The share of the clean answer's logit difference that is lost when a head writes nothing, from 0 to 1.

    NaN where the right answer has no larger logit than the wrong one. What the head does against the answer is 0.

    Args:
        comparison: the model and the pairs, whose metric is the logit difference.
        head: (layer, head).
        source: pairs of the same clean prompts; with it, the head holds what it does on their other side.
    """
    layer, number = head
    name, parts = SITES["head"].hook.format(layer), []
    for where, part in comparison.parts():
        mine: Any = (torch.arange(comparison.model.cfg.n_heads) == number)[:, None]
        other = None if source is None else source[where].to(comparison.device).corrupted.tokens
        held = torch.zeros(()) if other is None else activations(comparison, other, [name])[name]
        logits = comparison.run(part.clean.tokens, [(name, partial(put, where=mine, values=held))])
        parts.append(comparison.score(logits, part, comparison.clean_logits(part)).double().cpu().numpy())
    before = comparison.baselines[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(before > 0, np.clip(1 - np.concatenate(parts) / before, 0, 1), np.nan)
