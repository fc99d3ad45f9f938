"""Random generators: one seed per run, one generator per named purpose."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose, independent of every other purpose under the same seed.

    The stream depends only on its arguments, so it is the same in every process and on every machine.

    Args:
        seed: the run's seed.
        purpose: what the stream is for, for example `"train"` or `"inspect", "length", 16`.
    """
    digest = hashlib.sha256(repr((int(seed), *purpose)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def numpy_generator(generator: torch.Generator) -> np.random.Generator:
    """A NumPy generator that is seeded by the next draw of a PyTorch generator."""
    return np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))


@contextmanager
def global_draws(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed PyTorch's global generators within this context, and restore their states afterwards.

    Dropout and the initialisation of modules draw from these generators, and so does other code, such as a DataLoader
    when it is made. Draws before and after this context neither change the draws within it nor are changed by them.

    Args:
        seed: the seed of everything that is drawn.
        device: a device besides the CPU on which something is drawn.
    """
    generators = [torch.default_generator]
    if device is not None and device.type == "mps":
        generators.append(torch.mps._get_default_mps_generator())
    elif device is not None and device.type != "cpu":
        index = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[index])
    before = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state(state)
