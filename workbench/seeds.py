"""Random streams: one seed per run, one named generator per purpose."""

from __future__ import annotations

import hashlib

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
