"""What a run is measured by while it trains: right answers on held-out sequences, by group, by hint, and decoded."""

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

AT_ONCE = 128


class Evaluation:
    """A run's held-out sequences, drawn once, and what is made of them at every evaluation."""

    def __init__(self, task: Task, config: RunConfig) -> None:
        """Raises ValueError if the config asks to decode answers that are no continuations."""
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
        """The figures, under these names: `accuracy` of the main task, `accuracy/GROUP=VALUE` of its parts,
        `accuracy/test CONDITION` of its test conditions, `accuracy/HINT` of a hint; decoded: `exact_match`,
        `edit_distance` (mean, in tokens).
        """
        model.eval()
        figures: dict[str, float] = {}
        for head, batch in self.held_out.items():
            figures |= self._accuracy(model, batch, device, "accuracy" if head == "main" else f"accuracy/{head}")
        for name, batch in self.conditions.items():
            figures |= self._accuracy(model, batch, device, f"accuracy/test {name}")
        if self.answers is not None:
            figures |= self._decoded(model, self.answers, device)
        return figures

    def _accuracy(self, model: Decoder, batch: Batch, device: torch.device, name: str) -> dict[str, float]:
        """Share of right answers: of scored positions, or of whole sequences, as the task counts."""
        scores, shares = [], []
        for start in range(0, len(batch), AT_ONCE):
            part = batch[start : start + AT_ONCE].to(device)
            logits = model(part.tokens, part.head)
            if self.task.unit == "sequence":
                scores.append(whole(logits, part))
            else:
                scores.append(correct(logits, part)[part.loss_mask])
            if name == "accuracy":
                truth = Truth(labels={self.task.group_label: self.groups[start : start + AT_ONCE].to(device)})
                shares.append(self.task.accuracy_by_group(logits, part, truth))
        figures = {name: torch.cat(scores).mean().item()}
        if shares:
            of_groups = zip(self.task.groups, torch.cat(shares).nanmean(0).tolist(), strict=True)
            figures |= {f"{name}/{self.task.group}={value}": mean for value, mean in of_groups if mean == mean}
        return figures

    @cached_property
    def groups(self) -> Int[Tensor, "batch pos"]:
        """The label by which accuracy is broken down; the truth of some tasks takes longer than the model does."""
        return self.task.truth(self.held_out["main"].tokens).labels[self.task.group_label]

    def _decoded(self, model: Decoder, answers: Answers, device: torch.device) -> dict[str, float]:
        n_new = answers.tokens.shape[1]
        written = model.generate([prompt.to(device) for prompt in answers.prompts], n_new)
        said = torch.stack([row[-n_new:].cpu() for row in written])
        said = torch.where(answers.tokens >= 0, said, -1)
        return {
            "exact_match": (said == answers.tokens).all(1).float().mean().item(),
            "edit_distance": edit_distance(said, answers.tokens, answers.lengths).mean().item(),
        }
