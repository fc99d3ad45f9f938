"""A year that is not before another: `The war lasted from the year 1732 to the year 17` → 33 … 99."""

from __future__ import annotations

import torch

from workbench.tasks.prompt_sets.base import Drawn, TextSet, Words, entries, some

KNOWN = (
    "Heads read YY from the end, and MLPs above them raise what is greater, in GPT-2 small (Hanna et al. 2023). The "
    "corrupted prompt begins in the year 01, after which every year is right."
)
NOUNS = entries(
    "war, trial, strike, conflict, siege, plague, crisis, reign, project, campaign, voyage, famine, boom, trade"
)
YEARS = tuple((f"{year:02}",) for year in range(1, 100))
DIGITS = tuple((str(digit),) for digit in range(10))


def _draw_years(words: Words, random: torch.Generator) -> Drawn:
    """The clean prompt begins in the year YY; every greater one is right, and one of them the answer."""
    years = sorted(int(year) for (year,) in words["years"])
    place = _whole(2, len(years) - 2, random)  # a greater one and a smaller one are there
    ((noun,), (other,)), century = some(words["nouns"], 2, random), f" {_whole(11, 17, random)}"
    smaller, greater = ([f"{year:02}" for year in some_years] for some_years in (years[1:place], years[place + 1 :]))
    template = "The{noun} lasted from the year{XX1}{YY}{to= to} the year{XX2}"
    clean = {"noun": noun, "XX1": century, "YY": f"{years[place]:02}", "XX2": century}
    answer, wrong = (some_years[_whole(0, len(some_years) - 1, random)] for some_years in (greater, smaller))
    return Drawn(template, clean, {"YY": f"{years[0]:02}"}, {"noun": other}, answer, wrong, greater)


def _draw_digits(words: Words, random: torch.Generator) -> Drawn:
    """The same of the tens digit alone, where each digit is a token; the last digit stays as it is."""
    century, tens, ones = (_whole(low, high, random) for low, high in ((1, 7), (2, 8), (1, 9)))
    (noun,), (other,) = some(words["nouns"], 2, random)
    template = "The{noun} lasted from the year 1{X1}{Y}{Z}{to= to} the year 1{X2}"
    clean = {"noun": noun, "X1": str(century), "Y": str(tens), "Z": str(ones), "X2": str(century)}
    smaller, greater = ([str(digit) for digit in digits] for digits in (range(1, tens), range(tens + 1, 10)))
    answer, wrong = (digits[_whole(0, len(digits) - 1, random)] for digits in (greater, smaller))
    return Drawn(template, clean, {"Y": "0"}, {"noun": other}, answer, wrong, greater)


def _whole(least: int, most: int, random: torch.Generator) -> int:
    return int(torch.randint(least, most + 1, (), generator=random))


BY_DIGIT = TextSet(
    asks="a tens digit that is greater than the one of the first year",
    known=KNOWN.replace("YY", "Y").replace("the year 01", "the first decade"),
    key="Y",
    needs="years whose two halves, or whose digits, are one token each",
    words={"digits": DIGITS, "nouns": NOUNS},
    draw=_draw_digits,
    before="The year 1",
    note="This tokenizer writes each digit as a token: the tens digit is asked for, and one that is equal counts as "
    "neither right nor wrong.",
    answers_both=False,
)
SET = TextSet(
    asks="a year that is greater than the first one",
    known=KNOWN,
    key="YY",
    needs="years whose two halves are one token each",
    words={"years": YEARS, "nouns": NOUNS},
    draw=_draw_years,
    before="The year 17",
    answers_both=False,
    otherwise=BY_DIGIT,
)
