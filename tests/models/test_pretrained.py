"""Models of Hugging Face as subjects: loaded, hooked, measured, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

import workbench
from tests.models.tiny_models import FAMILIES, SUPPORTED, tiny, tokens
from workbench.capture import LOGITS, Subject, capture
from workbench.instruments.residual import entropy
from workbench.models.attention import Attention
from workbench.models.pretrained import Pretrained, set_attention

every_family = pytest.mark.parametrize("family", FAMILIES)
WORDS = ["[PAD]", "<s>", *(f"w{i}" for i in range(2, 40))]


def tokenizer(words: list[str] = WORDS, **special: str) -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="w2"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, **special)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Llama with a tokenizer, as `save_pretrained` writes them."""
    tiny("llama").save_pretrained(tmp_path / "llama")
    tokenizer(pad_token="[PAD]", bos_token="<s>").save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


def captured(model: Pretrained, ids: Tensor, *names: str) -> Any:
    task = workbench.tasks.own_sequences(ids, model.config.d_vocab)
    subject = Subject.of(model, task, "tiny")
    batch = task.sample(len(ids), workbench.generator(0))
    return capture(model.hooked(), subject, batch, names)


@every_family
@pytest.mark.parametrize("tied", [True, False])
def test_both_bases_and_the_final_norm_are_the_models_own(family: str, tied: bool) -> None:
    plain = tiny(family, tie_word_embeddings=tied, **{"final_logit_softcapping": None} if family == "gemma2" else {})
    rows, columns = plain.get_input_embeddings().weight.clone(), plain.get_output_embeddings().weight.clone()
    model = Pretrained(plain)
    seen = captured(model, tokens(), "blocks.1.hook_resid_post", LOGITS)
    assert torch.equal(seen.subject.encoder, rows) and torch.equal(seen.subject.decoder, columns)
    assert torch.equal(rows, columns) == tied
    by_lens = seen.subject.final_norm(seen["blocks.1.hook_resid_post"]) @ seen.subject.decoder.T
    assert (by_lens + seen.subject.unembed_bias - seen.logits).abs().max() < 1e-5


@pytest.mark.parametrize("family", SUPPORTED)
@pytest.mark.parametrize("attention", ["chacal", "tempered", "tempered_chacal", {"variant": "chacal", "form": "eq7"}])
def test_hooks_see_the_true_pattern_and_edits_of_it_take_effect(family: str, attention: Any) -> None:
    plain, ids = tiny(family), tokens()
    set_attention(plain, attention, layers=[1])
    with torch.no_grad():
        before = plain(ids).logits
    model = Pretrained(plain)
    hooked, names = model.hooked(), [f"blocks.1.attn.hook_{name}" for name in ("attn_scores", "pattern", "z")]
    logits, cache = hooked.run_with_cache(ids)
    assert (logits - before).abs().max() < 1e-5
    scores, pattern, z = (cache[name] for name in names)
    torch.testing.assert_close(scores.softmax(-1), pattern)
    torch.testing.assert_close(pattern.sum(-1), torch.ones(3, 4, 12))
    values = cache["blocks.1.attn.hook_v"]
    values = values.unflatten(-1, (-1, 8)) if values.ndim == 3 else values
    values = values.transpose(1, 2).repeat_interleave(4 // values.shape[2], dim=1)
    variant = model.attention[1]
    assert isinstance(variant, Attention) and model.attention[0].name == "own"
    read = variant.read(pattern, values).transpose(1, 2)
    torch.testing.assert_close(z.reshape(read.shape), read, atol=1e-5, rtol=1e-5)
    cut = hooked.run_with_hooks(ids, fwd_hooks=[(names[1], lambda pattern, hook: torch.zeros_like(pattern))])
    assert not torch.allclose(cut, logits, atol=1e-3)
    with hooked.hooks(fwd_hooks=[(names[1], lambda pattern, hook: torch.zeros_like(pattern))]):
        assert hooked.run_with_cache(ids)[1][names[2]].abs().max() == 0


def test_a_folder_is_loaded_with_its_tokenizer(folder: Path) -> None:
    model = workbench.load_model(folder)
    assert model.config.module == "llama" and model.config.n_ctx == 32
    assert model.tokens("w5 w7 w39").tolist() == [5, 7, 39]
    hooked = model.hooked()
    assert hooked.to_tokens("w5 w7", prepend_bos=False).tolist() == [[5, 7]]
    assert hooked.to_tokens("w5 w7").tolist() == [[5, 7]]  # nothing before it, as the tokenizer has it
    assert hooked.to_tokens("w5 w7", prepend_bos=True).tolist() == [[1, 5, 7]]
    assert hooked.to_str_tokens("w5 w7", prepend_bos=True) == ["<s>", "w5", "w7"]
    with torch.no_grad():
        assert (model(tokens()) - tiny("llama")(tokens()).logits).abs().max() < 1e-5


def test_texts_become_pieces_that_fit_the_context(folder: Path) -> None:
    model = workbench.load_model(folder)
    task = model.sequences([" ".join(["w5"] * 70), "w6 w7 w8"], length=20)
    lengths = sorted(len(row) for row in model.sequences(["w6 w7 w8"])._given[0]["tokens"])
    assert task.n_given == 5 and lengths == [3]
    assert task.vocabulary.words[5] == "w5" and task.pad == 0
    assert model.batch("w6 w7 w8").tokens.tolist() == [[6, 7, 8]]
    for wrong, words in (
        (lambda: model.sequences(["w6 w7"], length=33), "the model's context, not 33"),
        (lambda: model.sequences(["w6"]), "nothing to predict"),
        (lambda: model.batch(" ".join(["w5"] * 33)), "2 to 32 tokens, not 33"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()


def test_a_tokenizer_without_an_end_of_text_gets_none() -> None:
    """TransformerLens would add one whose id the model does not know."""
    model = Pretrained(tiny("llama"), tokenizer(unk_token="w2"))
    assert model.hooked().tokenizer.eos_token is None and len(model.hooked().tokenizer) == 40
    assert model.hooked().to_tokens("w5 w7").tolist() == [[5, 7]]
    assert model.pad == 2


def test_a_model_without_a_tokenizer_takes_token_ids(tmp_path: Path) -> None:
    tiny("gpt2").save_pretrained(tmp_path)
    model = workbench.load_model(tmp_path)
    assert model.tokenizer is None and model.words[3] == "<id 3>"
    with pytest.raises(ValueError, match="no tokenizer"):
        model.tokens("w5")
    found = workbench.inspection.inspect_model(model, tokens(16, 10), causal=False, only=["entropy", "logit_lens"])
    assert {"entropy", "logit_lens"} <= set(found)


@pytest.mark.parametrize(("family", "layers"), [("gpt2", None), ("llama", [1]), ("gemma3", [1]), ("gpt_neox", None)])
def test_whatever_can_be_measured_is_measured(family: str, layers: list[int] | None) -> None:
    """Grouped queries, sliding windows beside ChaCAL, and blocks without a residual between attention and MLP."""
    plain = tiny(family, **{"sliding_window": 4} if family == "gemma3" else {})
    set_attention(plain, "chacal", layers)
    found = workbench.inspection.inspect_model(Pretrained(plain), tokens(8, 12), n=8, causal=False, nulls=[])
    assert {"entropy", "projection", "head_roles", "graph_measures", "logit_lens", "loss"} <= set(found)
    points = found.example.activations
    assert ("blocks.0.hook_resid_mid" in points) == (family != "gpt_neox") and "blocks.1.hook_resid_post" in points
    assert not torch.as_tensor(found["entropy"].mean.values).isnan().any()


def test_it_is_saved_and_loaded_with_its_attention(folder: Path) -> None:
    plain = tiny("llama")
    set_attention(plain, ["standard", {"variant": "chacal", "gamma": 0.8}])
    plain.save_pretrained(folder)
    with torch.no_grad():
        expected = plain(tokens()).logits
    model = workbench.load_model(folder)
    assert [layer.gamma for layer in model.attention] == [None, 0.8]
    assert (model(tokens()) - expected).abs().max() < 1e-5
    assert (workbench.load_model(folder, attention="standard")(tokens()) - expected).abs().max() > 1e-3


def test_its_attention_graph_follows_the_resolvent(folder: Path) -> None:
    """What the instruments read of a layer's pattern is what the layer reads."""
    model = workbench.load_model(folder, attention={"variant": "chacal", "gamma": 0.9})
    seen = captured(model, tokens(), "blocks.0.attn.hook_pattern")
    pattern = seen["blocks.0.attn.hook_pattern"]
    matrix = seen.subject.attention[0].mixing_matrix(pattern)
    inverse = torch.linalg.inv(torch.eye(12) - 0.9 * pattern.tril(-1))
    torch.testing.assert_close(matrix, 0.1 * pattern @ inverse, atol=1e-5, rtol=1e-4)


def test_half_precision_weights_are_kept_so_and_measured(folder: Path) -> None:
    model = workbench.load_model(folder, dtype=torch.bfloat16)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    seen = captured(model, tokens(), "blocks.1.hook_resid_post")
    half = entropy.measure(seen, points=["blocks.1.hook_resid_post"]).mean().values
    seen = captured(workbench.load_model(folder), tokens(), "blocks.1.hook_resid_post")
    single = entropy.measure(seen, points=["blocks.1.hook_resid_post"]).mean().values
    torch.testing.assert_close(torch.as_tensor(half), torch.as_tensor(single), atol=0.02, rtol=0.02, check_dtype=False)


def test_value_biases_are_not_folded_through_chacal() -> None:
    plain = tiny("gpt2")
    set_attention(plain, "chacal")
    hooked = Pretrained(plain).hooked()
    before = hooked(tokens()).log_softmax(-1)
    with pytest.raises(ValueError, match="fold_value_biases=False"):
        hooked.enable_compatibility_mode()
    hooked.enable_compatibility_mode(fold_value_biases=False)
    assert (hooked(tokens()).log_softmax(-1) - before).abs().max() < 1e-4


def test_what_a_bridge_of_a_variant_cannot_do_is_refused() -> None:
    plain = tiny("llama")
    set_attention(plain, "tempered_chacal")
    hooked, mask = Pretrained(plain).hooked(), torch.ones(3, 12, dtype=torch.long)
    mask[1, :4] = 0
    with pytest.raises(ValueError, match="padding on the left"):
        hooked(tokens(), attention_mask=mask)
    with pytest.raises(ValueError, match="use_past_kv_cache=False"):
        hooked.generate(tokens(1), max_new_tokens=3, stop_at_eos=False, verbose=False)
    options: dict[str, Any] = {"max_new_tokens": 3, "do_sample": False, "stop_at_eos": False, "verbose": False}
    assert hooked.generate(tokens(1), use_past_kv_cache=False, **options).shape == (1, 15)


def edit(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def unknown_architecture(folder: Path) -> None:
    edit(folder, model_type="nothing_known", architectures=["NothingForCausalLM"])


def not_causal(folder: Path) -> None:
    config = BertConfig(vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertForMaskedLM(config).save_pretrained(folder)


def pickled(folder: Path) -> None:
    torch.save(tiny("llama").state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


BROKEN: dict[str, Any] = {
    "does not know the architecture": unknown_architecture,
    "no causal language model of Transformers: its architecture is BertForMaskedLM": not_causal,
    "there is no config.json": lambda folder: (folder / "config.json").unlink(),
    "cannot read its config": lambda folder: (folder / "config.json").write_text("{"),
    "cannot read its weights": lambda folder: (folder / "model.safetensors").write_bytes(b"nothing"),
    "its weights: .*safetensors": pickled,
    "cannot read its tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{"),
    "does not fit the model: it has the token id 59": lambda folder: tokenizer(
        [f"w{i}" for i in range(60)]
    ).save_pretrained(folder),
}


@pytest.mark.parametrize("words", BROKEN)
def test_what_is_wrong_with_a_folder_is_said_in_one_line(words: str, folder: Path) -> None:
    BROKEN[words](folder)
    with pytest.raises(ValueError, match=words) as raised:
        workbench.load_model(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GatedRepoError, "is gated: accept its conditions at https://huggingface.co/some/model"),
        (RepositoryNotFoundError, "no such model on the hub"),
        (None, "without network, give the folder"),
    ],
)
def test_what_is_wrong_with_the_hub_is_said_in_one_line(
    error: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        request = httpx2.Request("GET", "https://huggingface.co")
        cause = error("no", response=httpx2.Response(403, request=request)) if error else ConnectionError("down")
        raise OSError("several\nlines") from cause

    monkeypatch.setattr("workbench.models.pretrained.folder.hf_hub_download", refuse)
    with pytest.raises(ValueError, match=words) as raised:
        workbench.load_model("some/model")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["./nothing/here", "/nothing", "a/b/c", ""])
def test_a_folder_that_is_not_there_is_not_looked_for_on_the_hub(name: str) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        workbench.load_model(name)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ValueError, match="is a file"):
        workbench.load_model(tmp_path / "model.safetensors")
