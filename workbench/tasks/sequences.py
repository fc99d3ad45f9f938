"""Sequences of one's own: tokens from a file, for models that were trained elsewhere on something else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from workbench.tasks import given_labels
from workbench.tasks.base import Task
from workbench.tasks.batch import Batch, Truth, before_padding
from workbench.tasks.known_text import KnownText, Origin
from workbench.tasks.split import Split
from workbench.tasks.vocabulary import Vocabulary
from workbench.util.files import load_tensors, parse_json, save_tensors

SEQUENCES = "sequences.safetensors"
HELD = "held:"  # begins the path of sequences that are in memory, and in no file
_EIGHTHS = 8

_held: dict[str, tuple[dict[str, Tensor], dict[str, str]]] = {}


class Sequences(Task):
    """Token sequences as they were given, each token predicted from those before it.

    Nothing is known of them but the tokens, and labels that were given with them: there is no graph. What is measured
    is measured on the sequences given; what has to be trained first, such as a tuned lens or a probe, is trained on
    others, given for it.

    Labels: `eighth` (the eighth of the context that a position is in, 0..7, where scored), and those given.
    """

    name: ClassVar[str] = "sequences"
    summary: ClassVar[str] = "the next token of sequences of one's own"
    group: ClassVar[str] = "eighth"
    unit: ClassVar[Literal["position"]] = "position"
    running_text: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ("path",)
    groups: ClassVar[tuple[int, ...]] = tuple(range(_EIGHTHS))

    path: str = Field(description="a file that `Sequences.save` wrote")

    @model_validator(mode="after")
    def _readable(self) -> Sequences:
        _ = self._given
        return self

    @cached_property
    def _given(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        """The tensors `tokens`, `lengths` and perhaps `training` and `training_lengths`; and what is said of them."""
        if self.path.startswith(HELD):
            if self.path not in _held:
                raise ValueError("these sequences were in the memory of a process that has ended")
            return _held[self.path]
        if not Path(self.path).is_file():
            raise ValueError(f"there are no sequences in {self.path}")
        tensors, metadata = load_tensors(Path(self.path))
        _check(tensors, metadata, self.path)
        return tensors, metadata

    def __eq__(self, other: object) -> bool:
        """Whether these are the same sequences by their place: of those in memory it is a digest."""
        return isinstance(other, Sequences) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def save(self, path: Path) -> None:
        """Write them to a file."""
        save_tensors(path, *self._given)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        metadata = self._given[1]
        words = json.loads(metadata["words"]) if "words" in metadata else map(str, range(int(metadata["d_vocab"])))
        return Vocabulary(tuple(words), tuple(json.loads(metadata["texts"])) if "texts" in metadata else None)

    @property
    def n_ctx(self) -> int:
        return max(int(tensor.shape[1]) for name, tensor in self._given[0].items() if tensor.ndim == 2)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        """The tokens of each sequence -> its number."""
        rows = zip(self.tokens, self._given[0]["lengths"].tolist(), strict=True)
        return {row[:length].numpy().tobytes(): i for i, (row, length) in enumerate(rows)}

    def _numbers(self, tokens: Int[Tensor, "batch pos"]) -> list[int]:
        """The number of each of these among the sequences given; −1 of others."""
        ends = self.lengths(tokens).tolist()
        rows = (row[:end].cpu().numpy().tobytes() for row, end in zip(tokens, ends, strict=True))
        return [self._places.get(row, -1) for row in rows]

    @cached_property
    def _origins(self) -> list[Origin]:
        """What each sequence is, and last what others are; all the same where nothing is known of them."""
        origins = self._given[0].get("origins")
        known = [Origin.GIVEN] * self.n_given if origins is None else [list(Origin)[i] for i in origins.tolist()]
        return [*known, Origin.GIVEN]

    @property
    def origins(self) -> tuple[Origin, ...]:
        return tuple(origin for origin in Origin if origin in self._origins[:-1])

    def origins_of(self, tokens: Int[Tensor, "batch pos"]) -> list[Origin]:
        return [self._origins[i] for i in self._numbers(tokens)]

    @property
    def tokens(self) -> Int[Tensor, "sequence pos"]:
        """The token ids of the sequences to measure on, padded at their ends: a batch for a model."""
        return self._given[0]["tokens"]

    @property
    def n_given(self) -> int:
        """How many sequences there are to measure on."""
        return len(self.tokens)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.tokens.shape))
        return f"<{self.n_given} sequences to inspect a model on; their token ids: .tokens [{shape}]>"

    @property
    def pad(self) -> int:
        return int(self._given[1]["pad"])

    def sample(
        self, n: int, generator: torch.Generator, /, *, split: Split | None = None, head: str = "main", **condition: Any
    ) -> Batch:
        """So many of the sequences in random order, none twice before all were drawn; `train` is those for training."""
        self.refuse(condition)
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        which = "training" if split == "train" else "tokens"
        if which not in self._given[0]:
            raise ValueError(
                "something here has to be trained first, on other sequences than it is measured on, and none were "
                "given: make them with own_sequences(tokens, d_vocab, training=others)"
            )
        return self._batch(which, n, generator)

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        return self._batch("tokens", n, generator)

    def _batch(self, which: str, n: int, generator: torch.Generator) -> Batch:
        tokens = self._given[0][which]
        rounds = -(-n // len(tokens))
        rows = torch.cat([torch.randperm(len(tokens), generator=generator) for _ in range(rounds)])[:n]
        lengths = self._given[0]["training_lengths" if which == "training" else "lengths"][rows]
        width = int(lengths.max())
        return Batch.next_token(tokens[rows, :width], 0, lengths - 1)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        position = torch.arange(tokens.shape[1])
        eighth = (position * _EIGHTHS // self.n_ctx).expand_as(tokens)
        scored = position < self.lengths(tokens)[:, None] - 1
        own = given_labels.of_numbers(self._given[0], self._numbers(tokens), tokens.shape[1])
        return Truth(labels={"eighth": torch.where(scored, eighth, -1), **own})

    def classes(self, label: str) -> Sequence[str]:
        """The names of a given label's classes; none where they are its numbers."""
        classes: dict[str, list[str]] = json.loads(self._given[1].get("classes", "{}"))
        return classes.get(label, [])

    def parse(self, text: str) -> Batch:
        """A batch of one typed sequence: words of the vocabulary, or ids, with spaces between them."""
        ids = [self.vocabulary.ids.get(word, int(word) if word.isdecimal() else -1) for word in text.split()]
        if not 2 <= len(ids) <= self.n_ctx:
            raise ValueError(f"type 2 to {self.n_ctx} tokens, not {len(ids)}")
        wrong = next((word for word, i in zip(text.split(), ids, strict=True) if not 0 <= i < len(self.vocabulary)), "")
        if wrong:
            raise ValueError(f"{wrong!r} is neither a word of the vocabulary nor an id below {len(self.vocabulary)}")
        if ids[-1] == self.pad:
            raise ValueError(f"a sequence here does not end with {text.split()[-1]!r}, which fills up shorter ones")
        return Batch.next_token(torch.tensor([ids]), 0, len(ids) - 1)


def own_sequences(
    tokens: Tensor | Sequence[Tensor],
    d_vocab: int,
    *,
    training: Tensor | Sequence[Tensor] | None = None,
    words: Sequence[str] | Vocabulary | None = None,
    pad: int | None = None,
    known: KnownText | None = None,
    labels: Mapping[str, Sequence[Tensor]] | None = None,
    classes: Mapping[str, Sequence[str]] | None = None,
) -> Sequences:
    """Sequences of one's own as a task, to inspect a model on. They are in memory; `save_model` keeps them in a file.

    Args:
        tokens: `[n, pos]`, or a list of sequences `[pos]` of different lengths: what is measured on.
        d_vocab: how many tokens the model knows.
        training: others, of the same kind, for what has to be trained first, such as a tuned lens or a probe.
        words: the word of each token, for people, or a vocabulary; by default its id.
        pad: the token that fills up shorter sequences on the right; needed where lengths differ. A tensor's is taken
            off; where a sequence of a list ends with it, a token with which none ends takes its place.
        known: what is known of the text that the model was trained on; by default nothing.
        labels: of each label by name its values `[pos]` at the tokens of each sequence, from 0 on, −1 for none.
        classes: what the values 0, 1, … of a label are called; by default by their numbers.

    Raises:
        ValueError: if there are no sequences, they hold other tokens, labels do not fit them, or lengths differ and
            there is no `pad`, or no token with which none of them ends.
    """
    given = {"tokens": tokens} if training is None else {"tokens": tokens, "training": training}
    unpadded = {name: _rows(name, rows, pad) for name, rows in given.items()}
    pad = _fill(list(unpadded.values()), d_vocab, pad)
    tensors = {key: tensor for name, rows in unpadded.items() for key, tensor in _padded(name, rows, pad).items()}
    if known is not None:
        tensors["origins"] = torch.tensor([list(Origin).index(origin) for origin in known.origins(unpadded["tokens"])])
    tensors |= given_labels.padded(labels or {}, unpadded["tokens"])
    metadata = {"d_vocab": str(d_vocab), "pad": str(-1 if pad is None else pad), **_in_words(words, classes or {})}
    _check(tensors, metadata, "the sequences")
    place = HELD + _digest(tensors, metadata)
    _held[place] = (tensors, metadata)
    return Sequences(path=place)


def _digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """What tells sequences in memory from others: the same ones have the same, also in another process."""
    digest = sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(name.encode() + str(tuple(tensors[name].shape)).encode() + tensors[name].numpy().tobytes())
    return digest.hexdigest()[:16]


def _in_words(words: Sequence[str] | Vocabulary | None, classes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What the metadata of a file of sequences say of the words of tokens, and of the classes of labels."""
    said = {}
    if classes:
        said["classes"] = json.dumps({name: list(named) for name, named in classes.items()})
    if isinstance(words, Vocabulary) and words.texts is not None:
        said["texts"] = json.dumps(words.texts)
    if words is not None:
        said["words"] = json.dumps(list(words.words if isinstance(words, Vocabulary) else words))
    return said


def _rows(name: str, given: Tensor | Sequence[Tensor], pad: int | None) -> list[Tensor]:
    """Sequences without padding. Raises ValueError if they are none."""
    rows = [torch.as_tensor(row).cpu().long() for row in given]
    if not rows or any(row.ndim != 1 or len(row) < 2 for row in rows):
        raise ValueError(f"{name} are sequences [n, pos] of token ids, at least one, each of two tokens or more")
    if pad is None or not isinstance(given, Tensor):
        return rows
    lengths = before_padding(torch.stack(rows), pad).sum(1).tolist()
    if min(lengths) < 2:
        raise ValueError(f"a sequence of {name} has fewer than two tokens before its padding")
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def _fill(kept: list[list[Tensor]], d_vocab: int, pad: int | None) -> int | None:
    """The token that fills up shorter sequences: `pad`, or another with which none ends, so that none loses its end."""
    ends = {int(row[-1]) for rows in kept for row in rows}
    if pad not in ends:
        return pad
    if all(len({len(row) for row in rows}) == 1 for rows in kept):
        return None
    free = next((token for token in reversed(range(d_vocab)) if token not in ends), None)
    if free is None:
        raise ValueError(
            f"the sequences differ in length and end with each of the model's {d_vocab} tokens, so that none can fill "
            "up the shorter ones: give sequences of one length"
        )
    return free


def _padded(name: str, rows: list[Tensor], pad: int | None) -> dict[str, Tensor]:
    """Sequences as one tensor, and their lengths. Raises ValueError if these differ and nothing fills them up."""
    lengths = torch.tensor([len(row) for row in rows])
    if pad is None and len(set(lengths.tolist())) > 1:
        raise ValueError("sequences of different lengths need pad: the token that fills up the shorter ones")
    whole = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1 if pad is None else pad)
    return {name: whole, _lengths(name): lengths}


def _lengths(name: str) -> str:
    return "lengths" if name == "tokens" else f"{name}_lengths"


def _check(tensors: dict[str, Tensor], metadata: dict[str, str], where: str) -> None:
    """Raise ValueError unless these are sequences, as a stranger's file may not be."""
    try:
        d_vocab, pad = int(metadata["d_vocab"]), int(metadata["pad"])
        words = [parse_json(metadata[name]) for name in ("words", "texts") if name in metadata]
        classes = parse_json(metadata.get("classes", "{}"))
        pairs = [(tensors[name], tensors[_lengths(name)]) for name in ("tokens", "training") if name in tensors]
        fits = bool(pairs) and "tokens" in tensors and 1 <= d_vocab <= 2**31 and -1 <= pad < d_vocab
    except (KeyError, ValueError, TypeError):
        raise ValueError(f"{where}: this is no file of sequences") from None
    for some in words:
        if not isinstance(some, list) or not all(isinstance(word, str) for word in some):
            raise ValueError(f"{where}: words are a list of texts")
        if len(some) != d_vocab:
            raise ValueError(f"{where}: there are {len(some)} words for {d_vocab} tokens")
    for tokens, lengths in pairs:
        fits = fits and tokens.dtype == torch.int64 and tokens.ndim == 2 and lengths.shape == tokens.shape[:1]
        fits = fits and len(tokens) > 0 and bool((lengths >= 2).all() and (lengths <= tokens.shape[1]).all())
    named = classes.values() if isinstance(classes, dict) else [None]
    fits = fits and all(isinstance(each, list) and all(isinstance(word, str) for word in each) for each in named)
    origins = tensors.get("origins")
    if origins is not None:
        fits = fits and origins.shape == tensors["lengths"].shape and origins.dtype == torch.int64
        fits = fits and int(origins.min()) >= 0 and int(origins.max()) < len(Origin)
    for values in (tensors[name] for name in tensors if name.startswith(given_labels.PREFIX)):
        fits = fits and values.dtype == torch.int64 and values.shape == tensors["tokens"].shape
        fits = fits and bool((values >= -1).all())
    if not fits:
        raise ValueError(f"{where}: this is no file of sequences")
    for tokens, _ in pairs:
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= d_vocab:
            wrong = low if low < 0 else high
            raise ValueError(f"{where}: token {wrong} is outside the model's vocabulary 0..{d_vocab - 1}")
