"""A hooked model of Hugging Face that several threads run, as pages and what is measured beside them do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from tests.models.tiny_models import tiny
from workbench.capture import visit
from workbench.models.pretrained import Pretrained


def test_each_thread_sees_its_own_run_alone() -> None:
    hooked = Pretrained(tiny("gpt2"), None, "tiny").hooked()
    points = [f"blocks.{layer}.hook_resid_post" for layer in range(hooked.cfg.n_layers)]
    inputs = [torch.randint(0, 10, (2, 5 + i), generator=torch.Generator().manual_seed(i)) for i in range(4)]

    def runs(i: int) -> list[torch.Tensor]:
        seen: dict[str, torch.Tensor] = {}
        visit(hooked, inputs[i], points, seen.__setitem__)
        zero = [(points[0], lambda x, hook: x * 0)]
        return [
            *seen.values(),
            hooked.run_with_cache(inputs[i])[1][points[-1]],
            hooked.run_with_hooks(inputs[i], fwd_hooks=zero),
            hooked(inputs[i]),
        ]

    alone = [runs(i) for i in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(10):
            for expected, found in zip(alone, threads.map(runs, range(4)), strict=True):
                assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
