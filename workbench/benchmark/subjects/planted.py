"""`Planted`: a model whose mechanism is known by construction, and the `PlantedTruth` about it, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import Field, ValidationError
from torch import Tensor

from workbench.capture import Subject
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import Blocks, Writer, rotation
from workbench.models.hooked import hook
from workbench.tasks import Task
from workbench.util.distribution import version
from workbench.util.files import load_tensors, new_folder, read_text, save_tensors, write_atomically
from workbench.util.lookup import lookup
from workbench.util.messages import first_problem
from workbench.util.seeds import generator
from workbench.util.strict_settings import Checked

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

TRUTH, WEIGHTS, CARD = "truth.json", "weights.safetensors", "README.md"
LONGEST = 2**24  # bytes of a `truth.json` that are read


class Effect(StrEnum):
    """What is lost when an edge is cut, so that its reader gets nothing from its writer."""

    ANSWER = "answer"  # some answer is no longer right
    BACKUP = "backup"  # no answer, until the other nodes of a backup group write nothing
    LOGITS = "logits"  # no answer, though the logits are others
    IDLE = "idle"  # the logits stay as they are; what a head writes, and nothing reads, is other


class Label(Checked):
    """A label of the task that the residual holds.

    Attributes:
        label: its name in the task's truth. It is held wherever that is not −1.
        point: the hook point.
        directions: `[value, d_model]`: the residual's product with a value's own is the largest.
        used: whether any answer depends on these directions at this point.
        local: whether the token and its position decide the label, so that no other position need be read.
    """

    label: str
    point: str
    directions: tuple[tuple[float, ...], ...]
    used: bool
    local: bool = False


class PlantedTruth(Checked):
    """What is true of a planted model. Nodes and edges have the names of `circuits.Graph` (`a0.h1`, `a0.h1->logits`).

    Attributes:
        edges: each edge whose cut does anything -> what it does; to cut any other does nothing.
        needed: sets of nodes, each smallest, of which all must write nothing for answers to be lost: of one node where
            that node is needed, of several where any of them will do (a backup group).
        opposing: nodes without which the right answer's logit is higher.
        decoys: nodes that look as if they did the work (a gold pattern, a decodable label), and are not needed.
        labels: what the residual holds.
    """

    edges: dict[str, Effect] = Field(default_factory=dict)
    needed: tuple[tuple[str, ...], ...] = ()
    opposing: tuple[str, ...] = ()
    decoys: tuple[str, ...] = ()
    labels: tuple[Label, ...] = ()


class _Saved(Checked):
    """`truth.json`: the truth, and what the model and its task are made of."""

    name: str
    seed: int | None
    task: dict[str, Any]
    model: DecoderConfig
    truth: PlantedTruth


@dataclass(frozen=True)
class Planted:
    """A model, the task that it solves exactly, and what is true of it.

    It stands in for a run: what takes a run's task, model and hooked model takes it too.

    Attributes:
        name: of the subject, an entry in `SUBJECTS`.
        decoder: the model.
        made_for: the task.
        truth: what is true.
        seed: what it was drawn from; None where nothing was drawn: the plain basis, and parts in order.
        about: what it is, in a sentence.
    """

    name: str
    decoder: Decoder
    made_for: Task
    truth: PlantedTruth = field(default_factory=PlantedTruth)
    seed: int | None = None
    about: str = ""
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

    def to(self, dtype: torch.dtype) -> Planted:
        return replace(self, decoder=self.decoder.to(dtype).eval())

    def save(self, folder: Path) -> None:
        """Write `truth.json`, `weights.safetensors` and a card for people into a new folder.

        Raises:
            ValueError: if there is something already.
        """
        task = {"name": self.made_for.name, **self.made_for.model_dump()}
        saved = _Saved(name=self.name, seed=self.seed, task=task, model=self.decoder.config, truth=self.truth)
        with new_folder(folder) as made:
            write_atomically(made / TRUTH, saved.model_dump_json(indent=1).encode())
            save_tensors(made / WEIGHTS, self.decoder.state_dict(), {})
            write_atomically(made / CARD, self.card.encode())

    @property
    def card(self) -> str:
        """How the model was made and what is true of it, for people, in Markdown."""
        truth, drawn = self.truth, "nothing drawn" if self.seed is None else f"drawn from the seed {self.seed}"
        settings = ", ".join(f"{name} {value}" for name, value in self.made_for.model_dump().items())
        each = {
            "needed": [" or ".join(group) for group in truth.needed],
            "against the right answer": truth.opposing,
            "decoys": truth.decoys,
            **{f"edges, {effect}": [e for e, of in truth.edges.items() if of is effect] for effect in Effect},
            **{f"held at {held.point}, {'' if held.used else 'not '}used": [held.label] for held in truth.labels},
        }
        lines = [
            f"# {self.name}",
            "",
            f"{self.about} The weights were written, not trained, by workbench {version()} ({drawn}). The model solves "
            f"`{self.made_for.name}` ({settings}) without a mistake. `{TRUTH}` has what is true of it as data:",
            "",
            *(f"- {what}: {', '.join(names)}" for what, names in each.items() if names),
        ]
        return "\n".join(lines) + "\n"

    @classmethod
    def load(cls, folder: Path, tasks: Mapping[str, type[Task]]) -> Planted:
        """Read what `save` wrote.

        Args:
            folder: where.
            tasks: the tasks that there are, by name.

        Raises:
            ValueError: in one line, if a file is missing, damaged, or not of this form.
        """
        try:
            saved = _Saved.model_validate_json(read_text(folder / TRUTH, LONGEST))
            settings = dict(saved.task)
            task = lookup(tasks, str(settings.pop("name", None)), "task")(**settings)
        except ValidationError as error:
            raise ValueError(f"{folder / TRUTH}: {first_problem(error, _Saved)}") from None
        tensors, _ = load_tensors(folder / WEIGHTS)
        model = Decoder(saved.model)
        try:
            model.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
        except (RuntimeError, StopIteration):
            raise ValueError(f"{folder / WEIGHTS} does not hold the weights of the model in {TRUTH}") from None
        return cls(saved.name, model.eval(), task, saved.truth, saved.seed)


def blank(
    task: Task, rooms: Sequence[int], seed: int | None, *, n_layers: int = 1, d_mlp: int = 1, **shape: Any
) -> tuple[Writer, list[Tensor]]:
    """A decoder whose weights are 0 but for embeddings, and the directions of its residual, a room after the other.

    Args:
        task: whose tokens and positions it has.
        rooms: how many directions each has: the first room holds the token, the second the position, and the last is
            what the unembedding reads.
        seed: draws the residual's basis.
        n_layers, d_mlp, shape: of the `DecoderConfig`.
    """
    shape |= {"n_layers": n_layers, "d_mlp": d_mlp, "d_vocab": len(task.vocabulary), "n_ctx": task.n_ctx}
    model = Decoder(DecoderConfig(d_model=sum(rooms), norm="none", activation="relu", **shape)).double()
    write = Writer(model, Blocks(rooms[0], rotation(sum(rooms), seed), doubled=False))
    directions = list(write.blocks.basis.split(list(rooms)))
    write.embedding(directions[0])
    write.positions(directions[1])
    write.unembedding(directions[-1])
    return write, directions


def edges_of(head: str, *readers: str, effect: Effect = Effect.ANSWER) -> dict[str, Effect]:
    """The edges of a head that reads the input alone, to these readers, with what each does."""
    return dict.fromkeys([f"input->{head}<{part}>" for part in "qkv"] + [f"{head}->{to}" for to in readers], effect)


def held(
    label: str, points: Iterable[str], directions: Tensor, *, used: bool = True, local: bool = False
) -> tuple[Label, ...]:
    """A label that is held along the same directions at some points."""
    rows = tuple(map(tuple, directions.tolist()))
    return tuple(Label(label=label, point=point, directions=rows, used=used, local=local) for point in points)


def in_order(n: int, seed: int | None, what: str = "heads") -> list[int]:
    """0 … n − 1 in an order drawn from the seed; as they are without one."""
    if seed is None:
        return list(range(n))
    order: list[int] = torch.randperm(n, generator=generator(seed, what)).tolist()
    return order
