"""Processes that fine-tune for a study: each saves what it is at and ends, after Ctrl-C and when the study dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from workbench.runs import METRICS, read_log
from workbench.studies.study import StudyStoppedError
from workbench.training.finetune import finetune, resume_finetune
from workbench.training.finetune_config import FinetuneConfig, Finetuned, finetuned, is_finetuning
from workbench.training.progress import Progress

SECONDS_BETWEEN_LOOKS = 1.0

Job = tuple[dict[str, Any], Path]
"""The settings of a fine-tuning, and its folder."""
Train = Callable[[Sequence[Job]], list[Finetuned]]

# Of a process that fine-tunes: held while it does, and set once it shall take up nothing more.
_working = threading.Lock()
_stopped = threading.Event()


@contextmanager
def trainer(workers: int | None, progress: bool) -> Iterator[Train]:
    """What trains all that is not trained yet, in processes of one thread each.

    It raises ValueError if a setting is wrong, or a folder holds a fine-tuning with other settings.

    Args:
        workers: processes; by default one for each core.
        progress: show progress on standard error.

    Raises:
        StudyStoppedError: after Ctrl-C.
    """
    count = workers or os.cpu_count() or 1
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin)
    try:
        yield partial(_train_all, pool, progress)
    except KeyboardInterrupt:
        raise StudyStoppedError from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _train_all(pool: ProcessPoolExecutor, progress: bool, jobs: Sequence[Job]) -> list[Finetuned]:
    steps = {folder: settings.get("steps", FinetuneConfig.model_fields["steps"].default) for settings, folder in jobs}
    made = {folder: finetuned(folder).step if is_finetuning(folder) else 0 for _, folder in jobs}
    running = {pool.submit(_train, *job): job[1] for job in jobs}
    futures = list(running)
    with Progress(sum(steps.values()), progress and made != steps, sum(made.values()), every=60) as bar:
        while running:
            for over in wait(running, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED).done:
                done, folder = over.result(), running.pop(over)
                if made[folder] < steps[folder] and done.finished:
                    bar.say(f"{folder.name} finished; {len(jobs) - len(running)} of {len(jobs)}")
                made[folder] = done.step
            for folder in running.values():  # one step is kept for what follows the last: it is measured and saved
                made[folder] = max(made[folder], min(_steps_of(folder), steps[folder] - 1))
            bar.update(sum(made.values()), {})
    if not all(future.result().finished for future in futures):
        raise StudyStoppedError
    return [future.result() for future in futures]


def _steps_of(folder: Path) -> int:
    """The step that is in the log of a fine-tuning, which another process may be writing; 0 if there is none."""
    with suppress(ValueError):  # damage is told by the process that goes on with it
        return max((row["step"] for row in read_log(folder / METRICS) if "step" in row), default=0)
    return 0


def _begin() -> None:
    """Set up a process that fine-tunes."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, _stop)
    threading.Thread(target=_end_with_the_study, daemon=True).start()


def _stop(*_: Any) -> None:
    """Take up nothing more, and leave what has not begun to train; what trains minds the signal itself."""
    _stopped.set()
    if _working.locked():
        raise KeyboardInterrupt


def _end_with_the_study() -> None:
    """Once the study's process is gone, as after a kill, let the training save, and end."""
    study = multiprocessing.parent_process()
    assert study is not None
    study.join()
    os.kill(os.getpid(), signal.SIGINT)
    with _working:
        os._exit(1)


def _train(settings: dict[str, Any], folder: Path) -> Finetuned:
    """One fine-tuning. Raises StudyStoppedError if the study was stopped before it began."""
    if _stopped.is_set():  # a pool hands its processes more than they are at, which cannot be taken back
        raise StudyStoppedError
    with _working:
        done = _trained(settings, folder)
    if not done.finished:
        _stopped.set()
    return done


def _trained(settings: dict[str, Any], folder: Path) -> Finetuned:
    """One fine-tuning: begun, gone on with, or as it is if it is finished."""
    if not is_finetuning(folder):
        return finetune(settings, folder, progress=False)
    done = resume_finetune(folder, progress=False)
    kept = done.config.model_dump(mode="json")
    for name, value in json.loads(json.dumps(settings)).items():
        own = kept[name]["variant"] if name == "attention" and isinstance(value, str) else kept[name]
        if own != value:
            raise ValueError(f"{folder} holds another fine-tuning, with {name} {own!r} and not {value!r}: delete it")
    return done
