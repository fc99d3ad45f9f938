"""The checks of a hooked model: what fires, what edits reach, what its logits rest on; found by running it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.interventions import (
    CutEdge,
    Edit,
    Exchange,
    Hooks,
    MoveEdge,
    Patch,
    ReadBy,
    RemoveHead,
    RemoveWrite,
    SpanEdit,
    points,
    writes,
)
from workbench.interventions.edit_protocol import edited_logits
from workbench.interventions.edits import AVERAGED
from workbench.models import AnyHooked, AnyModel, Decoder
from workbench.models.facts import EDITED, FEW, EditReachesNothingError, check_editable, probe_tokens, watched_only
from workbench.models.hooked import hook
from workbench.tasks import Batch, own_sequences
from workbench.util.messages import brief
from workbench.util.progress import shown, steps
from workbench.util.seeds import generator

ROWS = 15  # edits of one forward pass, each of its own sequence
HIDDEN = 1e30  # scores of keys that a query cannot read are as small as a number can be
MOST_HEADS = 64  # that are edited one by one
PARTS = ("resid_pre", "attn_out", "mlp_out")  # of a block, which add up to the next residual

Logits = Float[Tensor, "batch pos class"]
Made = tuple[Sequence[str], Callable[[], Hooks]]
"""An edit: the hook points that it reads, and what makes it."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        what, how: in words, and on how much.
        number: the largest difference, as a share of the largest number; of edits the least of those that change any.
        bound: what it may be at most; of edits it is more.
        passed: None where it could not be looked at.
        notes: what failed, was refused or silent, and why.
        of_edits: whether the number is the least change.
    """

    what: str
    how: str
    number: float | None
    bound: float | None
    passed: bool | None
    notes: tuple[str, ...] = ()
    of_edits: bool = False


class HookedChecks:
    """A hooked model while it is checked.

    Args:
        name, model: the model.
        tokens, logits: what it is run on, and what it makes of that without hooks; by default both are made here,
            but for a bridged model, which nothing without hooks is left of.
    """

    def __init__(
        self, name: str, model: AnyModel, tokens: Int[Tensor, "batch pos"] | None = None, logits: Logits | None = None
    ) -> None:
        self.name, self.model = name, model
        self.hooked: AnyHooked = hook(model)
        config, device = model.config, model.token_embedding.weight.device
        self.tokens = probe_tokens(config.d_vocab, config.n_ctx, device) if tokens is None else tokens
        self.few = self.tokens[:1, :FEW]
        self._bare = logits

    @torch.no_grad()
    def all(self, progress: bool) -> tuple[Check, ...]:
        """Every check; on standard error it is said how long they take where that is long, or not."""
        looks = [self.fires, self.bare, self.causal, self.alone, self.padded, self.adds_up, self.points]
        looks += [partial(self.edits, *kind) for kind in self.kinds()]
        with shown(progress):
            return tuple(look() for look in steps(looks, f"checking {self.name}"))

    @cached_property
    def cache(self) -> Any:
        return self.hooked.run_with_cache(self.tokens)[1]

    @cached_property
    def expected(self) -> Logits:
        logits: Logits = self.hooked(self.tokens)
        return logits

    def fires(self) -> Check:
        """Whether what is read and edited here shows itself in a run with a cache; what else is listed is said."""
        read = [name for name in self.hooked.hook_dict if name.endswith(EDITED)]
        silent = [name for name in self.hooked.hook_dict if name not in self.cache]
        dead = [name for name in read if name in silent]
        others = sorted({name.split(".", 2)[-1] if name.startswith("blocks.") else name for name in silent})
        notes = [f"{', '.join(dead)} never fires"] if dead else []
        if others and not dead:
            notes.append(
                f"TransformerLens lists these too, and they are silent unless switched on: {', '.join(others)}"
            )
        fired = len(self.hooked.hook_dict) - len(silent)
        how = f"{len(read)} steps; {fired} of all {len(self.hooked.hook_dict)} hook points"
        return Check("every step's hook fires", how, None, None, not dead, tuple(notes))

    def bare(self) -> Check:
        what, logits, hooked = "hooked equals bare", self._bare, self.expected
        if logits is None and type(self.model).__name__ == "Pretrained":
            why = "the model without hooks is gone when it is in memory: give its folder or file"
            return Check(what, "–", None, None, None, (why,))
        logits = self.model(self.tokens) if logits is None else logits
        made = self._alike(what, f"{logits.numel():,} logits", [(hooked, logits)])
        if made.passed or not isinstance(self.model, Decoder) or self.tokens.device.type == "mps":
            return made
        double = copy.deepcopy(self.model).double()  # very sharp attention differs by rounding alone in float32
        again = self._alike(what, made.how, [(hook(double)(self.tokens), double(self.tokens))])
        return replace(again, notes=(f"in float64; in float32 they differ by {made.number:.1e}",))

    def causal(self) -> Check:
        length = self.tokens.shape[1]
        places = sorted({1 + i * (length - 1) // FEW for i in range(FEW)} - {length})
        changed = self.tokens[:1].repeat(len(places), 1)
        for row, place in enumerate(places):
            changed[row, place:] = (changed[row, place:] + 1) % self.model.config.d_vocab
        logits = self.hooked(changed)
        pairs = [(logits[row, :place], self.expected[0, :place]) for row, place in enumerate(places)]
        return self._alike("later tokens change nothing", f"from {len(places)} positions on", pairs)

    def alone(self) -> Check:
        pairs = [(self.hooked(self.tokens[i : i + 1])[0], self.expected[i]) for i in range(len(self.tokens))]
        return self._alike("alone as in a batch", f"{len(pairs)} sequences", pairs)

    def padded(self) -> Check:
        length = max(1, self.tokens.shape[1] // 2)
        pad = getattr(self.model, "pad", self.model.config.d_vocab - 1)
        filled = self.tokens.clone()
        filled[:, length:] = pad
        pairs = [(self.hooked(filled)[:, :length], self.hooked(self.tokens[:, :length]))]
        return self._alike("padding behind changes nothing", f"{self.tokens.shape[1] - length} tokens of it", pairs)

    def adds_up(self) -> Check:
        pairs = []
        for layer in range(self.model.config.n_layers):
            parts = [self.cache[name] for part in PARTS if (name := f"blocks.{layer}.hook_{part}") in self.cache]
            pairs.append((torch.stack(parts).sum(0), self.cache[f"blocks.{layer}.hook_resid_post"]))
        return self._alike("blocks add what they write", f"{len(pairs)} blocks", pairs)

    def _alike(self, what: str, how: str, pairs: Sequence[tuple[Tensor, Tensor]]) -> Check:
        """Whether tensors are alike but for rounding: to √ε of the largest number, as where a model is opened."""
        bound = torch.finfo(self.expected.dtype).eps ** 0.5
        shares = []
        for got, expected in pairs:
            finite = expected.isfinite()
            alike = torch.equal(finite, got.isfinite())
            apart = (got - expected)[finite].abs().max() / expected[finite].abs().max().clamp(min=1e-30)
            shares.append(float(apart) if alike and finite.any() else float("inf"))
        worst = max(shares)
        return Check(what, how, worst, bound, worst <= bound)

    def points(self) -> Check:
        """Something random added at every hook point at which this library edits."""

        def add(activation: Tensor, hook: Any) -> Tensor:
            shown = activation[activation.abs() < HIDDEN]
            scale = shown.std().nan_to_num().clamp(min=1e-3)
            noise = torch.randn(activation.shape, generator=generator(0, f"added at {hook.name}"))
            return activation + scale * noise.to(activation)

        names = [name for name in self.hooked.hook_dict if name.endswith(EDITED) and name in self.cache]
        return self.edits("something is added", [([name], partial(list, [(name, add)])) for name in names])

    def kinds(self) -> Iterator[tuple[str, Sequence[Made]]]:
        """Every kind of edit of this library, at every layer."""
        config, last = self.model.config, self.few.shape[1] - 1
        drawn = torch.randint(config.d_vocab, (AVERAGED, last + 1), generator=generator(0, "average"))
        drawn[0, -1] = (self.few[0, -1] + 1) % config.d_vocab  # what is patched in there differs
        subject = Subject.of(self.model, own_sequences(drawn, config.d_vocab), self.name)
        seen = Capture({}, Batch.next_token(self.few, 0, last), subject)
        layers, heads = range(config.n_layers), range(config.n_heads)
        every = [(layer, head) for layer in layers for head in heads]
        if len(every) > MOST_HEADS:  # those of the first layer, and one of every other
            every = [(layer, head) for layer, head in every if layer == 0 or head == layer % config.n_heads]
        residuals = [point for point in points(subject) if point not in writes(subject)]
        other = " ".join(map(str, drawn[0].tolist()))
        first, second = self.few[0].unique()[:2].tolist()
        z = [f"blocks.{layer}.attn.hook_z" for layer in layers]

        def made(edit: Edit, *read: str) -> Made:
            return read, partial(edit.hooks, self.hooked, seen)

        yield "a head writes nothing", [made(RemoveHead(*head), z[head[0]]) for head in every]
        yield "a head writes its average", [made(RemoveHead(layers[-1], 0, by="mean"), z[-1])]
        yield "attention or an MLP writes nothing", [made(RemoveWrite(point)) for point in writes(subject)]
        yield "a query reads nothing", [made(CutEdge(last, None, *head)) for head in every]
        yield "a query reads another key", [made(MoveEdge(last, *self._read(*head), *head)) for head in every]
        yield "another input is patched in", [made(Patch(point, other, last)) for point in residuals]
        yield "two tokens are exchanged", [made(Exchange(point, first, second)) for point in residuals]
        parts = [[f"blocks.{layer}.attn.hook_{part}" for part in "kv"] for layer in layers]
        yield "one head reads an edit", [(parts[layer], partial(self._read_by, layer)) for layer in layers]

    def _read(self, layer: int, head: int) -> tuple[int, int]:
        """The key that the last of the few queries reads most, and another one."""
        name, last = f"blocks.{layer}.attn.hook_pattern", self.few.shape[1] - 1
        most = int(self.cache[name][0, head, last, : last + 1].argmax()) if name in self.cache else last
        return most, (most + 1) % (last + 1)

    def _read_by(self, layer: int) -> Hooks:
        residual = self.cache[f"blocks.{layer}.hook_resid_pre"][:1, : self.few.shape[1]]
        span = torch.ones(self.few.shape, dtype=torch.bool, device=self.few.device)
        edit = SpanEdit(f"blocks.{layer}.hook_resid_pre", span, residual.roll(1, 1), self.few[:, -1])
        return ReadBy(lambda _: edit, [(layer, 0)]).hooks(self.hooked, self.few)

    def edits(self, what: str, edits: Sequence[Made]) -> Check:
        """Whether each edit changes the logits. An edit that the model refuses in a line is no failure, and said."""
        made: list[Hooks] = []
        refused: list[str] = []
        for read, make in edits:
            try:
                check_editable(self.hooked, read)
                if silent := [name for name in read if name not in self.cache]:
                    raise EditReachesNothingError(f"{silent[0]} never fires")
                hooks = make()
                check_editable(self.hooked, [name for name, _ in hooks])
                made.append(hooks)
            except EditReachesNothingError as error:
                refused.append(str(error))
        changes = [change for at in range(0, len(made), ROWS) for change in self._changes(made[at : at + ROWS])]
        unmoved = [hooks for hooks, (_, out) in zip(made, changes, strict=True) if out == 0]
        where = {name for hooks in unmoved for name, _ in hooks}
        dead = sorted(where & self._unread) if where else []
        notes = [f"{', '.join(dead)}: nothing that is edited there reaches the logits"] if dead else []
        if made and not any(inside for inside, _ in changes):
            notes.append("no edit of this kind changes anything, not even where it is made")
        failed = bool(notes)
        if unmoved and not failed:
            notes.append(
                f"{len(unmoved)} of {len(made)} change nothing, where what is edited is 0 or has weights of 0: "
                f"{brief(', '.join(sorted(where)), 150)}"
            )
        if refused:
            notes.append(f"refused, as {refused[0]}")
        least = min((out for _, out in changes if out > 0), default=0.0) if made else None
        how = f"{len(made)} edit{'s' * (len(made) != 1)}{f', {len(refused)} refused' if refused else ''}"
        passed = False if failed else True if any(out for _, out in changes) else None
        return Check(what, how, least, 0.0 if made else None, passed, tuple(notes), True)

    @cached_property
    def _unread(self) -> set[str]:
        """The hook points that the logits do not rest on, though an edit there is not refused."""
        return set(watched_only(self.hooked, self.few))

    def _changes(self, edits: Sequence[Hooks]) -> list[tuple[float, float]]:
        """Of each edit what it changes where it is made, and of the logits as a share of the largest.

        All are made in one pass, each in a sequence of its own: the same tokens, after which none is edited.
        """
        n = len(edits) + 1
        inside = [0.0] * len(edits)
        by_point: dict[str, list[tuple[int, Callable[[Tensor, Any], Tensor]]]] = {}
        for row, hooks in enumerate(edits):
            for name, change in hooks:
                by_point.setdefault(name, []).append((row, change))

        def run(activation: Tensor, hook: Any, name: str) -> Tensor:
            edited, size = activation.clone(), len(activation) // n  # OPT lays positions in one row before its MLP
            for row, change in by_point[name]:
                part = slice(row * size, (row + 1) * size)
                edited[part] = change(edited[part], hook)
                apart = (edited[part] - activation[part]).nan_to_num().abs().max()
                inside[row] = max(inside[row], float(apart))
            return edited

        hooks = [(name, partial(run, name=name)) for name in by_point]
        logits = edited_logits(self.hooked, self.few.expand(n, -1), hooks)
        outside = (logits - logits[-1:])[:-1].abs().flatten(1).amax(1) / logits[-1].abs().max()
        return [(i, o if o > self._noise else 0.0) for i, o in zip(inside, outside.tolist(), strict=True)]

    @cached_property
    def _noise(self) -> float:
        """By how much logits of one sequence may differ within a batch, as a share of the largest, doubled."""
        logits = self.hooked(self.few.expand(ROWS + 1, -1))
        return 2 * float((logits - logits[-1:]).abs().max() / logits.abs().max())
