"""The ledger: the results of all studies in one JSON file, and the pages that are made from it."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import numpy as np

from workbench.judgement.tuning import Tuning
from workbench.judgement.verdict import Verdict
from workbench.judgement.words.studies import in_short, sentence, tuned
from workbench.measurement import Measurement
from workbench.measurement.numbers import number, with_interval
from workbench.measurement.places import place_in_words, point_name
from workbench.studies.anew import judged_anew
from workbench.studies.engine import RESULT
from workbench.studies.result import Result, read_result
from workbench.studies.stored import read_json, write_json
from workbench.studies.study import SMALL, Figure, Study
from workbench.util.files import check_can_make, write_atomically
from workbench.util.lookup import check_told_apart
from workbench.util.messages import in_markdown

LEDGER = "ledger.json"
WIDTH, PIXELS = 900, 2
MOST_COLUMNS = 12  # of a table by length or digit


def read_ledger(path: Path) -> list[Result]:
    """The results in a ledger; none where there is no such file.

    Raises:
        ValueError: if the file is damaged.
    """
    if not path.exists():
        return []
    data = read_json(path)
    try:
        return [Result.from_dict(one) for one in data["results"]]
    except (KeyError, TypeError, ValueError) as error:
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise ValueError(
            f"{path} is not a ledger of studies{why}; delete it, and `workbench study report` writes it"
        ) from None


def collect(root: Path, studies: Mapping[str, Study]) -> list[Result]:
    """The results under a folder of studies, in the order of the studies, and of each in the order of its scales.

    Raises:
        ValueError: if a file is damaged, or is the result of another study.
    """
    places = ((root / name / scale / RESULT, study) for name, study in studies.items() for scale in study.scales)
    return [read_result(path, study) for path, study in places if os.path.lexists(path)]


def keep_earlier(results: Sequence[Result], earlier: Sequence[Result], studies: Mapping[str, Study]) -> list[Result]:
    """The results, and those of an earlier ledger for which there is no new one, in the order of the studies.

    All are judged anew from their numbers.

    Raises:
        ValueError: if the earlier ledger has a result of a study that is not among `studies`.
    """
    unknown = sorted({one.name for one in earlier} - set(studies))
    if unknown:
        raise ValueError(
            f"the ledger has a result of {', '.join(unknown)}: name the file of that study too, as in "
            f"`workbench study report {unknown[0]}.toml`, so that it can be drawn; or give another folder with --out"
        )
    by_place = {(one.name, one.scale): one for one in [*earlier, *results]}
    kept: list[Result] = []
    for name, study in studies.items():
        own = {scale: one for (its, scale), one in by_place.items() if its == name}
        order = [*study.scales, *own]  # a scale that the study has no more comes last
        kept += [judged_anew(own[scale], study) for scale in sorted(own, key=order.index)]
    return kept


def _write_pictures(figures: Mapping[str, Figure], results: Sequence[Result], out: Path) -> None:
    """The ledger, which says which files are written here, and then the pictures."""
    from workbench.figures.pictures import in_few_colours, write_pictures

    for figure in figures.values():
        figure.update_layout(template="plotly_white", paper_bgcolor="white")
    with TemporaryDirectory(prefix=".", dir=out) as place:
        write_pictures(list(figures.values()), [Path(place, name) for name in figures], width=WIDTH, scale=PIXELS)
        for name in figures:
            in_few_colours(Path(place, name))
        write_json(out / LEDGER, {"results": [result.to_dict() for result in results]})
        for name in figures:
            Path(place, name).replace(out / name)


def write_pages(results: Sequence[Result], studies: Mapping[str, Study], out: Path) -> list[Path]:
    """The ledger, a page for every study, each with its figures as pictures, and a page over all of them.

    Raises:
        ValueError: if two files would have one name, a file is there that the folder's ledger has no result for, or
            there is no browser to draw the pictures with; or if a result cannot be drawn, once all pages are written,
            that one's without a picture.
    """
    check_can_make(out / LEDGER)
    names = list(dict.fromkeys(one.name for one in results))
    files = ["index.md", *(f"{name}.md" for name in names)]
    pictures: dict[str, list[str]] = {}
    figures: dict[str, Figure] = {}
    undrawn: list[str] = []
    for one in results:
        stem = f"{one.name}-{one.scale}"
        try:
            drawn = studies[one.name].figures(one.groups)
        except ValueError as error:
            drawn = []
            undrawn.append(f"{one.name}, {one.scale}, cannot be drawn: {error}")
        pictures[stem] = [f"{stem}{'' if number == 1 else f'-{number}'}.png" for number in range(1, len(drawn) + 1)]
        figures |= dict(zip(pictures[stem], drawn, strict=True))
        files += pictures[stem]
    check_told_apart(files, "pages or pictures of studies")
    _check_replaceable(files, out)
    pages = {"index.md": index_page(results, studies)}
    for name in names:
        pages[f"{name}.md"] = study_page([one for one in results if one.name == name], pictures, studies[name])
    out.mkdir(parents=True, exist_ok=True)
    _write_pictures(figures, results, out)
    for file, text in pages.items():
        write_atomically(out / file, text.encode())
    if undrawn:
        raise ValueError(f"the pages are in {out}, but {'; '.join(undrawn)}")
    return [out / file for file in pages]


def _check_replaceable(files: Sequence[str], out: Path) -> None:
    """Raise ValueError if one of these files is in a folder and no page or picture of a result in the ledger there."""
    earlier = read_ledger(out / LEDGER)
    pages = {"index.md", *(f"{one.name}.md" for one in earlier)} if earlier else set()
    pictures = {f"{one.name}-{one.scale}" for one in earlier}
    for file in files:
        if file not in pages and re.sub(r"(-\d+)?\.png$", "", file) not in pictures and os.path.lexists(out / file):
            raise ValueError(
                f"{out / file} is there already, and {LEDGER} beside it has no such study, so it is not replaced; move "
                "it away, or give another folder"
            )


def index_page(results: Sequence[Result], studies: Mapping[str, Study]) -> str:
    """The page over all studies: a row for each result, and a list of the studies that have not run."""
    lines = [
        "# Studies",
        "",
        "Every claim of the papers that was asked again here, by one command each: `workbench study run NAME`.",
        f"This page and those behind it are made from [{LEDGER}]({LEDGER}) by `workbench study report`; no number",
        "in them is typed by hand. A difference holds where its whole 95 % interval over seeds (where nothing is",
        "trained: over sequences) says so, with room for seeds that were not seen; what all seeds, or none, should",
        "reach holds where all, or none, do, and is not settled where some do. Where neither group is right in 1 %,",
        "or all seeds lie on one plateau, nothing was learnt that could differ; where the learning curve of a group",
        "still rose at the end, training was stopped on the way. Where none rose, a difference does not hold either if",
        "its whole interval lies below half of the one that was published. Results of before every group was tuned are",
        "marked.",
        "At scale *small* it is the claim about small models that was tested, not the paper's",
        "own configuration; at scale *gpu* that configuration with fewer steps. Below each question stands the first",
        "contrast that has the study's verdict; some of a study's contrasts are checks, such as a chain of thought",
        "that has to work, and not the claim.",
        "",
    ]
    rows = []
    for one in results:
        source = "" if one.source is None else in_markdown(f"{one.source['paper']}, {one.source['place']}")
        asked = f"[{in_markdown(one.question)}]({quote(one.name)}.md)"
        asked += f"<br>{in_markdown(decided_by(one))}" if decided_by(one) else ""
        n, holding = len(one.outcomes), sum(outcome.verdict is Verdict.HOLDS for outcome in one.outcomes)
        verdict = in_short(one.verdict) + ("" if n in (1, holding) else f"; {holding} of {n} hold")
        if one.tuning is not None and one.tuning.stale:
            verdict += f"<br>{one.tuning}"
        rows.append((asked, source, in_markdown(one.scale), str(one.seeds), verdict))
    lines += _table(("study", "paper", "scale", "seeds", "verdict"), rows)
    missing = {name: study for name, study in studies.items() if name not in {one.name for one in results}}
    if missing:
        lines += ["", "Not run yet:", ""]
        lines += [f"- {in_markdown(study.question)} ({_code(name)})" for name, study in missing.items()]
    return "\n".join([*lines, ""])


def decided_by(one: Result) -> str:
    """The first contrast whose verdict is that of the whole study, in words; empty if there is none."""
    return next((sentence(outcome) for outcome in one.outcomes if outcome.verdict is one.verdict), "")


def command(result: Result, study: Study) -> str:
    """What makes a result again: the scale and the number of seeds where they are not those taken by default."""
    words = ["workbench study run", shlex.quote(study.file or result.name)]
    if result.scale != SMALL:
        words += ["--scale", shlex.quote(result.scale)]
    if result.seeds != study.seeds.get(result.scale):
        words += ["--seeds", str(result.seeds)]
    return " ".join(words)


def study_page(results: Sequence[Result], pictures: Mapping[str, Sequence[str]], study: Study) -> str:
    """The page of one study, all its scales; `pictures` are the files of `NAME-SCALE`."""
    lines = [f"# {in_markdown(results[0].question)}", ""]
    for one in results:
        if study.file:  # a note of the papers' studies is Markdown
            one = replace(one, note=in_markdown(one.note))
        lines += _scale_section(one, pictures[f"{one.name}-{one.scale}"])
    lines += ["## Ask it again", "", "```bash", *(command(one, study) for one in results), "```", ""]
    if study.runs_of is not None:
        lines += [f"Its runs are those of {_code(study.runs_of)}, where there may be more seeds.", ""]
    return "\n".join(lines)


def _scale_section(one: Result, pictures: Sequence[str]) -> list[str]:
    """One scale: its verdict, the first figure and the sentence that decided, then the other figures and the tables."""
    made = one.made
    source = "" if one.source is None else f"{one.source['paper']}, {one.source['place']}; "
    about = f"{source}{one.seeds} seeds; {made['date']}, commit {made['commit'] or 'unknown'}, "
    about += f"workbench {made['workbench']}"
    if "minutes" in made:
        about += f"; its runs, several at a time, trained for {made['minutes']:.0f} min in all"
    lines = [f"## Scale {in_markdown(one.scale)}: {one.verdict.value}", ""]
    drawn = [[f"![{in_markdown(one.question)}]({quote(picture)})", ""] for picture in pictures]
    decisive = [f"**{in_markdown(decided_by(one))}**", ""] if decided_by(one) else []
    for part in (*drawn[:1], decisive, *drawn[1:]):
        lines += part
    lines += [in_markdown(f"{about}."), ""]
    if one.outcomes:
        rows = [(in_markdown(sentence(outcome)), in_short(outcome.verdict)) for outcome in one.outcomes]
        lines += [*_table(("contrast, with its 95 % interval over seeds", "verdict"), rows), ""]
    if one.note:
        lines += [one.note, ""]
    lines += _numbers(one)
    lines += _numbers_by_place(one)
    if "step_times" in made:
        device = made.get("device", f"{made.get('cores', 'unknown')} CPU cores")
        lines += [f"The time of a training step, as a ratio, on {in_markdown(device)}:", ""]
        lines += [*(f"- {in_markdown(group)}: {ratio:.2f}" for group, ratio in made["step_times"].items()), ""]
    tuning = one.tuning or Tuning.PLANNED
    if one.tried:
        tried = dict.fromkeys(f"- {in_markdown(tuned(each))}" for each in one.tried)
        lines += [f"{tuning}:".capitalize(), "", *tried, ""]
    elif tuning.stale:
        lines += [f"{tuning}.".capitalize(), ""]
    if one.differs:
        settings = [
            (_code(each.setting), *map(in_markdown, (each.ours, each.papers, each.why))) for each in one.differs
        ]
        lines += ["What differs from the paper's configuration:", ""]
        lines += [*_table(("setting", "here", "paper", "why"), settings), ""]
    return lines


def _numbers(one: Result) -> list[str]:
    """The numbers without dims, and those beside which a paper's stands."""
    published = {(each.group, each.quantity, place_in_words(each.at)): each.value for each in one.published}
    rows: dict[tuple[str, str, str], Measurement] = {}
    for each in one.published:
        if (own := one.number(each)) is not None:
            rows[each.group, each.quantity, place_in_words(each.at)] = own
    for group, quantities in one.groups.items():
        rows |= {(group, name, ""): mean for name, mean in quantities.items() if not mean.dims}
    if not rows:
        return []
    cells = []
    for (group, quantity, place), mean in sorted(rows.items(), key=lambda row: list(one.groups).index(row[0][0])):
        what = f"{quantity}, {place}" if place else quantity
        theirs = published.get((group, quantity, place))
        shown = "" if theirs is None else in_markdown(number(theirs, mean.units))
        n = "1" if mean.n is None else str(int(mean.n))
        cells.append((in_markdown(group), in_markdown(what), shown, _mean(mean), n))
    return [*_table(("group", "quantity", "published", "here, 95 % interval", "n"), cells), ""]


def _numbers_by_place(one: Result) -> list[str]:
    """A table of each quantity of one dim, such as lengths: group by coordinate; of many coordinates every so many."""
    names = dict.fromkeys(name for quantities in one.groups.values() for name in quantities)
    lines: list[str] = []
    for name in names:
        means = {group: own[name] for group, own in one.groups.items() if name in own and len(own[name].dims) == 1}
        dims = {dim for mean in means.values() for dim in mean.dims}
        if len(dims) != 1 or "step" in dims:
            continue
        (dim,) = dims
        cells: dict[str, dict[Any, str]] = {}  # group -> coordinate -> its value in words, where there is one
        for group, mean in means.items():
            known = zip(mean.coords[dim], ~np.isnan(mean.values), strict=True)
            cells[group] = {at: _mean(mean.select(**{dim: at})) for at, is_known in known if is_known}
        measured = list(dict.fromkeys(at for mean in means.values() for at in mean.coords[dim]))
        measured = [at for at in measured if any(at in own for own in cells.values())]
        if not measured:
            continue
        columns = measured[:: -math.ceil(len(measured) / MOST_COLUMNS)][::-1]
        heads = [in_markdown(point_name(at) if isinstance(at, str) else at) for at in columns]
        rows = [[in_markdown(group), *(own.get(at, "") for at in columns)] for group, own in cells.items()]
        lines += [*_table([in_markdown(f"{name}, by {dim}"), *heads], rows), ""]
    return lines


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    return [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]


def _code(name: str) -> str:
    """A name as code, where nothing in it ends that."""
    return f"`{name}`" if re.fullmatch(r"[\w.-]+", name) else in_markdown(name)


def _mean(mean: Measurement) -> str:
    """A mean over seeds with its interval, in words, for Markdown."""
    return in_markdown(with_interval(float(mean.values), *mean.ends, mean.units))
