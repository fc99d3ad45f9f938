"""Mechanisms: how often each claim holds, overall and by length, beside its controls; and their causal tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from workbench.figures.attention_graph import knockout
from workbench.figures.curves import interval, sample_size
from workbench.figures.runs_and_controls import Controls, Runs, controls_of, dots, each_control
from workbench.figures.style import BLUE, CHANGED, DASHES, GREY, PALETTE, SYMBOLS, framed
from workbench.measurement import Measurement
from workbench.measurement.controls import control_in_words
from workbench.measurement.places import at_point, place_in_words

STRONGEST = "the one that is hardest to exceed at each place, by its interval, named beside its bar"
NARROWEST = 760  # pixels that a figure's legend has on a page of 1280


def mechanisms(runs: Mapping[str, Sequence[tuple[Measurement, Measurement]]]) -> go.Figure:
    """How often each mechanism's claim holds, with its control beside it: a filled and a hatched bar.

    Args:
        runs: run -> pairs of (score, control), each averaged over examples; of whatever dims are left. The `labels` of
            a control may name which one it is at each place.
    """
    figure = go.Figure()
    n_bars = 0
    named: list[tuple[int, str, float, str]] = []
    for i, (run, pairs) in enumerate(runs.items()):
        colour = PALETTE[i % len(PALETTE)]
        for which, suffix, shape in ((0, "", ""), (1, ", control", "/")):
            rows = [row for pair in pairs for row in bars(pair[which])]
            if not rows:
                continue
            names, values, below, above = zip(*rows, strict=True)
            n_bars += len(rows)
            for m in (pair[which] for pair in pairs):
                at = [row[0] for row in bars(m)]
                figure.add_traces(dots(m, at, GREY, ~np.isnan(m.values), across=True, group=run + suffix))
            figure.add_bar(
                y=names,
                x=values,
                error_x={"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.5},
                orientation="h",
                name=run + suffix,
                offsetgroup=run + suffix,
                marker={"color": colour, "opacity": 0.55 if which else 1.0, "pattern": {"shape": shape}},
            )
            named += [(2 * i + which, *each) for pair in pairs for each in _control_names(pair[which])]
    control = STRONGEST if named else "hatched"
    subtitle = f"share of cases in which the claim holds; control: {control}; 95 % intervals"
    framed(figure, "Mechanisms", subtitle, height=220 + 20 * n_bars).update_layout(scattermode="group")
    figure.update_xaxes(title="share of cases", range=[0, 1.17 if named else 1.03], tickformat=".0%")
    thick = 0.8 * (34 + 20 * n_bars) / max(n_bars, 1)  # of a bar, in pixels
    for bar, place, end, name in named:
        where = {"x": end, "y": place, "xanchor": "left", "xshift": 5, "yshift": (len(runs) - 0.5 - bar) * thick}
        figure.add_annotation(text=name, showarrow=False, font={"size": 11, "color": GREY}, **where)
    return figure.update_yaxes(autorange="reversed", automargin=True)


def _control_names(m: Measurement) -> list[tuple[str, float, str]]:
    """(label of its bar, where the bar's interval ends, its name) of each control that has a name of its own."""
    if m.labels is None:
        return []
    names = [str(name) for name in m.labels.reshape(-1)[~np.isnan(m.values.reshape(-1))]]
    ends = [(label, value + above) for label, value, _, above in bars(m)]
    return [(label, end, control_in_words(name, short=True)) for (label, end), name in zip(ends, names, strict=True)]


def bars(m: Measurement) -> list[tuple[str, float, float, float]]:
    """(label, value, distance to low, distance to high) of every value that is defined."""
    rows = []
    for index in np.ndindex(*m.values.shape):
        value = float(m.values[index])
        if np.isnan(value):
            continue
        place = place_in_words({dim: m.coords[dim][i] for dim, i in zip(m.dims, index, strict=True)})
        low = value if m.low is None else float(m.low[index])
        high = value if m.high is None else float(m.high[index])
        rows.append((f"{m.name}, {place}" if place else m.name, value, value - low, high - value))
    return rows


def mechanism_rates(runs: Runs, controls: Controls) -> list[go.Figure]:
    """How often one claim holds by length (or another group), runs overlaid, controls dashed in their run's colour.

    Figures 4.15 and 4.16 of the task-hinting paper. One figure for each place at which the claim is read.

    Args:
        runs: run -> a mechanism's score averaged over the examples of each group: the first dim is the group.
        controls: run -> control -> the same of that control.
    """
    first = next(iter(runs.values()))
    figures = []
    for index in np.ndindex(*first.values.shape[1:]):
        place = {dim: first.coords[dim][i] for dim, i in zip(first.dims[1:], index, strict=True)}
        here = {run: m.select(**place) for run, m in runs.items()}
        figures.append(_rates(here, each_control(controls, lambda m, place=place: m.select(**place))))  # type: ignore[misc]
    return figures


def _rates(runs: Runs, controls: Controls) -> go.Figure:
    first = next(iter(runs.values()))
    group, in_a_row = first.dims[0], 1
    figure = go.Figure()
    for i, (run, m) in enumerate(runs.items()):
        own = controls_of(run, controls)
        in_a_row = max(in_a_row, 1 + len(own))
        _add_rate(figure, run, m, PALETTE[i % len(PALETTE)], SYMBOLS[i % len(SYMBOLS)], DASHES[0])
        for j, (null, control) in enumerate(own.items()):
            colour, symbol = PALETTE[i % len(PALETTE)], SYMBOLS[i % len(SYMBOLS)] + "-open"
            _add_rate(figure, f"{run}, {null}", control, colour, symbol, DASHES[1 + j % (len(DASHES) - 1)])
    where = _where(first)
    subtitle = "; ".join([*where, f"{sample_size(runs, each=group)}", "bars are 95 % intervals"])
    framed(figure, f"{first.name}, by {group}", subtitle, of=", ".join(where))
    longest = max(len(line.name) for line in figure.data if line.showlegend is not False)
    columns = in_a_row if in_a_row * (45 + 6.2 * longest) < NARROWEST else 2  # a row for each run, where it has room
    rows = -(-sum(line.showlegend is not False for line in figure.data) // columns)
    legend = {"entrywidthmode": "fraction", "entrywidth": 0.98 / columns}
    figure.update_layout(legend=legend, margin={"b": 70 + 20 * rows}, height=380 + 20 * rows)
    figure.update_yaxes(title="share of cases in which it holds", range=[-0.03, 1.03], tickformat=".0%")
    labels = sorted({label for m in runs.values() for label in m.coords[group]})
    return figure.update_xaxes(title=group, **({"tickvals": labels} if len(labels) <= 32 else {}))


def _add_rate(figure: go.Figure, name: str, m: Measurement, colour: str, symbol: str, dash: str) -> None:
    main = dash == DASHES[0]
    bars = interval(m)
    if main:
        figure.add_traces(dots(m, list(m.coords[m.dims[0]]), colour))
    figure.add_scatter(
        x=list(m.coords[m.dims[0]]),
        y=m.values,
        error_y=bars if main or bars is None else {**bars, "thickness": 1, "width": 0},
        name=name,
        mode="lines+markers",
        line={"color": colour, "width": 2.5 if main else 1.2, "dash": dash},
        marker={"symbol": symbol, "size": 8 if main else 6},
        opacity=1.0 if main else 0.75,
    )


def _where(m: Measurement) -> list[str]:
    """Where and in which basis a claim was read, in words."""
    given = {name: m.settings.get(name) for name in ("layer", "head", "point", "basis")}
    words = {"layer": "layer {}", "head": "head {}", "point": "{}", "basis": "{} basis"}
    return [
        words[name].format(at_point(value) if name == "point" else value)
        for name, value in given.items()
        if value is not None
    ]


Tests = Mapping[str, Mapping[str, Measurement]]
"""Run -> mechanism -> its causal test, averaged over examples."""


def causal(runs: Tests) -> list[go.Figure]:
    """Every run's tests in one figure; of chains, which have one for each hop, all runs in another."""
    plain = {run: [test for test in tests.values() if test.dims == ("edit", "outcome")] for run, tests in runs.items()}
    hops = {run: test for run, tests in runs.items() for test in tests.values() if "hop" in test.dims}
    drawn = causal_tests({run: tests for run, tests in plain.items() if tests})
    return drawn + (knockout(hops, {}) if hops else [])


def causal_tests(runs: Mapping[str, Sequence[Measurement]]) -> list[go.Figure]:
    """What edits of the claimed thing do to answers, and edits elsewhere: one figure a run, its mechanisms in rows.

    A true claim has all answers as claimed after the claimed edit, and none changed after the one elsewhere.

    Args:
        runs: run -> `causal(...)` of its mechanisms, averaged over examples: dims `edit`, `outcome`.
    """
    return [_causal(run, tests) for run, tests in runs.items()]


def _causal(run: str, tests: Sequence[Measurement]) -> go.Figure:
    figure = go.Figure()
    rows = [(test, edit) for test in tests for edit in test.coords["edit"]]
    above = np.repeat(range(1, 1 + len(tests)), [len(test.coords["edit"]) for test in tests])  # headings, a row each
    height = np.arange(len(rows)) + above
    for outcome, colour, symbol, shift in (
        ("as claimed", BLUE, "circle", -0.15),
        ("changed", CHANGED, "diamond", 0.15),
    ):
        parts = [test.select(edit=edit, outcome=outcome) for test, edit in rows]
        values, low, high = (np.array([getattr(part, name) for part in parts]) for name in ("values", "low", "high"))
        for part, at in zip(parts, height + shift, strict=True):
            figure.add_traces(dots(part, [at], colour, across=True))
        figure.add_scatter(
            x=values,
            y=height + shift,
            error_x={"type": "data", "symmetric": False, "array": high - values, "arrayminus": values - low},
            name=f"answer {outcome}",
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 10},
            customdata=[f"{test.name}, {edit}" for test, edit in rows],
            hovertemplate="%{customdata}: %{x:.1%}",
        )
    subtitle = (
        f"{run}: answers that were right, after edits of the claimed thing and elsewhere; bars are 95 % intervals"
    )
    framed(figure, "Causal tests of mechanisms", subtitle, height=190 + 30 * (len(rows) + len(tests)), of=run)
    for i, test in enumerate(tests):
        top = height[above == i + 1].min() - 0.85
        heading = {"x": 0, "xref": "paper", "xanchor": "left", "y": top, "showarrow": False, "font": {"size": 13}}
        figure.add_annotation(text=f"<b>{test.name}</b>", **heading)
    counts = [test.select(edit=edit, outcome="changed").n for test, edit in rows]
    labels = [edit if n is None else f"{edit} (n = {int(n)})" for (_, edit), n in zip(rows, counts, strict=True)]
    figure.update_yaxes(tickvals=height, ticktext=labels, range=[height.max() + 0.6, -0.4], automargin=True)
    return figure.update_xaxes(title="share of the answers tested", range=[-0.03, 1.03], tickformat=".0%")
