"""The task `template_name`: an example that works; every line marked ← is its own, and to be changed."""

import torch
from pydantic import Field

from workbench.tasks import Batch, Task, Truth, Vocabulary


class TemplateName(Task):
    """Digits, a bar, and the digits from last to first: `3 1 4 | 4 1 3`. Gold edges lead to the digit repeated. ←"""

    name = "template_name"
    summary = "digits, and the same digits from last to first"  # ←
    group, unit = "place", "position"  # the label by which accuracy is broken down; what counts as one answer
    length: int = Field(6, ge=2, le=32, description="digits in a number")  # ←
    vocabulary = property(lambda self: Vocabulary((*"0123456789", "|")))  # ←
    n_ctx = property(lambda self: 2 * self.length + 1)  # ← tokens of the longest sequence
    groups = property(lambda self: tuple(range(1, self.length + 1)))  # ← the values of that label

    def draw(self, n, generator, *, head="main", **condition):
        self.refuse(condition)  # this task has no test conditions
        return self._batch(torch.randint(10, (n, self.length), generator=generator))  # ← n questions

    def _batch(self, digits):
        bar = torch.full_like(digits[:, :1], 10)  # ← from here on a sequence is scored
        return Batch.next_token(torch.cat([digits, bar, digits.flip(1)], dim=1), self.length, 2 * self.length)  # ←

    def question_length(self, tokens):  # the digits and the bar: a question is for training or for testing
        return torch.full((len(tokens),), self.length + 1)  # ←

    def truth(self, tokens):
        n, place = len(tokens), torch.arange(self.length)
        labels = torch.full_like(tokens, -1)
        labels[:, self.length : -1] = place + 1  # ←
        edges = torch.stack([torch.ones_like(place), self.length + place, self.length - 1 - place], dim=1)  # ←
        example = torch.arange(n).repeat_interleave(self.length)[:, None]
        return Truth(torch.cat([example, edges.repeat(n, 1)], dim=1), {"place": labels})  # example, hop, query, key

    def parse(self, text):
        digits = self.vocabulary.encode(text.strip().removesuffix("|"))
        if len(digits) != self.length or 10 in digits:  # ←
            raise ValueError(f"type {self.length} digits, not {text!r}")  # ←
        return self._batch(torch.tensor([digits]))


TASKS = {"template_name": TemplateName}
