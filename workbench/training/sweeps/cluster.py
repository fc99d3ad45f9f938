"""A crew on a Ray cluster. Its nodes need workbench but no common disk: folders are sent as bytes."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from workbench.runs import STATES, states
from workbench.training.sweeps.job import Ended, Job
from workbench.util.child_processes import REPORTED
from workbench.util.distribution import needs
from workbench.util.files import new_folder
from workbench.util.lookup import check_name
from workbench.util.messages import brief
from workbench.util.plugins import plugins_from, sources

Files = dict[str, bytes]
SECONDS_TO_ANSWER = 10.0


class Cluster:
    """The Ray cluster at an address; "auto" is the one that this machine belongs to, "local" starts one here.

    Raises:
        ValueError: if Ray is not installed, or there is no cluster at that address.
    """

    here = False

    def __init__(self, address: str) -> None:
        needs("ray", "a sweep on a cluster")
        import ray

        self.ray = ray
        self.ours = not ray.is_initialized()
        self.start_folder = tempfile.TemporaryDirectory()
        if self.ours:
            if address == "local":
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage data leave this machine
            try:
                host, _, port = address.rpartition(":")
                if host and port.isdigit() and "://" not in address:  # Ray itself would keep trying for minutes
                    socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()
                # Ray's workers import from the folder in which it is started, which may hold a stranger's modules.
                with chdir(self.start_folder.name):
                    ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise ValueError(
                    f"there is no Ray cluster to be used at {address!r}: {brief(error)}; `ray start --head` "
                    f'starts one, and "local" needs none'
                ) from None
        self.task: Any = ray.remote(_attempt_elsewhere)
        self.running: dict[Any, Job] = {}
        self.sent: dict[Path, Any] = {}  # what jobs read, which the cluster keeps

    def at_once(self) -> int:
        return int(self.ray.cluster_resources().get("CPU", 0))

    def has_room(self) -> bool:
        return True  # from waiting tasks, a cluster that can grow sees that it should

    def start(self, job: Job) -> None:
        # The driver itself repeats and counts lost attempts. Ray hides GPUs from tasks that do not ask for one.
        task = self.task.options(num_cpus=1, num_gpus=int(job.config.device.startswith("cuda")), max_retries=0)
        files, plugins = _to_bytes(job.folder), sources()
        inputs = {field: self._sent(path) for field, path in job.inputs().items()}
        order = (type(job), job.config.model_dump_json(), str(job.folder), files, plugins, [*inputs])
        self.running[task.remote(*order, *inputs.values())] = job

    def _sent(self, path: Path) -> Any:
        """What a job reads, sent to the cluster once."""
        if path not in self.sent:
            listed = path.iterdir() if path.is_dir() else [path]
            files = [file for file in listed if file.is_file() and not file.name.startswith(".")]
            self.sent[path] = self.ray.put({file.name: file.read_bytes() for file in files})
        return self.sent[path]

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
        self.start_folder.cleanup()


def _attempt_elsewhere(
    kind: type[Job],
    config: str,
    home: str,
    files: Files,
    plugins: Mapping[str, str],
    fields: Sequence[str] = (),
    *inputs: Files,
) -> tuple[Files, str | None]:
    """Make one attempt on a node of the cluster, in a temporary folder.

    Args:
        kind, config: of job; and the job's config, as JSON.
        home: the path of the job's folder on the driver's machine, for error messages.
        files: the files of the folder so far.
        plugins: the text of each plugin's file, by its name.
        fields: of the config, those that name what the job reads.
        inputs: of each of these, the file, or those of the folder.

    Returns:
        The files of the folder, and the error of the attempt, if there was one.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder, spec, error = Path(temporary) / "run", json.loads(config), None
        places = {str(folder): home}  # here -> on the driver's machine
        _write(files, folder)
        for field, content in zip(fields, inputs, strict=True):
            place = Path(temporary) / field
            _write(content, place)
            name = Path(spec[field]).name
            places[str(place)] = str(Path(spec[field]).parent if name in content else spec[field])
            spec[field] = str(place / name if name in content else place)
        try:
            with plugins_from(plugins):
                kind.work(spec, folder)
        except REPORTED as problem:
            error = brief(problem)
            for here, there in places.items():
                error = error.replace(here, there)
        return _to_bytes(folder), error


def _to_bytes(folder: Path) -> Files:
    """The files of a job's folder; none if it holds neither the end of training nor a state to resume from."""
    if not folder.is_dir() or ((folder / STATES).exists() and not states(folder)):
        return {}
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _write(files: Files, folder: Path) -> None:
    for name, content in files.items():
        for part in name.split("/"):
            check_name(part, "a file of a job")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _receive(files: Files, job: Job) -> None:
    """Write a folder that came back to its place, after checking it. Raises ValueError as `Job.receive`."""
    with new_folder(job.folder) as folder:
        _write(files, folder)
        job.receive(folder)
        shutil.rmtree(job.folder, ignore_errors=True)  # the state before the attempt
