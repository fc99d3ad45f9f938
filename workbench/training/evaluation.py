"""Evaluation during training: accuracy on held-out sequences, by group, condition and hint, and of decoded answers."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.models import Decoder
from workbench.runs import RunConfig
from workbench.tasks import Batch, Task, Truth, correct, whole
from workbench.tasks.answers import Answers, edit_distance
from workbench.training.data import held_out
from workbench.util.seeds import generator

AT_ONCE = 128  # sequences in a forward pass


class Evaluation:
    """A run's held-out sequences, drawn once, and the figures computed on them at every evaluation."""

    def __init__(self, task: Task, config: RunConfig) -> None:
        """Raises ValueError if answers are to be decoded (`eval_decoded`) that do not continue their questions."""
        self.task, self.config = task, config
        self.held_out = {head: held_out(task, config, head) for head in config.mixture}
        self.conditions: dict[str, Batch] = {}
        if config.eval_conditions:
            for condition in task.conditions:
                name = ",".join(f"{key}={value}" for key, value in condition.items()) or "all"
                draws = generator(config.seed, "evaluation", name)
                self.conditions[name] = task.sample(config.eval_size, draws, split="test", **condition)
        self.answers: Answers | None = None
        if config.eval_decoded:
            self.answers = Answers.of(self.held_out["main"][: config.eval_decoded])

    @torch.no_grad()
    def __call__(self, model: Decoder, device: torch.device) -> dict[str, float]:
        """The figures of a model on its held-out sequences.

        Returns:
            `accuracy` of the main task, `accuracy/GROUP=VALUE` of its groups, `accuracy/test CONDITION` of its test
            conditions, `accuracy/HINT` of a hint; of decoded answers `exact_match` and `edit_distance` (mean, tokens).
        """
        model.eval()
        figures: dict[str, float] = {}
        for head, batch in self.held_out.items():
            main = head == "main"
            figures |= self._accuracy(model, batch, device, "accuracy" if main else f"accuracy/{head}", by_group=main)
        for name, batch in self.conditions.items():
            figures |= self._accuracy(model, batch, device, f"accuracy/test {name}")
        if self.answers is not None:
            figures |= self._decoded(model, self.answers, device)
        return figures

    def _accuracy(
        self, model: Decoder, batch: Batch, device: torch.device, name: str, *, by_group: bool = False
    ) -> dict[str, float]:
        """The share of right answers, of scored positions or whole sequences as the task counts.

        Args:
            model, batch, device: the model, the sequences to answer, and where to compute.
            name: the name of the figure.
            by_group: also give the share in each of the task's groups, as `NAME/GROUP=VALUE`; for the main task.
        """
        scores, shares = [], []
        for start in range(0, len(batch), AT_ONCE):
            part = batch[start : start + AT_ONCE].to(device)
            logits = model(part.tokens, part.head)
            if self.task.unit == "sequence":
                scores.append(whole(logits, part))
            else:
                scores.append(correct(logits, part)[part.loss_mask])
            if by_group:
                truth = Truth(labels={self.task.group_label: self.groups[start : start + AT_ONCE].to(device)})
                shares.append(self.task.accuracy_by_group(logits, part, truth))
        figures = {name: torch.cat(scores).mean().item()}
        if shares:
            of_groups = zip(self.task.groups, torch.cat(shares).nanmean(0).tolist(), strict=True)
            figures |= {f"{name}/{self.task.group}={value}": mean for value, mean in of_groups if mean == mean}
        return figures

    @cached_property
    def groups(self) -> Int[Tensor, "batch pos"]:
        """The label by which accuracy is broken down, computed once: for some tasks it takes longer than the model."""
        return self.task.truth(self.held_out["main"].tokens).labels[self.task.group_label]

    def _decoded(self, model: Decoder, answers: Answers, device: torch.device) -> dict[str, float]:
        """How right the answers are that the model writes by greedy decoding."""
        n_new = answers.tokens.shape[1]
        written = model.generate([prompt.to(device) for prompt in answers.prompts], n_new)
        decoded = torch.stack([row[-n_new:].cpu() for row in written])
        decoded = torch.where(answers.tokens >= 0, decoded, -1)
        return {
            "exact_match": (decoded == answers.tokens).all(1).float().mean().item(),
            "edit_distance": edit_distance(decoded, answers.tokens, answers.lengths).mean().item(),
        }
