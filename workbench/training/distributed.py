"""Distributed training of one run: the rank of this process, its part of every batch, and averages over processes."""

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
    """The processes that train one run together; usually there is only one.

    Attributes:
        rank: the number of this process; process 0 writes the run folder.
        count: how many processes there are.
        device: the device of this process.
    """

    rank: int
    count: int
    device: torch.device

    @staticmethod
    def started(device: str) -> Processes:
        """The processes that `torchrun` or `accelerate launch` started, as this one sees them; or this one alone.

        Raises:
            ValueError: if this machine has no such device.
        """
        if not (dist.is_available() and dist.is_initialized()):
            if int(os.environ.get("WORLD_SIZE", "1")) == 1:
                return Processes(0, 1, _pick_device(device))
            from accelerate import PartialState

            _pick_device(device)  # raises if there is no such device
            state = PartialState(cpu=device == "cpu" or not torch.cuda.is_available())
            atexit.register(state.destroy_process_group)  # its threads would abort the process at exit
            if LAUNCHED in os.environ:
                threading.Thread(target=_stop_with_the_launcher, args=(os.getppid(),), daemon=True).start()
            return Processes(state.process_index, state.num_processes, state.device)
        gpu = f"cuda:{dist.get_rank() % torch.cuda.device_count()}" if dist.get_backend() == "nccl" else "cpu"
        return Processes(dist.get_rank(), dist.get_world_size(), torch.device(gpu))

    @staticmethod
    def alone(device: str) -> Processes:
        """The only process, for a stack of seeds. Raises ValueError if `torchrun` started several."""
        processes = Processes.started(device)
        if processes.count > 1:
            raise ValueError("a stack of seeds trains in one process; start it without torchrun")
        return processes

    @property
    def main(self) -> bool:
        """Whether this is process 0, which writes the run folder."""
        return self.rank == 0

    def part(self, batch: Batch) -> Batch:
        """The sequences of a batch that this process computes; every process draws the whole batch."""
        n = len(batch) // self.count
        return batch if self.count == 1 else batch[self.rank * n : (self.rank + 1) * n]

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes.

        They are sent in one message after the backward pass. PyTorch's DistributedDataParallel sends during it, which
        does not suit steps with several forward passes (hints, accumulation) or heads without a gradient; and models
        here are small.
        """
        if self.count == 1 or not tensors:
            return
        whole = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(whole)
        whole /= self.count
        for tensor, mean in zip(tensors, whole.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def means(self, figures: Mapping[str, Tensor | float]) -> dict[str, float]:
        """The mean of each figure over the processes; if all have the same number, exactly that number.

        A resumed run has the saved mean on every process, and must log what it would have logged without the stop.
        """
        # Numbers read from a state are float64 already; a detour over float32 would change them.
        exact = [torch.as_tensor(x, dtype=None if isinstance(x, Tensor) else torch.float64) for x in figures.values()]
        values = [value.to(self.device, torch.float64, copy=True) for value in exact]
        if self.count > 1 and values:
            base = torch.stack(values)
            dist.broadcast(base, src=0)
            # Averaging differences from process 0 is exact for equal numbers: x + 0. A third of 3x need not be x.
            differences = [value - first for value, first in zip(values, base, strict=True)]
            self.average(differences)
            values = [first + difference for first, difference in zip(base, differences, strict=True)]
        return dict(zip(figures, map(float, values), strict=True))

    def agree(self, value: Any) -> Any:
        """The value of the main process, on every process."""
        if self.count == 1:
            return value
        shared = [value]
        dist.broadcast_object_list(shared, src=0)
        return shared[0]

    def do(self, action: Callable[[], Any]) -> Any:
        """Run an action on the main process; every process returns its result, or raises its error."""
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
        """Whether `here` is true on any of the processes."""
        if self.count == 1:
            return here
        flag = torch.tensor(float(here), device=self.device)
        dist.all_reduce(flag)
        return bool(flag)

    def wait(self) -> None:
        """Wait until every process has come here."""
        if self.count > 1:
            dist.barrier()


def _stop_with_the_launcher(launcher: int) -> None:
    """Send this process SIGTERM, so that it saves and ends, once its launcher is gone: a killed one does not do it."""
    while os.getppid() == launcher:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os.kill(os.getpid(), signal.SIGTERM)


def _pick_device(name: str) -> torch.device:
    """The device of this name; "auto" is the GPU if there is one, else the CPU.

    Raises:
        ValueError: if this machine has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in DEVICES:
            raise RuntimeError("other kinds of device cannot compute everything that training needs")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, UnicodeError):
        raise ValueError(brief(f"device {name!r} is not available here; there is: auto, cpu")) from None
    return device
