"""What comes next in an order that everybody knows: `As Mary says, today is Monday. Tomorrow will be` → Tuesday."""

from __future__ import annotations

from itertools import pairwise

import torch

from workbench.tasks.prompt_sets.base import Drawn, Entry, TextSet, Words, entries, some

ORDERS = {
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Monday": "As{name} says, today is{item}. "
    "Tomorrow will be",
    "January February March April May June July August September October November December January": "As{name} "
    "says, this month is{item}. Next month will be",
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty": "Then{name} counts:{item},",
}
"""What comes after one another, with spaces between -> what is asked of it."""
NAMES = entries("Mary John Tom James David Robert Michael William Anna Emily Alice Susan".replace(" ", ","))


def _steps(order: str) -> list[Entry]:
    """Each item with its successor."""
    return [(f" {item}", f" {following}") for item, following in pairwise(order.split())]


def _draw(words: Words, random: torch.Generator) -> Drawn:
    """The corrupted prompt has another item of the same order."""
    ((item, answer),) = some(words["items"], 1, random)
    order, asked = next((order, asked) for order, asked in ORDERS.items() if (item, answer) in _steps(order))
    others = [step for step in words["items"] if step in _steps(order) and step != (item, answer)]
    ((changed, wrong),) = some(others, 1, random)
    (name,), (other,) = some(words["names"], 2, random)
    return Drawn(asked, {"name": name, "item": item}, {"item": changed}, {"name": other}, answer, wrong)


SET = TextSet(
    asks="the next day, month or number",
    known="Successor heads raise the next item of what they read, in models of many sizes (Gould et al. 2023).",
    key="item",
    needs="days, months and number words that are one token each",
    words={"items": [step for order in ORDERS for step in _steps(order)], "names": NAMES},
    draw=_draw,
)
