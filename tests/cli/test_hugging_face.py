"""`workbench inspect MODEL --text FILE`: a model of Hugging Face measured as a run is, and what is refused."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch

import workbench
from tests.benchmarks import gpt2_sized
from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import of_words
from workbench.cli import main
from workbench.inspection import plan
from workbench.instruments.residual import unexplained
from workbench.models.pretrained.text_file import cut, file_sequences
from workbench.tasks import text_file

LINES, WORDS_IN_A_LINE = 40, 9


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with a tokenizer of 38 words, and a text of 360 of them."""
    place = tmp_path_factory.mktemp("models")
    tiny("llama").save_pretrained(place / "llama")
    of_words(bos_token="<s>").save_pretrained(place / "llama")
    draw = random.Random(0)
    lines = [" ".join(f"w{draw.randint(2, 39)}" for _ in range(WORDS_IN_A_LINE)) for _ in range(LINES)]
    (place / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    (place / "empty.txt").write_text("", encoding="utf-8")
    (place / "short.txt").write_text("w3 w4 w5 w6 w7", encoding="utf-8")
    (place / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    tiny("llama").save_pretrained(place / "no-tokenizer")
    return place


def test_the_numbers_are_those_of_the_model_measured_in_python(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--text", str(place / "text.txt"), "--length", "12", "--n", "20", "--out", str(tmp_path / "report")]
    assert main(["inspect", str(place / "llama"), *words, "--only", "entropy", "logit_lens", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "matrix entropy" in shown.out and not shown.err
    numbers = tmp_path / "report" / "data" / "llama"
    assert {path.suffix for path in numbers.glob("entropy.*")} == {".csv", ".json", ".parquet"}
    model = workbench.load_model(place / "llama", progress=False)
    ids = model.tokenizer((place / "text.txt").read_text(), add_special_tokens=False)["input_ids"]
    pieces = torch.tensor(ids[: 20 * 12]).view(20, 12)
    found = workbench.inspection.inspect_model(model, pieces, n=20, only=["entropy"], causal=False)
    written = pd.read_csv(numbers / "entropy.csv")["value"]
    assert abs(written - found["entropy"].mean.values).max() < 1e-9


def test_models_of_one_name_have_a_folder_of_numbers_each_in_the_report(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told apart by their whole paths, which were folders to write to: a model's own, or one above."""
    here = tmp_path / "a" / "here"
    here.mkdir(parents=True)
    for folder in (tmp_path / "a", tmp_path / "b"):
        shutil.copytree(place / "llama", folder / "llama")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    monkeypatch.chdir(here)
    how = ["--text", str(place / "text.txt"), "--length", "12", "--n", "4", "--only", "entropy", "--quiet"]
    for out, sources in (
        ("near", ["../llama", "../../b/llama"]),
        ("far", [str(tmp_path / "a" / "llama"), "../../b/llama"]),
    ):
        assert main(["inspect", *sources, *how, "--out", out]) == 0
        assert len(list((here / out / "data").rglob("entropy.csv"))) == 2
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file() and here not in path.parents) == before


def test_chosen_layers_alone_are_measured_with_the_numbers_of_all(place: Path, tmp_path: Path) -> None:
    model = workbench.load_model(place / "llama", progress=False)
    sequences = file_sequences(model, place / "text.txt", length=12, n=8)
    whole, part = (
        workbench.inspection.inspect_model(model, sequences, n=8, causal=False, layers=layers) for layers in (None, [1])
    )
    assert list(whole) == list(part)
    points = ["blocks.0.hook_resid_pre", "blocks.1.hook_resid_mid", "blocks.1.hook_resid_post"]
    assert list(part["entropy"].mean.coords["layer"]) == points
    assert (part["entropy"].mean.values == whole["entropy"].mean.keep("layer", points).values).all()
    assert list(part["graph_measures"].mean.coords["layer"]) == [1]
    assert not [name for name in part.example.activations if name.startswith("blocks.0.attn")]
    workbench.report.write([part], tmp_path)
    with pytest.raises(ValueError, match=r"there is no layer 2; the layers of .* are 0 to 1"):
        workbench.inspection.inspect_model(model, sequences, n=8, causal=False, layers=[2])


def test_fewer_sequences_at_a_time_give_the_same_numbers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = workbench.load_model(place / "llama", progress=False)
    sequences = file_sequences(model, place / "text.txt", length=12, n=20)
    measures = {"n": 20, "causal": False, "only": ["entropy", "logit_lens", "projection"]}
    whole = workbench.inspection.inspect_model(model, sequences, **measures)
    monkeypatch.setattr(plan, "MEMORY", 1)
    sizes = []
    usual = plan.capture
    monkeypatch.setattr(plan, "capture", lambda *given: sizes.append(len(given[2])) or usual(*given))
    few = workbench.inspection.inspect_model(model, sequences, **measures)
    assert set(sizes[:-1]) == {2}
    for name in whole:
        assert abs(few[name].mean.values - whole[name].mean.values).max() < 1e-5, name


def test_a_basis_in_parts_spans_what_it_spans_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.randn(100, 12, generator=torch.Generator().manual_seed(0)) @ torch.diag(torch.arange(12.0))
    whole = unexplained.span(rows)
    monkeypatch.setattr(unexplained, "ROWS", 30)
    parts = unexplained.span(rows.clone())
    assert parts.shape == whole.shape == (12, 11)
    assert (parts @ parts.T - whole @ whole.T).abs().max() < 1e-12


def test_a_text_is_cut_as_it_runs_on_whatever_parts_it_is_read_in(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "".join(text_file.read_parts(place / "text.txt"))
    monkeypatch.setattr(text_file, "LETTERS", 50)
    parts = list(text_file.read_parts(place / "text.txt"))
    assert len(parts) > 10 and "".join(parts) == whole
    pieces = list(cut(iter(torch.arange(100).split(7)), 8))
    assert len(pieces) == 12 and torch.equal(torch.cat(pieces), torch.arange(96))


def test_what_is_trained_first_is_trained_on_the_text_after_what_is_measured(place: Path) -> None:
    model = workbench.load_model(place / "llama", progress=False)
    sequences = file_sequences(model, place / "text.txt", length=10, n=20, training=20)
    draws = workbench.generator(0)
    measured = {tuple(row.tolist()) for row in sequences.sample(20, draws, split="test").tokens}
    trained = {tuple(row.tolist()) for row in sequences.sample(16, draws, split="train").tokens}
    assert len(measured) == 20 and len(trained) == 16 and not measured & trained


WRONG = {
    "llama is a model of Hugging Face, not a run folder; `workbench inspect .*--text FILE`": ["llama"],
    "there is no text file": ["llama", "--text", "nowhere.txt"],
    "empty.txt is empty: there is no text in it": ["llama", "--text", "empty.txt"],
    "short.txt has 5 tokens, and an interval needs two .*--length": ["llama", "--text", "short.txt"],
    "bytes.txt is not text in UTF-8": ["llama", "--text", "bytes.txt"],
    "no-tokenizer has no tokenizer, which cuts a text into tokens": ["no-tokenizer", "--text", "text.txt"],
    "there is no layer 7; the layers of llama are 0 to 1": ["llama", "--text", "text.txt", "--layers", "7"],
    "2 to 32 tokens, its context, not 40": ["llama", "--text", "text.txt", "--length", "40"],
    "named twice": ["llama", "llama", "--text", "text.txt"],
    "--timeline is of runs": ["llama", "--text", "text.txt", "--timeline"],
    "--circuit is of runs": ["llama", "--text", "text.txt", "--circuit"],
    "--layers is of models that are measured on a text": ["llama", "--layers", "0"],
    "without network, give the folder": ["some/model", "--text", "text.txt"],
    "does not know the architecture of unknown": ["unknown", "--text", "text.txt"],
    "run is a run folder, which is measured on sequences of its own task": ["run", "--text", "text.txt"],
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_said_in_one_line(
    words: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name, config in {"unknown": {"model_type": "nothing_known"}, "run": {"format": 1}}.items():
        (place / name).mkdir(exist_ok=True)
        (place / name / "config.json").write_text(json.dumps(config))
    assert main(["inspect", *WRONG[words], "--n", "8", "--quiet"]) == 2
    shown = capsys.readouterr()
    assert not shown.out and shown.err.count("\n") == 1
    assert re.search(words, shown.err), shown.err


@pytest.mark.slow
def test_a_model_of_124_million_parameters_takes_two_gigabytes_beside_its_weights(tmp_path: Path) -> None:
    """`tests/benchmarks/bench_pretrained.py` measures it in all layers, and what further sequences add."""
    size = gpt2_sized.make_model(tmp_path / "gpt2")
    gpt2_sized.write_text(tmp_path / "text.txt", 257 * 4)
    only = ["--layers", "0", "11", "--only", *gpt2_sized.MEASURES]
    peak, _ = gpt2_sized.peak(tmp_path / "gpt2", tmp_path / "text.txt", 4, *only)
    assert 470 < size < 480 and peak < size + 2048
