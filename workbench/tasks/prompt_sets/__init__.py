"""Prompt sets: prompts for language models whose right answers and minimal changes are known by how they are made.

    prompts = prompt_set("indirect-objects", workbench.load_model("gpt2"), n=64)
    prompts.pairs       # clean and corrupted prompts, with the positions of `IO`, `S1`, `S2`, … in `pairs.slots`
    prompts.control     # pairs that change nothing relevant

Each is drawn from a seed and cut by the model's own tokenizer: both prompts of a pair have as many tokens, and each
word and answer is one token, as it stands in its text. What does not fit is left out, and it is said how much is left.
Nothing is trained on them. A new set is one file with a `PromptSet` and one entry in `PROMPT_SETS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from workbench.tasks.batch import Batch
from workbench.tasks.pairs import Pairs
from workbench.tasks.prompt_sets import (
    acronyms,
    agreement,
    capitals,
    greater_than,
    indirect_objects,
    repeated_tokens,
    successors,
)
from workbench.tasks.prompt_sets.base import DoesNotFitError, PromptSet, TokenPair
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from workbench.models.pretrained import Pretrained

PROMPT_SETS: Mapping[str, PromptSet] = {
    "repeated-tokens": repeated_tokens.SET,
    "indirect-objects": indirect_objects.SET,
    "greater-than": greater_than.SET,
    "successors": successors.SET,
    "acronyms": acronyms.SET,
    "agreement": agreement.SET,
    "capitals": capitals.SET,
}
FEWEST = 8  # pairs: fewer are no sample
TRIES = 12  # pairs that are drawn for each that is asked for: some do not fit, some were drawn before


@dataclass(frozen=True)
class Prompts:
    """A prompt set in a model's tokens.

    Attributes:
        name: in `PROMPT_SETS`.
        made: the set.
        pairs, control: pairs whose change changes the answer, and the same prompts with a change that does not.
        right: of each pair, every token that is right after the clean prompt.
        notes: what was left out, or is otherwise with this tokenizer, in sentences.
    """

    name: str
    made: PromptSet
    pairs: Pairs
    control: Pairs
    right: tuple[frozenset[int], ...]
    notes: tuple[str, ...]

    def example(self, number: int, *, changed: bool = False) -> Batch:
        """One prompt without padding, with the token after it to be told: the clean one, or the corrupted one."""
        batch = (self.pairs.corrupted if changed else self.pairs.clean)[number : number + 1]
        end = int(batch.loss_mask[0].nonzero()[-1]) + 1
        return Batch(batch.tokens[:, :end], batch.targets[:, :end], batch.loss_mask[:, :end])


def prompt_set(name: str, model: Pretrained, *, n: int = 64, seed: int = 0) -> Prompts:
    """Draw pairs of a prompt set for a model, no clean prompt twice.

    Args:
        name: in `PROMPT_SETS`.
        model: whose tokenizer cuts the prompts; of repeated tokens it may have none.
        n: how many pairs, at most: a set may have fewer prompts that fit.
        seed: of what is drawn.

    Raises:
        ValueError: in one line, if there is no such set, n is too small, the model has no tokenizer, or the set does
            not fit it.
    """
    made = lookup(PROMPT_SETS, name, "prompt set")
    if n < FEWEST:
        raise ValueError(f"{FEWEST} prompts of {name} or more are drawn, not n={n}")
    rows = None
    while rows is None:
        try:
            rows, notes = _drawn(made, model, n, generator(seed, "prompt set", name))
        except DoesNotFitError as error:
            if made.otherwise is None:
                raise ValueError(f"{name} does not fit {model.config.module}: {error}") from None
            made = made.otherwise
    if len(rows) < n:
        notes.append(f"There are {len(rows)} such prompts, fewer than {n}.")
    clean = prompts([row.clean for row in rows], [row.answer for row in rows], model.pad)
    corrupted = prompts([row.corrupted for row in rows], [row.wrong for row in rows], model.pad)
    alike = prompts([row.control for row in rows], [row.answer for row in rows], model.pad)
    # the slots in the order of the text that has most of them
    named_slots = dict.fromkeys(slot for row in sorted(rows, key=lambda row: -len(row.slots)) for slot in row.slots)
    position = torch.arange(clean.tokens.shape[1])
    slots = {slot: torch.stack([position == row.slots.get(slot, -1) for row in rows]) for slot in named_slots}
    both = Pairs(clean, corrupted, clean.loss_mask, name, pad=model.pad, slots=slots)
    control = Pairs(clean, alike, clean.loss_mask, name, corrupted.targets, pad=model.pad, slots=slots)
    return Prompts(name, made, both, control, tuple(row.right for row in rows), tuple(notes))


def _drawn(made: PromptSet, model: Pretrained, n: int, random: torch.Generator) -> tuple[list[TokenPair], list[str]]:
    """Different pairs of a set, n at most, and what is said of them. Raises DoesNotFitError if hardly any fits."""
    pairs, notes = made.pairs(model, random)
    drawn: dict[tuple[int, ...], TokenPair] = {}
    for pair in islice(pairs, TRIES * n):
        if pair is not None:
            drawn.setdefault(tuple(pair.clean.tolist()), pair)
        if len(drawn) == n:
            break
    if len(drawn) < FEWEST:
        raise DoesNotFitError(f"of {TRIES * n} of its prompts {len(drawn)} are cut where they should be")
    return [*drawn.values()], notes


def named(given: str | Path) -> str | None:
    """The prompt set that is meant; None where a file or a path is.

    Raises:
        ValueError: if it is a single word, and neither a file nor a prompt set.
    """
    path = Path(given)
    if path.exists() or len(path.parts) != 1 or path.suffix:
        return None
    lookup(PROMPT_SETS, str(given), "file or prompt set")
    return str(given)


def prompts(rows: Sequence[Tensor], answers: Sequence[int], pad: int) -> Batch:
    """Texts padded on the right; of each, the token after it alone is scored."""
    tokens = nn.utils.rnn.pad_sequence([*rows], batch_first=True, padding_value=pad)
    last = torch.tensor([len(row) - 1 for row in rows])[:, None]
    scored = torch.zeros_like(tokens, dtype=torch.bool).scatter_(1, last, True)
    return Batch(tokens, torch.where(scored, torch.tensor(answers)[:, None], 0), scored)


__all__ = ["PROMPT_SETS", "PromptSet", "Prompts", "named", "prompt_set", "prompts"]
