"""The fine-tunings of a study, each in a process of its own, which saves and ends when the study stops or dies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.runs import METRICS, read_log
from workbench.runs.model_run import FINETUNE
from workbench.studies.study import StudyStoppedError
from workbench.training.finetune_config import (
    FinetuneConfig,
    Finetuned,
    digest_of_weights,
    finetuned,
    is_finetuning,
    read_config,
)
from workbench.training.progress import Progress
from workbench.training.sweeps.attempt import Ended
from workbench.training.sweeps.local import Workers, at_a_time
from workbench.util.files import write_atomically

SECONDS_BETWEEN_LOOKS = 1.0
FOUND = ("model", "text", "digest", "model_digest")  # of a config: compared by what is in the files


@dataclass(frozen=True)
class Job:
    """A fine-tuning."""

    config: FinetuneConfig
    folder: Path

    def order(self) -> str:
        """What a worker process is told: the config, as one line of JSON."""
        return self.config.model_dump_json(exclude_unset=True)

    def look(self) -> Finetuned | None:
        """What there is of it by now. Raises ValueError if the folder holds another fine-tuning."""
        if not is_finetuning(self.folder):
            return None
        there = finetuned(self.folder)
        due, kept = self.config.in_full(), there.config
        found = {*FOUND, *(("length",) if due.length is None else ())}
        said = {name: value for name, value in due.model_dump(mode="json").items() if name not in found}
        had = kept.model_dump(mode="json")
        differs = [f"{name} {had[name]!r} and not {value!r}" for name, value in said.items() if had[name] != value]
        moved = kept.model != due.model
        if kept.model_digest != digest_of_weights(due.model) if kept.model_digest else moved:
            before = f"the model {kept.model} and not {due.model}"
            differs.append(before if moved else f"what {due.model} was before it was made anew")
        if kept.text != due.text and not _same_text(kept.text, due.text):
            differs.append(f"the text {kept.text} and not {due.text}")
        if differs:
            raise ValueError(f"{self.folder} holds another fine-tuning, with {differs[0]}: move it away first")
        return there

    def find_again(self) -> None:
        """Where the model and the text of what was begun are now, if their folder has moved."""
        kept, due = read_config(self.folder), self.config.in_full()
        if (kept.model, kept.text) != (due.model, due.text):
            moved = kept.model_copy(update={"model": due.model, "text": due.text})
            write_atomically(self.folder / FINETUNE, moved.model_dump_json(indent=1).encode())

    def step(self) -> int:
        """The step that is in its log, to which another process may be writing; 0 if there is none."""
        with suppress(ValueError):  # damage is told by the process that goes on with it
            return max((row["step"] for row in read_log(self.folder / METRICS) if "step" in row), default=0)
        return 0


def _same_text(before: str | None, now: str | None) -> bool:
    """Whether two files have the same text; one that is gone has moved. What is trained on is checked by its digest."""
    if before is None or now is None:
        return before == now
    return not Path(before).is_file() or Path(before).read_bytes() == Path(now).read_bytes()


Train = Callable[[Sequence[Job]], list[Finetuned]]


def train(jobs: Sequence[Job], workers: int | None, progress: bool) -> list[Finetuned]:
    """All of these, those trained that are not yet, in processes of one thread each.

    Args:
        jobs: the fine-tunings.
        workers: how many train at a time; by default one for each core.
        progress: show progress on standard error.

    Raises:
        ValueError: if a folder holds another fine-tuning, or workers are fewer than one; nothing is trained then.
        RuntimeError: in one line, if one failed, such as for a wrong setting; the others have saved.
        StudyStoppedError: after Ctrl-C.
    """
    there = {job.folder: job.look() for job in jobs}
    made = {folder: done.step if done else 0 for folder, done in there.items()}
    waiting = deque(job for job in jobs if not ((done := there[job.folder]) and done.finished))
    crew: Workers[Job] = Workers(at_a_time(workers), "workbench.training.finetune_worker")
    total, before = sum(job.config.steps for job in jobs), sum(made.values())
    with Progress(total, progress and bool(waiting), before, every=60) as bar:
        try:
            while waiting or crew.running:
                while waiting and crew.has_room():
                    job = waiting.popleft()
                    if there[job.folder] is not None:
                        job.find_again()
                    crew.start(job)
                for end in crew.ended(SECONDS_BETWEEN_LOOKS):
                    made[end.job.folder] = _finished(end).step
                    count = len(jobs) - len(waiting) - len(crew.running)
                    bar.say(f"{end.job.folder.name} finished; {count} of {len(jobs)}")
                for job, *_ in crew.running:  # one step is kept for what follows the last: it is measured and saved
                    made[job.folder] = max(made[job.folder], min(job.step(), job.config.steps - 1))
                bar.update(sum(made.values()), {})
        except KeyboardInterrupt:
            bar.say("stopping; a second Ctrl-C does not wait for the fine-tunings to save")
            raise StudyStoppedError from None
        finally:
            crew.close()
    return [finetuned(job.folder) for job in jobs]


def _finished(end: Ended[Job]) -> Finetuned:
    """A fine-tuning that was made. Raises RuntimeError if it failed, and StudyStoppedError if it was stopped."""
    if end.error is not None:
        raise RuntimeError(f"{end.job.folder.name} failed: {end.error}")
    done = end.job.look()
    if done is None or not done.finished:
        raise StudyStoppedError
    return done
