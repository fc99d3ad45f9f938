"""What every objective must do; each check takes an objective's name with its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from workbench.models import Decoder, DecoderConfig
from workbench.objectives import OBJECTIVES, Objective
from workbench.tasks import Batch, make
from workbench.testing.require import require, require_close

PAD = 12
TASK = make("sorting", q=PAD - 1, min_length=2, max_length=6)  # 11 symbols, the delimiter and PAD
SHAPE: dict[str, Any] = {"n_layers": 2, "d_model": 24, "n_heads": 2, "d_vocab": 13, "n_ctx": 16}


@dataclass(frozen=True)
class Term:
    """An objective with its settings."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def made(self) -> tuple[Decoder, Objective]:
        """A model and the objective for it; the same at each call."""
        config = DecoderConfig(**SHAPE)
        model = Decoder(config, torch.Generator().manual_seed(0)).double()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            objective = OBJECTIVES[self.name](config, pad=PAD, **self.settings)
            objective.fit_to_task(TASK)
            return model, objective.double()

    def value(self, batch: Batch) -> tuple[Tensor, dict[str, Any], Decoder]:
        """The loss, its figures, and the model whose gradients it leads to."""
        model, objective = self.made()
        logits, kept = model(batch.tokens, keep=objective.needs)
        loss, figures = objective(logits, kept, batch)
        return loss, figures, model


def a_batch(n: int = 8, padding: int = 0) -> Batch:
    """Sequences of a task with their next tokens, scored behind the delimiter; then padding."""
    batch = TASK.draw(n, torch.Generator().manual_seed(1), length=4)
    if not padding:
        return batch
    wide = Batch.next_token(torch.full((1, 10 + padding), PAD), 0, 1)  # a sequence that is left out again
    return Batch.cat([batch, wide], PAD)[:n]


def a_finite_loss_with_figures(term: Term) -> None:
    """It gives one finite loss, also of `least_batch` sequences, and figures to log that are single numbers."""
    loss, figures, _ = term.value(a_batch())
    require(isinstance(loss, Tensor) and loss.ndim == 0, f"the loss is one number, not {getattr(loss, 'shape', loss)}")
    require(bool(loss.isfinite()), f"the loss of ordinary logits is {loss.item()}")
    for name, value in figures.items():
        single = isinstance(value, float | int) or (isinstance(value, Tensor) and value.numel() == 1)
        require(single, f"the figure {name!r} is one number, not {value!r}")
        attached = isinstance(value, Tensor) and value.requires_grad
        require(not attached, f"the figure {name!r} keeps the graph of the loss alive: log {name}.detach()")
    n = term.made()[1].least_batch
    loss = term.value(a_batch(n))[0]
    require(bool(loss.isfinite()), f"with least_batch = {n} sequences the loss is {loss.item()}")


def what_it_needs_exists(term: Term) -> None:
    """The activations that it `needs` are names that a model can keep."""
    model, objective = term.made()
    unknown = sorted(set(objective.needs) - set(model.activation_names))
    require(not unknown, f"it needs {unknown}; a model keeps: {', '.join(model.activation_names)}")


def its_gradient_reaches_the_model(term: Term) -> None:
    """Its gradient reaches the model and is finite."""
    loss, _, model = term.value(a_batch())
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    require(gradients, "no parameter of the model gets a gradient: it cannot train anything")
    for name, gradient in gradients.items():
        require(bool(gradient.isfinite().all()), f"the gradient of {name} is not finite")


def padding_counts_for_nothing(term: Term) -> None:
    """The same batch gives the same loss, and padding on its right changes nothing."""
    plain, again, padded = (term.value(a_batch(padding=more))[0] for more in (0, 0, 3))
    require(torch.equal(plain, again), "the same model and batch gave another loss: is something drawn at random?")
    require_close(padded, plain, f"3 columns of padding (token {PAD}, the task's `pad`) change the loss", 1e-9, 1e-9)


CHECKS = (
    what_it_needs_exists,
    a_finite_loss_with_figures,
    its_gradient_reaches_the_model,
    padding_counts_for_nothing,
)
