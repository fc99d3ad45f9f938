"""A finite training set: drawn once by the run's seed, and visited in epochs, each in a new order.

A set is made of blocks. Block b of a head depends on the task, the run's seed, the head and b alone, so a set need not
be in memory, and a smaller one is the beginning of a larger one. Its sequences are independent draws from the training
side of the task's split, as the papers' data are; a question may be there several times.

What was drawn is kept, in the narrowest integers: 1,000,000 sequences of 40 tokens, their targets and mask are 120 MB.
Sets that would take more than `KEPT` bytes in a process, those of all its runs together, are drawn anew in every epoch.
Which of the two it is changes the time alone.

In every epoch the blocks are dealt, in an order of its own, into pools of up to 64 blocks of 1024 sequences, as even as
possible. The pools come one after the other, the sequences of a pool in random order: each sequence is visited exactly
once an epoch. A set of up to 65,536 sequences is one pool, and its order a permutation of all of them. In a larger set
the sequences of a block are always visited within a pool's length of one another, which tells nothing of what is in
them. A batch at the end of an epoch goes on with the beginning of the next.

Each head has a set of its own, of its share of `train_size` in the mixture ("the training dataset size is split equally
among the two tasks": task hinting, §3.1), so that all heads end an epoch together.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from weakref import WeakSet

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.runs import RunConfig
from workbench.tasks import Batch, Task
from workbench.tasks.stream import in_order
from workbench.training.hint_mixing import Batches, divided, purpose, sizes, sizes_of_steps, turns
from workbench.util.seeds import generator

BLOCK = 1024  # sequences that are drawn together
POOL = 64  # blocks whose sequences are shuffled together, at most
KEPT = 2**30  # bytes of drawn sets that a process keeps, at most


@dataclass(frozen=True)
class Piece:
    """What a batch takes from one pool of a head's set.

    Attributes:
        head: the output head.
        pool: the numbers of the pool's blocks, in ascending order.
        rows: places in the pool, its blocks one after the other.
    """

    head: str
    pool: tuple[int, ...]
    rows: Int[Tensor, " sequence"]


@dataclass(frozen=True)
class TrainingSet:
    """The set of one head: its blocks, and the order in which they are visited.

    Attributes:
        seed: the run's seed.
        head: the output head.
        size: how many sequences it has.
    """

    seed: int
    head: str
    size: int

    @staticmethod
    def of_heads(config: RunConfig) -> dict[str, TrainingSet]:
        """The set of each head; none where every batch is fresh."""
        if config.train_size is None:
            return {}
        shares = divided(config.train_size, config.mixture)
        return {head: TrainingSet(config.seed, head, size) for head, size in shares.items()}

    @property
    def n_blocks(self) -> int:
        return -(-self.size // BLOCK)

    @property
    def n_pools(self) -> int:
        """The number of pools in an epoch."""
        return -(-self.n_blocks // POOL)

    def draw(self, task: Task, block: int) -> Batch:
        """The sequences of one block; the last is cut where the set ends."""
        draws = generator(self.seed, "train set", block, *purpose(self.head))
        return task.sample(BLOCK, draws, split="train", head=self.head)[: self._length(block)]

    def first(self, task: Task, n: int) -> Batch:
        """The first n sequences in the order in which they are drawn; all if there are fewer."""
        blocks = range(-(-min(n, self.size) // BLOCK))
        return Batch.cat([self.draw(task, block) for block in blocks], task.pad)[:n]

    def _length(self, block: int) -> int:
        return min(BLOCK, self.size - block * BLOCK)

    def batches(self, n: int, first: int) -> Iterator[list[Piece]]:
        """What the batches of n sequences are made of, epoch after epoch, from the `first` visited sequence on."""
        pools = self._pools(first)
        pool, rows = next(pools)
        while True:
            pieces, missing = [], n
            while missing:
                if not len(rows):
                    pool, rows = next(pools)
                pieces.append(Piece(self.head, pool, rows[:missing]))
                missing -= len(pieces[-1].rows)
                rows = rows[len(pieces[-1].rows) :]
            yield pieces

    def _pools(self, first: int) -> Iterator[tuple[tuple[int, ...], Int[Tensor, " sequence"]]]:
        """Each pool's blocks, and the order of its sequences; the first pool without those visited before `first`."""
        epoch, passed = divmod(first, self.size)
        while True:
            order = torch.randperm(self.n_blocks, generator=self._shuffle(epoch))
            for number, blocks in enumerate(order.tensor_split(self.n_pools)):
                pool = tuple(sorted(blocks.tolist()))
                length = sum(map(self._length, pool))
                if passed < length:
                    yield pool, torch.randperm(length, generator=self._shuffle(epoch, number))[passed:]
                passed = max(0, passed - length)
            epoch += 1

    def _shuffle(self, *position: int) -> torch.Generator:
        return generator(self.seed, "epoch", *position, *purpose(self.head))


def batches_of_set(task: Task, config: RunConfig, first: int, workers: int) -> Iterator[Batches]:
    """The batches of a run with a finite training set, from step `first` to its end.

    Worker processes draw blocks, each block one of them; this process keeps a pool for each head, and beside it the
    blocks of sets of several pools, where they fit.
    """
    sets = TrainingSet.of_heads(config)
    # The plan is read twice: ahead, for the blocks that are to be drawn, and again to take the batches from them.
    pools = _Pools(task, sets, _plan(sets, config, first), workers)
    for batches in _plan(sets, config, first):
        together = (Batch.cat([pools.take(piece) for piece in pieces], task.pad) for pieces in batches)
        yield tuple(task.trimmed(_wide(batch)) for batch in together)
        if workers:
            pools.fetch(-(-config.batch_size // BLOCK), most=POOL * len(sets))


_in_use: WeakSet[_Pools] = WeakSet()  # the pools of all runs of this process, which share what it may keep


class _Pools:
    """The pool of each head that its batches are taken from, and the blocks that are kept, all in narrow integers."""

    def __init__(
        self, task: Task, sets: dict[str, TrainingSet], plan: Iterator[list[list[Piece]]], workers: int
    ) -> None:
        self.task = task
        self.fetched: deque[Batch] = deque()  # of pools to come
        self.held: dict[str, tuple[tuple[int, ...], Batch]] = {}
        self.kept: dict[tuple[str, int], Batch] = {}
        draw = partial(_draw, task, sets)
        self.size = 0  # bytes of all blocks, if they are kept; a pool that is the only one of its head is held anyway
        if any(of_head.n_pools > 1 for of_head in sets.values()):
            size = 0
            for head, of_head in sets.items():
                block = draw((head, 0))
                each = block.tokens.nbytes + block.targets.nbytes + block.loss_mask.nbytes
                size += each * of_head.n_blocks
            self.size = size if size + sum(pools.size for pools in _in_use) <= KEPT else 0
        _in_use.add(self)
        # In the order in which the pools that hold them are taken from.
        self.drawn = in_order(draw, _blocks_to_draw(sets, plan, keep=self.size > 0), workers)

    def take(self, piece: Piece) -> Batch:
        """The sequences of a piece."""
        if piece.head not in self.held or self.held[piece.head][0] != piece.pool:
            self.held.pop(piece.head, None)  # to make room for the next
            blocks = [self._block(piece.head, number) for number in piece.pool]
            self.held[piece.head] = piece.pool, Batch.cat(blocks, self.task.pad)
        return self.held[piece.head][1][piece.rows]

    def _block(self, head: str, number: int) -> Batch:
        if (head, number) in self.kept:
            return self.kept[head, number]
        if not self.fetched:
            self.fetch(1, most=1)
        block = self.fetched.popleft()
        if self.size:
            self.kept[head, number] = block
        return block

    def fetch(self, n: int, most: int) -> None:
        """Take up to n blocks from the workers, so that these can draw further ones; at most `most` blocks are held."""
        for block in islice(self.drawn, max(0, min(n, most - len(self.fetched)))):
            self.fetched.append(Batch.cat([block], self.task.pad))  # a copy: workers share little memory


def memory_of_sets(task: Task, config: RunConfig) -> int:
    """The bytes that finite sets take: what is kept; for each head a pool, the blocks of the next and their order."""
    sets, each = TrainingSet.of_heads(config).values(), 3 * task.n_ctx  # a token, a target and the mask, a byte each
    pools = sum(2 * each * min(of_head.size, POOL * BLOCK) + 16 * of_head.n_blocks for of_head in sets)
    return pools + min(KEPT, sum(each * of_head.size for of_head in sets if of_head.n_pools > 1))


def _plan(sets: dict[str, TrainingSet], config: RunConfig, first: int) -> Iterator[list[list[Piece]]]:
    """For each step from `first` on, the pieces of each batch that it trains on."""
    n = sizes(config)
    alternate = config.mixing == "alternate"
    trained = Counter(islice(turns(config.mixture), first)) if alternate else dict.fromkeys(sets, first)
    ways = {head: of_head.batches(n[head], trained[head] * n[head]) for head, of_head in sets.items()}
    for _, sizes_of_heads in sizes_of_steps(config, first):
        yield [next(ways[head]) for head in sizes_of_heads]


def _blocks_to_draw(
    sets: dict[str, TrainingSet], plan: Iterator[list[list[Piece]]], keep: bool
) -> Iterator[tuple[str, int]]:
    """The blocks of each pool where a batch is the first to need it, as (head, number); once each, if they are kept."""
    held: dict[str, tuple[int, ...]] = {}
    drawn: set[tuple[str, int]] = set()
    for batches in plan:
        for piece in (piece for pieces in batches for piece in pieces):
            if held.get(piece.head) != piece.pool:
                held[piece.head] = piece.pool
                missing = [(piece.head, block) for block in piece.pool if not keep or (piece.head, block) not in drawn]
                yield from missing
                drawn.update(missing)
        if len(drawn) == sum(of_head.n_blocks for of_head in sets.values()) and (
            keep or all(of_head.n_pools == 1 for of_head in sets.values())
        ):
            return  # everything is in memory; the rest of a long plan need not be looked through


def _draw(task: Task, sets: dict[str, TrainingSet], head_and_block: tuple[str, int]) -> Batch:
    """A block in the narrowest integers that hold it and its padding."""
    head, block = head_and_block
    batch = sets[head].draw(task, block)
    return replace(batch, tokens=_narrow(batch.tokens, task.pad), targets=_narrow(batch.targets, task.pad))


def _narrow(ids: Tensor, pad: int) -> Tensor:
    if ids.dtype == torch.bool:
        return ids
    low, high = int(ids.min()), max(int(ids.max()), pad)
    kinds = (torch.uint8, torch.int16, torch.int32, torch.int64)
    return ids.to(next(kind for kind in kinds if torch.iinfo(kind).min <= low and high <= torch.iinfo(kind).max))


def _wide(batch: Batch) -> Batch:
    targets = batch.targets if batch.targets.dtype == torch.bool else batch.targets.long()
    return replace(batch, tokens=batch.tokens.long(), targets=targets)
