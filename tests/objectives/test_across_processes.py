"""Seq-VCR over a batch that several processes share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from workbench.models import DecoderConfig
from workbench.objectives import OBJECTIVES
from workbench.tasks import Batch
from workbench.util.seeds import generator

BATCH, POS, D_VOCAB, PAD = 12, 4, 9, 8

WORKER = """
import json, os, sys
import torch
import torch.distributed as dist
sys.path.insert(0, os.environ["TESTS"])
from test_across_processes import share_of_the_loss
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=world)
try:
    found = share_of_the_loss(rank, world, json.loads(os.environ["SETTINGS"]))
except ValueError as error:
    found = {"error": str(error)}
print(json.dumps(found))
dist.destroy_process_group()
"""


def share_of_the_loss(rank: int, world: int, settings: dict[str, Any]) -> dict[str, Any]:
    """What one of `world` processes has: the loss, and its gradient averaged over them as data parallelism does."""
    uneven = settings.pop("uneven", False)
    rng = generator(0)
    residual = torch.randn(BATCH, POS, 6, dtype=torch.float64, generator=rng)
    mask = torch.rand(BATCH, POS, generator=rng) < 0.7
    own = slice(rank * BATCH // world, (rank + 1) * BATCH // world - (1 if uneven and rank else 0))
    unembed = torch.nn.Linear(6, D_VOCAB, dtype=torch.float64)
    with torch.no_grad():
        unembed.weight.copy_(torch.randn(D_VOCAB, 6, dtype=torch.float64, generator=rng))
        unembed.bias.zero_()
    config = DecoderConfig(n_layers=1, d_model=6, n_heads=1, d_vocab=D_VOCAB, n_ctx=POS)
    objective = OBJECTIVES["seq_vcr"](config, pad=PAD, covariance_weight=0.5, **settings)
    tokens = torch.zeros(BATCH, POS, dtype=torch.long)
    tokens[torch.arange(POS) >= 1 + torch.arange(BATCH)[:, None] % POS] = PAD
    tokens = tokens[own]
    loss, logged = objective(unembed(residual[own]), {}, Batch(tokens, tokens, mask[own]))
    loss.backward()
    assert unembed.weight.grad is not None
    if world > 1:
        torch.distributed.all_reduce(unembed.weight.grad)
    return {
        "loss": loss.item(),
        "floor": float(logged["seq_vcr_floor"]),
        "gradient": (unembed.weight.grad / world).tolist(),
    }


def run(world: int, settings: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    shared = {
        **os.environ,
        "WORLD_SIZE": str(world),
        "MEETING": str(folder / "meeting"),
        "SETTINGS": json.dumps(settings),
        "TESTS": str(Path(__file__).parent),
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen([sys.executable, "-c", WORKER], env={**shared, "RANK": str(rank)}, stdout=subprocess.PIPE)
        for rank in range(world)
    ]
    return [json.loads(process.communicate(timeout=120)[0]) for process in processes]


@pytest.mark.parametrize("settings", [{}, {"over": "batch+length", "positions": "scored"}], ids=str)
def test_the_loss_and_its_gradient_do_not_depend_on_the_number_of_processes(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    alone = share_of_the_loss(0, 1, dict(settings))
    for shared in run(2, settings, tmp_path):
        assert shared["loss"] == pytest.approx(alone["loss"], abs=1e-12)
        assert shared["floor"] == pytest.approx(alone["floor"], abs=1e-6)
        assert torch.allclose(torch.tensor(shared["gradient"]), torch.tensor(alone["gradient"]), atol=1e-10)


def test_parts_of_different_shapes_are_refused_by_every_process(tmp_path: Path) -> None:
    for found in run(2, {"uneven": True}, tmp_path):
        assert "same shape, not [6, 4, 9] and [5, 4, 9]" in found["error"]
