"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version

import pandas as pd
from plotly.offline import get_plotlyjs

from workbench.inspection import Inspected
from workbench.report.claims import Lines
from workbench.report.comparisons import OverSeeds, comparison_heading, difference_rows, over_seeds_heading
from workbench.report.sections import Section
from workbench.report.table import CLAIMS_HEADING, Row
from workbench.util.messages import harmless


def page(
    inspected: Sequence[Inspected],
    summary: tuple[Sequence[str], Sequence[Row]],
    claims: Lines,
    sections: Sequence[Section],
    compared: tuple[pd.DataFrame | None, Sequence[OverSeeds]],
    made: str,
) -> str:
    """The whole page.

    Args:
        inspected: the runs.
        summary: the names of the table's columns, and its rows.
        claims: the verdicts on each claim: a heading for each run, and lines.
        sections: the figures.
        compared: the comparison of two runs, if there are two, and those of groups of seeds.
        made: how the numbers were made.
    """
    names = [one.name for one in inspected]
    columns, rows = summary
    made += f"; workbench {version('workbench')}, PyTorch {version('torch')}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return _PAGE.format(
        title=escape(" · ".join(names)),
        plotly=get_plotlyjs(),
        made=escape(made),
        table=_table(["", *columns], [[label, *cells] for label, cells in rows]),
        comparison=_comparisons(*compared, names),
        claims=_claims(claims),
        runs=escape("\n".join(map(_about, inspected))),
        sections="\n".join(map(_section, sections)),
    )


def _claims(claims: Lines) -> str:
    if not claims:
        return ""
    parts = [f"<section><h2>Claims</h2><p>{escape(CLAIMS_HEADING)}</p>"]
    for name, lines in claims:
        items = "".join(f"<li>{'<br>'.join(map(escape, line))}</li>" for line in lines)
        parts.append(f"<h3>{escape(name)}</h3><ul>{items}</ul>")
    return "".join([*parts, "</section>"])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        f"<tr><th>{escape(label)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for label, *cells in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _comparisons(differences: pd.DataFrame | None, groups: Sequence[OverSeeds], names: Sequence[str]) -> str:
    made = []
    if differences is not None:
        made.append(_comparison("The two runs compared", comparison_heading(differences), differences, names))
    for one in groups:
        made.append(
            _comparison("Compared over seeds", over_seeds_heading(one), one.differences, (one.first, one.second))
        )
    return "\n".join(made)


def _comparison(title: str, text: str, differences: pd.DataFrame, names: Sequence[str]) -> str:
    shown = _table(["", *names, "difference", "n", "p", "p (Holm)"], difference_rows(differences))
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{shown}</section>"


def _about(one: Inspected) -> str:
    """A run's config in a line, then what could not be measured of it, with the reason."""
    settings = ", ".join(f"{key}={value}" for key, value in one.run.config.task.items())
    lines = [harmless(f"{one.name}: {one.run.config.preset or 'own config'}, task {settings}")]
    lines += [f"  not measured: {name}: {harmless(why)}" for name, why in one.left_out.items()]
    return "\n".join(lines)


def _section(section: Section) -> str:
    shown = "".join(
        figure.update_layout(template="plotly_white").to_html(
            full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
        )
        for figure in section.drawn
    )
    return f"<section><h2>{escape(section.title)}</h2><p>{escape(section.text)}</p>{shown}</section>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; }}
body {{ max-width: 1120px; margin: 2rem auto; padding: 0 1.5rem; }}
h1 {{ font-size: 1.6rem; margin-bottom: 0; }} h2 {{ font-size: 1.2rem; margin-top: 2.5rem; }}
h3 {{ font-size: 1rem; margin-bottom: .3rem; }} ul {{ margin: 0; padding-left: 1.2rem; max-width: 100ch; }}
p, pre {{ color: #555; max-width: 80ch; white-space: pre-wrap; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin: 1.5rem 0; }}
th, td {{ padding: .2rem 1.2rem .2rem 0; text-align: right; border-bottom: 1px solid #e5e5e5; }}
th:first-child {{ text-align: left; font-weight: 400; white-space: pre; }}
td {{ font-variant-numeric: tabular-nums; white-space: nowrap; }}
</style>
<script>{plotly}</script></head>
<body><h1>{title}</h1><p>{made}</p>
{claims}
{table}
<pre>{runs}</pre>
{comparison}
{sections}
</body></html>"""
