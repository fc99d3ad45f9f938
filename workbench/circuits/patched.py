"""Single patches of one comparison, exact: each pass begins at the layer that is patched.

What a patch puts in comes from one run of the other questions, and what comes before the patched layer is the same in
every pass: both are computed once. A pass then costs the layers from the patched one on, and the logits of the answers
that are asked for; it gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from workbench.circuits.comparison import Comparison, activations
from workbench.circuits.nodes import SITES
from workbench.interventions.edit_protocol import put
from workbench.models import AnyHooked
from workbench.models.facts import agree
from workbench.tasks import Pairs

AT_ONCE = 2**25  # logits of one pass: many pairs, as the weights are read once for all of them

Place = tuple[str, int]
"""A site and a layer."""


@dataclass(frozen=True)
class Patches:
    """Patches of some places of a comparison.

    Attributes:
        comparison: the model and the pairs.
        places: what may be patched.
    """

    comparison: Comparison
    places: Sequence[Place]

    @torch.no_grad()
    def effect(self, place: Place, mask: Bool[Tensor, "pair *axes 1"]) -> Float[np.ndarray, " pair"]:
        """The effect of the other run's entries that a mask takes in; NaN of a pair of which it takes in nothing."""
        comparison, values = self.comparison, []
        site, layer = place
        for part in self._parts:
            edit = partial(put, where=mask[part.where], values=part.taken[place])
            with _begun_at(comparison.model, layer, part.outputs, part.pairs.asked):
                logits = comparison.run(part.base, [(SITES[site].hook.format(layer), edit)])
            scores = comparison.score(logits, part.pairs, part.clean).double().cpu().numpy()
            values.append((scores - comparison.unedited(part.where)) * comparison.sign())
        return np.where(mask.flatten(1).any(1).numpy(), np.concatenate(values), np.nan)

    @cached_property
    def _parts(self) -> list[_Part]:
        names = {place: SITES[place[0]].hook.format(place[1]) for place in self.places}
        size = self.comparison.pairs.clean.tokens.shape[1] * cast(Any, self.comparison.model.cfg).d_vocab
        rows = self.comparison.rows or max(self.comparison.rows_at_once, AT_ONCE // size)
        parts = []
        for where, pairs in replace(self.comparison, rows=rows).parts():
            base, source = self.comparison.sides(pairs)
            taken = activations(self.comparison, source, list(dict.fromkeys(names.values())))
            of_place = {place: taken[name] for place, name in names.items()}
            clean, outputs = self.comparison.clean_logits(pairs), _outputs(self.comparison.model, base, pairs.asked)
            parts.append(_Part(where, pairs, base, clean, of_place, outputs))
        return parts


@dataclass(frozen=True)
class _Part:
    """Some of the pairs: the tokens of the run that is edited, and what all patches of it have in common.

    Attributes:
        where, pairs: which.
        base: the tokens.
        clean: the clean run's logits, if the metric asks for them.
        taken: what the other run has at each place.
        outputs: what each block of the unedited run gives out; none where passes cannot begin at a later block.
    """

    where: slice
    pairs: Pairs
    base: Int[Tensor, "pair pos"]
    clean: Tensor
    taken: dict[Place, Tensor]
    outputs: list[Any]


def _outputs(model: AnyHooked, tokens: Int[Tensor, "pair pos"], asked: Bool[Tensor, "pair pos"]) -> list[Any]:
    """What each block gives out, to begin a run behind it; none where such a run is not the same."""
    blocks, unembed = getattr(model, "blocks", None), getattr(model, "unembed", None)
    if not isinstance(blocks, nn.ModuleList) or not isinstance(unembed, nn.Module):
        return []
    outputs: list[Any] = [None] * len(blocks)

    def keep(block: nn.Module, given: Any, output: Any, *, number: int) -> None:
        outputs[number] = output

    handles = [block.register_forward_hook(partial(keep, number=number)) for number, block in enumerate(blocks)]
    try:
        logits = model(tokens)
    finally:
        for handle in handles:
            handle.remove()
    with _begun_at(model, len(blocks) // 2, outputs, asked):  # blocks may pass on more than what they give out
        return outputs if agree(model(tokens)[asked], logits[asked]) else []


@contextmanager
def _begun_at(model: AnyHooked, layer: int, outputs: Sequence[Any], asked: Bool[Tensor, "pair pos"]) -> Iterator[None]:
    """Within this context blocks before a layer are not run: what the last of them gave out is given out again.

    Logits are made where they are asked for, and are 0 elsewhere: a large vocabulary costs as much as many layers.
    """
    if not outputs:
        yield
        return
    whole: Any = model
    logits_of = whole.unembed.forward

    def asked_for(residual: Tensor) -> Tensor:
        rows = logits_of(residual[asked][None])[0]
        return rows.new_zeros(*residual.shape[:2], rows.shape[-1]).masked_scatter_(asked[..., None], rows)

    changed: dict[nn.Module, Any] = {
        block: lambda *given, **named: outputs[layer - 1] for block in whole.blocks[:layer]
    }
    changed[whole.unembed] = asked_for
    with getattr(model, "_alone", nullcontext()):  # no other thread runs the model meanwhile
        before = {module: module.__dict__.get("forward") for module in changed}
        try:
            for module, forward in changed.items():
                module.__dict__["forward"] = forward
            yield
        finally:
            for module, forward in before.items():
                del module.__dict__["forward"]
                if forward is not None:
                    module.__dict__["forward"] = forward
