"""A verb that agrees with its subject, not the noun beside it: `I think that the keys near the cabinet` → are."""

from __future__ import annotations

import torch

from workbench.tasks.prompt_sets.base import Drawn, TextSet, Words, entries, some

NOUNS = (
    "key keys, book books, car cars, letter letters, picture pictures, teacher teachers, doctor doctors, student "
    "students, author authors, friend friends, king kings, dog dogs, tree trees, house houses, table tables, "
    "building buildings, window windows, door doors, chair chairs, river rivers, bird birds, horse horses, boy boys, "
    "girl girls, lawyer lawyers, farmer farmers, actor actors, nurse nurses"
)
PLACES = ("near", "behind", "beside")


def _draw(words: Words, random: torch.Generator) -> Drawn:
    """The corrupted prompt has the subject in the other number; the control has another noun beside it."""
    subject, beside, other = some(words["nouns"], 3, random)
    number, of_noun, place = (int(torch.randint(n, (), generator=random)) for n in (2, 2, len(PLACES)))
    (verb,) = some(words["verbs"], 1, random)
    template = f"I think that the{{subject}} {PLACES[place]} the{{attractor}}"
    clean = {"subject": subject[number], "attractor": beside[of_noun]}
    changed, irrelevant = {"subject": subject[1 - number]}, {"attractor": other[of_noun]}
    return Drawn(template, clean, changed, irrelevant, verb[number], verb[1 - number])


SET = TextSet(
    asks="the verb in the number of the subject, past a noun of either number",
    known="Similar sets of neurons mediate the number of the subject in sentences of similar structure (Finlayson et "
    "al. 2021; prompts after Linzen et al. 2016).",
    key="subject",
    needs="nouns in both numbers, and verbs, that are one token each",
    words={"nouns": entries(NOUNS), "verbs": entries("is are, was were, has have, does do")},
    draw=_draw,
)
