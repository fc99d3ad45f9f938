"""Subjects that say one thing about a few symbols: two heads a layer bring what is asked for to `=`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from workbench.benchmark.subjects.planted import Effect, Planted, PlantedTruth, blank, edges_of, held, in_order
from workbench.models.compiled import SHARP
from workbench.tasks import Batch, Task, Truth, Vocabulary
from workbench.tasks.pairs import with_other_value

MID, POST = "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"
AGAINST = 0.6  # of what a head writes, what another takes away: the answer stays


class Symbols(Task):
    """A few symbols, then `=`, at which something about them is asked for.

    q=5, length=4: `3 0 4 1 =` asks for 3 (`first`) or 0 (`minimum`); with q=2, `1 0 0 1 =` asks for 1 (`differ`).
    Labels, at `=`: `first` and `second` (the symbols at `places`), `minimum` (the smallest), `differ` (whether first
    and second do), `asked` (the answer), `sum` (of all, modulo q, of which no few of them tell anything). Gold edge:
    `=` reads the symbols that decide the answer.
    """

    name: ClassVar[str] = "symbols"
    summary: ClassVar[str] = "a few symbols; say the one at a place, the smallest, or whether two differ"
    group: ClassVar[str] = "asked"
    unit: ClassVar[Literal["sequence"]] = "sequence"
    token_labels: ClassVar[tuple[str, ...]] = ("first", "second", "minimum", "asked", "sum")

    q: int = Field(5, ge=2, le=64, description="alphabet size")
    length: int = Field(8, ge=2, le=64, description="symbols in a sequence")
    asks: Literal["first", "minimum", "differ"] = Field("first", description="what is asked for")
    places: tuple[int, int] = Field((0, 1), description="where the first and the second of the two symbols stand")

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*map(str, range(self.q)), "="))

    @property
    def n_ctx(self) -> int:
        return self.length + 1

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(2 if self.asks == "differ" else self.q))

    @property
    def pair_kinds(self) -> dict[str, str]:
        return {"symbol": "one of the symbols that decide the answer is replaced"}

    def changed_question(
        self, tokens: Int[Tensor, "batch pos"], kind: str, generator: torch.Generator
    ) -> Int[Tensor, "batch pos"]:
        decides = torch.zeros_like(tokens, dtype=torch.bool)
        decides[:, list(self._read)] = True
        return with_other_value(tokens, decides, 0, self.q, generator)

    @property
    def _read(self) -> tuple[int, ...]:
        """The positions that may decide the answer."""
        return {"first": self.places[:1], "differ": self.places, "minimum": tuple(range(self.length))}[self.asks]

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        symbols = torch.randint(0, self.q, (n, self.length), generator=generator)
        return self._batch(torch.cat([symbols, torch.full((n, 1), self.q)], dim=1))

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        asked = self.truth(tokens).labels["asked"]
        return Batch(tokens, asked.clamp(min=0), asked >= 0)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        first, second = (tokens[:, place] for place in self.places)
        of = {"first": first, "second": second, "minimum": tokens.amin(-1), "differ": (first != second).long()}
        of["sum"] = torch.where(tokens < self.q, tokens, 0).sum(-1) % self.q
        labels = {
            name: torch.where(tokens == self.q, value[:, None], -1)
            for name, value in {**of, "asked": of[self.asks]}.items()
        }
        decides = torch.zeros_like(tokens, dtype=torch.bool)
        decides[:, list(self._read)] = True
        if self.asks == "minimum":
            decides = tokens == of["minimum"][:, None]
        example, key = decides.nonzero(as_tuple=True)
        ones = torch.ones_like(key)
        return Truth(torch.stack([example, ones, ones * self.length, key], dim=1), labels)

    def parse(self, text: str) -> Batch:
        tokens = self.vocabulary.encode(text)
        if len(tokens) != self.length + 1 or self.q in tokens[:-1] or tokens[-1] != self.q:
            raise ValueError(f"a question is {self.length} symbols below {self.q}, then =, not {text!r}")
        return self._batch(torch.tensor([tokens]))


class _Building:
    """A decoder with standard attention, whose weights are 0 but for embeddings, and directions to write along.

    Its layers have two heads, or `groups` pairs of heads that share keys and values.

    Attributes:
        token, position: what the embeddings write; `rooms`: for one symbol each.
        out: the last room, which the unembedding reads.
    """

    def __init__(
        self, task: Symbols, seed: int | None, *, rooms: int, d_mlp: int = 1, n_layers: int = 1, groups: int = 0
    ) -> None:
        heads = {"n_heads": 2 * max(groups, 1), "n_kv_heads": groups or None, "d_head": task.q}
        sizes = [task.q + 1, task.n_ctx, *[task.q] * rooms]
        self.write, directions = blank(task, sizes, seed, n_layers=n_layers, d_mlp=d_mlp, **heads)
        self.token, self.position, *self.rooms = directions
        self.task, self.seed, self.out = task, seed, self.rooms[-1]

    def carry(self, layer: int, head: int, writes: Float[Tensor, "q d"], which: int | Literal["minimum"] = 0) -> None:
        """A head by which `=` reads the symbol at one of the places, or the smallest, and writes it along these."""
        symbols = self.token[:-1]
        query, key = torch.zeros_like(symbols), torch.zeros_like(symbols)
        query[0 if which == "minimum" else which] = SHARP * self.token[-1]
        if which == "minimum":
            key[0] = (self.task.q - torch.arange(self.task.q, dtype=symbols.dtype)) @ symbols
        else:
            key[:2] = self.position[list(self.task.places)]  # of both places: heads that share keys are told apart
        self.write.head(layer, head, query=query, key=key, reads=symbols, writes=writes)

    def planted(self, name: str, **truth: Any) -> Planted:
        return Planted(name, self.write.model, self.task, PlantedTruth(**truth), self.seed)


def symbols_task(seed: int | None, **settings: Any) -> Symbols:
    """A task whose places are drawn."""
    task = Symbols(**settings)
    first, second = in_order(task.length, seed, "places")[:2]
    return task.model_copy(update={"places": (first, second)})


def exclusive_or(seed: int | None) -> Planted:
    """Whether two bits differ: attention brings both to `=`, each in a room of its own; the MLP decides.

    Before the MLP either bit can be read off along a direction, and whether they differ along none.
    """
    make = _Building(symbols_task(seed, q=2, length=16, asks="differ"), seed, rooms=3, d_mlp=4)
    first, second, out = make.rooms
    heads = in_order(2, seed)
    for which, head in enumerate(heads):
        make.carry(0, head, make.rooms[which], which)
    pairs = torch.stack([first[a] + second[b] for a in (0, 1) for b in (0, 1)])
    make.write.mlp(0, reads=pairs, threshold=1.0, writes=out[[0, 1, 1, 0]])
    edges = {"m0->logits": Effect.ANSWER}
    for head in heads:
        edges |= edges_of(f"a0.h{head}", "m0")
    labels = held("differ", [POST], out)
    for label, room in (("first", first), ("second", second)):
        labels += held(label, [MID], room) + held(label, [POST], room, used=False)
    return make.planted("exclusive_or", edges=edges, needed=(("a0.h0",), ("a0.h1",), ("m0",)), labels=labels)


def late(seed: int | None) -> Planted:
    """A symbol stands at `=` from layer 0 on, in a room that nothing reads; layer 1 fetches it again and says it.

    It is decoded from layer 0 on, and used from layer 1 on.
    """
    make = _Building(symbols_task(seed, q=2, length=16), seed, rooms=2, n_layers=2)
    early, says = in_order(2, seed)
    make.carry(0, early, make.rooms[0])
    make.carry(1, says, make.out)
    edges = edges_of(f"a0.h{early}", effect=Effect.IDLE) | edges_of(f"a1.h{says}", "logits")
    after = [f"blocks.1.hook_resid_{place}" for place in ("mid", "post")]
    labels = held("first", [MID, POST, *after], make.rooms[0], used=False) + held("first", after, make.out)
    return make.planted("late", edges=edges, needed=((f"a1.h{says}",),), decoys=(f"a0.h{early}",), labels=labels)


def permuted_code(seed: int | None) -> Planted:
    """A head brings the symbol to `=` in a code that the unembedding reads as another symbol; the MLP puts it right.

    A logit lens before the MLP is sure of a wrong symbol. A probe reads the right one there.
    """
    task = symbols_task(seed)
    make = _Building(task, seed, rooms=1, d_mlp=task.q)
    # A cycle through all symbols in a drawn order: none stands for itself.
    around = torch.tensor(in_order(task.q, seed, "code"))
    code = torch.empty_like(around)
    code[around] = around.roll(-1)
    head = in_order(2, seed)[0]
    make.carry(0, head, make.out[code])
    make.write.mlp(0, reads=make.out[code], threshold=0.0, writes=make.out - make.out[code])
    edges = edges_of(f"a0.h{head}", "m0") | {f"a0.h{head}->logits": Effect.LOGITS, "m0->logits": Effect.ANSWER}
    labels = held("first", [MID], make.out[code]) + held("first", [POST], make.out)
    return make.planted("permuted_code", edges=edges, needed=((f"a0.h{head}",), ("m0",)), labels=labels)


def clipping_mlp(seed: int | None) -> Planted:
    """A head says the symbol with twice the logit that comes out: the MLP clips it to 1, against the answer."""
    task = symbols_task(seed)
    make = _Building(task, seed, rooms=1, d_mlp=task.q)
    head = in_order(2, seed)[0]
    make.carry(0, head, 2 * make.out)
    make.write.mlp(0, reads=make.out, threshold=1.0, writes=-make.out)
    edges = edges_of(f"a0.h{head}", "logits")
    edges |= dict.fromkeys((f"a0.h{head}->m0", "m0->logits"), Effect.LOGITS)
    labels = held("first", [MID, POST], make.out)
    return make.planted("clipping_mlp", edges=edges, needed=((f"a0.h{head}",),), opposing=("m0",), labels=labels)


def inhibition_head(seed: int | None) -> Planted:
    """One head says the symbol, another takes six tenths of it away.

    Such are the negative name movers of GPT-2 (Wang and others 2022, arXiv 2211.00593).
    """
    make = _Building(symbols_task(seed), seed, rooms=1)
    says, against = in_order(2, seed)
    make.carry(0, says, make.out)
    make.carry(0, against, -AGAINST * make.out)
    edges = edges_of(f"a0.h{says}", "logits") | edges_of(f"a0.h{against}", "logits", effect=Effect.LOGITS)
    labels = held("first", [MID, POST], make.out)
    needed, opposing = ((f"a0.h{says}",),), (f"a0.h{against}",)
    return make.planted("inhibition_head", edges=edges, needed=needed, opposing=opposing, labels=labels)


def either_head(seed: int | None) -> Planted:
    """Two heads bring the symbol to `=`, and the MLP says it as loudly if only one of them does: either suffices.

    A symbol's logit is 1 − relu(1 − what was brought of it), so that without one head not even the logits are others.
    """
    task = symbols_task(seed)
    make = _Building(task, seed, rooms=2, d_mlp=task.q + 1)
    for head in (0, 1):
        make.carry(0, head, make.rooms[0])
    reads = torch.cat([torch.zeros_like(make.out[:1]), -make.rooms[0]])  # the first neuron is always 1
    make.write.mlp(0, reads=reads, threshold=-1.0, writes=torch.cat([make.out.sum(0, keepdim=True), -make.out]))
    edges = {"m0->logits": Effect.ANSWER}
    for head in (0, 1):
        edges |= edges_of(f"a0.h{head}", "m0", effect=Effect.BACKUP)
    labels = held("first", [MID], make.rooms[0]) + held("first", [POST], make.out)
    labels += held("first", [POST], make.rooms[0], used=False)
    return make.planted("either_head", edges=edges, needed=(("a0.h0", "a0.h1"), ("m0",)), labels=labels)


def idle_minimum(seed: int | None) -> Planted:
    """The smallest symbol is held at `=`, and no answer needs it: what is asked for is the symbol at a place."""
    make = _Building(symbols_task(seed), seed, rooms=2)
    idle, says = in_order(2, seed)
    make.carry(0, idle, make.rooms[0], "minimum")
    make.carry(0, says, make.out)
    edges = edges_of(f"a0.h{idle}", effect=Effect.IDLE) | edges_of(f"a0.h{says}", "logits")
    labels = held("minimum", [MID, POST], make.rooms[0], used=False) + held("first", [MID, POST], make.out)
    needed, decoys = ((f"a0.h{says}",),), (f"a0.h{idle}",)
    return make.planted("idle_minimum", edges=edges, needed=needed, decoys=decoys, labels=labels)


def grouped_queries(seed: int | None) -> Planted:
    """Pairs of heads share keys and values: one head says the symbol, the one it shares them with looks elsewhere.

    What that one writes nothing reads. A head of the other pair has the pattern of the one that works, and writes 0.
    """
    make = _Building(symbols_task(seed), seed, rooms=2, groups=2)
    (group, other), (first, second) = in_order(2, seed, "groups"), in_order(2, seed)
    says, beside, idle = 2 * group + first, 2 * group + second, 2 * other + first
    make.carry(0, says, make.out)
    make.carry(0, beside, make.rooms[0], 1)
    make.carry(0, idle, torch.zeros_like(make.out))
    edges = {f"input->a0.h{says}<q>": Effect.ANSWER, f"input->a0.h{beside}<q>": Effect.IDLE}
    edges |= dict.fromkeys([*(f"input->a0.g{group}<{part}>" for part in "kv"), f"a0.h{says}->logits"], Effect.ANSWER)
    labels = held("first", [MID, POST], make.out) + held("second", [MID, POST], make.rooms[0], used=False)
    needed, decoys = ((f"a0.h{says}",),), (f"a0.h{beside}", f"a0.h{idle}")
    return make.planted("grouped_queries", edges=edges, needed=needed, decoys=decoys, labels=labels)


SYMBOLS = {
    "exclusive_or": exclusive_or,
    "late": late,
    "permuted_code": permuted_code,
    "clipping_mlp": clipping_mlp,
    "inhibition_head": inhibition_head,
    "either_head": either_head,
    "idle_minimum": idle_minimum,
    "grouped_queries": grouped_queries,
}
