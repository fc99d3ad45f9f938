"""A run as a folder of Hugging Face: loaded by Transformers to exactly the same logits, and nothing pickled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import workbench
from tests.models.tiny_models import tiny, tokens
from workbench.cli import main
from workbench.models.pretrained import set_attention
from workbench.sharing import push

LLAMA = {"positions": "rotary", "activation": "swiglu", "norm": "rmsnorm", "n_kv_heads": 1, "tied": True}
SHAPES: dict[str, dict[str, Any]] = {
    "standard": {"attention": "standard", "positions": "sinusoidal"},
    "tempered": {"attention": "tempered"},
    "chacal": {"attention": "chacal"},
    "mixed": {"attention": ["standard", "chacal"], "n_layers": 2},
    "llama": {"attention": "standard", **LLAMA},
    "scalable": {"attention": "scalable"},
}
SMALL: dict[str, Any] = {"steps": 3, "task": {"n": 8, "k": 2}, "eval_size": 8, "batch_size": 4}
FILES = ["README.md", "config.json", "generation_config.json", "model.safetensors", "modeling_workbench.py"]
FILES += ["tokenizer.json", "tokenizer_config.json"]


def loaded(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_has_exactly_its_logits_as_a_model_of_transformers(shape: str, tmp_path: Path) -> None:
    model = {"d_model": 16, "n_heads": 2, **SHAPES[shape]}
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, **SMALL, model=model)
    assert main(["export", str(run.path), str(tmp_path / "out"), "--hugging-face"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    batch = run.task().sample(4, workbench.generator(3)).tokens
    ours, theirs = run.model(), loaded(tmp_path / "out")
    assert torch.equal(theirs(batch).logits, ours(batch))
    more = theirs.generate(batch[:, :3], max_new_tokens=4, do_sample=False)
    assert torch.equal(more, ours.generate(batch[:, :3], 4))
    theirs.save_pretrained(tmp_path / "again")
    assert torch.equal(loaded(tmp_path / "again")(batch).logits, ours(batch))
    words = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert words(" ".join(run.task().words(batch[0])))["input_ids"] == batch[0].tolist()


@pytest.mark.parametrize(
    ("family", "attention"),
    [
        ("gpt2", {"variant": "chacal", "gamma": 0.9}),
        ("llama", {"variant": "chacal", "gamma": 0.9}),
        ("llama", {"variant": "learned_chacal", "per": "head", "gammas": [0.9, 0.2, 0.5, 0.7]}),
    ],
)
def test_a_model_with_another_attention_is_loaded_with_it(
    family: str, attention: dict[str, Any], tmp_path: Path
) -> None:
    model = tiny(family)
    plain = model(tokens()).logits
    set_attention(model, attention, layers=[1])
    model.save_pretrained(tmp_path / "tuned")
    expected = model(tokens()).logits
    assert main(["export", str(tmp_path / "tuned"), str(tmp_path / "out")]) == 0
    theirs = loaded(tmp_path / "out")
    assert torch.equal(theirs(tokens()).logits, expected) and not torch.equal(plain, expected)
    assert [layer.name for layer in workbench.load_model(tmp_path / "out").attention] == ["own", attention["variant"]]
    greedy = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(theirs.generate(tokens(), **greedy), model.generate(tokens(), **greedy))
    theirs.save_pretrained(tmp_path / "again")
    assert torch.equal(loaded(tmp_path / "again")(tokens()).logits, expected)


def test_padding_is_taken_on_the_right_alone(trained: workbench.runs.Run, tmp_path: Path) -> None:
    assert main(["export", str(trained.path), str(tmp_path / "out"), "--hugging-face"]) == 0
    model, batch = loaded(tmp_path / "out"), trained.task().sample(2, workbench.generator(0)).tokens
    right, left = torch.ones_like(batch), torch.ones_like(batch)
    right[:, -2:], left[:, :2] = 0, 0
    assert torch.equal(model(batch, attention_mask=right).logits[:, :-2], model(batch).logits[:, :-2])
    with pytest.raises(ValueError, match="padding on the right alone"):
        model(batch, attention_mask=left)
    loss = model(batch, labels=batch).loss
    assert loss == torch.nn.functional.cross_entropy(model(batch).logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def test_the_code_says_in_one_line_what_to_install(trained: workbench.runs.Run, tmp_path: Path) -> None:
    assert main(["export", str(trained.path), str(tmp_path / "out"), "--hugging-face"]) == 0
    code = "import runpy, sys; sys.modules['workbench'] = None; runpy.run_path('modeling_workbench.py')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "out", capture_output=True, text=True)
    assert "needs the Python package interp-workbench" in done.stderr.splitlines()[-1]


def test_a_pushed_model_is_that_folder_and_replaces_only_such_a_one(trained: workbench.runs.Run, hub: Any) -> None:
    push(trained, "me/model", hugging_face=True, client=hub.client())
    push(trained, "me/model", hugging_face=True, client=hub.client())
    _, there = hub.repositories["me/model"].commits[-1]
    assert sorted(there) == sorted([".gitattributes", *FILES]) and "me/model" in there["README.md"].decode()
    push(trained, "me/run", client=hub.client())
    with pytest.raises(ValueError, match="holds another model, not a model that was exported so"):
        push(trained, "me/run", hugging_face=True, client=hub.client())


def test_what_cannot_be_exported_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny("gpt2").save_pretrained(tmp_path / "plain")
    assert main(["export", str(tmp_path / "plain"), str(tmp_path / "out")]) == 2
    assert "has its own attention: it is an ordinary folder" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "gone"), str(tmp_path / "out"), "--hugging-face"]) == 2
    assert "there is no run folder" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "gone"), str(tmp_path / "out.zip"), "--hugging-face"]) == 2
    assert "out.zip would be a folder, since Transformers loads no zip" in capsys.readouterr().err
    workbench.train("chain-chacal", out=tmp_path / "run", progress=False, **SMALL)
    (tmp_path / "run" / "weights.safetensors").unlink()
    (tmp_path / "run" / "resume").mkdir()
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "out"), "--hugging-face"]) == 2
    shown = capsys.readouterr().err
    assert "is not finished" in shown and shown.count("\n") == 1 and not (tmp_path / "out").exists()
