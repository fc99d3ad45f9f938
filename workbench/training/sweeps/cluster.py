"""Attempts as tasks on a Ray cluster, whose nodes need workbench and no disk in common: run folders travel as bytes."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from workbench.runs import load_run, parse_config, states
from workbench.training.sweeps.attempt import REPORTED, Ended, attempt
from workbench.training.sweeps.jobs import Job
from workbench.util.files import new_folder
from workbench.util.messages import brief

Files = dict[str, bytes]
SECONDS_TO_ANSWER = 10.0


class Cluster:
    """The Ray cluster at an address; "auto" is the one that runs on this machine, "local" starts one here.

    Raises:
        ValueError: if Ray is not installed, or there is no cluster at that address.
    """

    here = False

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError:
            raise ValueError("a sweep on a cluster needs Ray; `pip install ray` brings it") from None
        self.ray = ray
        self.ours = not ray.is_initialized()
        self.place = tempfile.TemporaryDirectory()
        if self.ours:
            if address == "local":
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of ours tells nobody of itself
            try:
                _knock(address)
                # Ray has its workers import from the folder that it is started in, which may be a stranger's.
                with chdir(self.place.name):
                    ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise ValueError(
                    f"there is no Ray cluster to be used at {address!r}: {brief(error)}; `ray start --head` "
                    f'starts one, and "local" needs none'
                ) from None
        self.task = ray.remote(attempt_elsewhere)
        self.running: dict[Any, Job] = {}

    def at_once(self) -> int:
        return int(self.ray.cluster_resources().get("CPU", 0))

    def has_room(self) -> bool:
        return True  # tasks that wait are how a cluster that can grow knows that it should

    def start(self, job: Job) -> None:
        config = job.planned.config
        # Lost attempts are the sweep's to make again and to count. Ray hides GPUs from tasks that do not ask for one.
        task = self.task.options(num_cpus=1, num_gpus=int(config.device.startswith("cuda")), max_retries=0)
        self.running[task.remote(config.model_dump_json(), str(job.folder), to_bytes(job.folder))] = job

    def ended(self, wait: float) -> list[Ended]:
        return [self._end(task) for task in self.ray.wait(list(self.running), timeout=wait)[0]]

    def _end(self, task: Any) -> Ended:
        job = self.running.pop(task)
        try:
            files, error = self.ray.get(task)
            if files:
                _receive(files, job)
        except self.ray.exceptions.RayTaskError as failure:
            return Ended(job, brief(failure.cause))
        except self.ray.exceptions.RayError as failure:
            return Ended(job, f"{type(failure).__name__}: {brief(failure).split('. ')[0]}", lost=True)
        except ValueError as damage:
            return Ended(job, brief(damage))
        return Ended(job, error)

    def stop(self) -> None:
        for task in self.running:
            self.ray.cancel(task, force=True)
        self.running = {}

    def close(self) -> None:
        self.stop()
        if self.ours:
            self.ray.shutdown()
        self.place.cleanup()


def _knock(address: str) -> None:
    """Raise OSError if nobody answers at a host:port; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "://" not in address:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()


def attempt_elsewhere(config: str, home: str, files: Files) -> tuple[Files, str | None]:
    """What a node does: one attempt, in a folder of its own.

    Args:
        config: the run's, as JSON.
        home: where the run folder will be, to say so.
        files: those of the run folder so far.

    Returns:
        The files of the run folder, and what went wrong.
    """
    with tempfile.TemporaryDirectory() as place:
        folder, error = Path(place) / "run", None
        _write(files, folder)
        try:
            attempt(parse_config(json.loads(config)), folder)
        except REPORTED as problem:
            error = brief(problem).replace(str(folder), home)
        return to_bytes(folder), error


def to_bytes(folder: Path) -> Files:
    """The files of a run folder; none, if there is nothing in it to go on with."""
    if not folder.is_dir() or not (load_run(folder).finished or states(folder)):
        return {}
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _write(files: Files, folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _receive(files: Files, job: Job) -> None:
    """Put a run folder in its place, once it is seen to be whole and what was asked for.

    Raises:
        ValueError: if it is not.
    """
    with new_folder(job.folder) as made:
        _write(files, made)
        run = load_run(made)
        if run.config != job.planned.config:
            raise ValueError(f"{job.name} came back with another config: the node has another version of workbench")
        run.model()  # every weight is there
        shutil.rmtree(job.folder, ignore_errors=True)  # what it went on from
