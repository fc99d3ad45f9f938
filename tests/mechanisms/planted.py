"""Traps: small models whose mechanism is known by construction, and which look as if they had another one.

Each `Planted` is a runnable decoder with the task that it solves, exactly, and what is true of it: which heads do the
work, and which only look like it. A claim is tried on them by what it says, not by what the model gets right.

`decoy`, `split`, `shared_out`, `backups` and `mlp_alone` follow pointer chains (`workbench.models.compiled.chaser` is
their model); `exclusive_or` and `late` are about probes, on a task of their own. They stand in for a run: what takes a
run's task, model and hooked model takes them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from workbench.capture import Subject
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import SHARP, Blocks, Writer, rotation
from workbench.models.hooked import hook
from workbench.tasks import Batch, Task, Truth, Vocabulary
from workbench.tasks.pointer_chain import PointerChain

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

GAMMA = 0.9
SOFT = 6.0  # score of the right key for a head that does the work less sharply than a decoy looks

Head = tuple[int, int]
"""A layer and a head."""


@dataclass(frozen=True)
class Planted:
    """A model and what is true of it.

    Attributes:
        name: of the trap.
        decoder: the model.
        made_for: the task that it solves.
        needed: sets of heads of which all must be cut for answers to be lost, each smallest: one set of one head where
            that head alone does the work, one set of two for backups, two sets of one where each does a part.
        decoys: heads that look as if they did it.
    """

    name: str
    decoder: Decoder
    made_for: Task
    needed: tuple[frozenset[Head], ...] = ()
    decoys: tuple[Head, ...] = ()
    config: ClassVar = SimpleNamespace(seed=0)

    def task(self) -> Task:
        return self.made_for

    def model(self, step: int | None = None) -> Decoder:
        return self.decoder

    def hooked(self, step: int | None = None) -> TransformerBridge:
        return hook(self.decoder)

    def name_at(self, step: int | None) -> str:
        return self.name

    @property
    def subject(self) -> Subject:
        return Subject.of(self.decoder, self.made_for, self.name)


class ParityChain(PointerChain):
    """Pointer chains on which every position points at one of its own parity: even chains and odd ones never meet.

    What is asked, and the truth, are those of `pointer_chain`; k is even.
    """

    name: ClassVar[str] = "parity_chain"

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        blocks = self.n // self.k - 1
        values = torch.randint(0, self.n, (n, 1, self.k), generator=generator)
        halves = torch.rand(n, blocks, self.k // 2, 2, generator=generator).argsort(2)
        offsets = 2 * halves + torch.arange(2)
        starts = torch.arange(0, self.n - self.k, self.k)[:, None]
        return self._batch(torch.cat([values, offsets.flatten(2) + starts], dim=1).reshape(n, self.n))


class StraightChain(PointerChain):
    """Pointer chains on which every position points at its own place in the block before: the token tells the chain."""

    name: ClassVar[str] = "straight_chain"

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        values = torch.randint(0, self.n, (n, self.k), generator=generator)
        return self._batch(torch.cat([values, torch.arange(self.n - self.k).expand(n, -1)], dim=1))


def _chain_decoder(n: int, n_heads: int, seed: int | None, d_mlp: int = 1) -> tuple[Decoder, Writer]:
    """One layer of ChaCAL with weights of 0, embeddings for token and position, and what is read as the output."""
    config = DecoderConfig(
        n_layers=1,
        d_model=3 * n,
        n_heads=n_heads,
        d_head=n,
        d_mlp=d_mlp,
        d_vocab=n,
        n_ctx=n,
        attention={"variant": "chacal", "gamma": GAMMA},
        norm="none",
        activation="relu",
    )
    model = Decoder(config)
    write = Writer(model, Blocks(n, rotation(3 * n, seed), doubled=False))
    token, position, out = write.blocks.coordinates
    write.embedding(token)
    write.positions(position)
    write.unembedding(out)
    return model.eval(), write


def _follow(write: Writer, head: int, k: int, *, sharp: float = SHARP, queries: Tensor, reads: Tensor) -> None:
    """A head whose queries among these look where their tokens point, and which writes those positions it reads.

    Args:
        write: to what.
        head: which.
        k: size of a block; the first one looks at itself.
        sharp: score of the right key.
        queries: `[n]`, the positions that follow; a position that does not looks at itself.
        reads: `[n]`, the positions that are written to the output where they are read.
    """
    token, position, out = write.blocks.coordinates
    stays = (torch.arange(len(token)) < k) | ~queries
    query = sharp * (queries.double().diag() @ token + 2 * stays.double().diag() @ position)
    write.head(0, head, query=query, key=position, reads=reads.double().diag() @ position, writes=out)


@torch.no_grad()
def decoy(n: int = 16, k: int = 4, seed: int | None = None) -> Planted:
    """Head 0 has the gold pattern, sharper than any, and writes nothing; head 1, whose pattern is softer, works."""
    model, write = _chain_decoder(n, 2, seed)
    every, none = torch.ones(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
    _follow(write, 0, k, queries=every, reads=none)
    _follow(write, 1, k, sharp=SOFT, queries=every, reads=every)
    return Planted("decoy", model, PointerChain(n=n, k=k), (frozenset({(0, 1)}),), ((0, 0),))


@torch.no_grad()
def split(n: int = 16, k: int = 4, seed: int | None = None) -> Planted:
    """Head 0 follows the chains of even positions, head 1 those of odd ones, and neither those of the other."""
    model, write = _chain_decoder(n, 2, seed)
    for parity in (0, 1):
        own = torch.arange(n) % 2 == parity
        _follow(write, parity, k, queries=own, reads=own)
    return Planted("split", model, ParityChain(n=n, k=k), (frozenset({(0, 0)}), frozenset({(0, 1)})))


@torch.no_grad()
def shared_out(n: int = 16, k: int = 4, seed: int | None = None) -> Planted:
    """Both heads follow every chain; head 0 writes the even ancestors, head 1 the odd ones."""
    model, write = _chain_decoder(n, 2, seed)
    for parity in (0, 1):
        queries = torch.ones(n, dtype=torch.bool)
        _follow(write, parity, k, queries=queries, reads=torch.arange(n) % 2 == parity)
    return Planted("shared out", model, PointerChain(n=n, k=k), (frozenset({(0, 0)}), frozenset({(0, 1)})))


@torch.no_grad()
def backups(n: int = 16, k: int = 4, seed: int | None = None) -> Planted:
    """Both heads do the whole work: cutting either alone loses nothing, cutting both everything."""
    model, write = _chain_decoder(n, 2, seed)
    every = torch.ones(n, dtype=torch.bool)
    for head in (0, 1):
        _follow(write, head, k, queries=every, reads=every)
    return Planted("backups", model, PointerChain(n=n, k=k), (frozenset({(0, 0), (0, 1)}),))


@torch.no_grad()
def mlp_alone(n: int = 16, k: int = 4, seed: int | None = None) -> Planted:
    """Each token alone tells its whole chain, to the MLP; the head has the gold pattern all the same, and writes 0."""
    model, write = _chain_decoder(n, 1, seed, d_mlp=n)
    token, _, out = write.blocks.coordinates
    _follow(write, 0, k, queries=torch.ones(n, dtype=torch.bool), reads=torch.zeros(n, dtype=torch.bool))
    at = torch.arange(n)
    chain = (at <= at[:, None]) & ((at[:, None] - at) % k == 0)  # of a position that holds the row's token
    write.mlp(0, reads=token, threshold=0.0, writes=chain.double() @ out)
    return Planted("MLP alone", model, StraightChain(n=n, k=k), (), ((0, 0),))


class Bits(Task):
    """Zeros and ones, then `=`, at which one bit is asked for: the first, or whether the first two differ.

    length=4: `1 0 0 1 =` asks for 1 by either rule. Labels, at `=`: `first` and `second` (the bits), `differ`
    (whether they do), `asked` (the answer).
    """

    name: ClassVar[str] = "bits"
    summary: ClassVar[str] = "zeros and ones; say the first, or whether the first two differ"
    group: ClassVar[str] = "asked"
    unit: ClassVar[Literal["sequence"]] = "sequence"

    length: int = Field(16, ge=2, le=64)
    rule: Literal["first", "differ"] = "differ"

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(("0", "1", "="))

    @property
    def n_ctx(self) -> int:
        return self.length + 1

    @property
    def groups(self) -> tuple[int, ...]:
        return (0, 1)

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        bits = torch.randint(0, 2, (n, self.length), generator=generator)
        return self._batch(torch.cat([bits, torch.full((n, 1), 2)], dim=1))

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        asked = self.truth(tokens).labels["asked"]
        return Batch(tokens, asked.clamp(min=0), asked >= 0)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        at_end = tokens == 2
        first, second = (torch.where(at_end, tokens[:, i, None], -1) for i in (0, 1))
        differ = torch.where(at_end, (first != second).long(), -1)
        edges = [[i, 1, self.length, key] for i in range(len(tokens)) for key in range(1 + (self.rule == "differ"))]
        asked = differ if self.rule == "differ" else first
        labels = {"first": first, "second": second, "differ": differ, "asked": asked}
        return Truth(torch.tensor(edges).reshape(-1, 4), labels)

    def parse(self, text: str) -> Batch:
        tokens = self.vocabulary.encode(text)
        if len(tokens) != self.length + 1 or 2 in tokens[:-1] or tokens[-1] != 2:
            raise ValueError(f"bits are {self.length} zeros and ones, then =, not {text!r}")
        return self._batch(torch.tensor([tokens]))


def _bits_decoder(task: Bits, n_layers: int, n_rooms: int, d_mlp: int, seed: int | None) -> tuple[Writer, list[Tensor]]:
    """Standard attention with weights of 0 but for embeddings; and directions: token, position, and rooms for a bit."""
    sizes = [3, task.n_ctx, *[2] * n_rooms]
    d = sum(sizes)
    config = DecoderConfig(
        n_layers=n_layers,
        d_model=d,
        n_heads=2,
        d_head=2,
        d_mlp=d_mlp,
        d_vocab=3,
        n_ctx=task.n_ctx,
        norm="none",
        activation="relu",
    )
    write = Writer(Decoder(config), Blocks(d, rotation(d, seed), doubled=False))
    rooms = list(write.blocks.basis.split(sizes))
    write.embedding(rooms[0])
    write.positions(rooms[1])
    write.model.eval()
    return write, rooms


def _carry_bit(write: Writer, at: Head, rooms: list[Tensor], bit: int, writes: Float[Tensor, "2 d"]) -> None:
    """A head by which `=` reads the bit at one position into a room."""
    token, position = rooms[:2]
    nothing = torch.zeros_like(token[:1])
    query = SHARP * torch.cat([token[2:], nothing])
    write.head(*at, query=query, key=torch.cat([position[bit : bit + 1], nothing]), reads=token[:2], writes=writes)


@torch.no_grad()
def exclusive_or(length: int = 16, seed: int | None = None) -> Planted:
    """Whether the first two bits differ: attention brings both to `=`, each in a room of its own; the MLP decides.

    Before the MLP either bit can be read off along a direction, and whether they differ along none.
    """
    task = Bits(length=length, rule="differ")
    write, rooms = _bits_decoder(task, 1, 3, 4, seed)
    first, second, out = rooms[2:]
    write.unembedding(out)
    _carry_bit(write, (0, 0), rooms, 0, first)
    _carry_bit(write, (0, 1), rooms, 1, second)
    pairs = torch.stack([first[a] + second[b] for a in (0, 1) for b in (0, 1)])
    write.mlp(0, reads=pairs, threshold=1.0, writes=out[[0, 1, 1, 0]])
    return Planted("exclusive or", write.model, task, (frozenset({(0, 0)}), frozenset({(0, 1)})))


@torch.no_grad()
def late(length: int = 16, seed: int | None = None) -> Planted:
    """The first bit stands at `=` from layer 0 on, in a room that nothing reads; layer 1 fetches it again and says it.

    It is decoded from layer 0 on, and used from layer 1 on.
    """
    task = Bits(length=length, rule="first")
    write, rooms = _bits_decoder(task, 2, 2, 1, seed)
    idle, out = rooms[2:]
    write.unembedding(out)
    _carry_bit(write, (0, 0), rooms, 0, idle)
    _carry_bit(write, (1, 1), rooms, 0, out)
    return Planted("late read-out", write.model, task, (frozenset({(1, 1)}),), ((0, 0),))


CHAINS = {"decoy": decoy, "split": split, "shared_out": shared_out, "backups": backups, "mlp_alone": mlp_alone}
PLANTED = {**CHAINS, "exclusive_or": exclusive_or, "late": late}
