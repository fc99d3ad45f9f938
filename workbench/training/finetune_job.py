"""A fine-tuning as a job of the driver of sweeps and studies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workbench.runs import METRICS, read_log
from workbench.runs.model_run import FINETUNE
from workbench.tasks import TEXTS
from workbench.training.finetune import finetune, resume_finetune
from workbench.training.finetune_config import FinetuneConfig, Finetuned, digest_of_weights
from workbench.training.sweeps.job import Job
from workbench.util.files import write_atomically
from workbench.util.strict_settings import checked

FOUND = ("model", "text", "digest", "model_digest")  # of a config: compared by what is in the files


@dataclass
class FinetuneJob(Job):
    """A fine-tuning, of which others may be made at the same time."""

    config: FinetuneConfig

    @staticmethod
    def work(spec: Any, folder: Path) -> None:
        torch.set_num_threads(1)  # as many fine-tunings as cores at a time, so that more threads would only wait
        config = checked(FinetuneConfig, spec)
        if not (folder / FINETUNE).is_file():
            finetune(config, folder, progress=False)
            return
        Job.let_it_save(folder)
        _find_again(folder, config)
        if config.text is not None:  # which whoever has it made has named again
            os.environ[TEXTS] = os.pathsep.join([os.environ.get(TEXTS, ""), str(Path(config.text).resolve().parent)])
        resume_finetune(folder, progress=False)

    @property
    def finished(self) -> bool:
        return (self.folder / FINETUNE).is_file() and Finetuned.of(self.folder).finished

    def check(self) -> None:
        due, kept = self.config.in_full(), FinetuneConfig.read(self.folder)
        found = {*FOUND, *(("length",) if due.length is None else ())}
        wanted = {name: value for name, value in due.model_dump(mode="json").items() if name not in found}
        had = kept.model_dump(mode="json")
        differs = [f"{name} {had[name]!r} and not {value!r}" for name, value in wanted.items() if had[name] != value]
        moved = kept.model != due.model
        if kept.model_digest != digest_of_weights(due.model) if kept.model_digest else moved:
            before = f"the model {kept.model} and not {due.model}"
            differs.append(before if moved else f"what {due.model} was before it was made anew")
        same = kept.text == due.text
        if not same and kept.text is not None and due.text is not None:  # one that is gone has moved: see its digest
            same = not Path(kept.text).is_file() or Path(kept.text).read_bytes() == Path(due.text).read_bytes()
        if not same:
            differs.append(f"the text {kept.text} and not {due.text}")
        if differs:
            raise ValueError(f"{self.folder} holds another fine-tuning, with {differs[0]}: move it away first")

    def receive(self, folder: Path) -> None:
        _find_again(folder, self.config)
        type(self)(self.config, folder).check()

    def latest(self) -> Mapping[str, Any]:
        rows = read_log(self.folder / METRICS)
        return {name: value for row in rows if "event" not in row for name, value in row.items() if value == value}

    def inputs(self) -> Mapping[str, Path]:
        named = {"model": Path(self.config.model).expanduser(), "text": Path(self.config.text or "")}
        return {field: path for field, path in named.items() if path.is_file() or (field == "model" and path.is_dir())}


def _find_again(folder: Path, config: FinetuneConfig) -> None:
    """Write into a folder that has moved where the model and the text of its fine-tuning are now."""
    kept, due = FinetuneConfig.read(folder), config.in_full()
    if (kept.model, kept.text) != (due.model, due.text):
        moved = kept.model_copy(update={"model": due.model, "text": due.text})
        write_atomically(folder / FINETUNE, moved.model_dump_json(indent=1).encode())
