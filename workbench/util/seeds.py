"""Random streams: one seed per run, one named generator per purpose."""

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
    """A NumPy generator whose stream is decided by the next draw of a PyTorch one."""
    return np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))


@contextmanager
def global_draws(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """What PyTorch draws here without a generator (dropout, modules being made) follows a seed alone.

    PyTorch's own generators are afterwards as they were, so that nothing else is moved by it, nor moves it: whatever
    else draws from them, as a DataLoader does when it is made, has no part in what is drawn here.

    Args:
        seed: decides all that is drawn.
        device: where else than on the CPU something is drawn.
    """
    own = _own_generators(device)
    before = [generator.get_state() for generator in own]
    try:
        for generator in own:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(own, before, strict=True):
            generator.set_state(state)


def _own_generators(device: torch.device | None) -> list[torch.Generator]:
    """PyTorch's own generators: the CPU's, and that of another device."""
    if device is None or device.type == "cpu":
        return [torch.default_generator]
    if device.type == "mps":
        return [torch.default_generator, torch.mps._get_default_mps_generator()]
    index = torch.cuda.current_device() if device.index is None else device.index
    return [torch.default_generator, torch.cuda.default_generators[index]]
