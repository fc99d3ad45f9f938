"""TransformerLens's processing of weights (folding, centring) on our bridge, where it does not change the function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from workbench.models.hooked_words import ALWAYS, GENERATING, OF_WORDS, Words, with_words
from workbench.models.norms import NORMS


class HookedDecoder(Words):
    """A `TransformerBridge` whose weight processing never changes what the model computes."""

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
            check_constants(self)
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
            centre_output(unembed)

    def _fold_norms(self, unembed: nn.Linear, centres: bool) -> None:
        """Every norm's scale and bias into the maps that read what it gives."""
        for block in self.blocks:
            fold_norm(block.ln1, [block.attn.q, block.attn.k, block.attn.v], centres)
            if not self.cfg.attn_only:
                reading = ("in", "gate") if self.cfg.gated_mlp else ("in",)
                fold_norm(block.ln2, [getattr(block.mlp, name) for name in reading], centres)
        if unembed.bias is None:
            unembed.bias = nn.Parameter(torch.zeros_like(unembed.weight[:, 0]))
        fold_norm(self.ln_final, [unembed], centres)

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
            centre_output(block.attn.o)
            if not self.cfg.attn_only:
                centre_output(block.mlp.out)

    # What asks for words takes the task's, and says so where there are none.
    to_string, to_str_tokens, to_single_token, to_single_str_token = map(with_words, ALWAYS)
    forward, run_with_cache, get_token_position, tokens_to_residual_directions = map(with_words, OF_WORDS)
    generate, generate_stream = map(with_words, GENERATING)

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


def check_constants(model: HookedDecoder) -> None:
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


def fold_norm(norm: Any, linears: Sequence[Any], centres: bool) -> None:
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


def centre_output(linear: Any) -> None:
    """Make what a linear map writes sum to zero over its outputs: LayerNorm and softmax do not see the mean."""
    linear.weight -= linear.weight.mean(0, keepdim=True)
    if linear.bias is not None:
        linear.bias -= linear.bias.mean()
