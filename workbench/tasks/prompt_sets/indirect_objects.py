"""Two names, one of which comes again: `Then, Mary and John went to the store. John gave a drink to` → Mary."""

from __future__ import annotations

import torch

from workbench.tasks.prompt_sets.base import Drawn, TextSet, Words, entries, some

NAMES = (
    "Mary, John, Tom, James, David, Robert, Michael, William, Richard, Joseph, Thomas, Daniel, Matthew, Anthony, Mark, "
    "Paul, Steven, Andrew, Kenneth, George, Kevin, Brian, Edward, Ronald, Timothy, Jason, Jeffrey, Ryan, Jacob, Gary, "
    "Nicholas, Eric, Stephen, Jonathan, Larry, Justin, Scott, Brandon, Frank, Benjamin, Gregory, Samuel, Patrick, "
    "Alexander, Jack, Sarah, Karen, Nancy, Lisa, Anna, Emily, Laura, Alice, Rachel, Kate, Jane, Amy, Susan, Linda, "
    "Elizabeth, Jennifer, Maria, Jessica, Michelle, Julia, Emma, Grace, Rose, Peter, Simon, Adam, Henry, Charles"
)
FRAMES = (
    ("Then,{first}{second} went to the{place}.{S2} gave a{object} to", " went"),
    ("When{first}{second} went to the{place},{S2} gave a{object} to", " went"),
    ("After{first}{second} went to the{place},{S2} gave a{object} to", " went"),
    ("Then,{first}{second} had a long talk at the{place}.{S2} gave a{object} to", " had"),
    ("While{first}{second} were working at the{place},{S2} gave a{object} to", " were"),
)
"""A text, and the word after both names (Wang et al. 2022, App. E)."""


def _draw(words: Words, random: torch.Generator) -> Drawn:
    """Either name comes first, as often (ABBA and BABA); in the corrupted prompt the other name comes again."""
    ((io,), (s,)), ((thing,), (other,)) = some(words["names"], 2, random), some(words["objects"], 2, random)
    frame, after = FRAMES[int(torch.randint(len(FRAMES), (), generator=random))]
    if torch.rand((), generator=random) < 0.5:
        names = "{IO} and{S1}", f"{{S1+1={after}}}"
    else:
        names = "{S1}{S1+1= and}{IO}", after
    template = frame.replace("{first}", names[0]).replace("{second}" + after, names[1])
    place = some(words["places"], 1, random)[0][0]
    clean = {"IO": io, "S1": s, "S2": s, "place": place, "object": thing}
    return Drawn(template, clean, {"S2": io}, {"object": other}, io, s)


SET = TextSet(
    asks="the name of the two that does not come again",
    known="Name movers read IO from the end, S-inhibition heads read S2 from there, and duplicate-token and induction "
    "heads read S1 and S1+1 from S2, in GPT-2 small (Wang et al. 2022).",
    key="IO",
    needs="names that are one token each",
    words={
        "names": entries(NAMES),
        "places": entries("store, school, park, garden, office, station, hospital, restaurant, house, church"),
        "objects": entries("drink, book, ring, letter, gift, ball, key, computer, watch, box, phone, bag"),
    },
    draw=_draw,
)
