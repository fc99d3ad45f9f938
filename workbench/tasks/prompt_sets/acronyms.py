"""The last letter of an acronym: `The Chief Value Officer (CV` → O."""

from __future__ import annotations

import torch

from workbench.tasks.prompt_sets.base import Drawn, TextSet, Words, entries, some

WORDS = (
    "Action, Agency, Army, Asset, Bank, Base, Board, Budget, Cell, Center, Chief, City, Data, Debt, Design, Drug, "
    "Earth, Energy, Event, Factor, Family, Field, Food, Game, Gold, Group, Growth, Health, Home, House, Image, Income, "
    "Index, Island, Job, Joint, Justice, Key, King, Knowledge, Labor, Land, Law, Light, Market, Media, Model, Music, "
    "Nature, Network, Night, Number, Object, Office, Order, Owner, Party, Peace, Power, Project, Quality, Queen, "
    "Quest, Radio, Report, Risk, River, School, Science, Service, State, Team, Test, Time, Trade, Union, Unit, User, "
    "Value, Vision, Voice, War, Water, Wind, World, Year, Youth, Zone"
)


def _draw(words: Words, random: torch.Generator) -> Drawn:
    """The corrupted prompt has another last word; the control has another first one with the same letter."""
    (first,), (second,), (third,), (changed,) = some(words["words"], 4, random)
    alike = [entry for entry in words["words"] if entry[0][1] == first[1] and entry[0] not in (first, second, third)]
    other = some(alike, 1, random)[0][0] if alike else first
    template = "The{W1}{W2}{W3} ({L1}{L2}"
    clean = {"W1": first, "W2": second, "W3": third, "L1": first[1], "L2": second[1]}
    return Drawn(template, clean, {"W3": changed}, {"W1": other}, third[1], changed[1])


SET = TextSet(
    asks="the last letter of an acronym of three words",
    known="Letter movers read W3 from the end and write its first letter, in GPT-2 small (García-Carrasco et al. "
    "2024).",
    key="W3",
    needs="words, and capital letters beside each other, that are one token each",
    words={"words": entries(WORDS)},
    draw=_draw,
)
