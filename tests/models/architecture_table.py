"""Writes docs/concepts/architectures.md: what is true of each architecture's models here, found out by calling it.

python -m tests.models.architecture_table        (a test calls all of it again and compares)
"""

from __future__ import annotations

import logging
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

import workbench
from tests.models.tiny_models import LATENT
from tests.models.tiny_tokenizers import unigram
from workbench.capture import Capture, Subject, capture
from workbench.inspection import inspect_model
from workbench.instruments.answers import loss
from workbench.instruments.lens import logit_lens
from workbench.models.facts import EDITED, EditReachesNothingError
from workbench.models.pretrained import set_attention
from workbench.models.pretrained.checks import HIDDEN_STATES
from workbench.models.pretrained.model import Pretrained
from workbench.tasks import Batch, make, own_sequences
from workbench.util.messages import brief

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "architectures.md"
HEAD = """# Architectures

Here you can look up whether a family of language models can be loaded, measured and edited, before you try.

Models of Hugging Face that TransformerLens bridges, tiny and with random weights, each loaded, measured and edited.

- *Loss and lens*: the loss is that of the logits that Transformers' own model returns, and the logit lens of the last
  residual gives them, with whatever the model does to its logits.
- *Edits refused*: the hook points that can be watched and not edited, because the bridge leaves attention to the model.
  An edit at every other one moves the output.
- *γ = 0*: with ChaCAL of γ = 0 in place of its attention it computes what it did, or the exchange is refused.
- *A tensor missing*: a folder without one of its tensors is refused.
- *One text*: a single text can be inspected, and its tokens are shown decoded.

Written by `python -m tests.models.architecture_table`; a test calls all of it again and compares.
"""
SHAPE: dict[str, Any] = {
    **{"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None},
}
GATED = {**SHAPE, "intermediate_size": 48, "num_key_value_heads": 2}
WINDOW = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
GPT = {
    "vocab_size": 40,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 32,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", GPT),
    "gpt_bigcode": ("gpt_bigcode", GPT),
    "gptj": ("gptj", {**GPT, "rotary_dim": 4}),
    "gpt_neo": (
        "gpt_neo",
        {**SHAPE, "num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    ),
    "gpt_neox": ("gpt_neox", {**SHAPE, "intermediate_size": 48}),
    "codegen": ("codegen", {**GPT, "rotary_dim": 4}),
    "opt": ("opt", {**SHAPE, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "xglm": ("xglm", {**SHAPE, "d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4}),
    "bloom": ("bloom", {"vocab_size": 40, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": ("mpt", {"vocab_size": 40, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 32}),
    "llama": ("llama", GATED),
    "qwen2": ("qwen2", GATED),
    "qwen3": ("qwen3", {**GATED, "head_dim": 8}),
    "gemma": ("gemma", {**GATED, "head_dim": 8, "num_key_value_heads": 1}),
    "gemma2": ("gemma2", {**GATED, "head_dim": 8}),
    "gemma2, capped at 3": ("gemma2", {**GATED, "head_dim": 8, "final_logit_softcapping": 3.0}),
    "gemma3": ("gemma3_text", {**GATED, "head_dim": 8}),
    "cohere": ("cohere", GATED),
    "granite": ("granite", {**GATED, "logits_scaling": 13.0, "residual_multiplier": 0.22}),
    "olmo2": ("olmo2", GATED),
    "phi": ("phi", GATED),
    "phi3": ("phi3", GATED),
    "stablelm": ("stablelm", GATED),
    "mixtral": ("mixtral", {**GATED, "num_local_experts": 2, "num_experts_per_tok": 1}),
    "nemotron": ("nemotron", GATED),
    "falcon": ("falcon", SHAPE),
    "starcoder2": ("starcoder2", {**GATED, "sliding_window": 4}),
    "olmo3": ("olmo3", {**GATED, **WINDOW}),
    "exaone4": ("exaone4", {**GATED, **WINDOW}),
    "glm4": ("glm4", GATED),
    "bitnet": ("bitnet", GATED),
    "nanochat": ("nanochat", GATED),
    "qwen3_moe": ("qwen3_moe", {**GATED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
    "qwen3_next": (
        "qwen3_next",
        {**GATED, "num_experts": 4, "num_experts_per_tok": 2, "layer_types": ["full_attention"] * 2},
    ),
    "llama4": ("llama4_text", {**GATED, "num_local_experts": 2, "intermediate_size_mlp": 48}),
    "gpt_oss": ("gpt_oss", {**GATED, **WINDOW, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1}),
    "jetmoe": ("jetmoe", {**GATED, "kv_channels": 8, "num_local_experts": 2, "num_experts_per_tok": 2}),
    "deepseek_v2": ("deepseek_v2", {**SHAPE, **LATENT}),
    "deepseek_v3": ("deepseek_v3", {**SHAPE, **LATENT}),
}
"""In words -> the model type, and its settings."""
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {**SHAPE, "intermediate_size": 48, "is_decoder": True}),
    "bert, an encoder": ("bert", {**SHAPE, "intermediate_size": 48}),
    "opt, a narrow embedding": ("opt", {**SHAPE, "ffn_dim": 48, "word_embed_proj_dim": 16}),
    "falcon, new": ("falcon", {**SHAPE, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "t5": ("t5", {"vocab_size": 40, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}),
    "mamba": ("mamba", {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    "falcon_mamba": ("falcon_mamba", {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
}
"""Those that are refused at the door."""
TEXT = "The cat sat on the na\u00efve mat"


def build(name: str) -> PreTrainedModel:
    """A model with random weights; sharp enough for its cap, its heads and its norms to matter."""
    kind, settings = ARCHITECTURES[name.removesuffix(", for induction")]
    if name.endswith("induction"):
        settings = {**settings, "vocab_size": len(make("induction").vocabulary)}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.2 * torch.randn_like(weight)
    return model


@cache
def loaded(name: str) -> tuple[Pretrained, Tensor, Tensor]:
    """The hooked model, tokens, and the logits that Transformers' own model made of them before it was hooked."""
    model = build(name)
    tokens = torch.randint(2, 33, (3, 10), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits
    return Pretrained(model), tokens, logits


def seen(name: str, n: int = 3) -> Capture:
    pretrained, tokens = loaded(name)[0], loaded(name)[1][:n]
    subject = Subject.of(pretrained, own_sequences(tokens, pretrained.config.d_vocab), name)
    batch = Batch.next_token(tokens, 0, tokens.shape[1] - 1)
    return capture(pretrained.hooked(), subject, batch, logit_lens.needs(subject))


def of_the_model(name: str) -> bool:
    """Whether loss and lens are those of the logits that Transformers' own model returns."""
    pretrained, tokens, logits = loaded(name)
    found, last = seen(name), f"blocks.{pretrained.config.n_layers - 1}.hook_resid_post"
    close = {"rtol": 1e-3, "atol": 1e-3 * float(logits.abs().max())}
    torch.testing.assert_close(found.logits, logits, **close)
    torch.testing.assert_close(logit_lens.decode(found.subject, found[last]), logits, **close)
    own = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert logit_lens.why_not(found.subject) is None
    assert logit_lens.measure(found).select(point=last).values.max() < 1e-4
    return abs(float(loss.measure(found).values.mean()) / float(own) - 1) < 1e-4


def refused_edits(name: str) -> set[str]:
    """The ends of the hook points at which an edit is refused; at every other it moves the output."""
    pretrained, tokens, logits = loaded(name)
    hooked, refused = pretrained.hooked(), set()

    def change(activation: Tensor, hook: Any) -> Tensor:
        return activation + torch.rand(activation.shape, generator=torch.Generator().manual_seed(2))

    for point in hooked.hook_dict:
        if point.endswith(EDITED):
            try:
                with torch.no_grad(), hooked.hooks(fwd_hooks=[(point, change)]):
                    assert (hooked(tokens) - logits).abs().max() > 1e-3, point
            except EditReachesNothingError as error:
                assert "\n" not in str(error) and point.split(".")[-1] in str(error)
                refused.add(point.split(".")[-1])
    return refused


def without_steps(name: str) -> str:
    """Whether ChaCAL of γ = 0 computes what the model does, or why it cannot have it."""
    _, tokens, logits = loaded(name)
    model = build(name)
    try:
        set_attention(model, {"variant": "chacal", "gamma": 0.0})
        exchanged = Pretrained(model)
    except ValueError as error:
        return f"refused: {brief(error, 150)}"
    with torch.no_grad():
        assert (exchanged.hooked()(tokens) - logits).abs().max() < 1e-3 * logits.abs().max()
    return "as before"


def lacks_a_tensor(name: str) -> bool:
    """Whether a folder without one of its tensors is refused."""
    with tempfile.TemporaryDirectory() as folder:
        build(name).save_pretrained(folder)
        path = Path(folder, "model.safetensors")
        whole = load_file(path)
        whole.pop(sorted(whole)[len(whole) // 2])
        save_file(whole, path, {"format": "pt"})
        try:
            workbench.load_model(folder, progress=False)
        except ValueError as error:
            return "get the model anew" in str(error) and "\n" not in str(error)
    return False


def one_text(name: str) -> bool:
    """Whether one text can be inspected, and its tokens are shown decoded."""
    model = Pretrained(build(name), unigram(), name)
    given = model.sequences([TEXT])
    found = inspect_model(model, given, only=["entropy", "loss", "logit_lens"])
    words = [model.words[token] for token in model.tokens(TEXT).tolist()]
    return len(found.results) == 3 and "\u00efve" in "".join(words) and "\u2581" not in "".join(words)


def door(name: str) -> str:
    """What is said of a folder of an architecture that is refused."""
    kind, settings = OTHERS[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **settings)
    auto = AutoModel if name in ("bert, an encoder", "t5") else AutoModelForCausalLM
    with tempfile.TemporaryDirectory() as folder:
        auto.from_config(config).save_pretrained(folder)
        try:
            workbench.load_model(folder, progress=False)
        except ValueError as error:
            return brief(
                str(error).replace(folder, "it").replace(Path(folder).name, "it").removesuffix(f"; {HIDDEN_STATES}")
            )
    return "loaded"


def changes(name: str) -> str:
    """What the model does to its logits, in words."""
    logits = loaded(name)[0].facts.logits
    scaled = [] if logits.scale == 1 else [f"× {logits.scale:.3g}"]
    return ", ".join([*scaled, *([] if logits.cap == float("inf") else [f"capped at {logits.cap:g}"])]) or "–"


def row(name: str) -> str:
    """What is true of an architecture, as a row of the table."""
    said = {True: "yes", False: "**no**"}
    cells = [
        *(name, changes(name), said[of_the_model(name)], ", ".join(sorted(refused_edits(name))) or "none"),
        *(without_steps(name), said[lacks_a_tensor(name)], said[one_text(name)]),
    ]
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The page."""
    heads = ("architecture", "logits", "loss and lens", "edits refused", "γ = 0", "a tensor missing", "one text")
    lines = [HEAD, f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *map(row, ARCHITECTURES), ""]
    lines += [
        "## Refused",
        "",
        f"Each line goes on: {HIDDEN_STATES}.",
        "",
        "| architecture | what is said |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {door(name)} |" for name in OTHERS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    disable_progress_bar()
    PAGE.write_text(page(), encoding="utf-8")
