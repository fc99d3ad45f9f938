"""Evaluation during training: right answers and loss on held-out sequences, by condition and hint; decoded answers.

Asked for, also on questions that are trained on: the gap tells a model that has learned them by heart from one that
has not.
"""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.models import Decoder
from workbench.objectives.next_token import loss_floor, summed_cross_entropy
from workbench.runs import RunConfig
from workbench.runs.conditions import condition_in_words
from workbench.tasks import Batch, Task, Truth, correct, whole
from workbench.tasks.answers import Answers
from workbench.training.curriculum import RIGHT, curriculum_held_out
from workbench.training.data import held_out
from workbench.training.training_set import TrainingSet
from workbench.util.seeds import generator

AT_ONCE = 128  # sequences in a forward pass

Figures = dict[str, float]


class Evaluation:
    """A run's held-out sequences, drawn once, and the figures computed on them at every evaluation.

    Of the main task:

        accuracy                the share of right answers as the task counts them (`Task.unit`): whole sequences or
                                single positions, all that are scored, so those of a chain of thought too
        accuracy/GROUP=VALUE    the same in one of the task's groups
        whole_answer            the share of sequences with every token of the answer right, each predicted from the
                                true tokens before it; of a chain of thought, which is given, nothing counts
        test_loss               mean cross-entropy over the scored positions in nats, as the objective `next_token`
        test_loss_above_floor   the same less the mean entropy of the targets, where these are sets
        exact_match             with `eval_decoded`: the share of answers that are right throughout as greedy decoding
                                writes them, and the chain of thought before them, from the question alone
        edit_distance           with `eval_decoded`: mean edit distance of these answers, in tokens

        accuracy/curriculum     the same on what the curriculum is at, until all of it is passed
        curriculum              how many of its steps are passed

    Each but those of groups also for every test condition, as `NAME/test CONDITION`, and all that is not decoded for
    every hint, as `NAME/HINT`, and with `eval_training` for questions of the training side, as `NAME/training`.

    Attributes:
        held_out: the sequences of each output head.
        curriculum: sequences of each step of the curriculum.
        training: sequences of the training side, with `eval_training`: of the finite training set, else fresh ones.
        conditions: those of each test condition: the task's with `eval_conditions`, and `test_conditions`.
        answers: the questions that are decoded, by what their figures' names end in.
    """

    def __init__(self, task: Task, config: RunConfig) -> None:
        """Raises ValueError if answers are to be decoded (`eval_decoded`) that do not continue their questions."""
        self.task, self.config = task, config
        self.held_out = {head: held_out(task, config, head) for head in config.mixture}
        self.training: Batch | None = None
        if config.eval_training and config.train_size is not None:  # as many as held-out ones, or all of a smaller set
            self.training = task.trimmed(TrainingSet.of_heads(config)["main"].first(task, config.eval_size))
        elif config.eval_training:
            draws = generator(config.seed, "evaluation", "training")
            self.training = task.sample(config.eval_size, draws, split="train")
        self.curriculum = curriculum_held_out(config)
        self.conditions: dict[str, Batch] = {}
        for condition in (*(task.conditions if config.eval_conditions else ()), *config.test_conditions):
            name = condition_in_words(condition)
            draws = generator(config.seed, "evaluation", name)
            self.conditions[name] = task.sample(config.eval_size, draws, split="test", **condition)
        self.answers: dict[str, Answers] = {}
        if n := config.eval_decoded:
            self.answers[""] = Answers.of(task, self.held_out["main"][:n])
            self.answers |= {f"/test {name}": Answers.of(task, batch[:n]) for name, batch in self.conditions.items()}

    @torch.no_grad()
    def __call__(self, model: Decoder, device: torch.device, passed: int = 0) -> Figures:
        """The metrics of a model on its held-out sequences, by the names under which they are logged.

        Args:
            model, device: the model, and where to compute.
            passed: how many steps of the curriculum it has passed.
        """
        model.eval()
        figures: Figures = {}
        for head, batch in self.held_out.items():
            figures |= self._predicted(
                model, batch, device, "" if head == "main" else f"/{head}", by_group=head == "main"
            )
        if self.training is not None:
            figures |= self._predicted(model, self.training, device, "/training")
        if self.curriculum:
            figures["curriculum"] = passed
        if passed < len(self.curriculum):
            of_step = self._predicted(model, self.curriculum[passed], device, "/curriculum")
            figures[RIGHT] = of_step[RIGHT]
        for name, batch in self.conditions.items():
            figures |= self._predicted(model, batch, device, f"/test {name}")
        for ending, answers in self.answers.items():
            figures |= self._decoded(model, answers, device, ending)
        return figures

    def _predicted(
        self, model: Decoder, batch: Batch, device: torch.device, ending: str, *, by_group: bool = False
    ) -> Figures:
        """The figures of next-token predictions, each from the true tokens before it.

        Args:
            model, batch, device: the model, the sequences to predict, and where to compute.
            ending: what the names of the figures end in.
            by_group: also give the accuracy in each of the task's groups; for the main task.
        """
        scores, answers, shares, loss = [], [], [], 0.0
        for start in range(0, len(batch), AT_ONCE):
            part = batch[start : start + AT_ONCE].to(device)
            logits = model(part.tokens, part.head)
            loss += summed_cross_entropy(logits, part).item()
            answers.append(whole(logits, self.task.answer_alone(part)))
            if self.task.unit == "sequence":
                scores.append(whole(logits, part))
            else:
                scores.append(correct(logits, part)[part.loss_mask])
            if by_group:
                truth = Truth(labels={self.task.group_label: self.groups[start : start + AT_ONCE].to(device)})
                shares.append(self.task.accuracy_by_group(logits, part, truth))
        test_loss = loss / int(batch.loss_mask.sum())
        figures = {"accuracy": torch.cat(scores).mean().item(), "whole_answer": torch.cat(answers).mean().item()}
        figures["test_loss"] = test_loss
        if batch.targets.ndim == 3:
            figures["test_loss_above_floor"] = test_loss - loss_floor(batch)
        figures = {name + ending: figure for name, figure in figures.items()}
        if shares:
            of_groups = zip(self.task.groups, torch.cat(shares).nanmean(0).tolist(), strict=True)
            figures |= {f"accuracy/{self.task.group}={value}": mean for value, mean in of_groups if mean == mean}
        return figures

    @cached_property
    def groups(self) -> Int[Tensor, "batch pos"]:
        """The label by which accuracy is broken down, computed once: for some tasks it takes longer than the model."""
        return self.task.truth(self.held_out["main"].tokens).labels[self.task.group_label]

    def _decoded(self, model: Decoder, answers: Answers, device: torch.device, ending: str) -> Figures:
        """How right the answers are that the model writes by greedy decoding."""
        prompts, written = [prompt.to(device) for prompt in answers.prompts], []
        for start in range(0, len(prompts), AT_ONCE):
            written += model.generate(prompts[start : start + AT_ONCE], answers.n_new)
        read = answers.read(torch.stack([row[len(row) - answers.n_new :].cpu() for row in written]))
        return {
            f"exact_match{ending}": answers.exact_match(read).float().mean().item(),
            f"edit_distance{ending}": answers.edit_distance(read).mean().item(),
        }
