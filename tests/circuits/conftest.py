"""Small models with random weights, large enough that every part matters, and pairs for them."""

from __future__ import annotations

from dataclasses import fields

import torch

from workbench.circuits import Comparison
from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.tasks import Task, make
from workbench.util.seeds import generator


def random_model(task: Task, variant: str = "standard", seed: int = 0, std: float = 0.3, **shape: object) -> Decoder:
    """A decoder in float64 whose weights are all drawn at random, norms and biases too."""
    config = DecoderConfig(
        **{  # type: ignore[arg-type]
            "n_layers": 2,
            "d_model": 16,
            "n_heads": 2,
            "d_vocab": len(task.vocabulary),
            "n_ctx": task.n_ctx,
            "attention": variant,
            "unembed_bias": True,
            **shape,
        }
    )
    model = Decoder(config, generator(seed, "model")).double().eval()
    draws = generator(seed, "weights")
    for name, parameter in model.named_parameters():
        if not name.endswith("beta"):
            noise = torch.randn(parameter.shape, generator=draws, dtype=parameter.dtype) * std
            parameter.data = noise + (1.0 if "ln" in name or "norm" in name else 0.0) * name.endswith("weight")
    return model


def compared(variant: str = "standard", n: int = 5, *, reading: str = "root", **settings: object) -> Comparison:
    """A comparison on pointer chains of 12 tokens."""
    task = make("pointer_chain", n=12, k=3, reading=reading)
    names = {each.name for each in fields(DecoderConfig)}
    shape = {key: settings.pop(key) for key in list(settings) if key in names}
    model = random_model(task, variant, **shape)
    return Comparison(hook(model), task.minimal_pairs(n, generator(0, "pairs")), **settings)  # type: ignore[arg-type]


__all__ = ["compared", "random_model"]
