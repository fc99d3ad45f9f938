"""Small models with random weights, large enough that every part matters, and pairs for them."""

from __future__ import annotations

from dataclasses import fields, replace

import torch

from workbench.circuits import Comparison
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import chaser
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


def doubled_chaser(shares: tuple[float, float], sharper: float = 1.0, n: int = 16) -> Comparison:
    """The chaser with its one head twice, each writing its share; and answers so much surer."""
    task = make("pointer_chain", n=16, k=4, reading="root")
    single = chaser(16, 4, reading="root").double()
    config = replace(single.config, n_heads=2, n_kv_heads=2)
    model = Decoder(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            given = dict(single.named_parameters())[name]
            if name.endswith("attn.o.weight"):
                given = torch.cat([share * given for share in shares], dim=1)
            elif ".attn." in name and given.shape != parameter.shape:
                given = torch.cat([given, given])
            parameter.copy_(given * (sharper if name == "unembedding.weight" else 1.0))
    return Comparison(hook(model), task.minimal_pairs(n, generator(0, "pairs")))


RIGHT = 0.08  # what the chaser's head writes for the right answer: .1 after one hop, .09 after two, .081 after three


def clipped_chaser(n: int) -> Comparison:
    """The chaser with a head that writes twice as much, and an MLP that takes away what is above the right amount."""
    task, single = make("pointer_chain", n=16, k=4, reading="root"), chaser(16, 4, reading="root").double()
    model = Decoder(replace(single.config, d_mlp=16)).double().eval()
    given, out = dict(single.named_parameters()), range(32, 48)  # the coordinates that the head writes
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.zero_() if ".mlp." in name else parameter.copy_(given[name])
        layer = model.layers[0]
        layer.attn.o.weight.mul_(2)
        layer.mlp.fc_in.weight[:, out] = torch.eye(16).double()
        layer.mlp.fc_in.bias.fill_(-RIGHT)
        layer.mlp.fc_out.weight[out] = -torch.eye(16).double()
    return Comparison(hook(model), task.minimal_pairs(n, generator(0, "pairs")))


__all__ = ["clipped_chaser", "compared", "doubled_chaser", "random_model"]
