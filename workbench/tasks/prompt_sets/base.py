"""What a prompt set is, and its texts in a model's tokens."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.util.messages import brief

if TYPE_CHECKING:
    from workbench.models.pretrained import Pretrained

END = "end"
"""The slot of the last token, whose answer is asked for, where the template has no other slot there."""
FEWEST_WORDS = 4  # of a kind: with fewer a set is no sample of anything
SLOT = re.compile(r"\{([^}=]+)(?:=([^}]*))?\}")

Entry = tuple[str, ...]
"""The forms of a word, each of which has to be one token: a country and its capital, a noun and its plural."""
Words = Mapping[str, Sequence[Entry]]
"""Kind of word -> its entries."""


class DoesNotFitError(ValueError):
    """A prompt set that a model's tokenizer cuts otherwise than the set needs."""


@dataclass(frozen=True)
class TokenPair:
    """Two prompts that differ in one thing, and a third that differs in nothing relevant, in tokens.

    Attributes:
        clean, corrupted, control: the prompts, of as many tokens.
        answer, wrong: the token after the clean prompt, and that after the corrupted one.
        slots: what the prompts of a set have in common -> its position, the same in all three.
        right: every token that is right after the clean prompt, the answer among them.
    """

    clean: Int[Tensor, " pos"]
    corrupted: Int[Tensor, " pos"]
    control: Int[Tensor, " pos"]
    answer: int
    wrong: int
    slots: Mapping[str, int]
    right: frozenset[int]


@dataclass(frozen=True)
class Drawn:
    """The texts of a pair.

    Attributes:
        template: a text with slots in braces, `{S1}`, or with what always stands there, `{S1+1= went}`.
        clean: slot -> its text.
        changed: the slots that have another text in the corrupted prompt, from which `wrong` follows.
        irrelevant: those that have another text in the control prompt, from which `answer` follows all the same.
        answer, wrong: what comes after the clean prompt, and after the corrupted one.
        right: all that is right after the clean prompt; nothing if that is the answer alone.
    """

    template: str
    clean: Mapping[str, str]
    changed: Mapping[str, str]
    irrelevant: Mapping[str, str]
    answer: str
    wrong: str
    right: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class PromptSet(ABC):
    """Prompts whose right answers and whose minimal changes follow from how they are made.

    Attributes:
        asks: what is asked for, in a line.
        known: what is known of how models answer, and who found it.
        key: the slot that the answer is read from.
        answers_both: whether after a corrupted prompt `wrong` is right and `answer` wrong; else both are right there.
        otherwise: the set that takes its place where it does not fit, if there is one.
    """

    asks: str
    known: str
    key: str
    answers_both: bool = True
    otherwise: PromptSet | None = None

    @abstractmethod
    def pairs(self, model: Pretrained, random: torch.Generator) -> tuple[Iterator[TokenPair | None], list[str]]:
        """Pairs without end, None for each that does not fit; and what was left out or is otherwise, in sentences.

        Raises:
            DoesNotFitError: if too little fits the model's tokenizer.
        """


@dataclass(frozen=True, kw_only=True)
class TextSet(PromptSet):
    """A prompt set that is written as text.

    Attributes:
        needs: what its tokenizer has to do, as in `names that are one token each`.
        words: kind of word -> its entries, of which those are left out that do not fit.
        draw: one pair from the words that fit.
        before: a text after which a word is one token if it fits.
        note: what is to be said of it where it is used.
    """

    needs: str
    words: Words
    draw: Callable[[Words, torch.Generator], Drawn]
    before: str = "The"
    note: str = ""

    def pairs(self, model: Pretrained, random: torch.Generator) -> tuple[Iterator[TokenPair | None], list[str]]:
        """See `PromptSet.pairs`."""
        fitting, notes = self._fitting(model)

        def drawn() -> Iterator[TokenPair | None]:
            while True:
                yield in_tokens(model, self.draw(fitting, random))

        return drawn(), [self.note] * bool(self.note) + notes

    def _fitting(self, model: Pretrained) -> tuple[Words, list[str]]:
        """The words each form of which is one token. Raises DoesNotFitError if hardly any of a kind are."""
        start, fitting, notes = model.prompt(self.before), {}, []
        for kind, entries in self.words.items():
            ids = {form: model.prompt(self.before + form) for entry in entries for form in entry}
            after = {form: tokens for form, tokens in ids.items() if one_more(start, tokens) is not None}
            fits = {form for form, tokens in after.items() if known(model, tokens[-1:])}
            fitting[kind] = [entry for entry in entries if fits.issuperset(entry)]
            if len(fitting[kind]) == len(entries):
                continue
            form = next(form for entry in entries for form in entry if form not in fits)
            cut = "·".join(model.vocabulary.decode(ids[form])[len(start) :])
            example = f"this tokenizer cuts {form.strip()} into {brief(cut, 60)}"
            if len(fitting[kind]) < FEWEST_WORDS:
                raise DoesNotFitError(f"it needs {self.needs}; {example}")
            notes.append(f"Of {len(entries)} {kind} {len(fitting[kind])} fit; {example}.")
        return fitting, notes


def entries(text: str, before: str = " ") -> tuple[Entry, ...]:
    """Words with commas between entries and a space between forms, each with `before` before it."""
    return tuple(tuple(before + form for form in entry.split()) for entry in text.split(","))


def some(options: Sequence[Entry], n: int, random: torch.Generator) -> list[Entry]:
    """So many different ones of the options."""
    return [options[i] for i in torch.randperm(len(options), generator=random)[:n].tolist()]


def in_tokens(model: Pretrained, drawn: Drawn) -> TokenPair | None:
    """A pair in a model's tokens; None unless each slot and answer is one token, at the same positions in all."""
    sides = [
        _prompt(model, drawn.template, {**drawn.clean, **other}) for other in ({}, drawn.changed, drawn.irrelevant)
    ]
    if any(side is None or side[2] != sides[0][2] or len(side[1]) != len(sides[0][1]) for side in sides):  # type: ignore[index]
        return None
    (text, clean, slots), (changed, corrupted, _), (_, control, _) = sides  # type: ignore[misc]
    after = [(text, clean, answer) for answer in (drawn.answer, *drawn.right)] + [(changed, corrupted, drawn.wrong)]
    ids = [one_more(tokens, model.prompt(before + answer)) for before, tokens, answer in after]
    if None in ids or ids[0] == ids[-1] or not all(known(model, tokens) for tokens in (clean, corrupted, control)):
        return None
    if len(clean) > model.config.n_ctx:
        return None
    answer, *right, wrong = (i for i in ids if i is not None)
    return TokenPair(clean, corrupted, control, answer, wrong, slots, frozenset([answer, *right]))


def _prompt(model: Pretrained, template: str, texts: Mapping[str, str]) -> tuple[str, Tensor, dict[str, int]] | None:
    """A template with its slots filled: the text, its tokens, and where each slot is; None if one is not one token."""
    text, slots, rest, bounds = "", dict[str, int](), 0, list[tuple[str, str, str]]()
    for slot in SLOT.finditer(template):
        before = text + template[rest : slot.start()]
        text, rest = before + (texts[slot[1]] if slot[2] is None else slot[2]), slot.end()
        bounds.append((slot[1], before, text))
    text += template[rest:]
    tokens = model.prompt(text)
    for name, before, until in bounds:
        start, end = model.prompt(before), model.prompt(until)
        if one_more(start, end) is None or not torch.equal(tokens[: len(end)], end):
            return None
        slots[name] = len(start)
    if len(tokens) - 1 not in slots.values():
        slots[END] = len(tokens) - 1
    return text, tokens, slots


def one_more(start: Int[Tensor, " pos"], tokens: Int[Tensor, " more"]) -> int | None:
    """The token that these have after those of `start`; None if they do not begin so, or have more or fewer."""
    return int(tokens[-1]) if len(tokens) == len(start) + 1 and torch.equal(tokens[:-1], start) else None


def known(model: Pretrained, tokens: Int[Tensor, " pos"]) -> bool:
    """Whether the tokenizer knows each of these: none stands for a word that it does not have."""
    unknown = getattr(model.tokenizer, "unk_token_id", None)
    return unknown is None or unknown not in tokens.tolist()
