"""One run on many processes: who this one is, its part of every batch, and what all of them agree on."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from workbench.tasks import Batch
from workbench.util.messages import brief

DEVICES = ("cpu", "cuda", "mps")
LAUNCHED = "TORCHELASTIC_RUN_ID"  # set by `torchrun` and `accelerate launch`, which live as long as their processes
SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Processes:
    """The processes that train one run together; usually this one alone.

    Attributes:
        rank: which of them this is; 0 writes the run folder.
        count: how many there are.
        device: where this one computes.
    """

    rank: int
    count: int
    device: torch.device

    @staticmethod
    def started(device: str) -> Processes:
        """The process among those that `torchrun` or `accelerate launch` started with it, or alone.

        Raises:
            ValueError: if this machine has no such device.
        """
        if not (dist.is_available() and dist.is_initialized()):
            if int(os.environ.get("WORLD_SIZE", "1")) == 1:
                return Processes(0, 1, pick_device(device))
            from accelerate import PartialState

            pick_device(device)  # one that is not there is refused
            state = PartialState(cpu=device == "cpu" or not torch.cuda.is_available())
            atexit.register(state.destroy_process_group)  # threads that still listen would abort the process
            if LAUNCHED in os.environ:
                threading.Thread(target=_stop_with_the_launcher, args=(os.getppid(),), daemon=True).start()
            return Processes(state.process_index, state.num_processes, state.device)
        own = f"cuda:{dist.get_rank() % torch.cuda.device_count()}" if dist.get_backend() == "nccl" else "cpu"
        return Processes(dist.get_rank(), dist.get_world_size(), torch.device(own))

    @property
    def main(self) -> bool:
        """Whether this process writes."""
        return self.rank == 0

    def part(self, batch: Batch) -> Batch:
        """The process's own sequences of a batch that all of them drew."""
        n = len(batch) // self.count
        return batch if self.count == 1 else batch[self.rank * n : (self.rank + 1) * n]

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes.

        In one message after the backward pass, where PyTorch's DistributedDataParallel sends as it goes: a step here
        may have several forward passes (hints, accumulation) and leave heads without a gradient; models are small.
        """
        if self.count == 1 or not tensors:
            return
        whole = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(whole)
        whole /= self.count
        for tensor, mean in zip(tensors, whole.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def means(self, figures: Mapping[str, Tensor | float]) -> dict[str, float]:
        """Figures, each its mean over the processes; where all have the same number, that number to the last bit.

        A run that goes on has on every process the mean that was saved, and logs what it would have logged.
        """
        # A number that a state gave back is as exact as the float64 tensor that it was: no passing through float32.
        exact = [torch.as_tensor(x, dtype=None if isinstance(x, Tensor) else torch.float64) for x in figures.values()]
        values = [value.to(self.device, torch.float64, copy=True) for value in exact]
        if self.count > 1 and values:
            base = torch.stack(values)
            dist.broadcast(base, src=0)
            differences = [value - first for value, first in zip(values, base, strict=True)]
            self.average(differences)  # of numbers themselves it would be rounded: a third of 3x need not be x
            values = [first + difference for first, difference in zip(base, differences, strict=True)]
        return dict(zip(figures, map(float, values), strict=True))

    def agree(self, value: Any) -> Any:
        """What the main process has."""
        if self.count == 1:
            return value
        shared = [value]
        dist.broadcast_object_list(shared, src=0)
        return shared[0]

    def do(self, action: Callable[[], Any]) -> Any:
        """What the main process's action returns, or raises on every process, if it does there."""
        if self.count == 1:
            return action()
        result, problem = None, None
        if self.main:
            try:
                result = action()
            except Exception as error:
                problem = error
        result, problem = self.agree((result, problem))
        if problem is not None:
            raise problem
        return result

    def any(self, here: bool) -> bool:
        """Whether it is so on any process."""
        if self.count == 1:
            return here
        flag = torch.tensor(float(here), device=self.device)
        dist.all_reduce(flag)
        return bool(flag)

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            dist.barrier()


def _stop_with_the_launcher(launcher: int) -> None:
    """Save and end, as at SIGTERM, once the launcher is gone: killed, it takes none of its processes with it."""
    while os.getppid() == launcher:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os.kill(os.getpid(), signal.SIGTERM)


def pick_device(name: str) -> torch.device:
    """The device of that name; "auto" is the GPU if there is one.

    Raises:
        ValueError: if this machine has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in DEVICES:
            raise RuntimeError("others compute nothing, or not everything")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, UnicodeError):
        raise ValueError(brief(f"device {name!r} is not available here; there is: auto, cpu")) from None
    return device
