"""The environment of a run, for its log: versions, git commit, device and peak memory."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import torch

import workbench
from workbench.util.distribution import version

PACKAGES = ("torch", "transformer-lens", "numpy", "safetensors")


def environment(device: torch.device, processes: int) -> dict[str, Any]:
    """Versions of packages, the workbench's git commit (None outside a checkout), and the machine."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "versions": {"python": platform.python_version(), "workbench": version()} | _versions(),
        "commit": commit(),
        "device": str(device),
        "device_name": name,
        "threads": torch.get_num_threads(),
        "processes": processes,
    }


def _versions() -> dict[str, str]:
    """The versions of packages; a machine that only trains need not have TransformerLens."""
    versions = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version_of(name)
    return versions


def commit() -> str | None:
    """The commit of this checkout, with `+changes` if the library's files differ from it; None outside a checkout."""
    root = Path(workbench.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        commands = [
            ["git", "rev-parse", "HEAD"],
            ["git", "status", "--porcelain", "--untracked-files=no", "workbench", "probes"],
        ]
        head, changes = (
            subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+changes" if changes else "")


def peak_megabytes(device: torch.device) -> float:
    """The peak memory of this process so far, in MB: of the GPU if it trains on one, else of the machine."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
