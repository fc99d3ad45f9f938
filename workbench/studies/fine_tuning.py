"""What a study trains that fine-tunes: one model to begin with for each seed, and every group from that very model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.measurement import Measurement
from workbench.runs import METRICS, read_log
from workbench.studies.contrasts import OVER_FINE_TUNING
from workbench.studies.study import BEGIN, FRESH, SMALL, Quantities, Scale, check_ended
from workbench.tasks.text import SHIPPED, Text
from workbench.training.finetune_config import AFTER, BEFORE, EXCHANGED, FinetuneConfig, Finetuned
from workbench.training.finetune_job import FinetuneJob
from workbench.training.sweeps.driver import train_all
from workbench.util.files import new_folder, read_object
from workbench.util.seeds import generator, global_draws
from workbench.util.strict_settings import checked

PERPLEXITY, LOSS, ACCURACY, WHOLE = "perplexity", "test_loss", "accuracy", "whole_answer"
UNITS = {PERPLEXITY: "", LOSS: "nats", ACCURACY: "share", WHOLE: "share"}
WHEN = {BEFORE: "before", EXCHANGED: "after the exchange"}
LONGEST = 2**20  # bytes of a model's config


@dataclass(frozen=True)
class FineTunes:
    """The fine-tunings of one seed, each with settings of `workbench finetune`.

    Attributes:
        groups: scale -> group -> what is its own.
        shared: scale -> what all groups have; a scale other than `small` begins with a model that is given.
        shape: of the small model, as `GPT2Config` has it; its tokens are bytes.
        begin: how the small model is first trained, from fresh weights, on Shakespeare.
        beside: the group whose perplexity that of the others is divided by; None for none.
        quantities: what is measured of what is held out.
        needs: what has to be given at other scales: a `model`, and a `text` where the groups train on one.
    """

    groups: Mapping[Scale, Mapping[str, Mapping[str, Any]]]
    shared: Mapping[Scale, Mapping[str, Any]]
    shape: Mapping[str, Any]
    begin: Mapping[str, Any]
    beside: str | None = None
    quantities: tuple[str, ...] = (PERPLEXITY, LOSS)
    needs: tuple[str, ...] = ("model",)

    def __call__(
        self,
        scale: Scale,
        seeds: Sequence[int],
        folder: Path,
        given: Mapping[str, str],
        workers: int | None,
        ray: str | None,
        progress: bool,
    ) -> list[dict[str, Quantities]]:
        """Train what is missing, and measure: of each seed, group -> quantity -> its measurement.

        Args:
            scale: one of `shared`.
            seeds: of the weights and of the order of the data.
            folder: where everything is kept.
            given: of a scale other than `small`, what `needs` names: a folder with a model, and a text.
            workers, ray, progress: as of `workbench.sweep`.

        Raises:
            ValueError: if a setting is wrong.
            RuntimeError: in one line, if a fine-tuning failed.
            StudyStoppedError: if it was stopped; the same call goes on.
        """
        text = str(SHIPPED["shakespeare"]) if scale == SMALL else given.get("text")
        settings = {**self.shared[scale], **({"text": text} if "text" in self.needs else {})}  # else of a task
        places = {(name, seed): folder / f"{name}-seed={seed}" for seed in seeds for name in self.groups[scale]}
        how = {"workers": workers, "ray": ray, "progress": progress}
        if scale == SMALL:
            begun = {seed: folder / f"{BEGIN}-seed={seed}" for seed in seeds}
            tune_all({place: self._first(folder, seed) for seed, place in begun.items()}, folder, **how)
        else:
            begun = dict.fromkeys(seeds, Path(given["model"]))
        wanted = {
            place: {**settings, **self.groups[scale][name], "model": str(begun[seed]), "seed": seed}
            for (name, seed), place in places.items()
        }
        done = dict(zip(places, tune_all(wanted, folder, **how), strict=True))
        each = [{name: self._measured(done[name, seed]) for name in self.groups[scale]} for seed in seeds]
        return [self._compared(one) for one in each]

    def taken(self, scale: Scale) -> Sequence[str]:
        """What is taken from elsewhere at a scale: nothing at `small`."""
        return () if scale == SMALL else self.needs

    def missing(self, scale: Scale, given: Mapping[str, str]) -> str | None:
        """What has to be given at a scale, in words; None where it is."""
        name = next((name for name in self.taken(scale) if not given.get(name)), None)
        if name is None:
            return None
        too = "" if name == "model" else " too"
        return f"at scale {scale} it fine-tunes a model of yours, such as GPT-2; give --{name}{too}"

    def _first(self, folder: Path, seed: int) -> dict[str, Any]:
        """How the model that a seed's groups begin with is trained, from fresh weights that are written here."""
        fresh = folder / f"{FRESH}-seed={seed}"
        if not fresh.exists():
            make_fresh(fresh, self.shape, seed)
        shape = read_object(fresh / "config.json", LONGEST)
        if other := next((name for name, size in self.shape.items() if shape.get(name) != size), None):
            raise ValueError(
                f"{fresh} is a model with {other} {shape.get(other)} and not {self.shape[other]}: "
                f"move {folder} away first"
            )
        text = str(SHIPPED["shakespeare"])
        return {"attention": "standard", **self.begin, "model": str(fresh), "text": text, "seed": seed}

    def _measured(self, done: Finetuned) -> Quantities:
        """What a fine-tuning ended with, what it began with, and what is held out over its steps."""
        rows = read_log(done.path / METRICS)
        ends = {row["event"]: row for row in rows if row.get("event") in (BEFORE, EXCHANGED, AFTER)}
        over = [(0, ends[EXCHANGED]), *((row["step"], row) for row in rows if LOSS in row and "event" not in row)]
        over.append((done.config.steps, ends[AFTER]))
        steps, about = [step for step, _ in over], {"model": done.path.name}
        measured: Quantities = {}
        for name in self.quantities:
            units = UNITS[name]
            measured[name] = _number(name, ends[AFTER][name], units, about)
            for event, words in WHEN.items() if self.beside is not None else ():  # else no attention is exchanged
                measured[f"{name} {words}"] = _number(f"{name} {words}", ends[event][name], units, about)
            values = np.array([row[name] for _, row in over], dtype=float)
            label = f"{name}{OVER_FINE_TUNING}"
            measured[label] = Measurement(label, values, ("step",), {"step": steps}, units, about)
        return measured

    def _compared(self, groups: dict[str, Quantities]) -> dict[str, Quantities]:
        """The same, with each group's perplexity over that of the group `beside`, of the same seed."""
        if self.beside is None:
            return groups
        name, base = f"{PERPLEXITY} / {self.beside}", float(groups[self.beside][PERPLEXITY].values)
        for own in groups.values():
            ratio = float(own[PERPLEXITY].values) / base
            own[name] = _number(name, ratio, "", own[PERPLEXITY].settings)
        return groups


def tune_all(wanted: Mapping[Path, Mapping[str, Any]], out: Path, **how: Any) -> list[Finetuned]:
    """All of these fine-tunings, those made that are not yet.

    Args:
        wanted: the folder of each -> its settings.
        out: the folder of these folders.
        how: workers, ray and progress, as of `workbench.sweep`.

    Raises:
        ValueError: in one line, if a setting is wrong, or a folder holds another fine-tuning; nothing is made then.
        RuntimeError: in one line, if one failed.
        StudyStoppedError: after Ctrl-C.
    """
    jobs = [FinetuneJob(checked(FinetuneConfig, settings), folder) for folder, settings in wanted.items()]
    for job in jobs:
        job.survey()
    train_all(jobs, out, **how)
    check_ended(jobs)
    return [Finetuned.of(job.folder) for job in jobs]


def _number(name: str, value: float, units: str, about: Mapping[str, Any]) -> Measurement:
    return Measurement(name, np.array(float(value)), (), {}, units, dict(about))


def make_fresh(folder: Path, shape: Mapping[str, Any], seed: int) -> None:
    """Write a GPT-2 of a shape with fresh weights, and a tokenizer of bytes."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from workbench.models.pretrained.loading import shown

    text = Text(path="shakespeare", block=int(shape["n_positions"]))
    given = {"vocab_size": len(text.vocabulary), "bos_token_id": None, "eos_token_id": None, **shape}
    with global_draws(generator(seed, "fresh").initial_seed()):
        model = GPT2LMHeadModel(GPT2Config(**given))
    with shown(progress=False), new_folder(folder) as whole:
        text.fast_tokenizer().save_pretrained(whole)
        model.save_pretrained(whole)
