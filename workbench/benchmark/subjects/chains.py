"""Subjects that follow pointer chains, in one layer of ChaCAL (`workbench.models.compiled.chaser` is their model)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from workbench.benchmark.subjects.planted import Effect, Planted, PlantedTruth, blank, edges_of, in_order
from workbench.models.compiled import SHARP, Writer
from workbench.tasks import Batch
from workbench.tasks.pointer_chain import PointerChain

SIZES = ((16, 4), (12, 4), (20, 4), (24, 6))  # tokens in a sequence, and in a block
GAMMA = 0.9
SOFT = 6.0  # score of the right key for a head that does the work less sharply than a decoy looks


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


def chain_decoder(
    kind: type[PointerChain], n_heads: int, seed: int | None, *, has_mlp: bool = False
) -> tuple[PointerChain, Writer]:
    """A task of a size drawn from the seed, and one layer of ChaCAL for it.

    Its weights are 0 but for embeddings of token and position, and what is read as the output. An MLP has a neuron for
    each token.
    """
    n, k = SIZES[in_order(len(SIZES), seed, "size")[0]]
    task, chacal = kind(n=n, k=k), {"variant": "chacal", "gamma": GAMMA}
    shape: dict[str, Any] = {"n_heads": n_heads, "d_head": n, "d_mlp": n if has_mlp else 1, "attention": chacal}
    return task, blank(task, [n] * 3, seed, **shape)[0]


def follow(
    write: Writer,
    task: PointerChain,
    head: int,
    *,
    sharp: float = SHARP,
    queries: Tensor | None = None,
    reads: Tensor | None = None,
) -> None:
    """A head whose queries among these look where their tokens point, and which writes those positions it reads.

    Args:
        write: to what.
        task: the chains.
        head: which.
        sharp: score of the right key.
        queries: `[n]`, the positions that follow, by default all; a position that does not looks at itself, and so do
            those of the first block.
        reads: `[n]`, the positions that are written to the output where they are read, by default all.
    """
    token, position, out = write.blocks.coordinates
    followed, written = (torch.ones(task.n) if chosen is None else chosen for chosen in (queries, reads))
    stays = (torch.arange(task.n) < task.k) | (followed == 0)
    query = sharp * (followed.double().diag() @ token + 2 * stays.double().diag() @ position)
    write.head(0, head, query=query, key=position, reads=written.double().diag() @ position, writes=out)


def follower(seed: int | None) -> Planted:
    """One head follows every chain: nothing misleads."""
    task, write = chain_decoder(PointerChain, 1, seed)
    follow(write, task, 0)
    truth = PlantedTruth(edges=edges_of("a0.h0", "logits"), needed=(("a0.h0",),))
    return Planted("follower", write.model, task, truth, seed)


def decoy(seed: int | None) -> Planted:
    """Head 0 has the gold pattern, sharper than any, and writes nothing; head 1, whose pattern is softer, works."""
    (task, write), (idle, works) = chain_decoder(PointerChain, 2, seed), in_order(2, seed)
    follow(write, task, idle, reads=torch.zeros(task.n))
    follow(write, task, works, sharp=SOFT)
    truth = PlantedTruth(edges=edges_of(f"a0.h{works}", "logits"), needed=((f"a0.h{works}",),), decoys=(f"a0.h{idle}",))
    return Planted("decoy", write.model, task, truth, seed)


def split(seed: int | None) -> Planted:
    """Head 0 follows the chains of even positions, head 1 those of odd ones, and neither those of the other."""
    task, write = chain_decoder(ParityChain, 2, seed)
    for parity, head in enumerate(in_order(2, seed)):
        own = torch.arange(task.n) % 2 == parity
        follow(write, task, head, queries=own, reads=own)
    return Planted("split", write.model, task, _both(), seed)


def shared_out(seed: int | None) -> Planted:
    """Both heads follow every chain; head 0 writes the even ancestors, head 1 the odd ones."""
    task, write = chain_decoder(PointerChain, 2, seed)
    for parity, head in enumerate(in_order(2, seed)):
        follow(write, task, head, reads=torch.arange(task.n) % 2 == parity)
    return Planted("shared_out", write.model, task, _both(), seed)


def _both() -> PlantedTruth:
    edges = edges_of("a0.h0", "logits") | edges_of("a0.h1", "logits")
    return PlantedTruth(edges=edges, needed=(("a0.h0",), ("a0.h1",)))


def backups(seed: int | None) -> Planted:
    """Both heads do the whole work: cutting either alone loses nothing, cutting both everything."""
    task, write = chain_decoder(PointerChain, 2, seed)
    edges: dict[str, Effect] = {}
    for head in (0, 1):
        follow(write, task, head)
        edges |= edges_of(f"a0.h{head}", "logits", effect=Effect.BACKUP)
    truth = PlantedTruth(edges=edges, needed=(("a0.h0", "a0.h1"),))
    return Planted("backups", write.model, task, truth, seed)


def mlp_alone(seed: int | None) -> Planted:
    """Each token alone tells its whole chain, to the MLP; the head has the gold pattern all the same, and writes 0."""
    task, write = chain_decoder(StraightChain, 1, seed, has_mlp=True)
    token, _, out = write.blocks.coordinates
    follow(write, task, 0, reads=torch.zeros(task.n))
    at = torch.arange(task.n)
    chain = (at <= at[:, None]) & ((at[:, None] - at) % task.k == 0)  # of a position that holds the row's token
    write.mlp(0, reads=token, threshold=0.0, writes=chain.double() @ out)
    edges = dict.fromkeys(("input->m0", "m0->logits"), Effect.ANSWER)
    truth = PlantedTruth(edges=edges, needed=(("m0",),), decoys=("a0.h0",))
    return Planted("mlp_alone", write.model, task, truth, seed)


CHAINS = {
    "follower": follower,
    "decoy": decoy,
    "split": split,
    "shared_out": shared_out,
    "backups": backups,
    "mlp_alone": mlp_alone,
}
