"""The bridge of our models: TransformerLens's processing of weights where it is exact, and a task's words.

Our decoders have no beginning and no end of text, and take no padding on the left: nothing is put before a text, and a
model goes on from prompts of one length. By TransformerLens's custom `generate` leaves padding out of the text that it
gives; with `return_type="tokens"` it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from transformer_lens.model_bridge import TransformerBridge

from workbench.models.norms_and_mlps import NORMS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


NO_TOKENIZER = (
    "this model has no tokenizer, so it neither takes nor gives words: give token ids, such as task.parse(text).tokens "
    "or task.vocabulary.encode(words); task.words(ids) are the words of ids; or give it the task's words, "
    "hooked.speak(task.fast_tokenizer())"
)
ALWAYS = ("to_string", "to_str_tokens", "to_single_token", "to_single_str_token")
"""Methods that always need a tokenizer."""
OF_WORDS = ("forward", "run_with_cache", "get_token_position", "tokens_to_residual_directions")
"""Methods that take token ids in place of words."""
GENERATING = ("generate", "generate_stream")
"""Methods that take token ids too, and stop at an end-of-text token: where there is none only if its id is given."""


def _encoded(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The ids of a text. Raises ValueError, which names it, if a word is not in the vocabulary."""
    try:
        return list(tokenizer.encode(text, add_special_tokens=False))
    except Exception as error:  # the library raises bare Exception
        known = tokenizer.get_vocab()
        unknown = next((word for word in text.split() if word not in known), None)
        if unknown is None:
            raise
        shown = " ".join(sorted(known, key=known.__getitem__)[:12]) + (" …" if len(known) > 12 else "")
        raise ValueError(f"token {unknown!r} is not in the vocabulary of {len(known)} tokens: {shown}") from error


def _with_words(name: str) -> Callable[..., Any]:
    """TransformerLens's method of this name, in which words are the task's; ValueError where there are none."""
    method = getattr(TransformerBridge, name)

    @wraps(method)
    def checked(self: Any, *given: Any, **named: Any) -> Any:
        first = given[0] if given else named.get("input", "" if name in GENERATING else None)
        if self.tokenizer is None and (name in ALWAYS or any(map(is_words, (first, *given[1:2])))):
            raise ValueError(NO_TOKENIZER)
        ends = self.tokenizer is not None and self.tokenizer.eos_token_id is not None
        if name in GENERATING and named.get("eos_token_id") is None and not ends:
            named.setdefault("stop_at_eos", False)
        if is_words(first) and name in (*GENERATING, "forward", "run_with_cache"):
            named.pop("input", None)
            if name in GENERATING and named.get("return_type", "input") == "input":
                named["return_type"] = "str"
            given = (self.to_tokens(first, padding_side="left" if name in GENERATING else None), *given[1:])
        return method(self, *given, **named)

    return checked


def is_words(given: Any) -> bool:
    """Whether this is a text, or several."""
    return isinstance(given, str) or (isinstance(given, list) and bool(given) and isinstance(given[0], str))


class HookedDecoder(TransformerBridge):
    """A `TransformerBridge` whose weight processing never changes what the model computes.

    It takes and gives a task's words, once it was given a tokenizer (`speak`).
    """

    @torch.no_grad()
    def process_weights(
        self,
        verbose: bool = False,
        fold_ln: bool = True,
        center_writing_weights: bool = True,
        center_unembed: bool = True,
        fold_value_biases: bool = True,
        refactor_factored_attn_matrices: bool = False,
    ) -> None:
        """TransformerLens's processing of weights under these names (`enable_compatibility_mode`), where it is exact.

        TransformerLens itself guesses from a weight's shape which way it lies, and guesses wrong where d_mlp equals
        d_model; and it folds value biases as if every layer passed constants through, which ChaCAL does not. Here such
        a layer keeps them. A norm is folded, and what is written is centred, where there is one, and where it takes the
        mean out, as RMSNorm does not. Processing twice does no harm.

        Raises:
            ValueError: if asked to refactor the attention matrices, or to fold the value biases of a variant that says
                it passes constants and does not. Nothing is changed then.
        """
        if refactor_factored_attn_matrices:
            raise ValueError(
                "refactor_factored_attn_matrices is not offered for these models: leave it False, "
                "see .QK and .OV for the factored matrices"
            )
        if fold_value_biases:
            _check_constants(self)
        self._weights_processed = True
        unembed = self.unembed.original_component
        if unembed.weight is self.embed.original_component.weight:
            unembed.weight = nn.Parameter(unembed.weight.clone())
        norm = next(norm for norm in NORMS.values() if norm.lens_name == self.cfg.normalization_type)
        if fold_ln and norm.lens_name is not None:
            self._fold_norms(unembed, norm.centres)
        if fold_value_biases:  # after LayerNorm's own biases have gone there
            self._fold_value_biases()
        if center_writing_weights and norm.centres:
            self._centre_what_is_written()
        if center_unembed:
            _centre_output(unembed)

    def _fold_norms(self, unembed: nn.Linear, centres: bool) -> None:
        """Every norm's scale and bias into the maps that read what it gives."""
        for block in self.blocks:
            _fold_norm(block.ln1, [block.attn.q, block.attn.k, block.attn.v], centres)
            if not self.cfg.attn_only:
                reading = ("in", "gate") if self.cfg.gated_mlp else ("in",)
                _fold_norm(block.ln2, [getattr(block.mlp, name) for name in reading], centres)
        if unembed.bias is None:
            unembed.bias = nn.Parameter(torch.zeros_like(unembed.weight[:, 0]))
        _fold_norm(self.ln_final, [unembed], centres)

    def _fold_value_biases(self) -> None:
        """Value biases into the output bias, where attention passes constants on."""
        for block in self.blocks:
            if block.attn.variant.passes_constants:
                of_heads = block.attn.v.bias.unflatten(0, (-1, self.cfg.d_head))
                of_heads = of_heads.repeat_interleave(self.cfg.n_heads // len(of_heads), dim=0)
                block.attn.o.bias += block.attn.o.weight @ of_heads.flatten()
                block.attn.v.bias.zero_()

    def _centre_what_is_written(self) -> None:
        """The mean over the residual's dims out of all that is written to it, which its norms take out anyway."""
        tables = [self.embed, self.pos_embed] if hasattr(self, "pos_embed") else [self.embed]
        for table in tables:
            table.original_component.weight -= table.original_component.weight.mean(1, keepdim=True)
        for block in self.blocks:
            _centre_output(block.attn.o)
            if not self.cfg.attn_only:
                _centre_output(block.mlp.out)

    def speak(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Take and give the words of a tokenizer from now on, such as `task.fast_tokenizer()`.

        Raises:
            ValueError: if it has tokens that the model does not know.
        """
        largest = max(tokenizer.get_vocab().values(), default=-1)
        if largest >= self.cfg.d_vocab:
            raise ValueError(f"the tokenizer has the token id {largest}, and the model knows {self.cfg.d_vocab} tokens")
        self.tokenizer = tokenizer
        self.cfg.default_prepend_bos = self.cfg.tokenizer_prepends_bos = self.cfg.tokenizer_appends_eos = False

    def to_tokens(
        self,
        input: str | list[str],
        prepend_bos: bool | None = None,
        padding_side: str | None = None,
        move_to_device: bool = True,
        truncate: bool = True,
    ) -> Int[Tensor, "batch pos"]:
        """The tokens of one text, or of several, padded on the right, as TransformerLens's `to_tokens`.

        Raises:
            ValueError: if there is no tokenizer, a word is not in the vocabulary, something is to be put before the
                text or padded on the left, or texts of different lengths have no token to pad with.
        """
        if self.tokenizer is None:
            raise ValueError(NO_TOKENIZER)
        if prepend_bos:
            raise ValueError("this model has no token that begins a text: leave prepend_bos False")
        rows = [_encoded(self.tokenizer, text) for text in ([input] if isinstance(input, str) else input)]
        rows = [row[: self.cfg.n_ctx] for row in rows] if truncate else rows
        longest, pad = max(map(len, rows), default=0), self.tokenizer.pad_token_id
        if any(len(row) < longest for row in rows) and (pad is None or padding_side == "left"):
            why = "its task has no padding" if pad is None else "it takes none on the left"
            raise ValueError(f"texts of different lengths have to be padded, and {why}: give texts of one length")
        tokens = torch.tensor([row + [pad or 0] * (longest - len(row)) for row in rows], dtype=torch.long)
        return tokens.to(self.cfg.device) if move_to_device else tokens

    def hf_generate(self, *given: Any, **named: Any) -> Any:
        """Refused: the model is none of Transformers'."""
        if self.tokenizer is None:
            raise ValueError(NO_TOKENIZER)
        raise ValueError("this is no model of Transformers, and has no generation of its own: use generate")

    # What asks for words takes the task's, and says so where there are none.
    to_string, to_str_tokens, to_single_token, to_single_str_token = map(_with_words, ALWAYS)
    forward, run_with_cache, get_token_position, tokens_to_residual_directions = map(_with_words, OF_WORDS)
    generate, generate_stream = map(_with_words, GENERATING)

    def _validate_attention_fork_supported(self, flag_name: str) -> None:
        """Allow every flag that a layer here supports; TransformerLens would accept its own classes only.

        Raises:
            ValueError: if asked for one input for all of a head, where heads share their keys and values.
        """
        if "attn_in" in flag_name and self.cfg.n_key_value_heads is not None:
            raise ValueError(
                f"{flag_name} gives each head an input of its own, but with {self.cfg.n_key_value_heads} heads of keys "
                f"and values for {self.cfg.n_heads} of queries they share theirs; use use_split_qkv_input"
            )


def _check_constants(model: HookedDecoder) -> None:
    """Raise ValueError if a variant says that it passes constants on, but rows of its mixing matrix do not sum to 1."""
    claimed = [block.attn for block in model.blocks if block.attn.variant.passes_constants]
    if not claimed:
        return
    seen: list[torch.Tensor] = []
    handles = [
        attn.hook_pattern.register_forward_hook(lambda module, given, pattern: seen.append(pattern)) for attn in claimed
    ]
    device = model.embed.original_component.weight.device
    try:
        model(torch.arange(min(8, model.cfg.n_ctx), device=device)[None] % model.cfg.d_vocab)
    finally:
        for handle in handles:
            handle.remove()
    for attn, pattern in zip(claimed, seen, strict=True):
        rows = attn.variant.mixing_matrix(pattern.to(torch.promote_types(pattern.dtype, torch.float32))).sum(-1)
        if not torch.allclose(rows, torch.ones_like(rows), atol=0.02):
            raise ValueError(
                f"the attention variant {attn.variant.name!r} says that it passes constants on, but rows of what it "
                f"applies sum to {float(rows.min()):.3g} to {float(rows.max()):.3g}: set passes_constants = False"
            )


def _fold_norm(norm: Any, linears: Sequence[Any], centres: bool) -> None:
    """Move a norm's weight, and its bias if it has one, into the linear maps that read it.

    What they read then has mean zero if the norm centres, so the mean of each of their rows reads nothing and is taken
    out.
    """
    norm = norm.original_component
    bias = getattr(norm, "bias", None)
    for linear in linears:
        if bias is not None:
            linear.bias += linear.weight @ bias
        linear.weight *= norm.weight
        if centres:
            linear.weight -= linear.weight.mean(1, keepdim=True)
    norm.weight.fill_(1)
    if bias is not None:
        bias.zero_()


def _centre_output(linear: Any) -> None:
    """Make what a linear map writes sum to zero over its outputs: LayerNorm and softmax do not see the mean."""
    linear.weight -= linear.weight.mean(0, keepdim=True)
    if linear.bias is not None:
        linear.bias -= linear.bias.mean()
