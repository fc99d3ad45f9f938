"""What a model is fine-tuned on: a text cut into sequences, or a task in the words of the model's tokenizer."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from workbench import tasks
from workbench.objectives.next_token import summed_cross_entropy
from workbench.tasks import Batch
from workbench.tasks.known_text import KnownText
from workbench.tasks.text_file import text_parts
from workbench.training.finetune_config import FinetuneConfig
from workbench.util.seeds import generator, global_draws
from workbench.util.ties import hit

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from workbench.models.pretrained.loading import Loaded

HELD_OUT = 10  # of a text one in so many sequences is held out, but no more than `eval_size`


def read_data(loaded: Loaded, config: FinetuneConfig) -> Data:
    """The data of a fine-tuning. A task may add tokens to tokenizer and model.

    Raises:
        ValueError: in one line, if the model has no tokenizer, the text or task cannot be had, is not the one that the
            fine-tuning began with, or a sequence is longer than the model's context.
    """
    data: Data = _TextData.read(loaded, config) if config.task is None else _TaskData(loaded, config)
    if config.digest not in ("", data.digest):
        what = config.text if config.task is None else f"the task {config.task['name']}"
        kind = "text" if config.task is None else "task"
        raise ValueError(f"{what} is not the {kind} that this fine-tuning began with: it has changed since")
    return data


@dataclass(frozen=True)
class _TextData:
    """The sequences of a text.

    Attributes:
        training: `[n, length]`, the first ones.
        held_out: `[m, length]`, those of the last ones that are not trained on.
        length: the longest sequence, in tokens.
        digest: SHA-256 of what decides the data, against data that changed.
        pad: the token that fills up shorter sequences on the right; −1 where there are none.
        answers: where an answer is: a text has none.
    """

    training: Int[Tensor, "n length"]
    held_out: Int[Tensor, "m length"]
    length: int
    digest: str
    pad: int = -1
    answers: None = None

    @classmethod
    def read(cls, loaded: Loaded, config: FinetuneConfig) -> _TextData:
        """A text as sequences of a model's tokens. Raises ValueError as `read_data`."""
        from workbench.models.pretrained.text_file import cut, needed, sequence_length, text_tokens

        path = Path(str(config.text))
        tokenizer = needed(loaded.tokenizer, loaded.name)
        length = sequence_length(loaded.name, loaded.n_ctx, config.length)
        pieces = list(cut(text_tokens(tokenizer, path), length))
        if len(pieces) < 2:
            what = "too short" if next(text_parts(path), "") else "empty"
            raise ValueError(
                f"{path} is {what}: training needs two sequences of {length} tokens at least; take shorter ones "
                "(--length), or a longer text"
            )
        whole = torch.stack(pieces)
        n = max(1, min(config.eval_size, len(whole) // HELD_OUT))
        rows = [row.tobytes() for row in whole[-n:].numpy()]
        trained = {*rows} & {row.tobytes() for row in whole[:-n].numpy()}
        new = [row not in trained for row in rows]
        if not any(new):
            raise ValueError(
                f"{path} repeats itself: the sequences to hold out are all trained on too, and would say nothing; take "
                "another text, or sequences of another length (--length)"
            )
        return cls(whole[:-n], whole[-n:][new], length, hashlib.sha256(whole.numpy().tobytes()).hexdigest())

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """Sequences drawn with replacement."""
        rows = torch.randint(len(self.training), (size,), generator=generator(seed, "finetune", step))
        return self._each_next(self.training[rows])

    @property
    def tested(self) -> Batch:
        """What is held out, as a batch."""
        return self._each_next(self.held_out)

    def known(self, before: KnownText | None) -> KnownText:
        return KnownText.of([self.training.flatten()], [self.held_out.flatten()], before)

    def _each_next(self, tokens: Int[Tensor, "n length"]) -> Batch:
        return Batch.next_token(tokens, 0, self.length - 1)


class _TaskData:
    """Fresh sequences of a task, each of its words one token of the model's tokenizer.

    A word is the tokenizer's own token for it, as it stands after a space or else at the beginning of a text. A word
    that has none of its own, such as a pause token, becomes a new token, whose embedding is drawn from the seed.
    """

    def __init__(self, loaded: Loaded, config: FinetuneConfig) -> None:
        """Raises ValueError as `read_data`."""
        from workbench.models.pretrained.checks import n_tokens
        from workbench.models.pretrained.text_file import needed

        self.task = tasks.make(config.task or {})
        self.length = self.task.n_ctx
        if self.length > loaded.n_ctx:
            raise ValueError(
                f"sequences of {self.task.name} have up to {self.length} tokens, and the context of {loaded.name} is "
                f"{loaded.n_ctx}"
            )
        tokenizer = needed(loaded.tokenizer, loaded.name)
        ids: list[int] = []
        for word in self.task.vocabulary.words:
            pieces = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (f" {word}", word)]
            own = [piece[0] for piece in pieces if len(piece) == 1 and piece[0] not in (tokenizer.unk_token_id, *ids)]
            if not own:
                tokenizer.add_tokens([word])
                own = [tokenizer.get_vocab()[word]]
            ids.append(own[0])
        self.ids = torch.tensor(ids)
        with global_draws(generator(config.seed, "new tokens").initial_seed()):
            if (needed_ids := int(self.ids.max()) + 1) > n_tokens(loaded.model):
                loaded.model.resize_token_embeddings(needed_ids)
        self.pad = int(self.ids[self.task.pad]) if self.task.pad >= 0 else -1
        drawn = self.task.sample(config.eval_size, generator(config.seed, "finetune", "held out"), split="test")
        if drawn.targets.ndim != 2:
            raise ValueError(f"{self.task.name} asks for sets of tokens, and a language model says one: choose another")
        self.tested, self.answers = self._in_its_tokens(drawn), self.task.answer_mask(drawn)
        decides = json.dumps([config.task, self.ids.tolist()], sort_keys=True, default=str).encode()
        self.digest = hashlib.sha256(decides + drawn.tokens.numpy().tobytes()).hexdigest()

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """New sequences of the training side of the task's split."""
        return self._in_its_tokens(self.task.sample(size, generator(seed, "finetune", step), split="train"))

    def known(self, before: KnownText | None) -> KnownText | None:
        return before

    def _in_its_tokens(self, batch: Batch) -> Batch:
        return replace(batch, tokens=self.ids[batch.tokens], targets=self.ids[batch.targets])


@torch.no_grad()
def measured(model: PreTrainedModel, data: Data, size: int) -> dict[str, float]:
    """The mean loss in nats of the scored tokens held out, and its exponential, without dropout.

    Where there are answers, also the share of their tokens that are right, as `accuracy`, and of answers that are right
    throughout, as `whole_answer`, predicted from the true tokens before them.

    Args:
        model, data: the model, and what it is measured on.
        size: sequences at a time.
    """
    model.eval()
    batch, answers = data.tested, data.answers
    total, right, whole = 0.0, 0.0, 0.0
    for start in range(0, len(batch), size):
        rows = slice(start, start + size)
        some = batch[rows].to(model.device)
        logits = model(some.tokens, use_cache=False).logits
        total += float(summed_cross_entropy(logits, some))
        if answers is not None:
            scored = answers[rows].to(model.device)
            hits = hit(logits, some.targets)
            right += float((hits * scored).sum())
            whole += float(hits.where(scored, 1.0).prod(-1).sum())
    loss = total / int(batch.loss_mask.sum())
    figures = {"test_loss": loss, "perplexity": math.exp(min(loss, 700.0))}
    if answers is not None:
        figures |= {"accuracy": right / int(answers.sum()), "whole_answer": whole / len(batch)}
    return figures


@torch.no_grad()
def sequence_losses(model: PreTrainedModel, batch: Batch, size: int) -> list[float]:
    """The mean loss in nats of the scored tokens of each sequence, `size` sequences at a time, without dropout."""
    model.eval()
    means: list[float] = []
    for start in range(0, len(batch), size):
        some = batch[start : start + size].to(model.device)
        logits = model(some.tokens, use_cache=False).logits
        each = torch.nn.functional.cross_entropy(logits.mT.float(), some.targets, reduction="none")
        means += ((each * some.loss_mask).sum(1) / some.loss_mask.sum(1)).tolist()
    return means


Data = _TextData | _TaskData
"""What a model is trained on, in its own tokens, and what is held out."""
