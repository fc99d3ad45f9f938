"""What comes next in a text: the likeliest tokens, and how likely the first stays without each of some heads."""

from __future__ import annotations

from typing import Any

from workbench.figures.drawing import Drawing, element, shortened, text
from workbench.figures.style import BLUE, GREY, VERMILLION
from workbench.interventions import NextToken, head_in_words
from workbench.measurement.numbers import percent

TOP, LINE, GAP = 24, 24, 40  # pixels above the bars, of each line, and between the halves
WORD, WIDE, NUMBER = 110, 190, 44  # pixels of a token, of the longest bar, and of the number behind it
HEAD, READS, LONGEST = 105, 190, 18  # pixels of a head and of what it reads; letters of a token that fit
SECOND = WORD + WIDE + NUMBER + GAP


def next_token(found: NextToken) -> Drawing:
    """Two columns of bars: the likeliest next tokens, and the first one's probability without each of some heads.

    A grey bar behind shows what it was with the head. A head's line carries `data_cell` `layer,head`.

    Args:
        found: `interventions.next_token(…)`.
    """
    likeliest, without = found.likeliest, found.without
    assert likeliest.labels is not None
    parts = [text("next token", WORD, 10, 13, text_anchor="start", font_weight=600)]
    for i, (word, p) in enumerate(zip(likeliest.labels, likeliest.values.tolist(), strict=True)):
        y, tip = TOP + LINE * (i + 0.5), f"{word}: {percent(p)}"
        parts.append(text(shortened(str(word), LONGEST), WORD - 8, y, 13, text_anchor="end", data_tip=tip))
        parts += _bar(WORD, y, p, BLUE, tip)
    if without is not None and without.labels is not None:
        first, before = str(likeliest.labels[0]), float(likeliest.values[0])
        x = SECOND + HEAD + READS
        parts.append(
            text(f"{shortened(first, LONGEST)} without a head", x, 10, 13, text_anchor="start", font_weight=600)
        )
        parts.append(text("which reads here", SECOND + HEAD, 10, 12, text_anchor="start", class_="quiet"))
        for i, (head, reads, p) in enumerate(zip(found.heads, without.labels, without.values.tolist(), strict=True)):
            name, y = head_in_words(*head), TOP + LINE * (i + 0.5)
            tip = f"{name}: without it {first} has {percent(p)}, with it {percent(before)}"
            box: dict[str, Any] = {"x": SECOND, "y": y - LINE / 2 + 1, "width": x + WIDE - SECOND, "height": LINE - 2}
            at = {"data_cell": f"{head[0]},{head[1]}", "data_point": str(head[0]), "data_tip": tip}
            parts += [
                element("rect", x=x, y=y - 8, width=WIDE * before, height=16, rx=2, fill=GREY, fill_opacity=0.22),
                *_bar(x, y, p, VERMILLION if p < before else BLUE, tip),
                text(name, SECOND, y, 12, text_anchor="start"),
                text(shortened(str(reads), 30), SECOND + HEAD, y, 12, text_anchor="start", class_="quiet"),
                element("rect", **box, **at, fill_opacity=0, class_="cell"),
            ]
    lines = max(len(likeliest.values), len(found.heads))
    width = SECOND + HEAD + READS + WIDE + NUMBER if found.heads else SECOND
    return Drawing("What comes next", likeliest.settings["model"], "".join(parts), width, TOP + LINE * lines + 4)


def _bar(x: float, y: float, p: float, colour: str, tip: str) -> list[str]:
    bar = element("rect", x=x, y=y - 8, width=WIDE * p, height=16, rx=2, fill=colour, fill_opacity=0.75, data_tip=tip)
    return [bar, text(percent(p), x + WIDE * p + 6, y, 11, text_anchor="start", class_="quiet")]
