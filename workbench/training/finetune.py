"""Fine-tuning: a model of Hugging Face and a text or task in, the same model with another attention out.

The folder that is written is an ordinary one of Hugging Face, with `metrics.jsonl` and `finetune.json` beside the
model. The loss is that of the next token, AdamW trains all weights in float32; what is held out gives the perplexity
with the model's own attention, directly after the exchange, and after training (ChaCAL, §5.3 and Table 3), and of a
task how many answers are right (Seq-VCR, Table 1). Dropout of the attention pattern is set to 0, since the variants
have none; other dropout is the model's own. Processes that `torchrun` started together train one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from workbench.tasks import check_files
from workbench.training.distributed import Processes
from workbench.training.finetune_config import FinetuneConfig, Finetuned
from workbench.training.finetune_run import FineTuning
from workbench.training.loop import train_alone, train_new
from workbench.training.state import State, only_trainer
from workbench.util.files import check_contents, check_free, check_utf8
from workbench.util.messages import in_one_line
from workbench.util.strict_settings import checked


@in_one_line()
def finetune(
    config: str | Path | FinetuneConfig | Mapping[str, Any],
    out: str | Path,
    *,
    control: bool = False,
    progress: bool = True,
    **settings: Any,
) -> Finetuned:
    """Fine-tune a Hugging Face model with another attention, and write its folder.

    Ctrl-C stops after the current step and saves; `resume_finetune` goes on. Processes that `torchrun` started together
    train one model: each takes its part of every batch, and the result is that of a single process.

    Args:
        config: the folder or name of the model, which gets ChaCAL; or a `FinetuneConfig`, or its fields.
        out: the folder to make; it must not exist yet, or be empty.
        control: fine-tune the control too, as `finetune_control`: what a variant is better or worse than.
        progress: show progress on standard error.
        settings: further fields, such as `text="notes.txt", attention="tempered", steps=200`.

    Raises:
        ValueError: in one line, if a setting, the model, the text or the task is wrong, the model cannot have this
            attention, or `out` is taken; nothing is written then.
        TrainingError: if the loss stops being finite, or the disk is full; what was trained until then is kept.
    """
    path, config = Path(out), _config(config, settings)
    if control and not config.is_variant:
        raise ValueError("the control of a variant has standard attention, and so has this: leave control out")
    processes = Processes.started(config.device)
    for each in (path, Finetuned.beside(path))[: 1 + control]:
        processes.do(partial(check_free, each))
    check_utf8(path, as_text=True)
    tuning = FineTuning(config, path, progress, processes)
    train_new(tuning, tuning.show, tuning.problems)
    result = Finetuned.of(path)
    return finetune_control(path, progress=progress) if control and result.finished else result


def _config(given: str | Path | FinetuneConfig | Mapping[str, Any], settings: Mapping[str, Any]) -> FinetuneConfig:
    """The config in full of what `finetune` is given. Raises ValueError if a setting is wrong."""
    if isinstance(given, str | Path):
        given = {"model": str(given), "attention": "chacal"}
    if settings or not isinstance(given, FinetuneConfig):
        fields = given.model_dump() if isinstance(given, FinetuneConfig) else given
        paths = {name: str(value) for name, value in settings.items() if isinstance(value, Path)}
        given = checked(FinetuneConfig, {**fields, **settings, **paths})
    return given.in_full()


@in_one_line()
def finetune_control(path: str | Path, *, progress: bool = True) -> Finetuned:
    """Fine-tune the control of a fine-tuning with a variant: the same steps on the same data with standard attention.

    It is written beside the folder, as `NAME-control`; one that was stopped goes on, and one that is there is left. The
    folder may come from a stranger, as of `resume_finetune`.

    Returns:
        The fine-tuning with the variant, whose `control` this is.

    Raises:
        ValueError: in one line, if it is not finished, has standard attention itself, another folder is where its
            control goes, or as `finetune`.
        TrainingError: as `finetune`.
    """
    path = Path(path)
    check_contents(path)
    result = Finetuned.of(path)
    if not result.config.is_variant:
        raise ValueError(f"{path} has standard attention itself: a control is of a variant")
    if not result.finished:
        raise ValueError(f"{path} is not finished: `workbench resume {path}` goes on")
    if not result.test_losses:
        raise ValueError(f"{path} kept no loss of each held-out sequence, as is done today: fine-tune it again")
    control = result.begun_control()
    if control is not None:
        resume_finetune(control.path, progress=progress)
    else:
        check_files(result.config.task or {"name": "text", "path": result.config.text}, path)
        finetune(result.config.control(), result.control_path, progress=progress)
    return Finetuned.of(path)


@in_one_line()
def resume_finetune(path: str | Path, *, progress: bool = True) -> Finetuned:
    """Go on with a fine-tuning that was stopped or killed, from its last whole state, to bit for bit the same weights.

    The folder may come from a stranger: as of a run, texts are read beside it and where `WORKBENCH_TEXTS` says alone.

    Raises:
        ValueError: in one line, if there is none, the model it began with or its data is gone or another one now, a
            link in the folder leads out of it, its text lies elsewhere (see `tasks.check_files`), or another process is
            at it.
        TrainingError: as `finetune`.
    """
    path = Path(path)
    check_contents(path)
    before = Finetuned.of(path)
    if before.finished:
        return before
    check_files(before.config.task or {"name": "text", "path": before.config.text}, path)
    processes = Processes.started(before.config.device)
    with only_trainer(path, processes=processes):
        state, problems = processes.do(lambda: State.last(path))
        tuning = FineTuning(FinetuneConfig.read(path), path, progress, processes, fresh=state is None)
        if state is not None:
            tuning.learner.restore(state)
        train_alone(tuning, tuning.show, problems, resumed=True)
    return Finetuned.of(path)
