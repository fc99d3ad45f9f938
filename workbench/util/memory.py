"""Memory: how much this machine has, checked before it is taken, and what was freed given back."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h


def check_memory(needed: int, what: str) -> None:
    """Raise ValueError if something needs more bytes than this machine, or its container, has."""
    if needed > most_memory():
        least, most = (f"{-(-size // 10**9):,} GB" for size in (needed, most_memory()))
        raise ValueError(f"{what} needs at least {least} of memory; this machine has {most}")


@cache
def most_memory() -> int:
    """The bytes of memory that this process can ever have."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit
        return machine


def keep_freed() -> None:
    """Let this process take large blocks from what it has freed, where the C library can (glibc).

    By default each block above 32 MB is new from the system, which clears it page by page: of patterns of 512 tokens
    that takes a sixth of the time. `give_back` returns what has been freed.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library, or none that can be asked
        library = ctypes.CDLL(None)
        # One arena, so that threads share what is freed.
        for option, value in ((M_MMAP_THRESHOLD, 2**30), (M_TRIM_THRESHOLD, 2**30), (M_ARENA_MAX, 1)):
            library.mallopt(option, value)


def give_back() -> None:
    """Return freed memory to the system, where the C library can (glibc).

    Blocks of different sizes leave gaps, so that a process that measures batch after batch grows although it keeps
    nothing.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library, or none that can be asked
        ctypes.CDLL(None).malloc_trim(0)
