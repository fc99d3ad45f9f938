"""The benchmark as it is run: one file, gone on with; a page; a stranger's method; and the command line."""

from __future__ import annotations

import gzip
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench
from workbench.benchmark import run as running
from workbench.benchmark.methods import METHODS
from workbench.benchmark.page import page
from workbench.benchmark.questions import Answer, Asks, Question
from workbench.benchmark.results import Results, Row
from workbench.benchmark.run import SUITES, Suite, bench, estimate, pieces
from workbench.cli import main
from workbench.util.distribution import commit, version

TINY = Suite(("random", "eap", "probe"), ("mlp_alone", "turned_token"), 2)

STRANGER = '''
"""Two methods from outside the repository."""

from workbench.benchmark.questions import Answer, Asks
from workbench.circuits import path_patching


def patching(question):
    """Path patching with its own intervals."""
    if question.asks is not Asks.EDGES:
        return None
    mean = path_patching(question.pairs).mean()
    names = question.candidates
    ends = {n: (low, high) for n, low, high in zip(names, mean.low, mean.high) if low == low}
    return Answer(scores=dict(zip(names, mean.values)), intervals=ends)


def boasting(question):
    """The same with intervals a hundredth as wide, and none where there is an effect that it does not know well."""
    honest = patching(question)
    if honest is None:
        return None
    narrow = {}
    for name, value in honest.scores.items():
        narrow[name] = (value + 0.01, value + 0.02)
    return Answer(scores=honest.scores, intervals=narrow)


METHODS = {"stranger_patching": patching, "stranger_boasting": boasting}
'''


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUITES, "quick", TINY)


@pytest.fixture
def extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Methods that are taken away again."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


def rows(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(path.read_text())["rows"]
    return [{key: value for key, value in row.items() if key not in ("seconds", "memory")} for row in found]


def test_what_is_done_is_kept_and_gone_on_with_and_is_what_one_run_gives(tmp_path: Path) -> None:
    whole = bench(out=tmp_path / "whole.json")
    assert len(whole.done) == 3 * 2 * 2 and not whole.failures
    bench(["random", "eap"], out=tmp_path / "parts.json")
    assert len(pieces(Results.at(tmp_path / "parts.json"), (), "quick", 0)) == 4
    parts = bench(out=tmp_path / "parts.json")
    assert pieces(parts, (), "quick", 0) == [] and sorted(parts.done) == sorted(whole.done)
    key = json.dumps
    assert sorted(map(key, rows(tmp_path / "parts.json"))) == sorted(map(key, rows(tmp_path / "whole.json")))
    written = json.loads((tmp_path / "whole.json").read_text())
    assert (written["version"], written["commit"]) == (version(), commit())
    stamp = (tmp_path / "whole.json").stat().st_mtime_ns
    assert bench(out=tmp_path / "whole.json") == whole and (tmp_path / "whole.json").stat().st_mtime_ns == stamp


def test_another_seed_draws_other_subjects() -> None:
    nothing = Results(version="0")
    (mine, others) = ({piece[:2] for piece in pieces(nothing, (), "quick", seed)} for seed in (0, 1))
    assert len(mine) == 4 and not mine & others
    assert "3 methods on 4 subjects, about " in estimate(pieces(nothing, (), "quick", 0))


def test_a_mean_is_over_families_and_ties_and_what_is_not_said_are_told() -> None:
    def row(subject: str, seed: int, **values: float) -> Row:
        return Row(method="m", subject=subject, seed=seed, asks=Asks.EDGES, values=values)

    rows = [row("a", 0, edges_auroc=1.0), row("a", 1, edges_auroc=0.5), row("b", 0, edges_auroc=0.25)]
    results = Results(version="0", rows=rows, done=["m/a/0", "m/a/1", "m/b/0"])
    mean = results.mean("m", "edges_auroc")
    assert mean is not None and (mean.value, mean.families, mean.subjects) == (0.5, {"a": 0.75, "b": 0.25}, 3)
    assert mean.low is not None and mean.low < 0.25 and str(mean).startswith("0.50 [") and str(mean).endswith("n=2")
    assert results.mean("m", "edges_power") is None and "–" in results.says
    only = Results(version="0", rows=rows[:2], done=["m/a/0"]).mean("m", "edges_auroc")
    assert only is not None and only.low is None and str(only) == "0.75 n=1"


def test_of_several_files_the_later_ones_rows_count() -> None:
    def of(commit: str, **values: float) -> Results:
        rows = [
            Row(method=m, subject="a", seed=0, asks=Asks.EDGES, values={"edges_auroc": v}) for m, v in values.items()
        ]
        return Results(version="1", commit=commit, done=[f"{method}/a/0" for method in values], rows=rows)

    both = Results.merged([of("x", m=0.25, n=0.5), of("y", m=1.0)])
    assert (both.version, both.commit, both.methods) == ("1", "x, y", ["m", "n"])
    means = [both.mean(method, "edges_auroc") for method in "mn"]
    assert [mean and mean.value for mean in means] == [1.0, 0.5]
    assert Results.merged([of("x", m=0.25)]) == of("x", m=0.25)


def test_a_page_has_every_score_and_leads_from_each_cell_to_its_families(tmp_path: Path) -> None:
    results = bench(out=tmp_path / "bench.json")
    text = page(results, "`bench.json`")
    links = set(re.findall(r"\]\(#(\w+)\)", text))
    assert links and links == set(re.findall(r'<a id="(\w+)">', text))
    assert "| `mlp_alone` | 2 | Each token alone tells its whole chain" in text
    assert re.search(r"\| `eap` \| \d+ \| \d+ \| [\d.]+ \| ", text)
    (said,) = [line for line in text.splitlines() if line.startswith("1. ") and "`eap`" not in line][:1] or [""]
    assert "nan" not in text and "{" not in said
    assert len(results.table()) and json.loads(results.json())["done"] == results.done


def test_a_method_that_fails_is_said_and_the_others_go_on(tmp_path: Path, extra: None) -> None:
    def failing(question: Question) -> Answer:
        raise RuntimeError("no luck\nat all")

    METHODS["failing"] = failing
    METHODS["wrong"] = lambda question: Answer(scores={"x": 1.0})
    results = bench(["failing", "wrong", "random"], out=tmp_path / "bench.json")
    assert any("failing: RuntimeError: no luck at all" in line for line in results.failures)
    assert any("wrong: ValueError: scores name 'x', which is not asked about" in line for line in results.failures)
    assert results.mean("random", "edges_auroc") is not None and results.mean("failing", "edges_auroc") is None
    assert "no luck" in page(results, "x") and "no luck" in results.says


@pytest.mark.usefixtures("no_plugins")
def test_a_strangers_method_is_in_the_table_and_one_that_lies_of_its_certainty_is_marked_down(
    tmp_path: Path, extra: None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stranger.py"
    file.write_text(STRANGER)
    assert len(STRANGER.splitlines()) < 40
    line = ["bench", "run", "stranger_patching", "stranger_boasting", "--quiet", "--out", str(tmp_path / "b.json")]
    assert main([*line, "--plugin", str(file)]) == 0
    assert "stranger_patching" in capsys.readouterr().out
    results = Results.load(tmp_path / "b.json")
    honest, liar = (results.mean(f"stranger_{name}", "edges_coverage") for name in ("patching", "boasting"))
    assert honest is not None and liar is not None and honest.value > 0.9 > 0.1 > liar.value
    assert "stranger_boasting" in page(results, "x")


def test_a_run_costs_what_it_runs(tmp_path: Path) -> None:
    results = bench(["random", "eap", "path_patching", "eap_ig", "probe"], out=tmp_path / "bench.json")
    passes = {method: results.cost(method)["passes"] for method in results.methods}
    assert passes["random"] == 0 < passes["eap"] < passes["eap_ig"] and passes["path_patching"] > 0
    assert results.cost("eap")["sequences"] >= passes["eap"]
    assert results.cost("probe")["sequences"] >= 512 and passes["probe"] >= 2  # of one subject, which has labels


def test_results_may_be_packed_and_what_is_no_packed_result_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, plain = tmp_path / "bench.json.gz", tmp_path / "bench.json"
    results = bench(["random"], out=packed)
    results.save(plain)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes() and Results.load(packed) == Results.load(plain)
    good = packed.read_bytes()
    for data in (plain.read_bytes(), good[:-20], b"", good[:40] + b"0" * 40):
        packed.write_bytes(data)
        with pytest.raises(ValueError, match=r"bench\.json\.gz") as raised:
            Results.load(packed)
        assert "\n" not in str(raised.value)
    packed.write_bytes(good)
    monkeypatch.setattr("workbench.benchmark.results.LARGEST", 1000)
    with pytest.raises(ValueError, match="more than the 1,000 bytes that are read"):
        Results.load(packed)


def test_ctrl_c_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = running._rows

    def interrupting(method: str, name: str, seed: int) -> Iterator[Row]:
        signal.raise_signal(signal.SIGINT)
        yield from rows(method, name, seed)

    monkeypatch.setattr(running, "_rows", interrupting)
    out = tmp_path / "bench.json"
    assert main(["bench", "run", "random", "--out", str(out)]) == 130
    told = capsys.readouterr().err
    assert "interrupted: asking methods ended after 1 of 4; what is done is kept" in told
    assert not [line for line in told.splitlines() if "patching" in line or "scoring" in line]
    monkeypatch.setattr(running, "_rows", rows)
    assert len(Results.load(out).done) == 1
    assert main(["bench", "run", "random", "--out", str(out), "--quiet"]) == 0
    assert len(Results.load(out).done) == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run nosuch", "unknown method 'nosuch'"),
        ("run --suite slow", "unknown suite 'slow'"),
        ("run --seed -1", "a seed is a whole number from 0"),
        ("report nosuch.json", "there are no results at nosuch.json"),
        ("report broken.json", "broken.json: "),
        ("run random --out broken.json", "broken.json: "),
        ("run random --out older.json", "was made by another state of the workbench (0.0.1, no commit)"),
        ("report --suite quick2", "--suite is not of `workbench bench report`"),
        ("list some", "`workbench bench list` takes no 'some'"),
        ("arena", "give the folder to make with --out"),
        ("score folder", "takes a folder, a claim, and the seed"),
        ("run --out /proc/x", "nothing can be made at /proc/x"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text('{"version": 3')
    (tmp_path / "older.json").write_text('{"version": "0.0.1"}')
    assert main(["bench", *line.split()]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and error.count("\n") == 0


def test_the_command_line_lists_runs_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in METHODS) and "suite quick: 3 methods on 2 families, 2 subjects" in listed
    assert main(["bench", "run", "random", "eap", "--json", "--seed", "5"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["done"][0] == "random/mlp_alone/100" and "2 methods on 4 subjects" in printed.err
    assert main(["bench", "report"]) == 0
    assert (tmp_path / "bench.md").read_text().startswith("# A benchmark of methods")
    assert main(["bench", "run", "random", "--quiet", "--out", "new/results.json"]) == 0  # no such folder yet
    assert main(["bench", "report", "new/results.json", "--out", "newer/page.md"]) == 0
    assert (tmp_path / "newer" / "page.md").is_file()
    assert workbench.bench is bench
