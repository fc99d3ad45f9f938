"""All results as one HTML page that needs no server and no script: verdicts to filter by, every contrast as a plot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from workbench.figures.drawing import Drawing, element, text
from workbench.figures.style import BLUE, GREY
from workbench.judgement.verdict import ContrastKind, Group, Outcome, Verdict
from workbench.judgement.words.studies import sentence
from workbench.measurement.numbers import number, with_interval
from workbench.measurement.places import place_in_words
from workbench.studies.ledger import command, decided_by
from workbench.studies.result import Result
from workbench.studies.study import Study
from workbench.util.html_file import in_html

STYLE = Path(__file__).with_name("page.css")
WIDE, ROW, LEFT, RIGHT, ABOVE = 620, 26, 250, 16, 20  # pixels; names stand left of the plot, its scale above it


def page(results: Sequence[Result], studies: Mapping[str, Study]) -> str:
    """The page as HTML.

    Args:
        results: of the studies, each at one scale.
        studies: name -> the study, for its command.
    """
    count = {verdict: sum(one.verdict is verdict for one in results) for verdict in Verdict}
    there = [verdict for verdict in Verdict if count[verdict]]
    kinds = {None: f"all {len(results)}"} | {verdict: f"{verdict} {count[verdict]}" for verdict in there}
    buttons = "".join(
        f'<label><input type="radio" name="verdict" id="{_kind(verdict)}"{"" if verdict else " checked"}>'
        f"{in_html(says)}</label>"
        for verdict, says in kinds.items()
    )
    hidden = "\n".join(
        f"body:has(#{_kind(verdict)}:checked) article:not(.{_kind(verdict)}) {{ display: none; }}" for verdict in there
    )
    settled = count[Verdict.HOLDS] + count[Verdict.FAILS]
    lead = (
        f"Of {len(results)} claims that were asked again, {count[Verdict.HOLDS]} hold and {count[Verdict.FAILS]} do "
        f"not; {len(results) - settled} are open."
    )
    says = (
        "Each claim is asked of several seeds; it holds, or does not, where the whole 95 % interval over seeds says "
        "so, with room for seeds that were not seen. Circles are seeds, bars the means with these intervals."
    )
    style = f"{STYLE.read_text(encoding='utf-8')}{hidden}"
    body = "".join(_article(one, studies[one.name]) for one in results)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Studies · workbench</title>'
        f"<style>{style}</style></head><body><main><h1>{in_html(lead)}</h1><p>{in_html(says)}</p>"
        f'<fieldset aria-label="Which verdicts">{buttons}</fieldset>{body}</main></body></html>'
    )


def _kind(verdict: Verdict | None) -> str:
    return "every" if verdict is None else verdict.name.lower()


def _article(one: Result, study: Study) -> str:
    """A study: its question and verdict, what decided, then every contrast with its plot, and how it was made."""
    source = "" if one.source is None else f"{one.source['paper']}, {one.source['place']}; "
    about = f"{source}scale {one.scale}, {one.seeds} seeds, made on {one.made['date']}"
    contrasts = ""
    for each in one.outcomes:
        drawn = plot(each)
        contrasts += f"<p>{in_html(sentence(each))} <small>{each.verdict}</small></p>{drawn.svg() if drawn else ''}"
    rows = "".join(
        f"<tr>{''.join(f'<td>{in_html(cell)}</td>' for cell in (each.setting, each.ours, each.papers, each.why))}</tr>"
        for each in one.differs
    )
    head = "<tr><th>setting</th><th>here</th><th>paper</th><th>why</th></tr>"
    table = f'<p>What differs from the paper:</p><div class="wide"><table>{head}{rows}</table></div>' if rows else ""
    verdict = f'<span class="verdict">{one.verdict}</span> <small>{in_html(one.scale)}, {one.seeds} seeds</small>'
    return (
        f'<article class="{_kind(one.verdict)}"><details><summary><h2>{in_html(one.question)}</h2>{verdict}'
        f'<p>{in_html(decided_by(one))}</p></summary><p class="quiet">{in_html(about)}. '
        f"<code>{in_html(command(one, study))}</code></p>{contrasts}{table}</details></article>"
    )


def plot(outcome: Outcome) -> Drawing | None:
    """A contrast's groups, a row each: every seed, the mean and its interval; None where no number is known.

    What is to be reached stands as a dashed line.
    """
    groups = [group for group in outcome.groups if group.value is not None]
    if not groups or outcome.asked is None:
        return None
    line = None if outcome.asked.kind is ContrastKind.HIGHER else outcome.asked.value
    every = [value for group in groups for value in (group.value, group.low, group.high, *(group.each or ()))]
    known = [value for value in (*every, line) if value is not None]
    low, high = min(known), max(known)
    if groups[0].units == "share":
        low, high = 0.0, 1.0
    span = high - low or 1.0
    inner = WIDE - LEFT - RIGHT

    def x(value: float) -> float:
        return LEFT + inner * (min(max(value, low), high) - low) / span

    units, tall = groups[0].units, ABOVE + ROW * len(groups) + 4
    parts = [
        element("path", d=f"M{LEFT} {ABOVE}V{tall}M{WIDE - RIGHT} {ABOVE}V{tall}", stroke=GREY, stroke_opacity=0.4)
    ]
    for end, anchor in ((low, "start"), (high, "end")):
        parts.append(text(number(end, units), x(end), ABOVE / 2, 11, text_anchor=anchor, class_="quiet"))
    if line is not None:
        parts.append(element("path", d=f"M{x(line):.1f} {ABOVE}V{tall}", stroke=GREY, stroke_dasharray="4 3"))
    for row, group in enumerate(groups):
        parts += _row(group, ABOVE + ROW * (row + 0.5), x)
    return Drawing(outcome.asked.quantity, "", "".join(parts), WIDE, tall)


def _row(group: Group, y: float, x: Callable[[float], float]) -> Iterator[str]:
    assert group.value is not None
    name = ", ".join(filter(None, (group.name, place_in_words(group.at) if group.at else "")))
    yield text(name if len(name) < 42 else f"{name[:41]}…", LEFT - 10, y, 12, text_anchor="end")
    if group.low is not None and group.high is not None:
        yield element("path", d=f"M{x(group.low):.1f} {y}H{x(group.high):.1f}", stroke=BLUE, stroke_width=2)
    for value in group.each or ():
        tip = element("title", escape(number(value, group.units)))
        yield element("circle", tip, cx=x(value), cy=y, r=4, fill="none", stroke=GREY, stroke_width=1.5)
    told = with_interval(group.value, group.low, group.high, group.units)
    tip = element("title", escape(f"{name}: {told}, n = {group.n}"))
    yield element("path", tip, d=f"M{x(group.value):.1f} {y - 8}v16", stroke=BLUE, stroke_width=4)
