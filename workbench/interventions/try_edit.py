"""`try_edit`: one input run twice, without and with an edit; its answers and their probabilities before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float

from workbench.capture import LOGITS, Capture, capture
from workbench.instruments.residual import projection
from workbench.interventions.edit_protocol import Edit
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent
from workbench.models import AnyHooked
from workbench.models.facts import check_editable
from workbench.tasks import correct, predicted
from workbench.util.ties import named, on_top

WHEN = ("before", "after")
FELT = 0.005  # a change of a probability that a rounded percentage shows


@dataclass(frozen=True)
class Edited:
    """One input's answers before and after an edit.

    Attributes:
        edit: what was done.
        before, after: the logits of either run (`before.logits`, `[1, pos, class]`), with the input, and the residuals
            that were captured before.
    """

    edit: Edit
    before: Capture
    after: Capture

    @cached_property
    def scored(self) -> Bool[np.ndarray, " pos"]:
        """The positions that have an answer."""
        return self.before.batch.loss_mask[0].cpu().numpy()

    @cached_property
    def right(self) -> Bool[np.ndarray, "when pos"]:
        """Whether each answer is right; of a set, whether all of it is found."""
        return np.stack([correct(run.logits, run.batch)[0].cpu().numpy() == 1 for run in (self.before, self.after)])

    @cached_property
    def changed(self) -> Bool[np.ndarray, " pos"]:
        """The positions whose answer became another one; of running text the last one too, behind which nothing is."""
        before, after = (predicted(run.logits[0], run.batch.targets[0]) for run in (self.before, self.after))
        asked = self.scored.copy()
        if self.before.subject.task.running_text:
            asked[: len(projection.sequence(self.before, 0))] = True
        return (before != after).any(-1).cpu().numpy() & asked

    @cached_property
    def answers(self) -> Measurement:
        """The log-probability of the right answer, labelled by the model's answer: dims `when`, `position`.

        NaN where nothing is asked. Where a set is, it is the mean over the set's members (as in the loss), and the
        label is how many of them are found among as many of the likeliest tokens.
        """
        words = projection.sequence(self.before, 0)
        values, labels = zip(*(_answers(run) for run in (self.before, self.after)), strict=True)
        return Measurement(
            name="Answers before and after an edit",
            values=np.where(self.scored, np.stack(values), np.nan)[:, : len(words)],
            dims=("when", "position"),
            coords={"when": WHEN, "position": projection.position_names(self.before, 0)},
            units="nats",
            settings={"model": self.before.subject.name, "edit": self.in_words()},
            labels=np.where(self.scored, np.array(labels, dtype=object), "")[:, : len(words)],
            caption="The log-probability of the right answer, beside what the model says. Answers are given the true "
            "tokens before them, before the edit as after it. One input is a case, not a rate.",
        )

    def in_words(self) -> str:
        """What was done, for people."""
        return self.edit.in_words(self.before.subject.task)

    def verdict(self) -> str:
        """What became of the answers, in one line: how many changed, and the answer that changed most."""
        if self.before.subject.task.running_text:
            return self._next_tokens()
        n, changed = int(self.scored.sum()), int(self.changed.sum())
        if not n:
            return "this input asks for no answer"
        if not changed:
            return f"{f'none of {n} answers changes' if n > 1 else 'the answer stays'}; {self._most()}"
        was, now = self.right
        fates = [(int((was & ~now).sum()), "lost"), (int((now & ~was).sum()), "put right")]
        what = ", ".join(f"{count} {fate}" for count, fate in fates if count) or "wrong before and after"
        many = f"{changed} of {n} answers change{'s' if changed == 1 else ''}" if n > 1 else "the answer changes"
        return f"{many} ({what}): {self._most()}"

    def _next_tokens(self) -> str:
        """What becomes of the tokens that are predicted, the last one first."""
        task, n_pos = self.before.subject.task, len(projection.sequence(self.before, 0))
        was, now = (run.logits[0, :n_pos].double().softmax(-1).cpu() for run in (self.before, self.after))
        first, then = was[-1].argmax(), now[-1].argmax()
        words = task.words(torch.stack([first, then]))
        moves = f"({percent(float(was[-1, first]))}, then {percent(float(now[-1, first]))})"
        after = f"“{words[0]}” stays the likeliest next token {moves}"
        if first != then:
            after = f"the likeliest next token becomes “{words[1]}” ({percent(float(now[-1, then]))}) in place of "
            after += f"“{words[0]}” {moves}"
        changed = int((was[:-1].argmax(-1) != now[:-1].argmax(-1)).sum())
        return f"{after}; of the {n_pos - 1} positions before, the likeliest changes at {changed or 'none'}"

    @cached_property
    def most(self) -> int | None:
        """The position whose answer the edit changes most; None where nothing is scored."""
        if not self.scored.any():
            return None
        log_right = self.answers.values
        changed = self.changed & self.scored
        among = (changed if changed.any() else self.scored)[: log_right.shape[1]]
        if self.before.batch.targets.ndim == 3:
            return int(np.argmin(np.where(among, log_right[1] - log_right[0], np.inf)))
        return int(np.argmax(np.where(among, np.abs(np.diff(np.exp(log_right), axis=0)[0]), -1)))

    def _most(self) -> str:
        """What becomes of the answer at that position, in words."""
        at, answers = self.most, self.answers.labels
        assert at is not None and answers is not None
        if self.before.batch.targets.ndim == 3:
            return f"of the set asked for at position {at}, {answers[0, at]} found before, {answers[1, at]} after"
        was, now = np.exp(self.answers.values[:, at])
        felt = abs(now - was) >= FELT
        moves = f"{'falls' if now < was else 'rises'} from {percent(was)} to {percent(now)}"
        if self.changed.any():
            instead = f"position {at} says “{answers[1, at]}” in place of “{answers[0, at]}”"
            return f"{instead}, and the right answer {moves}" if felt else instead
        moved = f"the right answer at position {at} {moves}"
        return moved if felt else "no right answer becomes more or less likely by half a percentage point"


def try_edit(model: AnyHooked, seen: Capture, edit: Edit) -> Edited:
    """Run one input under an edit.

    Args:
        model: the hooked model (`run.hooked()`).
        seen: what it computes without the edit, of a single input: its logits are the answers before.
        edit: what to change.

    Raises:
        ValueError: in one line, if there are several inputs, or no such place, token or input as the edit names.
    """
    if len(seen.batch) != 1:
        raise ValueError(f"an edit is tried on one input, not on a batch of {len(seen.batch)}")
    hooks = edit.hooks(model, seen)
    check_editable(model, [name for name, _ in hooks])
    kept = [LOGITS, *(point for point in projection.from_embedding(seen.subject) if point in seen.activations)]
    with model.hooks(fwd_hooks=hooks):
        after = capture(model, seen.subject, seen.batch, kept)
    return Edited(edit, replace(seen, activations={point: seen[point] for point in kept}), after)


def _answers(run: Capture) -> tuple[Float[np.ndarray, " pos"], list[str]]:
    """The log-probability of the right answer at each position, and the model's own answer there as text."""
    logits, targets = run.logits[0].cpu(), run.batch.targets[0].cpu()
    log_share = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1).double()
    if targets.ndim == 1:
        words = named(logits, run.subject.task.words)
        return log_share.gather(-1, targets[:, None])[:, 0].numpy(), words
    size = targets.sum(-1)
    n_right = (on_top(logits, size) * targets).sum(-1)
    mean = torch.where(targets, log_share, 0.0).sum(-1) / size
    return mean.numpy(), [f"{a:.3g} of {b}" for a, b in zip(n_right.tolist(), size.tolist(), strict=True)]
