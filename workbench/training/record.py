"""What a run was made with and what it cost, for its log."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import workbench

PACKAGES = ("workbench", "torch", "transformer-lens", "numpy", "safetensors")


def surroundings(device: torch.device, processes: int) -> dict[str, Any]:
    """Versions, the workbench's git commit (None if it was not run from a checkout), and the machine."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "commit": commit(),
        "device": str(device),
        "device_name": name,
        "threads": torch.get_num_threads(),
        "processes": processes,
    }


def commit() -> str | None:
    """The commit of this checkout, with `+changes` if files differ from it; None where there is no checkout."""
    root = Path(workbench.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        asked = [["git", "rev-parse", "HEAD"], ["git", "status", "--porcelain", "--untracked-files=no"]]
        head, changes = (
            subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
            for command in asked
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+changes" if changes else "")


def peak_megabytes(device: torch.device) -> float:
    """The most memory that this process has held: the GPU's where it trains on one, else its own."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
