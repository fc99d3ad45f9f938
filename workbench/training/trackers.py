"""Where a run's figures go beside its own log, to be looked at with those of others: TensorBoard and trackio."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from contextvars import Context
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Protocol

from workbench.runs import RunConfig
from workbench.util.distribution import needs
from workbench.util.lookup import lookup

FOLDER = "tensorboard"  # in the run folder
TRACK = "WORKBENCH_TRACK"  # tells the worker processes of a sweep for whom to log


class Tracker(Protocol):
    """A place for the figures of one run."""

    def __init__(self, path: Path, config: RunConfig, resumed_at: int | None) -> None:
        """Open it.

        Args:
            path: the run folder.
            config: the run's config.
            resumed_at: the step from which the run goes on; None if it is new.
        """

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Add the figures of a training step."""

    def close(self) -> None:
        """Write what is left."""


class TensorBoard:
    """TensorBoard's events, in a folder of the run folder. Those after the step where a run goes on are hidden."""

    def __init__(self, path: Path, config: RunConfig, resumed_at: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(path / FOLDER), purge_step=None if resumed_at is None else resumed_at + 1)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class Trackio:
    """A run of trackio, of the run folder's name, in a project that has the name of the folder around it.

    So the runs of a folder, a sweep or a stack of seeds are in one project. Steps that were logged before a kill, and
    are made again, are there twice, with the same figures.
    """

    def __init__(self, path: Path, config: RunConfig, resumed_at: int | None) -> None:
        import trackio

        project, name = path.resolve().parent.name or path.resolve().name, path.resolve().name
        resume = "never" if resumed_at is None else "allow"
        start = partial(trackio.init, project, name, config=config.model_dump(mode="json"), resume=resume, embed=False)
        with redirect_stdout(StringIO()):
            self.run = Context().run(start)  # in the context of another run, trackio would end that one

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self.run.log(dict(figures), step)

    def close(self) -> None:
        with redirect_stdout(StringIO()):
            self.run.finish()


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "trackio": Trackio}


def tracker(name: str | None) -> type[Tracker] | None:
    """The tracker of a name; None for none.

    Raises:
        ValueError: if there is no such tracker, or it is not installed.
    """
    if name is None:
        return None
    found = lookup(TRACKERS, name, "tracker")
    needs(name, f"logging for {found.__name__}")
    return found
