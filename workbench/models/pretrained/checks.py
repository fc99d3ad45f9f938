"""What a model must be for instruments to read it right: in numbers, causal, of blocks that add to a residual.

A model is run on a few random tokens, before it is bridged and after: what its config says of it is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge
from transformers import PreTrainedConfig, PreTrainedModel

from workbench.models.facts import LONGEST_PROBE, agree, check_numbers, probe_tokens
from workbench.models.pretrained.attention_functions import FIELD
from workbench.util.messages import brief

HIDDEN_STATES = (
    "what can be measured of it is the entropy of its hidden states: workbench.instruments.matrix_entropy of each that "
    "Transformers gives out with output_hidden_states=True"
)
"""What can be done with a model of another family."""
PARTS = ("resid_pre", "attn_out", "mlp_out", "resid_post")  # of a block, whose last is the sum of the others

Tokens = Int[Tensor, "batch pos"]
Logits = Float[Tensor, "batch pos d_vocab"]


def n_tokens(model: PreTrainedModel) -> int:
    """How many tokens a model knows: the rows of its embedding."""
    return int(cast(Tensor, model.get_input_embeddings().weight).shape[0])


def random_tokens(model: PreTrainedModel) -> Tokens:
    """Two sequences, the same at every call. Raises ValueError if a model's context has fewer than two tokens."""
    n_ctx = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    n_ctx = LONGEST_PROBE if n_ctx is None else int(n_ctx)
    if n_ctx < 2:
        raise ValueError(f"by its config a model's context has 2 tokens or more, not {n_ctx}")
    return probe_tokens(n_tokens(model), n_ctx, model.device)


def _rounded_in(logits: Logits) -> torch.dtype:
    """The type whose rounding counts: most models compute norms, rotations and softmax in float32 at best."""
    return torch.float32 if logits.dtype == torch.float64 else logits.dtype


def checked_logits(model: PreTrainedModel, tokens: Tokens, name: str) -> Logits:
    """A model's own logits.

    Raises:
        ValueError: if a weight or a logit is no finite number, the model cannot be run, or a token changes the logits
            of an earlier one.
    """
    try:
        check_numbers(model)
    except ValueError as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    last_changed = torch.cat([tokens[:1, :-1], (tokens[:1, -1:] + 1) % n_tokens(model)], dim=1)
    with foreign(f"{name} cannot be run"):
        logits, changed = model(torch.cat([tokens, last_changed]), use_cache=False).logits.split([len(tokens), 1])
    if not logits.isfinite().all():
        dtype = str(logits.dtype).removeprefix("torch.")
        raise ValueError(f"{name} gives out logits that are NaN or infinite in {dtype}, with weights that are neither")
    if not agree(changed[:, :-1], logits[:1, :-1], _rounded_in(logits)):
        raise ValueError(f"{name} is not causal: a token changes the logits of those before it; {HIDDEN_STATES}")
    return logits


def no_bridge(model: PreTrainedModel, name: str) -> str:
    """What is said of a model that TransformerLens's bridge of its architecture does not fit.

    It names what its config switches against the architecture's custom, and fields that are none of the architecture's.
    """
    config, common = model.config, {*PreTrainedConfig().to_dict(), FIELD}
    usual, kind = type(config)().to_dict(), type(config).__name__
    specific = {field: value for field, value in config.to_dict().items() if field not in common}
    switched = [f"{field}={x}" for field, x in specific.items() if isinstance(x, bool) and x != usual.get(field, x)]
    strange = [field for field in specific if field not in usual]
    how = f", which has {brief(', '.join(switched), 150)}" if switched else ""
    how += f", whose config has {brief(', '.join(strange), 100)}, unknown to {kind} (take it out)" if strange else ""
    return f"TransformerLens's bridge of {type(model).__name__} does not fit {name}{how}, so that it cannot be opened"


def check_bridge(hooked: TransformerBridge, tokens: Tokens, expected: Logits, name: str, unfit: str) -> None:
    """Raise ValueError unless a bridge computes these logits, in blocks that add what attention and an MLP write.

    Args:
        hooked, tokens, expected, name: the bridge, what it is run on, what the model itself gives out, what to call it.
        unfit: what is said where the bridge cannot be run, or computes something else (`no_bridge`).
    """
    for i in range(hooked.cfg.n_layers):
        if f"blocks.{i}.attn.hook_pattern" not in hooked.hook_dict:
            raise ValueError(f"{name} is of another family: its layer {i} has no attention; {HIDDEN_STATES}")
    blocks = [[f"blocks.{i}.hook_{part}" for part in PARTS] for i in range(hooked.cfg.n_layers)]
    names = {point for block in blocks for point in block}
    with foreign(unfit):
        logits, cache = hooked.run_with_cache(tokens, names_filter=lambda point: point in names)
    if not agree(logits, expected, _rounded_in(expected)):
        raise ValueError(f"{unfit}: its logits differ by {float((logits - expected).abs().max()):.2g}; {HIDDEN_STATES}")
    for i, block in enumerate(blocks):
        parts = [cache[point] for point in block if point in cache]
        adds_up = len(parts) == len(PARTS)
        if adds_up:  # but for rounding
            apart, eps = (sum(parts[:-1]) - parts[-1]).abs().max(), torch.finfo(parts[-1].dtype).eps
            adds_up = bool(apart <= 4 * eps * max(part.abs().max() for part in parts))
        if not adds_up:
            raise ValueError(
                f"{name} is of another family: its layer {i} does not give out its input with what attention and an "
                f"MLP write added, so that there is no residual stream to read; {HIDDEN_STATES}"
            )


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Turn whatever code of other libraries raises, on a model that it does not expect, into one line."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{what}: {brief(error, 150) or type(error).__name__}; {HIDDEN_STATES}") from None
