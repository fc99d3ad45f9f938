"""The prompts of a set, each with its answer, as sequences that a model is measured on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.tasks.batch import Batch, Truth
from workbench.tasks.prompt_sets import prompt_set
from workbench.tasks.sequences import Sequences, own_sequences

if TYPE_CHECKING:
    from workbench.models.pretrained import Pretrained

_slots: dict[str, dict[bytes, dict[str, int]]] = {}  # path -> the tokens of a sequence -> slot -> its position


class PromptSequences(Sequences):
    """Clean prompts of a set with their answers behind them, of which the answer alone is scored.

    Labels: `eighth`; `slot`, the number in `slots` of what is at a position, or −1; and for each slot its token, from
    there to the end of the prompt.
    """

    summary: ClassVar[str] = "the answer to a prompt whose truth is known"

    @classmethod
    def of(cls, name: str, model: Pretrained, *, n: int, seed: int = 0) -> PromptSequences:
        """Half of what is drawn is for what has to be trained first. Raises ValueError as `prompt_set`."""
        drawn = prompt_set(name, model, n=2 * n, seed=seed)
        pairs, rows = drawn.pairs, []
        answers = pairs.right[pairs.asked]
        ends = pairs.asked.long().argmax(-1).tolist()
        for tokens, end, answer in zip(pairs.clean.tokens, ends, answers, strict=True):
            rows.append(torch.cat([tokens[: end + 1], answer[None]]))
        half = (len(rows) + 1) // 2
        training, size = rows[half:], model.config.d_vocab
        held = own_sequences(rows[:half], size, training=training, words=model.vocabulary, pad=model.pad)
        where = [
            {slot: int(at[i].nonzero()) for slot, at in pairs.slots.items() if at[i].any()} for i in range(len(rows))
        ]
        _slots[held.path] = {row.numpy().tobytes(): slots for row, slots in zip(rows, where, strict=True)}
        return cls(path=held.path)

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot for slots in _slots[self.path].values() for slot in slots))

    def _batch(self, which: str, n: int, generator: torch.Generator) -> Batch:
        batch = super()._batch(which, n, generator)
        lengths = self.lengths(batch.tokens)
        return Batch.next_token(batch.tokens, lengths - 2, lengths - 1)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        truth, slots, position = super().truth(tokens), self.slots, torch.arange(tokens.shape[1])
        at = torch.full(tokens.shape, -1)
        labels = {slot: torch.full(tokens.shape, -1) for slot in slots}
        for i, length in enumerate(self.lengths(tokens).tolist()):
            of_row = _slots[self.path].get(tokens[i, :length].cpu().numpy().tobytes(), {})
            for slot, where in of_row.items():
                at[i, where] = slots.index(slot)
                labels[slot][i] = torch.where((position >= where) & (position < length - 1), tokens[i, where], -1)
        return Truth(truth.edges, truth.labels | labels | {"slot": at})
