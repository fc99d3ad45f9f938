"""The picture of what the workbench measures of the golden runs: numbers, and apart from them words and verdicts.

Everything is asked as a user asks it, by the command line or the names of `workbench`: the rooms behind may change.
"""

from __future__ import annotations

import contextlib
import csv
import html
import io
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import torch

import workbench
from tests.conftest import plugins_restored
from workbench.cli import main

HERE = Path(__file__).parent
PLUGIN = ("--plugin", "given/parts.py")
NUMBERS, WORDS = "numbers", "words"
ARRAYS = ("value", "low", "high", "n")
OF_THE_RULE = ("nulls",)  # of a finding of probes: what its verdict is held against
DRAWS = ("-untrained-each", "-shuffled-each")  # files with each uninformed model: the rule of the verdict has them
MADE = re.compile(r"; workbench \S+, PyTorch \S+; \S+ \S+ UTC$")  # when a report was made, by which versions

Picture = dict[str, Any]
"""JSON-ready."""


@contextmanager
def copied(to: Path) -> Iterator[Path]:
    """A copy of the golden folders as the current folder: what is written there leaves them as they are."""
    with plugins_restored():
        shutil.copytree(HERE, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.pyc", "__pycache__"))
        with chdir(to):
            yield to


def said(arguments: Sequence[str]) -> tuple[int, str, str]:
    """The exit code, output and errors of a command."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main(arguments)
        except SystemExit as end:  # of --help
            code = int(end.code or 0)
    return code, out.getvalue(), errors.getvalue()


def _done(*arguments: str) -> list[str]:
    """The lines that a command prints; it must not fail."""
    code, out, errors = said([*arguments, "--quiet"] if arguments[0] != "circuit" else arguments)
    assert code == 0, f"workbench {' '.join(arguments)}: {errors}"
    return out.splitlines()


def runs() -> list[str]:
    """Every run folder, those of stacks and of studies too."""
    folders = [path.parent for folder in ("runs", "studies") for path in Path(folder).rglob("config.json")]
    return sorted(map(str, folders))


def opened(folder: str) -> Picture:
    """What a run's model gives on eight sequences of its task: of its last weights and of every checkpoint."""
    run = workbench.load_run(folder)
    batch = run.task().sample(8, workbench.generator(0))
    picture: Picture = {"step": run.step(), "finished": run.finished, "logged": _last(run.metrics())}
    for step in (None, *run.checkpoints()):
        with torch.no_grad():
            logits = run.model(step)(batch.tokens).double()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="none")
        scored = batch.loss_mask.flatten()
        picture["at the end" if step is None else f"at step {step}"] = {
            "loss": float((loss * scored).sum() / scored.sum()),
            "square": float(logits.square().mean()),
            "logits": logits[0, -1, :8].tolist(),
        }
    return picture


def _last(metrics: Any) -> Picture:
    """The last line of a log that has each figure, but for times."""
    figures = {name: column.dropna() for name, column in metrics.items()}
    return {name: float(column.iloc[-1]) for name, column in figures.items() if len(column) and name != "seconds"}


def opened_model(folder: str) -> Picture:
    """What a model that was fine-tuned gives on a line of text."""
    model = workbench.load_model(folder, progress=False)
    with torch.no_grad():
        logits = model(torch.arange(40, 56)[None]).double()
    return {
        "attention": [layer.name for layer in model.attention],
        "square": float(logits.square().mean()),
        "logits": logits[0, -1, :8].tolist(),
    }


def inspected(name: str, *options: str) -> Picture:
    """The numbers and words of `workbench inspect` of a run."""
    told = _done("inspect", f"runs/{name}", "--out", f"inspected/{name}", *options)
    data = Path("inspected", name, "data")
    picture = _measurements(sorted(data.rglob("*.json")), data)
    page = Path("inspected", name, "report.html").read_text(encoding="utf-8")
    return {NUMBERS: picture[NUMBERS], WORDS: {"said": told, "report": _text(page), **picture[WORDS]}}


def _measurements(files: Iterable[Path], folder: Path) -> Picture:
    """Measurements as they were written: of those behind a verdict's limit only what they are, no numbers."""
    numbers, words = {}, {}
    for file in files:
        name, data = str(file.relative_to(folder).with_suffix("")), json.loads(file.read_text(encoding="utf-8"))
        if "rows" in data:
            picture = measurement(data)
            words[name] = picture[WORDS]
            if not name.endswith(DRAWS):
                numbers[name] = picture[NUMBERS]
    return {NUMBERS: numbers, WORDS: words}


def measurement(data: Picture) -> Picture:
    """The JSON of a measurement: its dims and arrays as numbers; its name, caption, labels and settings as words."""
    rows, dims = data["rows"], data["dims"]
    arrays = {name: [row[name] for row in rows] for name in ARRAYS if rows and name in rows[0]}
    coords = {dim: list(dict.fromkeys(row[dim] for row in rows)) for dim in dims}
    words = {name: data[name] for name in ("name", "units", "caption", "settings")} | {"labels": coords}
    if rows and "label" in rows[0]:
        words["results"] = [row["label"] for row in rows]
    return {NUMBERS: {"dims": dims, **arrays}, WORDS: words}


def _text(page: str) -> list[str]:
    """The words of an HTML page, a line for each element, without those of its figures."""
    page = re.sub(r"<(script|style|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r"</?(b|i|a|em|strong|code|span|sup|sub)\b[^>]*>", "", page)
    lines = (" ".join(html.unescape(part).split()) for part in re.split(r"<[^>]*>", page))
    return [MADE.sub("", line) for line in lines if line]


def probed(name: str, preset: str, *options: str) -> Picture:
    """The numbers and words of `workbench probe` of a run."""
    told = _done("probe", f"runs/{name}", preset, "--out", f"probed/{name}", *options)
    with Path("probed", name, "probe.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers: Picture = {}
    for row in rows:
        at = ", ".join(value for key, value in row.items() if key not in (*ARRAYS, "run"))
        numbers[at] = [float(row[key] or "nan") for key in ARRAYS]
    findings = json.loads(Path("probed", name, "probe.json").read_text(encoding="utf-8"))["findings"]
    words: Picture = {"said": told, "findings": {}}
    for finding in findings:
        place, measured = " at ".join(filter(None, (finding["label"], finding["place"]))), _of_finding(finding)
        numbers |= {f"{place}, {name}": one[NUMBERS] for name, one in measured.items() if name not in OF_THE_RULE}
        beside = {name: one[WORDS] | (one if name in OF_THE_RULE else {}) for name, one in measured.items()}
        words["findings"][place] = {key: value for key, value in finding.items() if key not in measured} | beside
    return {NUMBERS: numbers, WORDS: words}


def _of_finding(finding: Picture) -> dict[str, Picture]:
    """The measurements of a finding, by name."""
    return {name: measurement(one) for name, one in finding.items() if isinstance(one, dict) and "rows" in one}


def circuit_of(name: str, *options: str) -> Picture:
    """The numbers and words of `workbench circuit` of a run."""
    told = _done("circuit", f"runs/{name}", *options, "--out", f"circuits/{name}")
    folder = Path("circuits", name)
    picture = _measurements(sorted(folder.glob("*.json")), folder)
    edges = json.loads((folder / "circuit.json").read_text(encoding="utf-8"))
    dot = (folder / "circuit.dot").read_text(encoding="utf-8").splitlines()
    return {NUMBERS: picture[NUMBERS] | {"circuit": edges}, WORDS: {"said": told, "dot": dot, **picture[WORDS]}}


MEASURED = {
    "inspect single, every checkpoint": lambda: inspected(
        "single", "--n", "8", "--timeline", "--only", "overall", "accuracy", "gold_mass", "entropy", "chain_following"
    ),
    "inspect learned": lambda: inspected("learned", "--n", "12", "--geometry"),
    "inspect sorter": lambda: inspected("sorter", "--n", "6"),
    "inspect own parts": lambda: inspected("own-parts", "--n", "12", *PLUGIN),
    "probe learned": lambda: probed("learned", "hops", "--n", "120"),
    "circuit of learned": lambda: circuit_of("learned", "--n", "32"),
    "circuit of sorter": lambda: circuit_of("sorter", "--n", "16"),
}
"""What is measured -> how."""


def all_opened() -> Picture:
    """Every run folder and fine-tuned model, opened."""
    workbench.load_plugins(PLUGIN[1:])
    return {folder: opened(folder) for folder in runs()} | {"tunings/tuned": opened_model("tunings/tuned")}
