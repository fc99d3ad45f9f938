"""Fine-tuning: a model of Hugging Face and a text in, the same model with another attention out.

The folder that is written is an ordinary one of Hugging Face, with `metrics.jsonl` and `finetune.json` beside the
model. The loss is that of the next token, AdamW trains all weights in float32; held-out text gives the perplexity with
the model's own attention, directly after the exchange, and after training (ChaCAL, §5.3 and Table 3). Dropout of the
attention pattern is set to 0, since the variants have none; other dropout is the model's own.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from workbench import runs
from workbench.runs import RunConfig
from workbench.tasks.text_file import read_parts
from workbench.training.distributed import Processes
from workbench.training.environment import environment
from workbench.training.finetune_config import (
    AFTER,
    BEFORE,
    EXCHANGED,
    FINETUNE,
    FinetuneConfig,
    Finetuned,
    finetuned,
    read_config,
)
from workbench.training.finetune_text import TextData, measure, read_data, token_loss
from workbench.training.learning_rate import learning_rate
from workbench.training.log import Log
from workbench.training.loop import Interrupts
from workbench.training.progress import Progress
from workbench.training.state import (
    Learner,
    State,
    TrainingError,
    cannot_write,
    forget_states,
    last_readable,
    only_trainer,
)
from workbench.util.files import check_free, new_folder, write_atomically
from workbench.util.messages import in_one_line
from workbench.util.seeds import generator, global_draws

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class FinetuneLearner(Learner):
    """A learner whose model is one of Hugging Face."""

    def fill(self, state: State) -> None:
        """Put the weights of a state into the model. Raises ValueError if they are those of another model."""
        weights = {k.removeprefix(runs.MODEL): x for k, x in state.tensors.items() if k.startswith(runs.MODEL)}
        expected = runs.weights_of(self.model)
        for name in sorted(expected.keys() | weights.keys()):
            if name not in expected or name not in weights or expected[name].shape != weights[name].shape:
                raise ValueError(f"{state.path} is no state of this model: {name} is missing, or has another shape")
        self.model.load_state_dict(weights, strict=False)


@in_one_line()
def finetune(config: FinetuneConfig | Mapping[str, Any], out: str | Path, *, progress: bool = True) -> Finetuned:
    """Fine-tune a Hugging Face model with another attention, and write its folder.

    Ctrl-C stops after the current step and saves; `resume_finetune` goes on.

    Args:
        config: a `FinetuneConfig`, or its fields.
        out: the folder to make; it must not exist yet, or be empty.
        progress: show progress on standard error.

    Raises:
        ValueError: in one line, if a setting, the model or the text is wrong, the model cannot have this attention, or
            `out` is taken; nothing is written then.
        TrainingError: if the loss stops being finite, or the disk is full; what was trained until then is kept.
    """
    path = Path(out)
    check_free(path)
    config = config if isinstance(config, FinetuneConfig) else FinetuneConfig.model_validate(dict(config))
    config = config.model_copy(update={"model": _absolute(config.model), "text": _absolute(config.text)})
    tuning = FineTuning(config, path, progress)
    with new_folder(path) as folder:
        write_atomically(folder / FINETUNE, tuning.config.model_dump_json(indent=1).encode())
        (folder / runs.STATES).mkdir()
    with ExitStack() as lock:
        lock.enter_context(only_trainer(path))
        tuning.train()
    return finetuned(path)


@in_one_line()
def resume_finetune(path: str | Path, *, progress: bool = True) -> Finetuned:
    """Go on with a fine-tuning that was stopped or killed, from its last whole state, to bit for bit the same weights.

    Raises:
        ValueError: in one line, if there is none, the model it began with or its text is gone or another one now, or
            another process is at it.
        TrainingError: as `finetune`.
    """
    path = Path(path)
    if finetuned(path).finished:
        return finetuned(path)
    with ExitStack() as lock:
        lock.enter_context(only_trainer(path))
        state, problems = last_readable(path)
        tuning = FineTuning(read_config(path), path, progress, fresh=state is None)
        if state is not None:
            tuning.learner.restore(state)
        tuning.train(problems, resumed=True)
    return finetuned(path)


class FineTuning:
    """One fine-tuning: the model, its text, its learner."""

    def __init__(self, config: FinetuneConfig, path: Path, progress: bool, *, fresh: bool = True) -> None:
        """Load model and text; of a fresh one, measure perplexity before and after the exchange.

        Raises:
            ValueError: if something does not fit.
        """
        from workbench.models.pretrained.loading import load_causal

        self.path, self.show = path, progress
        next(read_parts(Path(config.text)), None)  # a file that cannot be read is said before a model is loaded
        loaded = load_causal(config.model, dtype=torch.float32, progress=progress, attention_dropout=0.0)
        self.model: PreTrainedModel = loaded.model
        self.tokenizer: PreTrainedTokenizerBase | None = loaded.tokenizer
        self.data: TextData = read_data(loaded, config)
        self.config = config.model_copy(update={"digest": self.data.digest, "length": self.data.length})
        n_layers = self.model.config.get_text_config(decoder=True).num_hidden_layers
        if config.seq_vcr is not None and not (config.seq_vcr < n_layers and config.batch_size > 1):
            raise ValueError(
                f"seq_vcr acts on a layer from 0 to {n_layers - 1}, over at least 2 sequences a step; got layer "
                f"{config.seq_vcr} and {config.batch_size}"
            )
        self.first = {BEFORE: self.evaluate()} if fresh else {}
        self.attend(config.steps)
        if fresh:
            self.first[EXCHANGED] = self.evaluate()
        weights = [p for p in self.model.parameters() if p.requires_grad]
        options: Any = {"betas": (0.9, 0.999), "weight_decay": config.weight_decay, "fused": True}
        optimizer = torch.optim.AdamW(weights, lr=config.learning_rate, **options)
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        self.learner = FinetuneLearner(cast(Any, self.model), {}, optimizer, torch.device("cpu"), scaler)

    def attend(self, step: int) -> None:
        """Give the model the attention of the step that follows `step` finished ones."""
        from workbench.models.pretrained import set_attention

        set_attention(self.model, self.config.attention_at(step), self.config.layers)

    def evaluate(self) -> dict[str, float]:
        """Loss in nats a token, and perplexity, on the held-out text."""
        loss = measure(self.model, self.data.held_out, self.config.batch_size)
        return {"test_loss": loss, "perplexity": math.exp(min(loss, 700.0))}

    def train(self, problems: list[str] | None = None, resumed: bool = False) -> None:
        """Train to the end or until Ctrl-C; the folder then holds the model, or a state to resume from.

        Raises:
            TrainingError: if the loss is not finite, or the disk is full.
        """
        config, learner = self.config, self.learner
        try:
            with (
                Progress(config.steps, self.show, learner.step) as bar,
                Interrupts() as interrupts,
                Log(self.path / runs.METRICS) as log,
            ):
                for problem in problems or ():
                    bar.say(problem)
                event = "resumed" if resumed else "started"
                log.write({"event": event, "step": learner.step, **environment(torch.device("cpu"), 1)})
                for name, figures in self.first.items():
                    log.write({"event": name, **figures})
                if self._steps(log, bar, interrupts):
                    self._finish(log)
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def _steps(self, log: Log, bar: Progress, interrupts: Interrupts) -> bool:
        """Make the steps that are left; whether all were made."""
        config, learner = self.config, self.learner
        clock = time.perf_counter() - learner.seconds
        alone = Processes(0, 1, torch.device("cpu"))
        while learner.step < config.steps:
            figures = self._step()
            if figures is None:
                learner.save(self.path, alone)
                raise TrainingError(
                    f"the loss or its gradient is not finite at step {learner.step + 1}; the weights of step "
                    f"{learner.step} are kept in {self.path}; try a lower learning rate than {config.learning_rate:g}"
                )
            learner.step, learner.seconds = learner.step + 1, time.perf_counter() - clock
            bar.update(learner.step, {"loss": figures["loss"]})
            last = learner.step == config.steps
            row = figures if learner.step % config.log_every == 0 or last or learner.step == 1 else {}
            if learner.step % config.eval_every == 0 and not last:
                row = row | self.evaluate()
            if row:
                log.write({"step": learner.step, "seconds": round(learner.seconds, 3), **row})
            if interrupts.requested or (learner.step % config.save_every == 0 and not last):
                log.sync()
                learner.save(self.path, alone)
            if interrupts.requested:
                bar.say(f"stopped at step {learner.step} of {config.steps}")
                return False
        return True

    def _step(self) -> dict[str, float] | None:
        """One optimizer step; its figures, or None, with the weights as they were, if they are not finite."""
        config, learner = self.config, self.learner
        settings = config.attention_at(learner.step)
        if config.gamma_warmup:
            self.attend(learner.step)
        tokens = self.data.batch(config.seed, learner.step, config.batch_size)
        self.model.train()
        learner.optimizer.zero_grad(set_to_none=True)
        with global_draws(generator(config.seed, "dropout", learner.step).initial_seed()):
            loss, penalty = self._loss(tokens)
            (loss if penalty is None else loss + penalty).backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(learner.parameters, config.clip)
        if not math.isfinite(norm.item()):
            return None
        rate = learning_rate(cast(RunConfig, config), learner.step)  # which has the fields that this reads
        for group in learner.optimizer.param_groups:
            group["lr"] = rate
        learner.optimizer.step()
        learner.tokens += tokens.numel()
        figures = {"loss": loss.item(), "gradient_norm": norm.item(), "learning_rate": rate}
        if penalty is not None:
            figures["seq_vcr"] = penalty.item()
        return figures | ({"gamma": settings["gamma"]} if "gamma" in settings else {})

    def _loss(self, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        """The next-token loss, and Seq-VCR of a layer's output (of the last one after the final norm) where wanted."""
        from workbench.objectives.seq_vcr import SeqVCR, seq_vcr

        layer = self.config.seq_vcr
        output = self.model(tokens, use_cache=False, output_hidden_states=layer is not None)
        loss = token_loss(output.logits, tokens)
        if layer is None:
            return loss, None
        s = SeqVCR.Settings()
        x, weights = output.hidden_states[layer + 1], (s.variance_weight, s.covariance_weight)
        return loss, seq_vcr(x, variance_weight=weights[0], covariance_weight=weights[1], eta=s.eta)

    def _finish(self, log: Log) -> None:
        """Write the model as an ordinary folder of Hugging Face, and delete the states."""
        from workbench.models.pretrained.loading import shown

        self.attend(self.config.steps)
        learner = self.learner
        figures = {"step": learner.step, "seconds": round(learner.seconds, 3), "tokens": learner.tokens}
        log.write({"event": AFTER, **self.evaluate(), **figures})
        log.sync()
        part = Path(tempfile.mkdtemp(prefix=".model.", dir=self.path))
        try:
            with shown(self.show):
                self.model.save_pretrained(part)
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(part)
            for file in sorted(part.iterdir(), key=lambda file: file.name == runs.CONFIG):  # the config last
                file.replace(self.path / file.name)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        forget_states(self.path)


def _absolute(place: str) -> str:
    """A path on this machine in full, so that training is resumed from any folder; a name on the hub as it is."""
    path = Path(place).expanduser()
    return str(path.resolve()) if path.exists() else place
