"""Random tokens that come twice: `w3 w9 w4 w7 w3 w9 w4` → w7."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from workbench.tasks.prompt_sets.base import END, DoesNotFitError, PromptSet, TokenPair

if TYPE_CHECKING:
    from workbench.models.pretrained import Pretrained

LENGTHS = (8, 12)  # tokens before they come again, drawn for each pair: no head can count back to the answer


class RepeatedTokens(PromptSet):
    """Different random tokens, none of them special, and the same again up to one before the answer.

    In the corrupted prompt another token follows the first time, `follower`; in the control another one stands between.
    """

    def pairs(self, model: Pretrained, random: torch.Generator) -> tuple[Iterator[TokenPair | None], list[str]]:
        """See `PromptSet.pairs`."""
        before = torch.empty(0, dtype=torch.long) if model.tokenizer is None else model.prompt("")
        texts = model.vocabulary.texts or model.words
        tokens = torch.tensor([token for token, text in enumerate(texts) if text.strip()])
        if len(tokens) < LENGTHS[1] + 2:
            raise DoesNotFitError(
                f"it needs {LENGTHS[1] + 2} tokens that are text, and this tokenizer has {len(tokens)}"
            )

        def drawn() -> Iterator[TokenPair]:
            while True:
                length = int(torch.randint(LENGTHS[0], LENGTHS[1] + 1, (), generator=random))
                at = int(torch.randint(2, length, (), generator=random))  # of the answer, behind one that can be other
                order = tokens[torch.randperm(len(tokens), generator=random)[: length + 2]]
                some, (wrong, other) = order[:length], order[length:].tolist()
                clean = torch.cat([before, some, some[:at]])
                corrupted, control, start = clean.clone(), clean.clone(), len(before)
                corrupted[start + at] = wrong
                control[[start, start + length]] = other  # both times
                slots = {"first": start + at - 1, "follower": start + at, END: len(clean) - 1}
                answer = int(some[at])
                yield TokenPair(clean, corrupted, control, answer, wrong, slots, frozenset([answer]))

        return drawn(), []


SET = RepeatedTokens(
    asks="the token that followed the last one before",
    known="Induction heads read the follower of the first occurrence from the end, by what previous-token heads wrote "
    "there, in models of two layers and more (Elhage et al. 2021; Olsson et al. 2022).",
    key="follower",
)
