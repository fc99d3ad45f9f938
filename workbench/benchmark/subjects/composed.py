"""Subjects whose second layer reads what a head of the first wrote: through its values, or through its keys."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from workbench.benchmark.subjects.planted import Effect, Planted, PlantedTruth, blank, edges_of, held, in_order
from workbench.benchmark.subjects.symbols import symbols_task
from workbench.models.compiled import SHARP, Blocks, Writer, rotation
from workbench.models.compiled import sorter as compiled_sorter
from workbench.tasks.induction import Induction
from workbench.tasks.sorting import Sorting

FIRST, SAYS = (tuple(f"blocks.{layer}.hook_resid_{part}" for part in ("mid", "post")) for layer in (0, 1))
"""Where the second layer's writing is not there yet, and where it is."""


def _head(write: Writer, layer: int, head: int, **rows: Tensor) -> None:
    """A head of fewer directions than it has dimensions."""
    size = write.model.config.d_head or 0
    write.head(layer, head, **{part: pad(given, (0, 0, 0, size - len(given))) for part, given in rows.items()})


def relay(seed: int | None) -> Planted:
    """A head of layer 0 brings the symbol to a place on the way, and one of layer 1 fetches it from there.

    All other positions read themselves in layer 0: nothing else comes to `=`.
    """
    task = symbols_task(seed)
    start, way = sorted(task.places)
    task = task.model_copy(update={"places": (start, way)})
    rooms = [task.q + 1, task.n_ctx, task.q, task.q]
    write, (token, position, room, out) = blank(task, rooms, seed, n_layers=2, n_heads=2, d_head=task.n_ctx)
    brings, says = in_order(2, seed)
    # A row for each key: by whom it is looked for. The place on the way looks for the other one, all else for itself.
    looks = SHARP * position.clone()
    looks[start], looks[way] = looks[start] + looks[way], 0
    _head(write, 0, brings, query=looks, key=position, reads=token[:-1], writes=room)
    _head(write, 1, says, query=SHARP * token[-1:], key=position[way : way + 1], reads=room, writes=out)
    first, second = f"a0.h{brings}", f"a1.h{says}"
    edges = edges_of(first, f"{second}<v>") | edges_of(second, "logits")
    del edges[f"input->{second}<v>"]
    truth = PlantedTruth(edges=edges, needed=((first,), (second,)), labels=held("first", SAYS, out))
    return Planted("relay", write.model, task, truth, seed)


def induction(seed: int | None) -> Planted:
    """A head writes each position's token before; one of layer 1 looks where its own token was that one, and says it.

    Such are induction heads (Olsson and others 2022, arXiv 2209.11895).
    """
    task = Induction(q=8, min_length=4, max_length=6)
    rooms = [task.q, task.n_ctx, task.q, task.q]
    write, (token, position, before, out) = blank(task, rooms, seed, n_layers=2, n_heads=2, d_head=task.n_ctx)
    previous, says = in_order(2, seed)
    _head(write, 0, previous, query=SHARP * position[1:], key=position[:-1], reads=token, writes=before)
    # the first position has itself before it, so that it would be looked at too
    _head(write, 1, says, query=SHARP * token, key=before - position[0], reads=token, writes=out)
    first, second = f"a0.h{previous}", f"a1.h{says}"
    edges = edges_of(first, f"{second}<k>") | edges_of(second, "logits")
    truth = PlantedTruth(edges=edges, needed=((first,), (second,)), labels=held("next", SAYS, out))
    return Planted("induction", write.model, task, truth, seed)


def sorter(seed: int | None) -> Planted:
    """The depth-two sorter of the task-hinting paper: what stands behind the delimiter counts against what is before.

    Every part is needed: it says the minimum first, then each symbol for as long as copies are left, then the next.
    """
    q = 5 + in_order(3, seed, "alphabet")[0]
    task = Sorting(q=q, min_length=3, max_length=6)
    model = compiled_sorter(q, seed, task.n_ctx, pad=True, dtype=torch.float64)
    out = Blocks(q + 1, rotation(3 * (q + 1), seed), doubled=False).coordinates[2][:q]
    edges = {
        **edges_of("a0.h0", "m0", "a1.h0<v>"),  # what a symbol is, and whether it stands behind the delimiter
        **edges_of("a0.h1", "logits"),  # the minimum
        **edges_of("a1.h0", "logits"),  # how many copies are left
        **edges_of("a1.h1", "logits"),  # the next larger symbol
        **dict.fromkeys(("input->m0", "m0->a1.h0<v>"), Effect.ANSWER),  # an output counts against its copies
        **dict.fromkeys(("m0->m1", "m1->logits"), Effect.ANSWER),  # an output takes itself out
    }
    del edges["input->a1.h0<v>"]
    needed = tuple((node,) for node in ("a0.h0", "a0.h1", "m0", "a1.h0", "a1.h1", "m1"))
    labels = held("minimum", FIRST + SAYS, out) + held("successor", SAYS[1:], out)  # before: beside the symbol itself
    return Planted("sorter", model, task, PlantedTruth(edges=edges, needed=needed, labels=labels), seed)


COMPOSED = {"relay": relay, "induction": induction, "sorter": sorter}
