"""Studies and results of studies from elsewhere: each is read right, or refused in a line, and nothing leads out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markdown_it import MarkdownIt

from workbench import studies
from workbench.cli import main
from workbench.judgement.tuning import Tried, Tuning
from workbench.judgement.verdict import ContrastKind, ContrastQuestion, Group, Outcome, Verdict
from workbench.measurement import Measurement
from workbench.studies import SMALL, Published, Reaches, Result, Study, find_study, read_ledger, run_study, write_pages
from workbench.studies.engine import RESULT
from workbench.studies.ledger import index_page, study_page
from workbench.studies.result import Differs
from workbench.studies.stored import write_json
from workbench.training.sweeps import output_folder
from workbench.util.lookup import check_name

TOML = """
question = "Is it parted?"
measure = ["parameters"]
draw = "parameters"
seeds.{scale} = 1
[runs.{scale}]
preset = "chain-chacal"
settings = {{ task = {{ n = 8, k = 2 }}, model = {{ d_model = 16, n_heads = 2 }}, batch_size = 4, steps = 2 }}
"""
NAMES = [
    "..",
    ".",
    "../../EVIL",
    "/tmp/evil",
    "a/b",
    "a\\b",
    ".hidden",
    "",
    "a\n",
    "\u202egnp",
    "x" * 300,
    "con:",
    "a.",
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that commands are called in, deep enough that what leads out of it is seen."""
    folder = tmp_path / "far" / "down" / "here"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    yield folder
    assert [path.name for path in tmp_path.iterdir()] == ["far"]
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["down"]
    assert [path.name for path in (tmp_path / "far" / "down").iterdir()] == ["here"]


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """The exit code, and what is printed; of a refusal one line."""
    code = main(["study", *map(str, words)])
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert text.isprintable() or all(line.isprintable() for line in text.split("\n"))
    assert code == 0 or (text.count("\n") == 1 and len(text) < 1000), text
    return code, text


def one(name: str = "parted", scale: str = SMALL, question: str = "Is it parted?") -> Result:
    """A result of a study."""
    each = np.array([0.5, 0.7])
    mean = Measurement("accuracy", each.mean(), (), {}, "share", low=np.array(0.4), high=np.array(0.8), each=each)
    outcome = Outcome(verdict=Verdict.HOLDS, value=0.6)
    groups = {"chain-chacal": {"accuracy": mean}}
    made = {"date": "2026-01-01", "commit": "", "workbench": "0.1"}
    return Result(name, scale, question, None, 2, groups, [outcome], [], [], [], Tuning.PLANNED, made)


def study(question: str = "Is it parted?", **changes: Any) -> Study:
    """A study without runs."""

    def compute(scale: str, seed: int) -> dict[str, dict[str, Measurement]]:
        values = Measurement("accuracy", np.full(4, 0.5), ("example",), {"example": range(4)}, "share")
        return {"all": {"accuracy": values}}

    about: dict[str, Any] = {"contrasts": [], "draw": (), "seeds": {SMALL: 1}}
    return Study(question, **{**about, "compute": compute, **changes})


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_elsewhere_is_refused_wherever_it_becomes_a_path(place: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a study's scale"):
        study(seeds={name: 1})
    with pytest.raises(ValueError, match="cannot be the name of a study,"):
        study(compute=None, runs={"small": {}}, measure=dict, runs_of=name)
    with pytest.raises(ValueError, match="cannot be the name of a study,"):
        run_study(study(), name=name, root=place / "studies")
    with pytest.raises(ValueError, match="cannot be the name of a study,"):
        Result.from_dict({**one().to_dict(), "study": name})
    with pytest.raises(ValueError, match="cannot be the name of a study's scale"):
        Result.from_dict({**one().to_dict(), "scale": name})
    assert not list(place.iterdir())


@pytest.mark.parametrize("name", ["a", "my hops", "größe", "sort-2.5", "a=1, b", "x" * 100, "_"])
def test_names_as_people_give_them_are_taken(name: str) -> None:
    check_name(name, "a study")


def test_a_scale_of_a_file_stays_under_the_root(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "own.toml").write_text(TOML.format(scale='"../../EVIL"'), encoding="utf-8")
    for action in ("run", "show"):
        code, text = said(
            capsys, action, "own.toml", *(["--scale", "../../EVIL", "--quiet"] if action == "run" else [])
        )
        assert code == 2 and "own.toml: '../../EVIL' cannot be the name of a study's scale" in text
    assert [path.name for path in place.iterdir()] == ["own.toml"]


@pytest.mark.parametrize(
    ("top", "end", "why"),
    [
        ("seeds.small = 1e9", "", "seeds must be at most 10,000, not 1,000,000,000"),
        (f"seeds.small = {10**30}", "", "seeds must be at most 10,000, not a number of more than 15 digits"),
        ("seeds.small = 0", "", "seeds must be at least 1, not 0"),
        ("seeds.small = true", "", "input should be a number"),
        ("seeds.small = nan", "", "input should be a finite number"),
        ("seeds.small = 10_000", "grid.batch_size = [4, 8]", "a sweep has 10,000 runs at most, not 20,000"),
        ("", "grid.seed = [7]", "say how many seeds each group has: seeds.small = 5"),
        ("", "settings.seed = 7", "say how many seeds each group has"),
        ("tune.seed = [7]", "", "say how many seeds each group has"),
        ("", "grid = 3", "runs.small: grid: input should be a valid dictionary, not 3"),
        ("", "variants = 3", "runs.small: variants are [[variants]] blocks"),
        ("source = { papr = 'A' }", "", "source.paper: field required"),
        (
            "",
            "[[contrasts]]\nquantity = 'parameters'\ngroup = 'a'\nreaches = nan",
            "should be a finite number, not nan",
        ),
        (
            "",
            "[[contrasts]]\nquantity = 'parameters'\ngroup = 'a'\nthan = 'a'",
            "own.toml: a contrast of parameters compares 'a' with itself",
        ),
        (
            "",
            "[[contrasts]]\nquantity = 'parameters'\ngroup = 'chain-chacl'\nreaches = 1.0",
            "own.toml: unknown group 'chain-chacl' (did you mean 'chain-chacal'?)",
        ),
        ("tune.learning_rate = []", "", "own.toml: tune.learning_rate is a list of values, such as"),
        (
            "tune.learning_rate = [-1]",
            "[[contrasts]]\nquantity = 'parameters'\ngroup = 'chain-chacal'\nreaches = 1.0",
            "own.toml: tune: chain-chacal-seed=1000-learning_rate=-1: learning_rate: input should be greater",
        ),
        ("", "grid.batch_size = []", "own.toml: runs.small: grid.batch_size is a list of values"),
        ("", "[[published]]\nquantity = 'parameters'\ngroup = 'a'\nvalue = true", "published.0.value: input should be"),
        ("", "[runs.'Study.toml']\npreset = 'chain-chacal'", "'Study.toml' cannot be the name of a study's scale"),
    ],
)
def test_a_value_that_is_none_is_refused_before_it_takes_memory_or_is_read_as_another(
    place: Path, top: str, end: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head = f'question = "Is it parted?"\nmeasure = ["parameters"]\ndraw = "parameters"\n{top}\n'
    (place / "own.toml").write_text(f"{head}[runs.small]\npreset = 'chain-chacal'\n{end}\n", encoding="utf-8")
    for action in ("show", "run"):
        code, text = said(capsys, action, "own.toml", "--quiet")
        assert code == 2 and why in text
    assert [path.name for path in place.iterdir()] == ["own.toml"]


@pytest.mark.parametrize("asked", ["reaches = 97.0", "stays_below = 1.5", "reaches = -0.1", "than = 'b'\nby = 2.0"])
@pytest.mark.parametrize("quantity", ["accuracy", "accuracy over training", "whole_answer"])
def test_a_share_is_asked_from_0_to_1(
    place: Path, quantity: str, asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    contrast = f"[[contrasts]]\nquantity = '{quantity}'\ngroup = 'chain-chacal'\nat.step = 2\n{asked}\n"
    text = TOML.format(scale="small").replace("parameters", f"log.{quantity}", 1).replace("parameters", quantity)
    (place / "own.toml").write_text(text + contrast, encoding="utf-8")
    code, words = said(capsys, "show", "own.toml")
    assert code == 2 and f"own.toml: a contrast of {quantity} (share) has a value from" in words


def test_a_value_beyond_what_was_measured_is_refused_when_it_is_asked() -> None:
    """The units of an instrument are known once it has measured."""
    with pytest.raises(ValueError, match=r"a contrast of accuracy \(share\) has a value from 0 to 1, not 97"):
        Reaches("accuracy", "chain-chacal", 97.0).ask(one().groups)


@pytest.mark.parametrize("name", ["report", "Zoo"])
def test_a_study_does_not_share_the_folder_of_the_pages_or_of_the_zoo(place: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a study: a file or folder beside it has"):
        run_study(study(), name=name, root=place)
    (place / f"{name}.toml").write_text(TOML.format(scale="small"), encoding="utf-8")
    with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a study"):
        find_study(f"{name}.toml")


def test_seeds_that_are_asked_for_are_counted_before_they_are_listed(place: Path) -> None:
    for asked in (10**12, 10_001, -(10**30)):
        with pytest.raises(ValueError, match=r"seeds must be at (most 10,000|least 1), not "):
            run_study(study(), name="parted", root=place, seeds=asked)


def test_a_report_has_every_study_of_its_root_and_says_which_file_it_lacks(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "own.toml").write_text(TOML.format(scale="small"), encoding="utf-8")
    assert said(capsys, "run", "own.toml", "--root", "R", "--quiet", "--workers", "1")[0] == 0
    (place / "own.toml").unlink()
    assert run_study(study("Is it whole?"), name="object", root=place / "R") is not None
    code, text = said(capsys, "report", "--root", "R")
    assert code == 0 and "left out object: name the file of each too, as in `workbench study report FILE`" in text
    page = (place / "R" / "report" / "own.md").read_text(encoding="utf-8")
    assert page.startswith("# Is it parted?") and "workbench study run own.toml" in page and "![" in page
    (place / "R" / "own" / "study.toml").unlink()
    code, text = said(capsys, "report", "--root", "R", "--out", "pages")
    assert code == 2 and "left out object, own: name the file of each" in text


HOSTILE = [
    "x|y <script>alert(1)</script> `a` [b](javascript:alert(1)) ![c](http://evil) {: onclick=d } *e* \n\n## f",
    "# heading",
    "> [1]: javascript:alert(1)",
    "- item",
    "1. item \\",
    "```bash\nrm -rf ~",
    "<!-- &lt; ~~a~~ $b$ <http://evil> [0, 1](http://evil) [0, 1][1]",
]


class Tags(HTMLParser):
    """The tags of a page in their order, each with where it leads, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(page))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs).get("href", dict(attrs).get("src"))))

    def handle_data(self, data: str) -> None:
        self.text += data


def pages(text: str) -> list[Tags]:
    """The pages of a result of which everything is called the same."""
    mean = one().groups["chain-chacal"]["accuracy"]
    lengths: dict[str, Any] = {"dims": ("length",), "coords": {"length": [text]}, "values": np.array([0.5])}
    by_length = replace(mean, units=text, low=None, high=None, each=None, **lengths)
    group = Group(name=text, units=text, settings=text, n=2)
    result = replace(
        one(question=text),
        groups={text: {text: mean, "units": replace(mean, units=text), "by length": by_length}},
        outcomes=[
            Outcome(
                verdict=Verdict.HOLDS,
                asked=ContrastQuestion(kind=ContrastKind.REACHES, quantity=text, value=0.5),
                groups=[group],
            )
        ],
        source={"paper": text, "place": text},
        published=[Published(text, text, 0.5)],
        differs=[Differs(text, text, text, text)],
        tried=[Tried(group=text, quantity=text, settings=[text], chosen=text, means=[0.5], units=text)],
        note=text,
        made={"date": text, "commit": text, "workbench": text, "step_times": {text: 1.0}},
    )
    both = dict.fromkeys(("parted", text), study(text, file="own.toml"))
    page = study_page([result], {f"parted-{SMALL}": ["a.png"]}, both["parted"])
    return [Tags(index_page([result], both)), Tags(page)]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_stranger_wrote_is_text_on_the_pages(text: str) -> None:
    """In a study's file, or in its result."""
    for page, usual in zip(pages(text), pages("plain words"), strict=True):
        assert page.tags == usual.tags and " ".join(text.split()) in " ".join(page.text.split())


@pytest.mark.parametrize("file", ["...toml", "...py"])
def test_a_file_whose_stem_is_two_dots_is_no_study_and_no_sweep(
    place: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / file).write_text(TOML.format(scale="small"), encoding="utf-8")
    code, text = said(capsys, "run", file, "--quiet")
    assert code == 2 and "'..' cannot be the name of a study" in text
    with pytest.raises(ValueError, match=r"'\.\.' cannot be the name of a sweep"):
        output_folder(file, None)
    assert [path.name for path in place.iterdir()] == [file]


@pytest.mark.parametrize(
    ("code", "said_of_it"),
    [
        ("import sys\nsys.exit(0)", "line 2: SystemExit: 0"),
        ("class Panic(BaseException): pass\n\nraise Panic('over')", "line 3: Panic: over"),
        ("1 / 0", "line 1: ZeroDivisionError"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_python_file_that_fails_or_ends_the_program_is_one_line(
    place: Path, code: str, said_of_it: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "own.py").write_text(code, encoding="utf-8")
    for action in ("run", "show", "report"):
        exit_code, text = said(capsys, action, "own.py")
        assert exit_code == 2 and "the study fails in own.py" in text and said_of_it in text


def test_two_files_of_one_name_do_not_share_a_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, question in (("a", "Is it parted?"), ("b", "Is it whole?")):
        (place / folder).mkdir()
        text = TOML.format(scale="small").replace("Is it parted?", question)
        (place / folder / "own.toml").write_text(text, encoding="utf-8")
    for action in ("run", "show", "report"):
        code, text = said(capsys, action, "a/own.toml", "b/own.toml", "--quiet")
        assert code == 2 and "a/own.toml and b/own.toml would share the folder of the study own" in text
    write_json(place / "studies" / "own" / SMALL / RESULT, one("own").to_dict())
    before = (place / "studies" / "own" / SMALL / RESULT).read_bytes()
    for action in ("run", "report"):
        code, text = said(capsys, action, "b/own.toml", "--quiet")
        assert code == 2 and "answers another question: Is it parted?" in text
    assert (place / "studies" / "own" / SMALL / RESULT).read_bytes() == before
    assert sorted(path.name for path in place.iterdir()) == ["a", "b", "studies"]
    assert [path.name for path in (place / "studies").iterdir()] == ["own"]


def test_a_study_of_another_question_does_not_write_over_a_result(place: Path) -> None:
    for _ in range(2):
        assert run_study(study(), name="parted", root=place) is not None
    with pytest.raises(ValueError, match="answers another question: Is it parted\\?"):
        run_study(study("Is it whole?"), name="parted", root=place)


def test_pages_and_pictures_of_two_studies_never_have_one_name(place: Path) -> None:
    both = {"index": one("index"), "other": one("other")}
    with pytest.raises(ValueError, match=r"would be named 'index\.md' and 'index\.md'"):
        write_pages(list(both.values()), dict.fromkeys(both, study()), place / "pages")
    assert not (place / "pages").exists()


def test_pages_of_studies_replace_those_of_their_ledger_and_no_file_of_ones_own(place: Path) -> None:
    two, out = {"parted": one(), "other": one("other")}, place / "pages"
    drawn = dict.fromkeys(two, study())
    for _ in range(2):
        write_pages([two["parted"]], drawn, out)
    for name in ("other.md", "index.md"):
        (out / name).write_text("my own", encoding="utf-8")
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        with pytest.raises(ValueError, match=rf"{name} is there already, and ledger\.json beside it has no such study"):
            write_pages(list(two.values()), drawn, out)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        (out / name).unlink()
        (out / "ledger.json").unlink(missing_ok=True)
    with pytest.raises(ValueError, match=r"index\.md is a file, not a folder"):
        (out / "index.md").touch()
        write_pages([two["parted"]], drawn, out / "index.md" / "deeper")


def paths(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in JSON's data."""
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], dict | list):
            yield from paths(data[key])


def test_a_damaged_result_is_named_whatever_is_wrong_with_it(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "STUDIES", {"parted": study()})
    file = place / "studies" / "parted" / SMALL / RESULT
    report = ("report", "--out", "pages")
    file.parent.mkdir(parents=True)
    for text in ("", "{", "[]", "null", "3", "{}", "[" * 10_000, '{"study": 1, "study": 2}', "\ud800"):
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        code, words = said(capsys, *report)
        assert code == 2 and f"{file.relative_to(place)} is not the result of a study" in words
    good = json.dumps(one().to_dict())
    n = len(list(paths(json.loads(good))))
    assert n > 30
    for place_of_damage in range(n):
        for wrong in ("gone", None, "x", [[1], [2, 3]], {"a": 1}):
            data = json.loads(good)
            container, key = list(paths(data))[place_of_damage]
            if wrong == "gone":
                del container[key]
            else:
                container[key] = wrong
            file.write_text(json.dumps(data), encoding="utf-8")
            code, words = said(capsys, *report)
            assert code == 0 or f"{file.relative_to(place)} is not the result of a study" in words, (key, wrong, words)


def test_a_result_says_the_folder_that_it_is_in(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "parted.toml").write_text(TOML.format(scale="small"), encoding="utf-8")
    file = place / "studies" / "parted" / SMALL / RESULT
    for changed in ({"study": "other"}, {"study": "../../EVIL"}, {"scale": "../../EVIL"}, {"scale": "gpu"}):
        write_json(file, {**one().to_dict(), **changed})
        code, words = said(capsys, "report", "parted.toml")
        assert code == 2 and "is not the result of a study" in words
    ledger = {"results": [{**one().to_dict(), "study": "../../EVIL"}]}
    write_json(place / "ledger.json", ledger)
    with pytest.raises(ValueError, match=r"ledger\.json is not a ledger of studies: '.*EVIL' cannot be the"):
        read_ledger(place / "ledger.json")
    assert not (place / "studies" / "report").exists() and not os.path.lexists(place.parent / "EVIL")


def test_damaged_measurements_are_made_again(place: Path) -> None:
    def measure(_: Any) -> dict[str, Measurement]:
        return {"accuracy": Measurement("accuracy", np.array(0.5), (), {}, "share")}

    sweep = {"preset": "chain-chacal", "settings": {"task": {"n": 8, "k": 2}, "batch_size": 4, "steps": 1}}
    sweep["settings"] |= {"eval_size": 8, "model": {"d_model": 16, "n_heads": 2}}
    own = study(compute=None, runs={SMALL: sweep}, measure=measure, draw=())
    own = replace(own, contrasts=[Reaches("accuracy", "chain-chacal", 0.1)])
    first = run_study(own, name="own", root=place, progress=False)
    (kept,) = (place / "own").rglob("measured/*/*.json")
    (log,) = (place / "own").rglob("metrics.jsonl")
    with log.open("a", encoding="utf-8") as file:
        file.write('{"event": "finished"}\n')  # without how long it took, as anyone may have written it
    for damage in ([], {"accuracy": {}}, {"accuracy": 1}, {"accuracy": {"name": 3, "dims": 3}}):
        write_json(kept, {**json.loads(kept.read_text(encoding="utf-8")), "quantities": damage})
        again = run_study(own, name="own", root=place, progress=False)
        assert first is not None and again is not None and again.to_dict()["groups"] == first.to_dict()["groups"]
