"""What every kind of model of one's own must do: be built alike from the same draws, and be seen as it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from workbench.models import MODELS, OwnModel
from workbench.models.facts import logits_of, probe_tokens
from workbench.testing.require import require
from workbench.util.seeds import generator

N_CTX = 16


@dataclass(frozen=True)
class Module:
    """A kind of model with its settings."""

    name: str
    settings: dict[str, Any]

    def fresh(self, seed: int) -> torch.nn.Module:
        return MODELS[self.name].fresh(self.settings, generator(seed, "contract"))

    def model(self) -> OwnModel:
        """The model, hooked and checked. Raises ValueError where its parts are not what they are said to be."""
        return OwnModel(self.fresh(0), MODELS[self.name].parts, N_CTX, name=self.name, settings=self.settings)


def it_is_built_from_the_generator_alone(module: Module) -> None:
    """Built twice from the same draws it has the same weights; from others, other ones."""
    one, same, other = (dict(module.fresh(seed).named_parameters()) for seed in (0, 0, 1))
    require(one, "it has no parameters")
    wrong = [name for name, weight in one.items() if not torch.equal(weight, same[name])]
    require(not wrong, f"built twice alike, {wrong[0] if wrong else ''} differs: draw from PyTorch's global generator")
    require(
        any(not torch.equal(weight, other[name]) for name, weight in one.items()),
        "built from other draws it has the same weights: `untrained` would be no control",
    )


@torch.no_grad()
def the_hooked_copy_computes_the_same(module: Module) -> None:
    """Its parts are where they are said to be, and hooked it gives the logits that it gives without."""
    model = module.model()
    tokens = probe_tokens(model.config.d_vocab, model.config.n_ctx, model.token_embedding.weight.device)
    expected = logits_of(model.module(tokens))
    apart = float((model.hooked()(tokens) - expected).abs().max())
    require(apart <= 1e-3 * float(expected.abs().max()), f"hooked, its logits are off by {apart:.2g}")


@torch.no_grad()
def no_position_sees_later_ones(module: Module) -> None:
    """It is causal: what comes later changes nothing before."""
    model = module.model()
    tokens = probe_tokens(model.config.d_vocab, model.config.n_ctx, model.token_embedding.weight.device)
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % model.config.d_vocab
    apart = float((model(tokens) - model(changed))[:, :-1].abs().max())
    require(apart < 1e-3, f"another last token changes the logits before it, by {apart:.2g}")


CHECKS = (it_is_built_from_the_generator_alone, the_hooked_copy_computes_the_same, no_position_sees_later_ones)
