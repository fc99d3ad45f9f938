"""Probes of a Hugging Face model on a text: what its residual holds of the tokens around, or of its own.

The labels are those that the text gives itself (`tasks.text_labels`), or those that stand beside each text of a file.
Controls and baselines are those of runs, but for re-initialised models. Whether a label is used is not tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from workbench.capture import Subject
from workbench.instruments.residual.projection import from_embedding
from workbench.judgement.decodable import UNTRAINED
from workbench.models.pretrained import Pretrained, load_model
from workbench.models.pretrained.labelled_file import labelled_sequences
from workbench.models.pretrained.text_file import file_sequences
from workbench.probes import probe_inputs
from workbench.probes.answer import Answer, check_one, mean_differences
from workbench.probes.baselines_and_controls import CONDITIONS, Source
from workbench.probes.positions import Rule
from workbench.probes.presets import Preset, question
from workbench.probes.probing import over_seeds, probe_source
from workbench.report.hugging_face import names
from workbench.tasks import Sequences
from workbench.tasks.prompt_sets import named
from workbench.tasks.text_file import has_rows, text_parts
from workbench.util.seeds import generator

N = 512  # sequences
WORK = 1_200_000_000  # multiplications for all rows, classes and points at once; of one step of hundreds


def ask_text(
    models: Sequence[str | Path],
    label: str,
    text: str | Path,
    *,
    length: int | None = None,
    n: int | None = None,
    positions: Rule | None = None,
    directions: str | Path | None = None,
    progress: bool = False,
    **options: Any,
) -> list[Answer]:
    """Probe Hugging Face models for labels of a text, at the embedding and after every attention layer and MLP.

    Args:
        models: folders that `save_pretrained` wrote, GGUF files, or names on the hub.
        label: one of `tasks.text_labels.NAMES`, a column of `text`, or a pattern of these.
        text: a text file in UTF-8, of which the first n sequences are taken; a file of texts with labels
            (`labelled_file`: `.jsonl`, `.csv` or `.tsv`), of which the first n texts are; or the name of a prompt set.
        length: tokens in a sequence, of labelled texts the most; by default 256, or the context if that is shorter.
        n, positions: sequences, by default 512: seven in ten fit the probe, three test it; and where it reads, by
            default everywhere.
        directions: of one model and label: a new file for `answer.mean_differences`.
        progress: show Transformers' progress while a model is loaded.
        options: `kind`, `seed`, `seeds` and settings of the kind of probe, as for `probe`.

    Raises:
        ValueError: in one line, if a model cannot be loaded, the text is too short, or there is no such label.
    """
    sources, n = [str(model) for model in models], N if n is None else n
    called = names(sources)
    _check(text, n)
    cut = partial(labelled_sequences, label=label) if has_rows(text) else file_sequences
    answers = []
    for source, name in zip(sources, called, strict=True):
        model = load_model(source, progress=progress)
        task = cut(model, text, length=length, n=n)
        preset = question(label, task, positions)
        if directions is not None:
            check_one(len(sources), preset.names(task), directions)
        answers.append(_answer(label, model, name, task, preset, **options))
        if directions is not None:
            seed = options.get("seed", 0)
            source_of = partial(_source, model, name, task, seed)
            mean_differences(answers[-1], source_of, preset.positions, seed).save(directions)
    return answers


def _check(text: str | Path, n: int) -> None:
    """Raise ValueError for what is wrong with a text before a model is loaded, which takes long."""
    if n < 2:
        raise ValueError(f"a probe needs at least 2 sequences, not n={n}")
    if named(text) is None:
        next(text_parts(Path(text)), None)


def _answer(
    label: str,
    model: Pretrained,
    name: str,
    task: Sequences,
    asked: Preset,
    *,
    kind: str | None = None,
    seed: int = 0,
    seeds: int = 1,
    **settings: Any,
) -> Answer:
    """What one model's residual holds of the labels."""
    if seeds < 1:
        raise ValueError(f"a probe needs at least 1 seed, not seeds={seeds}")
    points = from_embedding(Subject.of(model, task, name))
    controls = [condition for condition in CONDITIONS[1:] if condition != UNTRAINED]
    parts = []
    for each in range(seed, seed + seeds):
        source = _source(model, name, task, each, points)
        parts.append(
            probe_source(source, asked.names(task), asked.positions, kind or asked.kind, controls, each, settings)
        )
    measured = parts[0] if seeds == 1 else over_seeds(parts, range(seed, seed + seeds))
    return Answer.of(label, f"Can {label} be decoded?", measured, {})


def _source(model: Pretrained, name: str, task: Sequences, seed: int, points: Sequence[str]) -> Source:
    """The residual of a model at these points, on all sequences in the order of a seed."""
    batch = task.sample(task.n_given, generator(seed, "probe"), split="test")
    read = partial(probe_inputs.from_model, model, batch, points)
    return Source(task, batch, points, read, (), name, WORK // (len(points) * model.config.d_model))
