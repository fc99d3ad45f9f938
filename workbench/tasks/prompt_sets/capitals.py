"""The capital of a country: `The capital of France is the city of` → Paris."""

from __future__ import annotations

import torch

from workbench.tasks.prompt_sets.base import Drawn, TextSet, Words, entries, some

CAPITALS = (
    "France Paris, Italy Rome, Germany Berlin, Spain Madrid, Portugal Lisbon, England London, Japan Tokyo, "
    "China Beijing, Russia Moscow, Egypt Cairo, Greece Athens, Austria Vienna, Poland Warsaw, Ireland Dublin, "
    "Norway Oslo, Sweden Stockholm, Denmark Copenhagen, Finland Helsinki, Hungary Budapest, Cuba Havana, Peru Lima, "
    "Chile Santiago, Canada Ottawa, Australia Canberra, Iran Tehran, Iraq Baghdad, Syria Damascus, Kenya Nairobi, "
    "Turkey Ankara, India Delhi, Belgium Brussels, Thailand Bangkok, Lebanon Beirut, Afghanistan Kabul, Vietnam Hanoi, "
    "Scotland Edinburgh, Wales Cardiff, Romania Bucharest, Bulgaria Sofia, Serbia Belgrade, Croatia Zagreb, "
    "Netherlands Amsterdam, Switzerland Bern, Qatar Doha, Jordan Amman, Libya Tripoli, Morocco Rabat, "
    "Indonesia Jakarta, Philippines Manila, Nepal Kathmandu, Pakistan Islamabad, Korea Seoul, Taiwan Taipei, "
    "Algeria Algiers, Iceland Reykjavik, Ukraine Kyiv"
)
NAMES = entries("Mary, John, Tom, James, David, Robert, Michael, William, Anna, Emily, Alice, Susan")


def _draw(words: Words, random: torch.Generator) -> Drawn:
    """The corrupted prompt has another country; the control another name."""
    ((country, capital), (other, wrong)) = some(words["countries"], 2, random)
    (name,), (another,) = some(words["names"], 2, random)
    template = "As{name} knows, the capital of{country} is the city of"
    return Drawn(template, {"name": name, "country": country}, {"country": other}, {"name": another}, capital, wrong)


SET = TextSet(
    asks="the capital of a country",
    known="Middle MLPs look the fact up at the last token of the subject, and later attention moves it to the end, in "
    "GPT-2 XL and GPT-J (Meng et al. 2022; Geva et al. 2023).",
    key="country",
    needs="countries and capitals that are one token each",
    words={"countries": entries(CAPITALS), "names": NAMES},
    draw=_draw,
)
