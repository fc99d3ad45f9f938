"""Text: language modelling over files on this machine, for fine-tuning and for comparison (ChaCAL, §5.3)."""

from __future__ import annotations

import copy
import json
from codecs import BOM_UTF8
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import Task
from workbench.tasks.batch import Batch, Truth
from workbench.tasks.known_text import KnownText
from workbench.tasks.text_file import read_parts
from workbench.tasks.token_words import vocabulary_of
from workbench.tasks.vocabulary import Vocabulary, wrapped
from workbench.util.files import check_file
from workbench.util.messages import brief

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SHIPPED = {"shakespeare": Path(__file__).with_name("texts") / "shakespeare.txt"}
"""Texts that come with the workbench, by name. `shakespeare`: 1.1 MB of his plays, in the public domain."""

_EIGHTHS = 8
_BYTES_PER_TOKEN = 4  # bytes of text that are read for each token of a tokenizer


class Text(Task):
    """Blocks of text, each token predicted from those before it in its block.

    `path` is a text file (UTF-8), or a folder in which Hugging Face's `datasets` has saved a data set, whose column
    `column` is read, or the name of a text that comes with the workbench (`shakespeare`). Without a tokenizer the
    tokens are the UTF-8 bytes; `tokenizer` is a `tokenizers` JSON file. Blocks do not overlap: they start every n_ctx
    bytes (with a tokenizer every 4 n_ctx bytes, of which the first n_ctx tokens are kept), and anew with each row of a
    data set. The whole file is never in memory.

        the quick brown fox     (n_ctx=19, one token a byte; all but the last position are scored)

    A run reads only texts beside its folder, or in the folders that the environment variable `WORKBENCH_TEXTS` lists:
    the config of a run that comes from a stranger could name any file.

    Equal blocks of text are on the same side of the split.

    Labels: `eighth` (the eighth of the context that a position is in, 0..7, where scored). There is no graph.
    """

    name: ClassVar[str] = "text"
    summary: ClassVar[str] = "the next token of a text on this machine"
    group: ClassVar[str] = "eighth"
    unit: ClassVar[Literal["position"]] = "position"
    running_text: ClassVar[bool] = True
    for_more: ClassVar[str] = "take a longer text, or shorter blocks (--task.block)"
    files: ClassVar[tuple[str, ...]] = ("path", "tokenizer")
    groups: ClassVar[tuple[int, ...]] = tuple(range(_EIGHTHS))

    path: str = Field(
        description="a text file, the folder of a data set saved by Hugging Face's datasets, or `shakespeare`"
    )
    block: int = Field(128, ge=2, le=2**20, description="tokens in a sequence: the context")
    tokenizer: str | None = Field(None, description="a tokenizers JSON file; by default tokens are bytes")
    column: str = Field("text", description="the column of a data set that holds its text")

    @model_validator(mode="after")
    def _files_are_there(self) -> Text:
        if not self._place.exists():
            raise ValueError(f"text reads {self.path}, which is not there; `shakespeare` comes with the workbench")
        if self.tokenizer is not None:
            check_file(Path(self.tokenizer), "tokenizer file")
            _ = self._tokenizer
        if self._source.n_blocks == 0:
            raise ValueError(f"text reads {self.path}, which holds no text")
        return self

    @property
    def _place(self) -> Path:
        return SHIPPED.get(self.path, Path(self.path))

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        try:
            return Tokenizer.from_buffer(Path(str(self.tokenizer)).read_bytes())
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"{self.tokenizer} is not a tokenizers JSON file: {brief(error)}") from None

    @cached_property
    def _source(self) -> _File | _DataSet:
        size = self.block if self.tokenizer is None else self.block * _BYTES_PER_TOKEN
        path = self._place
        return _DataSet(path, self.column, size) if path.is_dir() else _File(path, size)

    @cached_property
    def known_text(self) -> KnownText:
        """Which blocks a run of this task is trained on, and which are held out. The whole text is read."""
        sides: tuple[list[Tensor], list[Tensor]] = ([], [])
        for block in range(self._source.n_blocks):
            tokens = torch.tensor(self._encode(self._source.read(block)))
            if len(tokens) > 1:
                sides[bool(self.is_test(tokens[None])[0])].append(tokens)
        return KnownText.of(*sides)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        if self.tokenizer is None:
            return Vocabulary((*(chr(b) if 33 <= b < 127 else f"<0x{b:02X}>" for b in range(256)), "PAD"))
        own = vocabulary_of(wrapped(self._tokenizer, None, self.n_ctx), max(self._tokenizer.get_vocab().values()) + 1)
        return Vocabulary((*own.words, "PAD"))

    @property
    def n_ctx(self) -> int:
        return self.block

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        blocks = torch.randint(0, self._source.n_blocks, (n,), generator=generator).tolist()
        return self._batch([self._encode(self._source.read(i)) for i in blocks])

    def _encode(self, text: bytes) -> list[int]:
        if self.tokenizer is None:
            return list(text)
        return list(self._tokenizer.encode(text.decode("utf-8", errors="ignore")).ids[: self.block])

    def _batch(self, rows: list[list[int]]) -> Batch:
        width = max(2, max(map(len, rows)))
        tokens = torch.tensor([row + [self.pad] * (width - len(row)) for row in rows])
        return Batch.next_token(tokens, 0, torch.tensor([len(row) - 1 for row in rows]))

    @property
    def pad(self) -> int:
        """The last id: a tokenizer may have a word PAD of its own."""
        return len(self.vocabulary) - 1

    def fast_tokenizer(self) -> PreTrainedTokenizerFast:
        """The text's own tokenizer, or one of its bytes: a character of one byte that is a word, or `<0x20>`."""
        if self.tokenizer is None:
            from tokenizers import Tokenizer, decoders, models

            of_bytes = Tokenizer(models.BPE(vocab=self.vocabulary.ids, merges=[], byte_fallback=True))
            of_bytes.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
            return wrapped(of_bytes, self.vocabulary.words[self.pad], self.n_ctx)
        own = copy.deepcopy(self._tokenizer)
        name = next(name for name in ("PAD", "<PAD>", f"<PAD {self.pad}>") if own.token_to_id(name) is None)
        ids_are_missing = own.get_vocab_size() != self.pad  # a new token would get one of these
        return wrapped(own, None if ids_are_missing else name, self.n_ctx)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        position = torch.arange(tokens.shape[1])
        eighth = (position * _EIGHTHS // self.block).expand_as(tokens)
        scored = position < self.lengths(tokens)[:, None] - 1
        return Truth(labels={"eighth": torch.where(scored, eighth, -1)})

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        ids = tokens[: int(self.lengths(tokens[None]))].tolist()
        if self.tokenizer is None:
            return bytes(ids).decode("utf-8", errors="replace")
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def parse(self, text: str) -> Batch:
        """A batch of one typed text, which must have at least two tokens and fit the context."""
        ids = self._encode(text.encode()) if self.tokenizer is None else list(self._tokenizer.encode(text).ids)
        if not 2 <= len(ids) <= self.block:
            raise ValueError(f"type a text of 2 to {self.block} tokens, not {len(ids)}")
        return self._batch([ids])


class _File:
    """The blocks of `size` bytes of a file, each read from disk when it is drawn."""

    def __init__(self, path: Path, size: int) -> None:
        next(read_parts(path), None)  # a file in another encoding is refused
        with path.open("rb") as file:
            self.start = len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        self.path, self.size = path, size
        length = path.stat().st_size - self.start
        # A last block of one byte would have nothing to predict.
        self.n_blocks = length // size + (length % size >= 2)

    def read(self, block: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.start + block * self.size)
            return file.read(self.size)


class _DataSet:
    """The blocks of every row of one column of a saved data set, read from its memory-mapped files."""

    def __init__(self, path: Path, column: str, size: int) -> None:
        import datasets
        import pyarrow.compute as pc

        several = path / "dataset_dict.json"
        try:
            splits = json.loads(several.read_text(encoding="utf-8"))["splits"] if several.is_file() else []
            if not splits:
                parts = json.loads((path / "state.json").read_text(encoding="utf-8"))["_data_files"]
                if any(Path(part["filename"]).name != part["filename"] for part in parts):
                    raise ValueError("its parts are not in its folder")
                dataset = datasets.Dataset.load_from_disk(str(path)).with_format(None)
        except Exception as error:  # a damaged one may raise anything
            raise ValueError(f"text cannot read {path} as a saved data set: {brief(error)}") from None
        if splits:
            raise ValueError(f"{path} holds several data sets; give the folder of one: {', '.join(map(str, splits))}")
        if column not in dataset.column_names:
            raise ValueError(f"{path} has no column {column!r}; there is: {', '.join(dataset.column_names)}")
        if getattr(dataset.features[column], "dtype", None) not in ("string", "large_string"):
            raise ValueError(f"{path} has no text in its column {column!r}")  # pictures and sounds may be fetched
        self.rows, self.column, self.size = dataset.select_columns([column]), column, size
        lengths = np.concatenate(
            [pc.binary_length(chunk).fill_null(0).to_numpy() for chunk in dataset.data.column(column).chunks]
        )
        if dataset._indices is not None:
            lengths = lengths[dataset._indices.column(0).to_numpy()]
        self.ends = np.cumsum(lengths // size + (lengths % size >= 2))
        self.n_blocks = int(self.ends[-1]) if len(self.ends) else 0

    def read(self, block: int) -> bytes:
        row = int(np.searchsorted(self.ends, block, side="right"))
        first = block - (int(self.ends[row - 1]) if row else 0)
        text = self.rows[row][self.column].encode()
        return bytes(text[first * self.size : (first + 1) * self.size])
