"""Named directions of one's own: a probe saves them, a model is projected on them, and goes on under their edits."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

import workbench
from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import of_words
from workbench.capture import capture
from workbench.capture.directions import Directions
from workbench.cli import main
from workbench.interventions import AlongDirection, RemoveHead
from workbench.models.pretrained import load_model
from workbench.runs import Run

POINT = "blocks.0.hook_resid_post"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with random weights that knows 38 words, a text of them, and three directions of its residual."""
    place = tmp_path_factory.mktemp("generates")
    tiny("llama").save_pretrained(place / "llama")
    of_words().save_pretrained(place / "llama")
    draw = random.Random(0)
    (place / "text.txt").write_text(" ".join(f"w{draw.randint(2, 39)}" for _ in range(800)), encoding="utf-8")
    width = load_model(place / "llama", progress=False).config.d_model
    vectors = torch.randn(3, width, generator=torch.Generator().manual_seed(1))
    Directions("own", vectors, ("a", "b", "c d"), POINT).save(place / "own.safetensors")
    return place


def test_without_an_edit_it_is_what_the_model_writes(place: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(place / "llama").eval()
    ids = torch.tensor([[4, 5, 6]])
    expected = model.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)[0, 3:]
    written = workbench.generate(place / "llama", "w4 w5 w6", tokens=8)
    known = load_model(place / "llama", progress=False).words
    assert written.unedited.words == tuple(known[i] for i in expected.tolist())
    assert written.edited == written.unedited and "edited  " not in written.says.replace("unedited  ", "")


def test_an_edit_along_a_direction_is_what_a_hook_of_ones_own_makes(place: Path) -> None:
    model = load_model(place / "llama", progress=False)
    direction = Directions.read(place / "own.safetensors", model.config.d_model)["c d"]
    ids = torch.tensor([[4, 5, 6]])
    for how, value in (("add", 3.0), ("set", 0.0), ("scale", -2.0)):

        def move(x: torch.Tensor, hook: object, how: str = how, value: float = value) -> torch.Tensor:
            c = (x @ direction)[..., None] / direction.square().sum()
            new = {"add": c + value, "set": torch.full_like(c, value), "scale": c * value}[how]
            return x + (new - c) * direction

        with torch.no_grad(), model.hooked().hooks(fwd_hooks=[(POINT, move)]):
            logits = model.hooked()(ids)[0, -1]
        written = workbench.generate(
            model, "w4 w5 w6", edits=[[how, "c d", str(value)]], basis=place / "own.safetensors", tokens=1
        )
        assert written.edited.words == (model.words[int(logits.argmax())],)
        assert written.edited.probabilities[0] == pytest.approx(float(logits.softmax(-1).max()), abs=1e-6)
        assert written.edited.probabilities != written.unedited.probabilities


def test_an_edit_of_every_position_is_of_the_new_tokens_too_and_of_one_position_is_not(place: Path) -> None:
    model, basis = load_model(place / "llama", progress=False), place / "own.safetensors"
    everywhere, at_first = (
        workbench.generate(model, "w4 w5 w6", edits=[AlongDirection("a", "add", 5, POINT, at)], basis=basis, tokens=6)
        for at in (None, 0)
    )
    assert everywhere.edited.words != at_first.edited.words
    again = workbench.generate(
        model,
        "w4 w5 w6 " + " ".join(everywhere.edited.words[:3]),
        edits=[["add", "a", "5"]],
        basis=basis,
        tokens=3,
    )
    assert again.edited.words == everywhere.edited.words[3:]
    assert "layer 0, after the MLP" in everywhere.says and everywhere.parts_at is not None


def test_draws_are_those_of_the_seed_and_the_same_for_both_texts(place: Path) -> None:
    model = load_model(place / "llama", progress=False)
    one, same, other = (
        workbench.generate(model, "w4 w5", edits=[RemoveHead(0, 0)], temperature=2.0, seed=seed, tokens=12)
        for seed in (0, 0, 1)
    )
    assert one == same and one.unedited.words != other.unedited.words
    nothing = workbench.generate(
        model, "w4 w5", edits=[["scale", "a", "1"]], basis=place / "own.safetensors", temperature=2.0, tokens=12
    )
    assert nothing.edited.words == nothing.unedited.words == one.unedited.words
    assert "changes none of the 12 new tokens" in nothing.says


def test_the_command_prints_both_texts_and_the_numbers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(place / "llama"), "w4 w5 w6", "--tokens", "4", "--basis", str(place / "own.safetensors")]
    assert main([*words, "--edit", "add", "a", "5", "--edit", "head", "0.1"]) == 0
    shown = capsys.readouterr().out
    assert "unedited  '" in shown and "edit: 5 times a is added everywhere (layer 0, after the MLP)" in shown
    assert "edit: layer 0, head 1 writes nothing" in shown and "They part at new token" in shown
    patch = ["--edit", "patch", POINT, "w9 w8 w7 w3"]
    assert main([*words, *patch, "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["edits"] == ["position 2 holds what position 3 of another input holds (layer 0, after the MLP)"]
    assert len(numbers["edited"]["tokens"]) == 4


def test_a_run_goes_on_too(tmp_path: Path) -> None:
    small = {"task": {"n": 8, "k": 2}, "model": {"d_model": 16, "n_heads": 2}, "eval_size": 8}
    run = workbench.train("chain-standard", out=tmp_path / "run", steps=1, progress=False, **small)
    ids = run.task().sample(1, workbench.generator(0)).tokens[0, :3]
    prompt = " ".join(run.task().words(ids))
    written = workbench.generate(run, prompt, edits=[["write", "blocks.0.hook_attn_out"]], tokens=2)
    expected = run.model().generate(ids[None], 2)[0, 3:]
    assert list(written.unedited.words) == run.task().words(expected)
    assert len(written.table()) == 4


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--edit", "add", "a"], "an edit is typed as `add NAME X [POINT]`, not `add a`"),
        (["--edit", "add", "a", "much"], "an edit is typed as `add NAME X"),
        (["--edit", "steer", "a", "2"], "unknown kind of edit 'steer'; there is: add"),
        (["--edit", "add", "z", "2"], "unknown direction of own.safetensors 'z'; there is: a, b, c d"),
        (["--edit", "head", "0.9"], "there is no head 9"),
        (["--edit", "add", "a", "2", "blocks.7.hook_resid_post"], "unknown point 'blocks.7.hook_resid_post'"),
        (["--tokens", "0"], "goes on by 1 or more"),
        (["--tokens", "99"], "within the context of 32; not 3 tokens by 99"),
        (["--temperature", "-1"], "a temperature is 0 or a positive number"),
        (["--step", "3"], "step is of a run's checkpoints"),
        (["--basis", "gone.safetensors"], "there is no gone.safetensors"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], reason: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert main(["generate", "llama", "w4 w5 w6", "--basis", "own.safetensors", *words]) == 2
    shown = capsys.readouterr()
    assert reason in shown.err and shown.err.count("\n") == 1 and not shown.out


def test_a_direction_without_a_file_or_a_place_is_refused(place: Path, tmp_path: Path) -> None:
    model = load_model(place / "llama", progress=False)
    with pytest.raises(ValueError, match="there is no file of named directions"):
        workbench.generate(model, "w4", edits=[["add", "a", "1"]])
    Directions("own", torch.eye(model.config.d_model)[:2], ("a", "b")).save(tmp_path / "bare.safetensors")
    with pytest.raises(ValueError, match="does not say where its directions were found: name a point"):
        workbench.generate(model, "w4", edits=[["add", "a", "1"]], basis=tmp_path / "bare.safetensors")


def test_files_of_others_are_read_and_what_is_no_basis_is_said(tmp_path: Path) -> None:
    rows, path = torch.randn(4, 8), tmp_path / "sae.safetensors"
    save_file({"W_dec": rows, "W_enc": rows.T.contiguous(), "b_dec": rows[0].clone()}, path)
    sae = Directions.read(path, 8)
    assert sae.names == ("0", "1", "2", "3") and torch.equal(sae.vectors, rows) and sae.point is None
    save_file({"cat": rows[0].clone(), "dog": rows[1].clone()}, path, {"point": "blocks.2.hook_resid_pre"})
    named = Directions.read(path, 8)
    assert torch.equal(named["dog"], rows[1]) and named.point == "blocks.1.hook_resid_post"
    wrong = [
        ({"W": rows}, {"names": '["a"]'}, "names in its metadata is a JSON list of 4 texts"),
        ({"W": rows}, {"names": '["a", "a", "b", "c"]'}, "two directions have the name 'a'"),
        ({"W": rows.T.contiguous()}, {}, r"numbers with decimals \[direction, 8\], not float32 \[8, 4\]"),
        ({"W": rows.long()}, {}, "not int64"),
        ({"W": rows / 0}, {}, "is NaN or infinite"),
        ({"a": rows, "b": rows + 1}, {}, r"its tensors: a \[4, 8\], b \[4, 8\]"),
    ]
    for tensors, about, reason in wrong:
        save_file(tensors, path, about)
        with pytest.raises(ValueError, match=reason):
            Directions.read(path, 8)
    path.write_bytes(b"no tensors")
    with pytest.raises(ValueError, match="truncated or corrupted"):
        Directions.read(path, 8)


def test_a_model_is_projected_on_them_in_the_report(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ["--text", str(place / "text.txt"), "--length", "8", "--n", "6", "--only", "entropy", "--quiet"]
    basis, out = ["--basis", str(place / "own.safetensors")], tmp_path / "report"
    assert main(["inspect", str(place / "llama"), *text, *basis, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "own.safetensors: mean cosine with the residual, after MLP 0: " in shown and "turned at random" in shown
    assert "Top direction of own.safetensors" in (out / "report.html").read_text()
    cosines = json.loads((out / "data" / "llama" / "own_basis" / "cosines.json").read_text())
    model = load_model(place / "llama", progress=False)
    own = Directions.read(place / "own.safetensors", model.config.d_model)
    with torch.no_grad():
        report = workbench.inspect(
            [place / "llama"], text=place / "text.txt", length=8, n=6, only=["entropy"], out=tmp_path / "b",
            basis=place / "own.safetensors", progress=False,
        )  # fmt: skip
        one = report.inspected[0]
        seen = capture(model.hooked(), one.example.subject, one.run.task().sample(6, workbench.generator(0)), [POINT])
        x = torch.nn.functional.normalize(seen[POINT], dim=-1)
        expected = (x @ torch.nn.functional.normalize(own.vectors, dim=-1).T).mean((0, 1))
    measured = report.own_bases["llama"].measured
    assert measured is not None and measured.dims == ("direction", "point")
    assert measured.select(point=POINT).values == pytest.approx(expected.numpy(), abs=1e-5)
    assert cosines["name"] == measured.name
    for wrong in ("text.txt", "gone.safetensors"):
        assert main(["inspect", str(place / "llama"), *text, "--basis", str(place / wrong), "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_a_probe_saves_mean_differences_that_edits_take(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], trained: Run
) -> None:
    rows = [{"text": f"w{2 + i % 19} w{3 + i % 7} w{20 + i % 11}", "odd": "yes" if i % 2 else "no"} for i in range(60)]
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    probe = ["probe", str(place / "llama"), "odd", "--text", str(tmp_path / "odd.jsonl"), "--quiet"]
    file = tmp_path / "odd.safetensors"
    assert main([*probe, "--save-directions", str(file)]) == 0
    assert f"named directions: {file}" in capsys.readouterr().out
    width = load_model(place / "llama", progress=False).config.d_model
    found = Directions.read(file, width)
    assert found.names == ("odd=no", "odd=yes") and found.point is not None
    assert torch.allclose(found["odd=no"], -found["odd=yes"], atol=1e-5)  # of two classes each is against the other
    assert main(["generate", str(place / "llama"), "w4 w5", "--basis", str(file), "--edit", "add", "odd=yes", "1"]) == 0
    capsys.readouterr()
    assert main([*probe, "--save-directions", str(file)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main([*probe[:2], "*", *probe[3:], "--save-directions", str(tmp_path / "b.safetensors")]) == 2
    assert "directions are saved of one label of one model" in capsys.readouterr().err

    of_run = tmp_path / "run.safetensors"
    workbench.probe(trained, "token", n=60, causal=False, directions=of_run)
    assert Directions.read(of_run, 16).names[0].startswith("token=")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    small = {"task": {"n": 8, "k": 2}, "model": {"d_model": 16, "n_heads": 2}, "eval_size": 8}
    return workbench.train(
        "chain-standard", out=tmp_path_factory.mktemp("runs") / "r", steps=1, progress=False, **small
    )
