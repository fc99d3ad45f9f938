"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby

import pandas as pd
import torch
from plotly.offline import get_plotlyjs

from workbench.inspection import Inspected
from workbench.inspection.seed_groups import seed_groups
from workbench.report.comparisons import OverSeeds, comparison_heading, difference_rows, over_seeds_heading
from workbench.report.sections import Section, slug
from workbench.report.table import CLAIMS_HEADING, Lines, Row
from workbench.util.distribution import version
from workbench.util.lookup import tell_apart
from workbench.util.messages import harmless

MOST_OPEN = 3  # runs whose claims are unfolded
MOST_NAMED = 3  # runs in the heading
MOST_ALIKE = 2  # parts of one kind in the contents list, before they are folded into one entry


def page(
    inspected: Sequence[Inspected],
    found: Sequence[str],
    summary: tuple[Sequence[str], Sequence[Row]],
    claims: Lines,
    sections: Sequence[Section],
    compared: tuple[pd.DataFrame | None, Sequence[OverSeeds]],
    made: str,
) -> str:
    """The whole page.

    Args:
        inspected: the runs.
        found: what was found, a sentence each.
        summary: the names of the table's columns, and its rows.
        claims: the verdicts on each claim: a heading for each run, and lines.
        sections: the figures.
        compared: the comparison of two runs, if there are two, and those of groups of seeds.
        made: how the numbers were made.
    """
    made += f"; workbench {version()}, PyTorch {torch.__version__}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    names = [one.name for one in inspected]
    table = _table(["", *summary[0]], [[label, *cells] for label, cells in summary[1]])
    parts = [
        *_said(found, claims),
        ("Summary", table + _runs(inspected)),
        *_comparisons(*compared, names),
        *((section.title, _section(section)) for section in sections),
    ]
    slugs = tell_apart([slug(title) for title, _ in parts], [])
    return _PAGE.format(
        title=escape(_title(inspected)),
        plotly=get_plotlyjs(),
        made=escape(made),
        contents=_contents(slugs, [title for title, _ in parts]),
        parts="\n".join(
            f'<section id="{at}"><h2>{escape(title)}</h2>{text}</section>'
            for at, (title, text) in zip(slugs, parts, strict=True)
        ),
    )


Part = tuple[str, str]
"""A part of the page: its heading, and its HTML."""


def _title(inspected: Sequence[Inspected]) -> str:
    """The runs' names; of many, how many runs and configs there are."""
    if len(inspected) <= MOST_NAMED:
        return " · ".join(one.name for one in inspected)
    n_configs = len(seed_groups(inspected))
    return f"{len(inspected)} runs" + (f" of {n_configs} configs" if n_configs < len(inspected) else "")


def _contents(slugs: Sequence[str], titles: Sequence[str]) -> str:
    """The contents; parts in a row with titles that begin alike (`Compared over seeds: …`) are one folded entry."""
    entries = []
    for start, of_start in groupby(zip(slugs, titles, strict=True), key=lambda part: part[1].split(": ")[0]):
        links = [(at, title) for at, title in of_start]
        if len(links) > MOST_ALIKE:
            inner = "".join(_entry(at, title.removeprefix(f"{start}: ")) for at, title in links)
            folded = f"<details><summary>{escape(start)} ({len(links)})</summary><ol>{inner}</ol></details>"
            entries.append(f"<li>{folded}</li>")
        else:
            entries += [_entry(at, title) for at, title in links]
    return "".join(entries)


def _entry(at: str, title: str) -> str:
    return f'<li><a href="#{at}">{escape(title)}</a></li>'


def _said(found: Sequence[str], claims: Lines) -> Iterator[Part]:
    """What was found, and the verdicts on each claim."""
    if found:
        yield "What was found", f"<ul class='found'>{''.join(f'<li>{escape(each)}</li>' for each in found)}</ul>"
    if not claims:
        return
    parts = [f"<p>{escape(CLAIMS_HEADING)}</p>"]
    for name, lines in claims:
        items = "".join(f"<li>{'<br>'.join(map(escape, line))}</li>" for line in lines)
        open_ = " open" if len(claims) <= MOST_OPEN else ""
        parts.append(f"<details{open_}><summary>{escape(name)}</summary><ul>{items}</ul></details>")
    yield "Claims", "".join(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" if name else "<td></td>" for name in heads)
    body = "".join(
        f"<tr><th>{escape(label)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for label, *cells in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _comparisons(differences: pd.DataFrame | None, groups: Sequence[OverSeeds], names: Sequence[str]) -> Iterator[Part]:
    """A part for the two runs compared, and for every two groups of seeds: how it was made, and the first rows."""
    compared: list[tuple[str, str, pd.DataFrame, Sequence[str]]] = []
    if differences is not None:
        compared.append(("The two runs compared", comparison_heading(differences), differences, names))
    for one in groups:
        sides = (one.first, one.second)
        compared.append((f"Compared over seeds: {one.second}", over_seeds_heading(one), one.differences, sides))
    for title, text, table, pair in compared:
        shown = _table(["", *pair, "difference", "n", "p", "p (Holm)"], difference_rows(table))
        yield title, f"<p>{escape(text)}</p>{shown}"


def _runs(inspected: Sequence[Inspected]) -> str:
    """Each run's task and settings, and what could not be measured, with the reason; folded away."""
    lines = []
    for one in inspected:
        settings = ", ".join(f"{key}={value}" for key, value in one.run.config.task.items())
        lines.append(harmless(f"{one.name}: {one.run.config.preset or 'own config'}, task {settings}"))
        if not one.run.names_its_config:
            lines.append("  its weights do not say which config they were trained with: its config.json is believed")
        lines += [f"  not measured: {name}: {harmless(why)}" for name, why in one.left_out.items()]
    n = sum(len(one.left_out) for one in inspected)
    words = "Tasks and settings" + (f", and {n} measures that do not apply" if n else "")
    return f"<details><summary>{words}</summary><pre>{escape(chr(10).join(lines))}</pre></details>"


def _section(section: Section) -> str:
    shown = "".join(
        figure.update_layout(template="plotly_white").to_html(
            full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
        )
        for figure in section.drawn
    )
    drawing = "" if section.drawing is None else section.drawing.page()
    plots = f'<div class="wide"><div class="plots">{shown}</div></div>' if shown else ""
    return f"<p>{escape(section.text)}</p>{drawing}{plots}"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
html {{ scroll-behavior: smooth; }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; margin: 0; }}
main {{ max-width: 1500px; margin: 2rem auto; padding: 0 1.5rem; min-width: 0; }}
h1 {{ font-size: 1.6rem; margin-bottom: 0; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.2rem; margin-top: 2.5rem; scroll-margin-top: 1rem; }}
ul {{ margin: 0; padding-left: 1.2rem; max-width: 100ch; }}
p, pre {{ color: #555; max-width: 100ch; white-space: pre-wrap; }}
.found {{ font-size: 1.1rem; }} .found li {{ margin-bottom: .5rem; }}
.found li:last-child {{ color: #555; font-size: 1rem; }}
.wide {{ overflow-x: auto; }} .plots {{ min-width: 720px; }}
table {{ border-collapse: collapse; margin: 1.5rem 0; }}
th, td {{ padding: .2rem 1.2rem .2rem 0; text-align: right; border-bottom: 1px solid #e5e5e5; }}
th:first-child {{ text-align: left; font-weight: 400; white-space: pre; position: sticky; left: 0; background: #fff; }}
td {{ font-variant-numeric: tabular-nums; white-space: nowrap; }}
summary {{ cursor: pointer; font-weight: 600; }} details {{ margin: .6rem 0; }}
nav {{ font-size: .9rem; padding: 1rem 1.5rem 0; }}
nav details {{ margin: 0; }} nav li details ol {{ padding-left: .8rem; }}
nav li summary {{ font-weight: 400; color: #0072b2; }}
nav ol {{ list-style: none; margin: .4rem 0 0; padding: 0; }} nav li {{ margin-bottom: .3rem; line-height: 1.3; }}
nav a {{ color: #0072b2; text-decoration: none; }} nav a:hover {{ text-decoration: underline; }}
@media (min-width: 1200px) {{
  body {{ display: grid; grid-template-columns: 15rem minmax(0, 1fr); }}
  nav {{ position: sticky; top: 0; height: calc(100vh - 2rem); overflow-y: auto; border-right: 1px solid #e5e5e5; }}
  main {{ margin: 2rem 0; padding: 0 2rem; }}
}}
@media print {{ nav {{ display: none; }} }}
</style>
<script>{plotly}</script></head>
<body><nav aria-label="Contents"><details id="contents"><summary>Contents</summary><ol>{contents}</ol></details></nav>
<script>
// Beside the text they are unfolded; above it they would take the screen that what was found is read on.
const beside = matchMedia("(min-width: 1200px)"), fold = () => {{ contents.open = beside.matches; }};
beside.onchange = fold; fold();
</script>
<main><h1>{title}</h1><p>{made}</p>
{parts}
</main></body></html>"""
