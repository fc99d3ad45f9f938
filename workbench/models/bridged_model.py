"""A model that TransformerLens has bridged, under the names that instruments know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torch import nn
from transformer_lens.model_bridge import TransformerBridge

from workbench.models.bridged_heads import show_heads
from workbench.models.own_model import FEW, Facts, OwnModel, OwnModelConfig, count_weights, probe_tokens
from workbench.models.resid_mid import carry_middle
from workbench.models.watched_only import let_watch_only


class BridgedModel(OwnModel):
    """A model that TransformerLens has bridged, such as one of Hugging Face's, under the same names.

    From then on an edit of the bridge's `hook_resid_mid` goes on with the residual, and an edit that would reach
    nothing is an error; `hook_q`, `hook_k`, `hook_v` and `hook_z` are `[batch, pos, head, width]`.

    Args:
        bridge: the `TransformerBridge`, whose hook points are changed so.

    Raises:
        ValueError: if its layers have different numbers of heads.
    """

    def __init__(self, bridge: TransformerBridge) -> None:
        nn.Module.__init__(self)
        parallel = "blocks.0.hook_resid_mid" not in bridge.hook_dict  # as in Pythia's and Phi's blocks
        self.module, self.build, self.facts = bridge, None, Facts(bridge.cfg.n_heads, parallel=parallel)
        d_model, d_vocab = bridge.W_U.shape
        cfg = bridge.cfg
        tokens = probe_tokens(d_vocab, cfg.n_ctx, bridge.W_E.device)
        self.config = OwnModelConfig(
            n_layers=cfg.n_layers,
            d_model=d_model,
            n_heads=cfg.n_heads,
            d_vocab=d_vocab,
            n_ctx=cfg.n_ctx,
            d_head=show_heads(bridge, tokens[:1, :FEW]),
            module=str(cfg.model_name),
            n_weights=count_weights(bridge),
        )
        carry_middle(bridge, tokens[:1, :FEW])
        self.facts = self._learnt(tokens)
        let_watch_only(bridge, self.facts.watched_only)

    def hooked(self) -> Any:
        """The bridge itself."""
        return self.module

    @property
    def token_embedding(self) -> Any:
        return SimpleNamespace(weight=self.module.W_E)

    @property
    def unembedding(self) -> Any:
        return SimpleNamespace(weight=self.module.W_U.T, bias=self.module.b_U)

    @property
    def final_norm(self) -> Any:
        return self.module.ln_final
