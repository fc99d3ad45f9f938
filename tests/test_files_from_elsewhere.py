"""Files as people have them, through every command that reads one: measured as the plain file is, or refused in a line.

A text and a file of pairs are written in each form; what is measured of them is held against the plain ones.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import workbench
from workbench.circuits.pairs_file import read_pairs
from workbench.cli import main
from workbench.runs import load_run, open_model
from workbench.runs.compiled import compile_run
from workbench.tasks.text import Text
from workbench.training.sweeps.plan import read_plan

LINES = "Café {i}, naïve.\nThe cat sat on {i} mats, and the dog lay by door {i}.\n\nOne; {i}\tthree.\n"
TEXT = "".join(LINES.format(i=i) for i in range(12))
FIELDS = ("clean", "corrupted", "answer", "wrong")
PAIRS = [
    ("Ann met; Bob", "Bob met; Ann", "A", "B"),
    ('the "cat", sat', 'the "dog", sat', "c", "d"),
    ("un café", "un cafè", "t", "n"),
    ("one\u2028two", "six\u2028two", "1", "6"),
]


def spreadsheet(text: str) -> bytes:
    """What a spreadsheet saves by default: an archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/sharedStrings.xml", text)
    return content.getvalue()


WRITTEN: dict[str, Callable[[str], bytes]] = {
    "with a mark": lambda text: text.encode("utf-8-sig"),
    "with line ends of Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "with line ends of old Macs": lambda text: text.replace("\n", "\r").encode(),
    "with both": lambda text: text.replace("\n", "\r\n").encode("utf-8-sig"),
}
"""Forms of one text that are read alike."""
ENCODED: dict[str, Callable[[str], bytes]] = {
    "UTF-16 with a mark": lambda text: text.encode("utf-16"),
    "UTF-16 without": lambda text: text.encode("utf-16-le"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "Windows-1252": lambda text: text.replace("\u2028", " ").encode("cp1252"),
    "a spreadsheet": spreadsheet,
}
"""Forms that are refused."""
REFUSED = "is not text in UTF-8"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 whose tokens are bytes, so that no sign of a text is lost, and the plain files."""
    place = tmp_path_factory.mktemp("elsewhere")
    torch.manual_seed(0)
    words = Text(path="shakespeare", block=64)
    shape: dict[str, Any] = {
        "n_positions": 64,
        "n_embd": 16,
        "n_layer": 1,
        "n_head": 2,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    GPT2LMHeadModel(GPT2Config(vocab_size=len(words.vocabulary), **shape)).save_pretrained(place / "gpt2")
    words.fast_tokenizer().save_pretrained(place / "gpt2")
    (place / "plain.txt").write_bytes(TEXT.encode())
    (place / "plain.jsonl").write_bytes(json_lines().encode())
    return place


def json_lines() -> str:
    return "".join(json.dumps(dict(zip(FIELDS, pair, strict=True)), ensure_ascii=False) + "\n" for pair in PAIRS)


def table(separator: str = ",", **how: Any) -> str:
    written = io.StringIO()
    csv.writer(written, delimiter=separator, lineterminator="\n", **how).writerows([FIELDS, *PAIRS])
    return written.getvalue()


def measured(place: Path, text: Path, out: Path) -> dict[str, Any]:
    """What each command makes of a text: numbers that any other token would change."""
    given = ["--text", str(text), "--length", "16"]
    command = [str(place / "gpt2"), *given, "--n", "8", "--quiet"]
    assert main(["inspect", *command, "--only", "loss", "--out", str(out / "inspect")]) == 0
    assert main(["probe", *command, "previous_token", "--out", str(out / "probe")]) == 0
    tuning = [*given, "--steps", "1", "--attention", "standard", "--quiet", "--out", str(out / "tuned")]
    assert main(["finetune", str(place / "gpt2"), *tuning]) == 0
    shown = open_model(str(place / "gpt2"), str(text)).task()
    return {
        "inspect": (out / "inspect" / "data" / "gpt2" / "loss.csv").read_text(),
        "probe": (out / "probe" / "probe.csv").read_text(),
        "finetune": json.loads((out / "tuned" / "finetune.json").read_text())["digest"],
        "explore": shown.sample(4, workbench.generator(0)).tokens.tolist(),
    }


@pytest.fixture(scope="module")
def plain(place: Path) -> dict[str, Any]:
    return measured(place, place / "plain.txt", place / "plain")


@pytest.mark.parametrize("form", WRITTEN)
def test_a_text_is_measured_as_the_plain_one_however_it_was_saved(
    form: str, place: Path, plain: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_bytes(WRITTEN[form](TEXT))
    assert measured(place, tmp_path / "text.txt", tmp_path) == plain


@pytest.mark.parametrize("command", ["inspect", "probe", "finetune", "explore", "circuit"])
@pytest.mark.parametrize("form", ENCODED)
def test_another_encoding_is_refused_in_a_line_that_says_what_to_do(
    form: str, command: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option, content = ("--pairs", table()) if command == "circuit" else ("--text", TEXT)
    (tmp_path / "file.csv").write_bytes(ENCODED[form](content))
    words = [command, str(place / "gpt2"), option, str(tmp_path / "file.csv")]
    words += {"probe": ["previous_token"], "explore": ["--headless"], "finetune": ["--out", str(tmp_path / "out")]}.get(
        command, []
    )
    assert main(words) == 2
    shown = capsys.readouterr()
    assert REFUSED in shown.err and shown.err.endswith("save it as text in UTF-8\n") and not shown.out
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]


OPTIONS = {
    "inspect": ["--text"],
    "probe": ["previous_token", "--text"],
    "finetune": ["--out", "tuned", "--text"],
    "explore": ["--headless", "--text"],
    "circuit": ["--pairs"],
}


@pytest.mark.parametrize("command", OPTIONS)
@pytest.mark.parametrize("kind", ["a folder", "a pipe or a device", "the path is empty", "there is no"])
def test_what_is_no_file_is_named_as_what_it_is(
    kind: str, command: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a folder").mkdir()
    os.mkfifo(tmp_path / "a pipe or a device")
    given = "" if kind == "the path is empty" else kind
    assert main([command, str(place / "gpt2"), *OPTIONS[command], given]) == 2
    shown = capsys.readouterr()
    assert (kind if not given or kind.startswith("there") else f"{kind} is {kind}, not a ") in shown.err
    assert shown.err.replace(f"opening {place / 'gpt2'} …\n", "").count("\n") == 1 and not shown.out


@pytest.mark.parametrize("out", ["", "afile", "afile/data", "afile/x/y"])
@pytest.mark.parametrize("command", ["inspect", "probe", "circuit", "export", "finetune"])
def test_a_place_where_no_folder_can_be_is_refused_before_anything_is_measured(
    command: str, out: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").write_text("my own")
    files = {"circuit": ["--pairs", str(place / "plain.jsonl")]}
    given = files.get(command, [] if command == "export" else ["--text", str(place / "plain.txt")])
    given = {"probe": ["previous_token"]}.get(command, []) + given
    assert main([command, str(place / "gpt2"), *given, *([] if command == "export" else ["--out"]), out]) == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1 and not shown.out and [path.name for path in tmp_path.iterdir()] == ["afile"]
    assert (
        "the path is empty"
        if not out
        else "afile already exists"
        if "already" in shown.err
        else "afile is a file, not a folder"
    ) in shown.err


@pytest.mark.parametrize("content", ["[]", "5", "null", '"x"'])
def test_a_config_that_is_no_object_is_said_to_be_none(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(content)
    (tmp_path / "metrics.jsonl").touch()
    (tmp_path / "weights.safetensors").touch()
    for words in (["inspect"], ["inspect", "--text", __file__], ["import", "--out", str(tmp_path / "out")]):
        assert main([words[0], str(tmp_path), *words[1:]]) == 2
        error = capsys.readouterr().err
        assert "config.json is corrupted: it is JSON, but not an object with named fields" in error, words


FORMS_OF_PAIRS: dict[str, tuple[str, Callable[[], str]]] = {
    "JSON lines": (".jsonl", json_lines),
    "JSON lines in ASCII": (".jsonl", lambda: "\n".join(json.dumps(dict(zip(FIELDS, p, strict=True))) for p in PAIRS)),
    "commas": (".csv", table),
    "semicolons": (".csv", lambda: table(";")),
    "tabs": (".csv", lambda: table("\t")),
    "quotes everywhere": (".CSV", lambda: table(quoting=csv.QUOTE_ALL)),
    "empty rows": (".csv", lambda: f"{table(';')};;;\n\n;;;\n"),
}


@pytest.mark.parametrize("written", ["plain", *WRITTEN])
@pytest.mark.parametrize("form", FORMS_OF_PAIRS)
def test_pairs_are_the_same_however_they_were_saved(form: str, written: str, place: Path, tmp_path: Path) -> None:
    ending, content = FORMS_OF_PAIRS[form]
    path = tmp_path / f"pairs{ending}"
    path.write_bytes({"plain": str.encode, **WRITTEN}[written](content()))
    model = workbench.load_model(place / "gpt2", progress=False)
    one, other = (read_pairs(file, model) for file in (place / "plain.jsonl", path))
    for side in ("clean", "corrupted"):
        assert torch.equal(getattr(one, side).tokens, getattr(other, side).tokens), side
        assert torch.equal(getattr(one, side).targets, getattr(other, side).targets), side


def rows(*more: str) -> str:
    return "\n".join(["clean,corrupted,answer,wrong", "a,b,c,d", *more])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (rows("Mary, John,Mary, Ann,c,d"), "line 3 has more fields than the first line: put a text that holds ','"),
        (rows('"a" b,c,d,e'), "from line 3 on: its quotes are not those of CSV"),
        (rows('"a,b,c,d', "a,b,c,d"), "from line 3 on: its quotes are not those of CSV"),
        (rows("a,b,c"), "line 3 has no text 'wrong'; a pair has clean, corrupted, answer, wrong"),
        (rows(f"{'x' * 200_000},y,c,d", "e,f,g,h", "i,j,k,l"), "line 3: clean has 200000 tokens, and corrupted 1"),
        ('"clean,corrupted,answer,wrong', "from line 1 on: its quotes are not those of CSV"),
        (table("|"), "clean is not among those it names: 'clean|corrupted|answer|wrong'"),
        (
            "Clean,corrupted,answer,wrong\na,b,c,d",
            "line 1 has to name the columns of a table of pairs, clean, corrupted",
        ),
        ("", "line 1 has to name the columns of a table of pairs, clean, corrupted, answer, wrong, and clean is not "),
        ("clean,corrupted,answer,wrong,answer\na,b,c,d,e", "line 1 names the column answer twice; take one out"),
    ],
)
def test_a_table_that_is_not_one_is_refused_with_its_line(
    content: str, reason: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.csv").write_text(content, encoding="utf-8")
    assert main(["circuit", str(place / "gpt2"), "--pairs", str(tmp_path / "pairs.csv")]) == 2
    shown = capsys.readouterr()
    assert reason in shown.err and shown.err.count("\n") == 1 and not shown.out


def test_json_that_is_nested_too_deeply_is_refused_by_its_name(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = '{"a": ' + "[" * 300 + "]" * 300 + "}"
    shutil.copytree(place / "gpt2", tmp_path / "gpt2")
    (tmp_path / "gpt2" / "config.json").write_text(deep, encoding="utf-8")
    (tmp_path / "pairs.jsonl").write_text(deep, encoding="utf-8")
    for command, named in (
        (
            ["inspect", str(tmp_path / "gpt2"), "--text", str(place / "plain.txt"), "--quiet"],
            "config.json is corrupted: ",
        ),
        (["circuit", str(place / "gpt2"), "--pairs", str(tmp_path / "pairs.jsonl")], "pairs.jsonl, line 1: "),
    ):
        assert main(command) == 2
        shown = capsys.readouterr()
        assert f"{named}it is nested too deeply: at most 100 levels" in shown.err and shown.err.count("\n") == 1


def pair(**changes: Any) -> str:
    return json.dumps(dict(zip(FIELDS, PAIRS[0], strict=True)) | changes)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (pair(clean="a\ud800"), r"line 2: clean has \ud800, which is half of a character: write both halves"),
        (pair(wrong="\udc00"), r"line 2: wrong has \udc00, which is half of a character"),
        ("[" * 100_000, "line 2: it is nested too deeply: at most 100 levels"),
        (pair().replace('"wrong"', '"clean"'), "line 2: the name 'clean' is there twice"),
        (pair(note=0).replace("0", "1" * 5000), "line 2: it holds an integer of 5000 digits; at most 40 are read"),
        (pair(answer=5), "line 2: answer is the number 5, and has to be text: put it in double quotes"),
        (pair(answer=["c"]), 'line 2: answer is ["c"], and has to be text'),
        (pair(answer=None), "line 2 has no text 'answer'; a pair has clean, corrupted, answer, wrong"),
        (f"[{pair()}]", "line 2 is no pair; one is an object in braces with clean, corrupted, answer, wrong"),
    ],
)
def test_a_line_of_json_that_is_no_pair_is_refused_with_its_line(
    line: str, reason: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.jsonl").write_text(f"{pair()}\n{line}\n", encoding="utf-8")
    assert main(["circuit", str(place / "gpt2"), "--pairs", str(tmp_path / "pairs.jsonl")]) == 2
    shown = capsys.readouterr()
    assert f"{tmp_path / 'pairs.jsonl'}, {reason}" in shown.err and shown.err.count("\n") == 1 and not shown.out


@pytest.mark.parametrize("n", [-1, 0, 1, 2, 3])
def test_too_few_pairs_are_refused_in_terms_of_the_option(
    n: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compile_run("chaser", tmp_path / "run")
    assert main(["circuit", str(tmp_path / "run"), "--n", str(n)]) == 2
    why = f"4 pairs or more are needed (--n), half to choose parts by and half to test them, not {n}"
    assert capsys.readouterr() == ("", f"workbench: {why}\n")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (("--alpha_req.first", "99"), "alpha_req with first=99 measures nothing on these sequences"),
        (("--entropy.points", "[]"), "entropy.points is empty, which leaves nothing to measure"),
    ],
)
def test_a_setting_that_leaves_nothing_to_measure_is_refused(
    setting: tuple[str, str], reason: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = setting[0].split(".")[0].removeprefix("--")
    given = ["--text", str(place / "plain.txt"), "--length", "16", "--n", "8", "--quiet", "--only", name, *setting]
    assert main(["inspect", str(place / "gpt2"), *given, "--out", str(tmp_path / "out")]) == 2
    shown = capsys.readouterr()
    assert reason in shown.err and shown.err.count("\n") == 1 and not shown.out and not (tmp_path / "out").exists()


def test_a_circuit_of_pairs_with_a_mark_is_found(place: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_bytes(WRITTEN["with both"](table(";")))
    command = ["circuit", str(place / "gpt2"), "--pairs", str(tmp_path / "pairs.csv"), "--edges", "2"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0 and (tmp_path / "out" / "circuit.json").is_file()


SHORT: dict[str, tuple[str, dict[str, str | None]]] = {
    "empty": ("", dict.fromkeys(("inspect", "probe", "explore", "finetune"), "is empty")),
    "a mark alone": ("\ufeff", dict.fromkeys(("inspect", "probe", "explore", "finetune"), "is empty")),
    "a word": ("cat\n", {"inspect": "take sequences of 2 tokens", "probe": "take sequences of 2", "finetune": "short"}),
    "one line": (TEXT.replace("\n", " "), {}),
    "equal lines": ("The cat sat on it.\n" * 60, {"finetune": "are all trained on too"}),
    "equal sequences": ("The cat sat. 12\n" * 60, {"probe": "it needs 2 that differ", "finetune": "repeats itself"}),
}


@pytest.mark.parametrize("name", SHORT)
def test_a_short_or_monotonous_text_is_measured_or_refused(
    name: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, reasons = SHORT[name]
    (tmp_path / "text.txt").write_text(content, encoding="utf-8")
    given = [str(place / "gpt2"), "--text", str(tmp_path / "text.txt"), "--length", "16", "--quiet"]
    for command, more in {
        "inspect": ["--n", "8"],
        "probe": ["previous_token", "--n", "8"],
        "finetune": ["--steps", "1", "--out", str(tmp_path / "tuned")],
    }.items():
        code = main([command, *given, *more])
        shown = capsys.readouterr()
        reason = reasons.get(command)
        assert code == (0 if reason is None else 2) and (reason or "") in shown.err, shown.err
        assert reason is None or (shown.err.count("\n") == 1 and not shown.out)
        assert "1 sequences" not in shown.out
    if content.count(" ") > 9:
        shown_first = open_model(str(place / "gpt2"), str(tmp_path / "text.txt")).task()
        assert np.isfinite(
            workbench.inspection.inspect_model(open_model(str(place / "gpt2")).held, shown_first, causal=False)[
                "loss"
            ].mean.values
        )


def test_settings_with_a_mark_are_read(tmp_path: Path) -> None:
    """A run's config, a log with other ends of a line in a text, and the file of a sweep, saved by an editor."""
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, steps=2, eval_size=4, batch_size=4)
    for name in ("config.json", "metrics.jsonl"):
        path = run.path / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    with (run.path / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps({"event": "a\u2028note"}, ensure_ascii=False) + "\n")
    again = load_run(run.path)
    assert again.config == run.config and again.log()[-1] == {"event": "a\u2028note"}
    (tmp_path / "sweep.toml").write_bytes('preset = "chain-chacal"\n[grid]\nseed = [0, 1]\n'.encode("utf-8-sig"))
    assert len(read_plan(tmp_path / "sweep.toml").runs) == 2


def test_a_run_of_a_text_begins_after_its_mark(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / f"{encoding}.txt").write_text(TEXT, encoding=encoding)
    without, with_mark = (Text(path=str(path), block=8) for path in sorted(tmp_path.iterdir()))
    drawn = [task.draw(40, workbench.generator(0)).tokens for task in (with_mark, without)]
    assert torch.equal(*drawn)
    (tmp_path / "other.txt").write_bytes(TEXT.encode("utf-16"))
    with pytest.raises(ValueError, match=REFUSED):
        Text(path=str(tmp_path / "other.txt"), block=8)
