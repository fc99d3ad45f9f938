"""One fine-tuning while it trains: the model of Hugging Face, its data, its learner, and the folder it leaves."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch

from workbench import runs
from workbench.objectives.seq_vcr import SeqVCR
from workbench.tasks import make
from workbench.tasks.known_text import KnownText
from workbench.tasks.text_file import text_parts
from workbench.training.distributed import Processes
from workbench.training.finetune_config import (
    AFTER,
    BEFORE,
    EXCHANGED,
    FINETUNE,
    LOSSES,
    FinetuneConfig,
    digest_of_weights,
)
from workbench.training.finetune_data import Data, measured, read_data, sequence_losses
from workbench.training.finetune_step import FinetuneLearner, FinetuneStep, LearnedGammas
from workbench.training.hint_mixing import Batches
from workbench.training.state import forget_states
from workbench.training.trained import Trained
from workbench.util.files import new_folder, write_atomically
from workbench.util.seeds import generator, global_draws
from workbench.util.settings import as_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class FineTuning(Trained):
    """One fine-tuning while it trains: the model, its data, its learner."""

    config: FinetuneConfig

    def __init__(
        self, config: FinetuneConfig, path: Path, progress: bool, processes: Processes, *, fresh: bool = True
    ) -> None:
        """Load model and data; of a fresh one, measure perplexity before and after the exchange.

        Raises:
            ValueError: if something does not fit.
        """
        from workbench.models.pretrained.loading import load_causal

        super().__init__(config, path, processes)
        self.show = progress and processes.main
        if config.batch_size % processes.count:
            raise ValueError(
                f"a step has {config.batch_size} sequences, which {processes.count} processes cannot share equally"
            )
        if config.task is not None:  # what is wrong with the data is said before a model is loaded
            make(config.task)
        else:
            next(text_parts(Path(str(config.text))), None)
        loaded = load_causal(config.model, dtype=torch.float32, progress=self.show, attention_dropout=0.0)
        self.model: PreTrainedModel = loaded.model
        self.tokenizer: PreTrainedTokenizerBase | None = loaded.tokenizer
        self.data: Data = read_data(loaded, config)
        self.model.to(processes.device)  # type: ignore[arg-type]
        begun = digest_of_weights(config.model)
        if config.model_digest not in ("", begun):
            raise ValueError(f"{config.model} is not the model that this fine-tuning began with: it has changed since")
        data_and_model = {"digest": self.data.digest, "length": self.data.length, "model_digest": begun}
        self.config = config.model_copy(update=data_and_model)
        objectives = self._objectives()
        self.problems = self._not_inspected() if fresh and processes.main else []
        self.first = {BEFORE: self.measure()} if fresh else {}
        self.attend(config.steps)
        if fresh:
            self.first[EXCHANGED] = self.measure()
        self.learner = self._learner(objectives)

    def _not_inspected(self) -> list[str]:
        """Why the model could not be inspected when it is trained: said before, and no reason not to train it."""
        from workbench.models.pretrained import set_attention
        from workbench.models.pretrained.model import Pretrained

        exchanged = copy.deepcopy(self.model)
        set_attention(exchanged, self.config.attention, self.config.layers)
        try:
            Pretrained(exchanged, name=self.config.model)
        except ValueError as error:
            return [f"note: when it is trained it cannot be inspected: {error}"]
        return []

    def _objectives(self) -> dict[str, Any]:
        """What trains beside the model and is no part of it: Seq-VCR's projection, and learned gammas."""
        config, made = self.config, dict[str, Any]()
        shape = self.model.config.get_text_config(decoder=True)
        if config.seq_vcr is not None:
            if config.batch_size < 2:
                raise ValueError("Seq-VCR takes a covariance over at least 2 sequences a step; got 1")
            names = [f"blocks.{i}.hook_resid_post" for i in range(shape.num_hidden_layers)]
            sizes = {"d_vocab": shape.vocab_size, "d_model": shape.hidden_size, "n_layers": shape.num_hidden_layers}
            like = cast(Any, SimpleNamespace(activation_names=names, **sizes))
            with global_draws(generator(config.seed, "projection").initial_seed()):
                place = {} if "at" in config.seq_vcr else {"layer": -1}
                made["seq_vcr"] = SeqVCR(like, pad=self.data.pad, **{**place, **config.seq_vcr})
        if config.gamma_learned is not None:
            made["gamma"] = LearnedGammas(self.model, config.attention, config.gamma_learned, config.layers)
        self.seq_vcr: SeqVCR | None = made.get("seq_vcr")
        self.gammas: LearnedGammas | None = made.get("gamma")
        for objective in made.values():
            objective.to(self.processes.device)
        return made

    def _learner(self, objectives: dict[str, Any]) -> FinetuneLearner:
        config, device = self.config, self.processes.device
        weights = [p for p in self.model.parameters() if p.requires_grad]
        weights += [] if self.seq_vcr is None else list(self.seq_vcr.parameters())
        groups: list[dict[str, Any]] = [{"params": weights, "times": 1.0, "weight_decay": config.weight_decay}]
        if self.gammas is not None:
            times = config.gamma_learning_rate / config.learning_rate
            groups.append({"params": list(self.gammas.parameters()), "times": times, "weight_decay": 0.0})
        optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.999), fused=True)
        scaler = torch.amp.GradScaler(device.type, enabled=False)
        return FinetuneLearner(self.model, objectives, optimizer, device, scaler)

    def create(self) -> None:
        with new_folder(self.path) as folder:
            write_atomically(folder / FINETUNE, self.config.model_dump_json(indent=1).encode())
            (folder / runs.STATES).mkdir()

    def batches(self) -> Iterator[Batches]:
        config = self.config
        return ((self.data.batch(config.seed, t, config.batch_size),) for t in range(self.learner.step, config.steps))

    def optimizer_step(self) -> FinetuneStep:
        return FinetuneStep(self)

    def attend(self, step: int) -> None:
        """Give the model the attention of the step that follows `step` finished ones."""
        from workbench.models.pretrained import set_attention
        from workbench.models.pretrained.attention_functions import lend

        set_attention(self.model, self.config.attention_at(step), self.config.layers)
        if self.gammas is not None:  # read with these, whatever the model's config says
            lend(self.model, {int(name): self.gammas[int(name)] for name in self.gammas.layers})

    def measure(self) -> dict[str, float]:
        """Loss in nats a token, and perplexity, on what is held out; of a task also how much is right."""
        figures = measured(self.model, self.data, self.config.batch_size) if self.processes.main else {}
        return cast(dict[str, float], self.processes.agree(figures))

    def evaluate(self) -> dict[str, float]:
        """What is measured on the way; at the end it is measured with what was learned in its place."""
        return self.measure() if self.learner.step < self.config.steps else {}

    @contextmanager
    def begin(self, problems: Sequence[str] = (), resumed: bool = False) -> Iterator[None]:
        """Open the log within this context, with what was measured before the first step."""
        with super().begin(problems, resumed):
            for name, figures in self.first.items():
                self.write({"event": name, **figures})
            yield

    def finish(self) -> None:
        """Write the model as an ordinary folder of Hugging Face, and delete the states."""
        from workbench.models.pretrained import set_attention
        from workbench.models.pretrained.attention_functions import lend
        from workbench.models.pretrained.loading import shown

        self.done = True
        self.attend(self.config.steps)
        if self.gammas is not None:
            lend(self.model, None)
            for layer in self.gammas.layers:
                set_attention(self.model, self.gammas.settings(int(layer)), [int(layer)])
        learner = self.learner
        figures = {"step": learner.step, "seconds": round(learner.seconds, 3), "tokens": learner.tokens}
        held_out = self.measure()
        if self.log is None:
            return
        self.log.write({"event": AFTER, **held_out, **figures})
        self.log.sync()
        part = Path(tempfile.mkdtemp(prefix=".model.", dir=self.path))
        try:
            with shown(self.show):
                self.model.save_pretrained(part)
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(part)
            losses = sequence_losses(self.model, self.data.tested, self.config.batch_size)
            (part / LOSSES).write_text(as_json({"test_losses": losses}), encoding="utf-8")
            known = self.data.known(KnownText.read(Path(self.config.model).expanduser()))
            if known is not None:
                known.save(part)
            for file in sorted(part.iterdir(), key=lambda file: file.name == runs.CONFIG):  # the config last
                file.replace(self.path / file.name)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        forget_states(self.path)
