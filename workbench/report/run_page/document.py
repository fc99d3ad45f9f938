"""The page of one run as HTML: each part only where the run has it, first what there is to say, then its picture."""

from __future__ import annotations

import gzip
import json
import platform
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from workbench.figures import scripts
from workbench.figures.training_film import film_steps
from workbench.inspection.found import BESIDE
from workbench.inspection.learning_curves import logged_on
from workbench.interventions import Head
from workbench.judgement.words.figures import learnt
from workbench.judgement.words.findings import at_a_glance, focus, how_sure, no_claim, statements
from workbench.mechanisms import sentence
from workbench.report.circuits import SHOWS
from workbench.report.pairs import PAIRS
from workbench.report.run_page.contents import Contents
from workbench.report.story import CLAIM_LIMITS, LEARNT, LIMITS, TITLES
from workbench.util.distribution import version
from workbench.util.html_file import in_html
from workbench.util.messages import harmless
from workbench.util.words import capitalised

CELLS = (
    "A cell shows the residual's top token, underlined where it is right, which does not show that the model uses it."
)
HOPS = "Point at a token, or move it with ← →, to follow what it reads; γ is the weight of each further hop."
NO_SCRIPT = "<p>The drawings need JavaScript, which is in this page.</p>"
ARRIVES = "Mass that arrives somewhere does not show that it is used."


def document(holds: Contents, heads: Sequence[Head]) -> str:
    """The whole page, with the attention of some heads."""
    data = holds.data(heads)
    script = ""
    for name in ("clicks", "film"):  # each as a function of this name, which shares nothing with the others
        source = scripts.source(name).replace("export default function", "function component")
        script += f"const {name} = (() => {{\n{source}\nreturn component\n}})()\n"
    script += _file("page.js")
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}"
    packed = b64encode(gzip.compress(json.dumps(data, allow_nan=False).encode(), mtime=0)).decode()
    body = f"{_header(holds)}<main><noscript>{NO_SCRIPT}</noscript>{''.join(_sections(holds, data, heads))}</main>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{in_html(holds.run.name)} · workbench</title>'
        f"<style>{scripts.source('style')}\n{_file('page.css')}</style></head><body>{body}"
        f'<script type="application/octet-stream" id="packed">{packed}</script><script>{script}</script></body></html>'
    )


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _header(holds: Contents) -> str:
    """What was found: in one sentence first, then in all of them, and as a table."""
    said, (name, brief) = statements(holds.told), at_a_glance(holds.told)
    claim = next((one.claims[0] for one in said if one.brief), None)
    more = [f"The claim: {sentence(claim)}"] if claim else []
    more += [one.text for one in said if "answers" in one.chips]
    every = [*(one.text for one in said), focus(holds.told.focus) or "", how_sure([holds.told])]
    table = pd.DataFrame(holds.claims).map(harmless).to_html(index=False, border=0) if holds.claims else ""
    return (
        f'<header><p class="run">{in_html(holds.run.name)} · {in_html(capitalised(holds.run.task().summary))}</p>'
        f"<h1>{in_html(f'{name}: {brief}.' if name else no_claim(holds.told))}</h1><p>{in_html(' '.join(more))}</p>"
        f"<details><summary>All that was found: {len(said)} statement{'s' * (len(said) != 1)}, with n and controls"
        f"</summary><ul>{''.join(f'<li>{in_html(one)}</li>' for one in every if one)}</ul>"
        f'<div class="wide" tabindex="0" role="group" aria-label="Every claim">{table}</div>'
        f'<p class="limits">{in_html(CLAIM_LIMITS)}</p></details></header>'
    )


def _sections(holds: Contents, data: Mapping[str, Any], heads: Sequence[Head]) -> Iterator[str]:
    """The parts below what was found; the script fills in their drawings."""
    if holds.seen:
        grid = data["inputs"][0]["grid"]
        some = (
            f", {len(heads)} of {len(holds.heads)} of which are in this page" if len(heads) < len(holds.heads) else ""
        )
        yield _look(f"Click a head{some}, or ← →: {grid['says']}." if grid else "")
    if any(one["hops"] for one in data["inputs"]):
        yield _section("hops", "Hop by hop", HOPS, ARRIVES)
    if data["film"]:
        labels = data["film"]["data"]["labels"]
        limits = f"The first input at every checkpoint, one head throughout. {LIMITS['asked']}"
        yield _section("film", "Watch it learn", capitalised(f"{labels[0]}; {labels[-1]}."), limits)
    yield f'<div class="charts">{"".join(_of_many(holds, data["charts"]))}</div>'
    if data["circuit"] and holds.circuit is not None:
        lead, _, rest = holds.circuit.says.partition("\n")
        more = f"<details><summary>All about the circuit</summary><pre>{in_html(rest)}</pre></details>"
        yield _section("circuit", "Which edges carry the answer?", lead, SHOWS.format(n=PAIRS), more)
    buttons = "".join(f'<button data-file="{in_html(name)}">{in_html(name)}</button>' for name in data["files"])
    yield f'<section><h2>The numbers</h2><p class="files">{buttons}</p></section>{_made(holds, heads)}'


def _section(place: str, title: str, lead: str, limits: str, more: str = "") -> str:
    """A heading, what there is to say, its picture, what that does not show, and more to unfold."""
    return (
        f'<section><h2>{in_html(title)}</h2><p>{in_html(lead)}</p><div id="{place}"></div>'
        f'<p class="limits">{in_html(limits)}</p>{more}</section>'
    )


def _look(heads: str) -> str:
    """The canvas: buttons for the input, and the heads to choose from, if there are several."""
    grid = f'<p class="limits">{in_html(heads)}</p><div id="grid"></div>' if heads else ""
    return (
        '<section id="look"><div class="bar"><h2 id="canvas-title"></h2><button id="before" aria-label="Input before">‹'
        '</button><button id="after" aria-label="Next input">›</button><span id="which" role="status"></span></div>'
        '<p class="limits" id="canvas-says"></p><div id="canvas"></div><p class="limits" id="cell" role="status"></p>'
        f'{grid}<p class="limits">{in_html(LIMITS["asked"])} {in_html(CELLS)}</p></section>'
    )


def _of_many(holds: Contents, drawn: Mapping[str, Any]) -> Iterator[str]:
    """What was measured of many inputs, each with its sentence."""
    said = {chip: one.text for one in statements(holds.told) for chip in one.chips}
    when = learnt(holds.curves, holds.run.task()) if "learnt" in drawn else None
    logged = f"One seed, as it was logged, on {logged_on(holds.run)}." if "learnt" in drawn else ""
    parts = {
        "entropy": (TITLES["spread"], said.get("spread"), LIMITS["spread"]),
        "learnt": (LEARNT, when, logged),
        "accuracy": (TITLES["answers"], said.get("answers"), LIMITS["answers"]),
    }
    for name, (title, lead, limits) in parts.items():
        if name in drawn:
            yield _section(name, title, lead or "", limits)


def _made(holds: Contents, heads: Sequence[Head]) -> str:
    """How the page was made, and what it leaves out."""
    run, left_out = holds.run, []
    if not holds.seen:
        left_out.append(f"Inputs and attention: {holds.inspected.example.subject.no_pattern}.")
    elif len(heads) < len(holds.heads):
        left_out.append(f"{len(holds.heads) - len(heads)} of {len(holds.heads)} heads on the canvas.")
    if more := len(holds.steps) - len(film_steps(holds.steps)):
        left_out.append(f"{more} of {len(holds.steps)} checkpoints.")
    if holds.circuit is None:
        left_out.append(f"The circuit, which takes long to find: `workbench circuit {run.name}` does.")
    elif holds.circuit.summary is None:
        left_out.append(f"The circuit: {holds.circuit.why}.")
    left_out += [f"{what}: {why}." for what, why in holds.inspected.left_out.items() if what in BESIDE]
    made = f"workbench {version()}, PyTorch {torch.__version__}, Python {platform.python_version()}"
    about = {
        "Command": f"workbench export {run.name} --page {run.name}.html",
        "Measured": holds.when,
        "Weights": f"step {run.step():,} of {run.config.steps:,}; preset {run.config.preset or 'none, an own config'}",
        "Made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC with {made}",
        "Not in this page": " ".join(left_out) or "Nothing that such a page holds was left out.",
    }
    rows = "".join(f"<dt>{key}</dt><dd>{in_html(value)}</dd>" for key, value in about.items())
    return (
        f"<section><h2>How it was made</h2><dl>{rows}</dl><details><summary>Config</summary>"
        f"<pre>{in_html(holds.config)}</pre></details></section>"
    )
