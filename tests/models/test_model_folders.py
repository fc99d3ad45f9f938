"""Folders of Hugging Face models as strangers make them: loaded right, or refused before memory is taken."""

from __future__ import annotations

import json
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import workbench
from tests.models.tiny_models import FAMILIES, GROUPS, other, tiny, tokens
from tests.models.tiny_tokenizers import unigram
from workbench.cli import main
from workbench.models.pretrained import set_attention
from workbench.sharing import export_hugging_face
from workbench.util import memory
from workbench.util.messages import Notice

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Llama in one file of weights."""
    tiny("llama").save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def sharded(folder: Path) -> dict[str, Any]:
    """Save the Llama anew in several files; returns their index."""
    (folder / WEIGHTS).unlink(missing_ok=True)
    tiny("llama").save_pretrained(folder, max_shard_size="16KB")
    return dict(json.loads((folder / INDEX).read_text()))


def edit(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def refused(folder: Path, words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        workbench.load_model(folder, progress=False)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 1000


@torch.no_grad()
def logits(folder: Path) -> torch.Tensor:
    return torch.as_tensor(workbench.load_model(folder, progress=False)(tokens()))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_of_which_a_tensor_is_missing_is_refused(family: str, tmp_path: Path) -> None:
    """Transformers would fill it with random numbers, other ones each time."""
    tiny(family).save_pretrained(tmp_path)
    whole = load_file(tmp_path / WEIGHTS)
    for name in (min(whole), max(whole), sorted(whole)[len(whole) // 2]):
        rest = {tensor: value for tensor, value in whole.items() if tensor != name}
        save_file(rest, tmp_path / WEIGHTS, {"format": "pt"})
        refused(tmp_path, r"none of its files holds \S+, .*which would be random numbers")
    save_file(whole, tmp_path / WEIGHTS, {"format": "pt"})
    assert (logits(tmp_path) - tiny(family)(tokens()).logits).abs().max() < 1e-5


def test_an_expert_of_which_a_tensor_is_missing_is_said(tmp_path: Path) -> None:
    """Transformers puts all experts of a layer together as it reads them, and fails with a report that nobody sees."""
    other("mixtral", **GROUPS, num_local_experts=2).save_pretrained(tmp_path)
    whole = load_file(tmp_path / WEIGHTS)
    del whole["model.layers.1.block_sparse_moe.experts.1.w3.weight"]
    save_file(whole, tmp_path / WEIGHTS, {"format": "pt"})
    refused(tmp_path, "its experts', do not fit each other, as one is missing.*; get the model anew")


def test_the_command_line_writes_no_report_of_random_numbers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = load_file(folder / WEIGHTS)
    weights.pop("model.layers.1.mlp.up_proj.weight")
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    (tmp_path / "text.txt").write_text("w3 w4 w5")
    command = ["inspect", str(folder), "--text", str(tmp_path / "text.txt"), "--out", str(tmp_path / "report")]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "model.layers.1.mlp.up_proj.weight" in said and said.count("\n") == 1
    assert not (tmp_path / "report").exists()


def test_tensors_that_the_model_has_no_place_for_are_said(folder: Path) -> None:
    """Here biases that its config denies: without them it is another model than was trained."""
    before = logits(folder)
    bias = {"model.layers.0.self_attn.q_proj.bias": torch.ones(32)}
    save_file(load_file(folder / WEIGHTS) | bias, folder / WEIGHTS, {"format": "pt"})
    with pytest.warns(
        Notice, match="left out of its files, as no part of LlamaForCausalLM: model.layers.0.self_attn.q"
    ):
        assert torch.equal(logits(folder), before)


def test_parts_of_the_weights_are_read_together_and_one_that_is_missing_is_named(folder: Path) -> None:
    before, index = logits(folder), sharded(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(set(index["weight_map"].values())) > 2 and torch.equal(logits(folder), before)
    first = min(index["weight_map"].values())
    (folder / first).rename(folder / "aside")
    refused(folder, f"cannot read its weights: there is no {first}, which is a part of them")
    (folder / "aside").rename(folder / first)
    save_file(load_file(folder / first), folder / "model-twice.safetensors", {"format": "pt"})
    index["weight_map"]["more"] = "model-twice.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    refused(folder, "is in model-twice.safetensors and in another file too")


def adapter_beside(folder: Path) -> None:
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    save_file({"base_model.model.x.lora_A.weight": torch.ones(2, 2)}, folder / "adapter_model.safetensors")


def adapter_alone(folder: Path) -> None:
    adapter_beside(folder)
    (folder / "config.json").unlink()


@pytest.mark.parametrize("left", [adapter_beside, adapter_alone])
def test_an_adapter_is_refused_with_what_to_do(left: Callable[[Path], None], folder: Path) -> None:
    left(folder)
    refused(folder, "an adapter.*merge it into its model")


@pytest.mark.parametrize(
    "file", ["pytorch_model.bin", "../outside.safetensors", "/tmp/outside.safetensors", "sub/x.safetensors", ".."]
)
def test_an_index_names_safetensors_files_beside_it_alone(file: str, folder: Path) -> None:
    index = sharded(folder)
    weights = load_file(folder / index["weight_map"]["lm_head.weight"])
    for place in (folder / "pytorch_model.bin", folder.parent / "outside.safetensors"):
        torch.save(weights, place) if place.suffix == ".bin" else save_file(weights, place)
    index["weight_map"]["lm_head.weight"] = file
    (folder / INDEX).write_text(json.dumps(index))
    refused(folder, "only files .*safetensors beside it are read")


@pytest.mark.parametrize("index", ["[]", "{}", '{"weight_map": []}', "{", "\x00", '{"weight_map": {"a": 3}}'])
def test_a_damaged_index_is_said(index: str, folder: Path) -> None:
    sharded(folder)
    (folder / INDEX).write_text(index)
    refused(folder, "cannot read its weights")


@pytest.mark.parametrize("file", [WEIGHTS, "config.json", "generation_config.json"])
def test_a_link_out_of_a_folder_is_not_followed(file: str, folder: Path) -> None:
    (folder / file).rename(folder.parent / "outside")
    (folder / file).symlink_to(folder.parent / "outside")
    refused(folder, "is a link that leads out of")
    (folder / file).unlink()
    (folder.parent / "outside").rename(folder / "inside")
    (folder / file).symlink_to("inside")
    logits(folder)


def test_a_snapshot_in_the_hubs_cache_is_a_folder_of_links_to_its_blobs(folder: Path) -> None:
    cache = folder.parent / "models--some--llama"
    (cache / "snapshots").mkdir(parents=True)
    snapshot, blobs = folder.rename(cache / "snapshots" / "0123"), cache / "blobs"
    blobs.mkdir()
    for number, path in enumerate(list(snapshot.iterdir())):
        path.rename(blobs / str(number))
        path.symlink_to(f"../../blobs/{number}")
    logits(snapshot)
    blobs.rename(cache.parent / "elsewhere")
    blobs.symlink_to(cache.parent / "elsewhere")
    refused(snapshot, "is a link that leads out of")


HUGE: dict[str, tuple[str, dict[str, Any], str]] = {
    "layers": ("llama", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1,000,000,000, and no model has"),
    "layers of GPT-2": ("gpt2", {"n_layer": 10**9}, "n_layer is 1,000,000,000, and no model has"),
    "many layers": ("gpt2", {"n_layer": 1000}, "by its config it has more than 10,000 tensors, and its files do not"),
    "positions": ("gpt2", {"n_positions": 3 * 10**7}, r"wpe.weight should be \[30000000, 32\], and it is \[32, 32\]"),
    "words": ("llama", {"vocab_size": 10**9}, r"should be \[1000000000, 32\], and it is \[40, 32\]"),
    "words beyond counting": ("llama", {"vocab_size": 10**18}, "cannot read its weights"),
    "width": ("llama", {"intermediate_size": 10**9}, r"should be \[32, 1000000000\], and it is \[32, 48\]"),
    "labels": ("llama", {"num_labels": 10**9}, "num_labels is 1,000,000,000, and no model has"),
    "layers of a part": (
        "llama",
        {"text_config": {"num_hidden_layers": 10**9}},
        "num_hidden_layers is 1,000,000,000, and no",
    ),
}


@pytest.mark.parametrize("what", HUGE)
def test_sizes_are_compared_before_memory_is_taken(what: str, tmp_path: Path) -> None:
    family, changes, words = HUGE[what]
    tiny(family).save_pretrained(tmp_path)
    edit(tmp_path, **changes)
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(tmp_path, words)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert time.perf_counter() - start < 10 and kilobytes < 300_000


def test_a_model_that_is_larger_than_the_machine_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "most_memory", lambda: 50_000)
    refused(folder, "the model needs at least 1 GB of memory; this machine has 1 GB")


def test_a_context_of_any_length_takes_no_memory_where_positions_are_computed(folder: Path) -> None:
    edit(folder, max_position_embeddings=3 * 10**7)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (logits(folder) - tiny("llama")(tokens()).logits).abs().max() < 1e-5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


@pytest.mark.parametrize(
    "field",
    [
        {"attn_implementation": "kernels-community/flash-attn2"},
        {"attn_implementation": "flash_attention_2"},
        {"attn_implementation": {"": "someone/kernel"}},
        {"experts_implementation": "sonicmoe"},
    ],
    ids=str,
)
def test_a_config_does_not_say_which_code_computes(field: dict[str, Any], folder: Path) -> None:
    before = logits(folder)
    edit(folder, **field)
    assert torch.equal(logits(folder), before)


def test_a_config_may_name_an_attention_of_this_library(folder: Path) -> None:
    edit(folder, attn_implementation="chacal")
    assert {layer.name for layer in workbench.load_model(folder).attention} == {"chacal"}


@pytest.mark.parametrize(
    "field",
    [
        {"transformers_weights": "other.safetensors"},
        {"transformers_weights": "adapter_model.bin"},
        {"quantization_config": {"quant_method": "fp8"}},
        {"quantization_config": {"quant_method": "nobody knows"}},
        {"fusion_config": {"patch_embeddings": True}},
    ],
    ids=str,
)
def test_weights_that_are_not_read_as_they_stand_are_refused(field: dict[str, Any], folder: Path) -> None:
    save_file(load_file(folder / WEIGHTS), folder / "other.safetensors")
    edit(folder, **field)
    refused(folder, f"{next(iter(field))}.*load the model by Transformers")


def test_a_tokenizer_larger_than_any_is_not_read(folder: Path) -> None:
    with (folder / "tokenizer.json").open("wb") as file:
        file.truncate(2**40)
    refused(folder, "cannot read its tokenizer: tokenizer.json has more than")


def test_what_lies_outside_a_folder_is_not_exported_with_it(folder: Path) -> None:
    plain = tiny("llama")
    set_attention(plain, "chacal")
    plain.save_pretrained(folder)
    (folder.parent / "private.json").write_text("{}")
    (folder / "tokenizer_config.json").symlink_to(folder.parent / "private.json")
    with pytest.raises(ValueError, match="is a link that leads out of"):
        export_hugging_face(folder, folder.parent / "out")
    assert not (folder.parent / "out").exists()


def as_int8(weights: dict[str, torch.Tensor], part: str) -> dict[str, torch.Tensor]:
    """Weights as a quantizing library writes them: whole numbers, and what scales them beside."""
    whole = dict(weights)
    for name, values in weights.items():
        if part in name:
            whole[name] = (values / values.abs().max() * 127).to(torch.int8)
            whole[f"{name}_scale"] = values.abs().max().reshape(1) / 127
    return whole


@pytest.mark.parametrize(
    ("model", "part", "named"),
    [
        (lambda: tiny("llama"), "_proj", "model.layers.0.mlp.down_proj.weight"),
        (lambda: tiny("gpt2"), "c_fc.weight", "transformer.h.0.mlp.c_fc.weight"),
        (lambda: other("mixtral", **GROUPS, num_local_experts=2), "q_proj", "model.layers.0.self_attn.q_proj.weight"),
    ],
)
def test_quantized_weights_are_not_measured_as_the_whole_numbers_that_they_are(
    model: Callable[[], Any], part: str, named: str, tmp_path: Path
) -> None:
    model().save_pretrained(tmp_path)
    save_file(as_int8(load_file(tmp_path / WEIGHTS), part), tmp_path / WEIGHTS, {"format": "pt"})
    refused(tmp_path, f"hold of {named}, .* is of type I8: quantized numbers are not those that a model computes with")


def test_masks_of_old_files_are_no_quantized_weights(tmp_path: Path) -> None:
    tiny("gpt2").save_pretrained(tmp_path)
    before, mask = logits(tmp_path), torch.ones(1, 1, 32, 32, dtype=torch.bool)
    save_file(load_file(tmp_path / WEIGHTS) | {"transformer.h.0.attn.bias": mask}, tmp_path / WEIGHTS, {"format": "pt"})
    assert torch.equal(logits(tmp_path), before)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_act": "nope"}, "by its config.json hidden_act is 'nope', which Transformers does not know"),
        (
            {"rope_parameters": {"rope_type": "nope", "rope_theta": 1e4}},
            "by its config.json rope_parameters.rope_type is 'nope'",
        ),
        ({"dtype": "auto"}, "cannot read its config: dtype is 'auto', which is no type of PyTorch"),
        ({"torch_dtype": "Tensor"}, "cannot read its config: torch_dtype is 'Tensor'"),
        ({"architectures": 3}, "cannot read its config: architectures is 3, and it is a list of names"),
    ],
)
def test_a_config_that_cannot_be_read_names_the_field(changes: dict[str, Any], words: str, folder: Path) -> None:
    edit(folder, **changes)
    refused(folder, words)


@pytest.mark.parametrize("given", [False, None])
def test_a_model_that_would_give_out_tuples_is_read_all_the_same(given: object, folder: Path) -> None:
    before = logits(folder)
    edit(folder, return_dict=given)
    assert torch.equal(logits(folder), before)


@pytest.mark.parametrize(
    "file", ["generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"]
)
@pytest.mark.parametrize("text", ["[]", "null", "{"])
def test_a_file_beside_the_config_that_is_no_object_is_named(file: str, text: str, folder: Path) -> None:
    (folder / file).write_text(text)
    refused(folder, f"{file} is corrupted: it is ")


def test_a_tokenizers_longest_text_is_a_number(folder: Path) -> None:
    unigram().save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": []}')
    refused(folder, "in tokenizer_config.json model_max_length is")
