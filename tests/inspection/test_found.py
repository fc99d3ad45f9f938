"""What was found of a run is kept beside its weights, as numbers and counts, and of those weights alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from workbench.cli import main
from workbench.inspection import found
from workbench.inspection.findings import findings
from workbench.inspection.found import FOUND, Found, find, keep, kept
from workbench.inspection.seed_groups import seed_groups
from workbench.judgement.words.findings import at_a_glance, statements
from workbench.report import inspect
from workbench.runs import load_run
from workbench.runs.compiled import compile_run
from workbench.runs.new_run import HeldRun
from workbench.runs.weights import WEIGHTS

ZOO = Path(__file__).parents[2] / "app" / "zoo"


@pytest.fixture(scope="module")
def chaser(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found]:
    """A folder with a model of which everything was found and kept, and what was."""
    folder = tmp_path_factory.mktemp("found") / "chaser"
    *_, last = find(compile_run("chaser", folder))
    keep(last)
    return folder, last


def test_what_was_found_is_read_again_and_said_in_the_same_words(chaser: tuple[Path, Found]) -> None:
    folder, last = chaser
    again = kept(load_run(folder))
    assert again is not None and statements(again.findings) == statements(last.findings)
    assert again.findings.model_dump_json() == last.findings.model_dump_json()
    assert (again.n, again.seed) == (last.settings["n"], 0)
    focus = again.findings.focus
    assert focus is not None and focus.needed == last.inspected.needed_head == (0, 0)
    name, numbers = at_a_glance(again.findings)
    assert name == "Chain following" and numbers.startswith("always, in 100% of cases (")
    assert next(one for one in statements(again.findings) if one.name == name).brief == numbers


def test_what_is_kept_holds_numbers_and_no_sentences(chaser: tuple[Path, Found]) -> None:
    text = (chaser[0] / FOUND).read_text(encoding="utf-8")
    assert all(one.text not in text and one.shorter not in text for one in statements(chaser[1].findings))


def test_of_other_weights_or_another_name_nothing_is_kept(chaser: tuple[Path, Found], tmp_path: Path) -> None:
    renamed = Path(shutil.copytree(chaser[0], tmp_path / "renamed"))
    assert kept(load_run(renamed)) is None
    same = Path(shutil.copytree(chaser[0], tmp_path / "chaser"))
    assert kept(load_run(same)) is not None
    data = json.loads((same / FOUND).read_text())
    (same / FOUND).write_text(json.dumps(data | {"weights": "0" * 64}))
    assert kept(load_run(same)) is None
    save_file({"w": torch.zeros(1)}, same / WEIGHTS)  # by another's hand, without a checksum
    assert kept(load_run(same)) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "\xff", "x" * (found.LONGEST + 1), '{"run": "chaser"}'])
def test_what_cannot_be_read_is_measured_again(chaser: tuple[Path, Found], tmp_path: Path, content: str) -> None:
    folder = Path(shutil.copytree(chaser[0], tmp_path / "chaser"))
    (folder / FOUND).write_bytes(content.encode("latin-1"))
    assert kept(load_run(folder)) is None


@pytest.mark.parametrize(
    "change",
    [{"places": []}, {"places": [{"claim": "no such claim"}]}, {"needed_set": 7}],
    ids=["no places", "another claim", "no set"],
)
def test_numbers_of_which_no_words_can_be_made_say_nothing(
    chaser: tuple[Path, Found], tmp_path: Path, change: dict[str, object]
) -> None:
    folder = Path(shutil.copytree(chaser[0], tmp_path / "chaser"))
    data = json.loads((folder / FOUND).read_text())
    data["findings"]["claims"][0].update(change)
    (folder / FOUND).write_text(json.dumps(data))
    assert kept(load_run(folder)) is None


def test_a_model_in_memory_has_no_place_even_where_a_run_of_its_name_lies(
    chaser: tuple[Path, Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = chaser[0]
    monkeypatch.chdir(folder.parent)
    run = load_run(folder)
    held = HeldRun(Path("chaser"), run.config, run.model(), run.task())  # type: ignore[arg-type]
    assert kept(held) is None and not found.has_place(held) and found.has_place(run)


def test_of_every_model_of_the_zoo_it_is_kept_what_was_found() -> None:
    runs = [load_run(path.parent) for path in sorted(ZOO.glob("*/config.json"))]
    assert len(runs) > 10 and [run.name for run in runs if kept(run) is None] == []


def test_what_it_gets_right_says_where_the_test_goes_beyond_training() -> None:
    beyond, as_trained = (
        statements(next(find(load_run(ZOO / name))).findings)[0].text for name in ("sort-plain", "lis")
    )
    assert "(length 2 to 50, trained on 2 to 10)" in beyond and "trained on" not in as_trained


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain-chacal", "compiled-sorter", "lis"])
def test_what_is_kept_in_the_zoo_is_what_is_measured(name: str) -> None:
    run = load_run(ZOO / name)
    before = kept(run)
    *_, now = find(run)
    assert before is not None
    assert before.findings.model_dump_json() == now.findings.model_dump_json()  # NaN is not itself


def test_inspect_keeps_what_it_found_unless_more_sequences_are_kept_or_it_was_asked_for_less(tmp_path: Path) -> None:
    run = compile_run("chaser", tmp_path / "chaser")
    out = tmp_path / "report"
    inspect(run, n=8, only=["accuracy"], out=out, progress=False)
    assert kept(run) is None, "not all was measured"
    report = inspect(run, n=8, out=out, progress=False)
    known = kept(run)
    assert known is not None and known.n == 8 and known.findings == findings(seed_groups(report.inspected)[0])
    inspect(run, n=4, out=out, progress=False)
    assert kept(run) == known
    assert main(["inspect", str(run.path), "--n", "12", "--out", str(out), "--quiet"]) == 0
    more = kept(run)
    assert more is not None and more.n == 12
