"""A page of tokens: a picture with one column for each position, which grows downwards row by row."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from workbench.capture import Capture
from workbench.figures.drawing import element, shortened, text
from workbench.figures.style import CHANGED, GREEN, GREY, SKY, VERMILLION
from workbench.instruments.attention import attention_graph
from workbench.measurement.numbers import percent
from workbench.tasks import correct
from workbench.util.ties import named

GUTTER = 118  # pixels for the names of the rows
ARCS = 92  # pixels for the arcs on either side of the tokens
LINE = 17  # height of a row of labels, in pixels
LIKELIEST = 5  # tokens that hovering over an answer names
WIDEST = 128  # positions drawn at once
WIDE = "#%@MWmw⊥÷×+=<>␣⏎⇥"  # letters that need more than the usual share of their height


def window(n_pos: int, start: int) -> range:
    """The positions to draw of a sequence: at most `WIDEST`, from `start`.

    Raises:
        ValueError: if the sequence has no position `start`.
    """
    if not 0 <= start < n_pos:
        raise ValueError(f"there is no position {start}; the input has {n_pos} tokens")
    return range(start, min(n_pos, start + WIDEST))


def part_drawn(drawn: range, n_pos: int) -> str:
    """The end of a subtitle, `; positions 0 to 127 of 300`; empty where all positions are drawn."""
    return "" if len(drawn) == n_pos else f"; positions {drawn[0]} to {drawn[-1]} of {n_pos}"


@dataclass(frozen=True)
class Row:
    """One row of words, a word for each position.

    Attributes:
        name: of the row.
        words: at each position; empty where there is none.
        right: whether each word is a right answer; None where it is no answer.
        framed: positions that are marked by a thick frame.
        tips: what hovering over each word adds; none where this is empty.
        small: written small and grey, as what is beside the point.
    """

    name: str
    words: Sequence[str]
    right: Sequence[bool | None]
    framed: Container[int] = ()
    tips: Sequence[str] = ()
    small: bool = False


def right_at(seen: Capture, example: int = 0) -> list[bool | None]:
    """Whether the model is right at each position, of a set throughout; None where nothing is scored."""
    shares = correct(seen.logits, seen.batch)[example].tolist()
    scored = seen.batch.loss_mask[example].tolist()
    return [share == 1 if asked else None for share, asked in zip(shares, scored, strict=True)]


def answer_rows(seen: Capture, example: int = 0) -> list[Row]:
    """Two rows, the model's answers and the right ones, at each position that is scored.

    Where the answer is a set, one row with the share of it that is among as many of the likeliest tokens. Of running
    text, where another token than the one that follows is no mistake, what is predicted after the last token too.
    """
    task, batch = seen.subject.task, seen.batch
    scored, right = batch.loss_mask[example].tolist(), right_at(seen, example)
    if batch.targets.ndim == 3:
        shares = correct(seen.logits, batch)[example].tolist()
        in_percent = [f"{share:.0%}" if asked else "" for share, asked in zip(shares, scored, strict=True)]
        return [Row("found of the set", in_percent, right)]
    answers, wanted = named(seen.logits[example], task.words), task.words(batch.targets[example])
    blank = [None] * len(scored)
    said = [word if asked else "" for word, asked in zip(answers, scored, strict=True)]
    if task.running_text:  # what comes after the last token is predicted too
        last = int(task.lengths(batch.tokens[example : example + 1])[0]) - 1
        said[last] = answers[last]
        right = [True if is_right else None for is_right in right]
    return [
        Row("predicts next" if task.running_text else "model says", said, right, tips=_likeliest(seen, example)),
        Row(task.sought, [word if asked else "" for word, asked in zip(wanted, scored, strict=True)], blank),
    ]


def confidence_row(seen: Capture, example: int = 0) -> Row:
    """The probability of the right answer at each position that is scored, in per cent; of a set, of all its tokens."""
    batch, targets = seen.batch, seen.batch.targets[example]
    probability = seen.logits[example].double().softmax(-1)
    if targets.ndim == 2:
        of_right = (probability * targets).sum(-1)
    else:
        of_right = probability.gather(-1, targets.clamp(min=0)[:, None])[:, 0]
    shown = zip(of_right.tolist(), batch.loss_mask[example].tolist(), strict=True)
    words = []
    for share, asked in shown:  # never 100 or 0 for what is not
        whole = f"{100 * share:.0f}" if asked else ""
        words.append(">99" if whole == "100" and share < 0.9995 else "<1" if whole == "0" and share > 0.0005 else whole)
    name = f"p({'next' if seen.subject.task.running_text else 'right'}), %"
    return Row(name, words, [None] * len(words), tips=_likeliest(seen, example), small=True)


def _likeliest(seen: Capture, example: int) -> list[str]:
    """The five likeliest tokens at each position, with their probabilities."""
    task = seen.subject.task
    top = seen.logits[example].double().softmax(-1).topk(min(LIKELIEST, seen.logits.shape[-1]))
    return [
        ", ".join(f"{word} {percent(share)}" for word, share in zip(task.words(ids), shares.tolist(), strict=True))
        for ids, shares in zip(top.indices, top.values, strict=True)
    ]


def label_rows(seen: Capture, example: int = 0) -> list[Row]:
    """A row for every label of the task's truth that this input has; none of running text, which has but places."""
    task, rows = seen.subject.task, list[Row]()
    if task.running_text:
        return rows
    for name, values in seen.truth.labels.items():
        labels = values[example]
        if not (labels >= 0).any():
            continue
        words = task.words(labels.clamp(min=0)) if name in task.token_labels else [str(int(value)) for value in labels]
        shown = [word if value >= 0 else "" for word, value in zip(words, labels.tolist(), strict=True)]
        rows.append(Row(name.replace("_", " "), shown, [None] * len(shown)))
    return rows


class TokenPage:
    """The picture while it grows downwards.

    Args:
        words: the sequence's tokens.
        window: the positions that are drawn.
        chosen: those whose tokens are marked.
    """

    def __init__(self, words: Sequence[str], window: range, chosen: Container[int] = ()) -> None:
        self.words, self.window, self.chosen = words, window, chosen
        longest = max(len(words[i]) for i in window)
        self.column = max(23, min(40, 780 // len(window))) if longest <= 2 else 30
        if longest > 4:  # wide enough for whole words where there are few
            self.column = max(42, min(72, 780 // len(window)))
        self.width = GUTTER + self.column * len(window) + 14
        self.height = 8
        self.focus: int | None = None  # the position that is scrolled to where there is no room for all
        self.notes: Mapping[str, str] = {}  # row -> the number of a note about it
        self.parts: list[str] = []
        self.names: list[str] = []

    def x(self, position: int) -> float:
        """The middle of a position's column."""
        return GUTTER + (position - self.window.start + 0.5) * self.column

    def body(self) -> str:
        """Everything drawn; the names of the rows last, so that they stay above what is scrolled under them."""
        back = element("rect", x=0, y=0, width=GUTTER - 6, height=self.height)
        return "".join(self.parts) + element("g", back + "".join(self.names), class_="gutter")

    def name(self, words: str, y: float, tip: str | None = None) -> None:
        style: dict[str, Any] = {"text_anchor": "end", "class_": "quiet", "data_tip": tip}
        if words in self.notes:
            words, style = f"{self.notes[words]} {words}", style | {"class_": None, "font_weight": 600}
        size = min(11, round((GUTTER - 14) / (0.62 * len(words)), 1))  # such that a long one is not cut
        self.names.append(text(words, GUTTER - 12, y, size, **style))

    def tokens(self) -> None:
        y = self.height + 13
        self.name("token", y)
        for i in self.window:
            chosen = i in self.chosen
            box = element(
                "rect",
                x=self.x(i) - self.column / 2 + 1,
                y=y - 12,
                width=self.column - 2,
                height=24,
                rx=4,
                fill=SKY if chosen else GREY,
                fill_opacity=0.45 if chosen else 0.14,
                data_token=i,
                data_focus="" if i == self.focus else None,
                data_tip=f"position {i}: {self.words[i]}",
                class_="token",
            )
            self.parts.append(box + self.word(self.words[i], i, y, weight=600))
        if len(self.window) <= 64 or self.column > 26:
            for i in self.window:
                self.parts.append(text(str(i), self.x(i), y + 19, 8.5, class_="quiet", pointer_events="none"))
        self.height = y + 28

    def heading(self, words: str) -> None:
        self.parts.append(text(words, GUTTER + 2, self.height + 9, 12, text_anchor="start", font_weight=600))
        self.height += 20

    def rows(self, rows: Sequence[Row], quiet: bool = False) -> None:
        """Rows of words, right ones in green with a tick, wrong ones in red with a cross."""
        for row in rows:
            if not any(row.words[i] for i in self.window):
                continue
            y = self.height + LINE / 2
            self.name(row.name, y)
            for i in self.window:
                word = row.words[i]
                if not word:
                    continue
                if row.right[i] is not None or row.tips:
                    self.parts.append(self._behind(row, i, y))
                size, style = (9.5, "quiet") if row.small else (11, "quiet" if quiet else None)
                self.parts.append(self.word(word, i, y, size=size, class_=style))
            self.height += LINE + (0 if quiet else 2)
        self.height += 4

    def _behind(self, row: Row, i: int, y: float) -> str:
        """The box behind a word: of an answer in the colour of right or wrong; with what hovering says."""
        right, framed = row.right[i], i in row.framed
        tip = f"{row.name} at {self.at(i)}: {row.words[i]}"
        if right is not None:
            tip += ", right" if right else ", wrong"
        if row.tips:
            tip += f"; likeliest: {row.tips[i]}"
        box: dict[str, Any] = {"x": self.x(i) - self.column / 2 + 1, "width": self.column - 2, "rx": 3}
        box |= {"y": y - LINE / 2, "height": LINE - 1, "data_tip": tip}
        if right is None:
            frame: dict[str, Any] = {"stroke": CHANGED, "stroke_width": 2.5} if framed else {}
            return element("rect", **box, **frame, fill_opacity=0)
        colour = GREEN if right else VERMILLION
        box |= {"fill": colour, "fill_opacity": 0.22, "stroke": colour}
        box["stroke_dasharray"] = None if right or framed else "3 2"
        if framed:
            box |= {"stroke": CHANGED, "stroke_width": 2.5}
        return element("rect", **box)

    def arc(self, q: int, k: int, base: float, down: int, **style: Any) -> None:
        """Half an ellipse from the key to the query, higher the further apart they are."""
        left, right = self.x(min(q, k)), self.x(max(q, k))
        high = self.height_of(q, k)
        path = f"M{left:.1f} {base:.1f}C{left:.1f} {base + down * high * 1.33:.1f} "
        path += f"{right:.1f} {base + down * high * 1.33:.1f} {right:.1f} {base:.1f}"
        self.parts.append(element("path", d=path, data_q=q, data_k=k, **style))

    def height_of(self, q: int, k: int) -> float:
        return 10 + (ARCS - 14) * min(1.0, (abs(q - k) / max(8, len(self.window) - 1)) ** 0.55)

    def high(self, edges: Sequence[attention_graph.Edge]) -> int:
        """The room that the arcs of these edges need."""
        return round(max((self.height_of(q, k) for _, q, k in edges), default=0))

    def holds(self, q: int, k: int) -> bool:
        return q in self.window and k in self.window

    def word(self, word: str, i: int, y: float, size: float = 12.5, weight: int | None = None, **style: Any) -> str:
        """A word that fits its column: smaller, then cut."""
        widths = (1.0 if east_asian_width(a) in "WF" else 0.88 if a in WIDE else 0.62 for a in word)
        em = sum(widths) * (1.0 if weight is None else 1.1) or 1.0
        smaller = max(7.0, min(size, self.column / em))
        room = max(2, int(len(word) * self.column / (em * smaller)))
        return text(
            shortened(word, room), self.x(i), y, round(smaller, 1), font_weight=weight, pointer_events="none", **style
        )

    def at(self, position: int) -> str:
        return f"{position}:{self.words[position]}"
