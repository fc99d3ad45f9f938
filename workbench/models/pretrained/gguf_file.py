"""A model in one file of llama.cpp (GGUF): its numbers dequantised, and the tokenizer that the file holds.

The header is read here, before memory is taken; Transformers makes the config and the tokenizer of copies of its parts,
and knows what each tensor is called. Given the file itself it reads every word of the vocabulary three times, and sets
up its table of names once for every module: half a minute for a small model, most of which this saves.
"""

from __future__ import annotations

import json
import mmap
import re
import struct
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from workbench.models.pretrained.folder import FLOATS, LONGEST, MOST_LAYERS, check_weights, without_memory
from workbench.util.distribution import needs
from workbench.util.memory import check_memory
from workbench.util.messages import harmless

MAGIC, VERSIONS = b"GGUF", (2, 3)
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
"""Types of values: how numbers are packed, and two more."""
MOST_DIMENSIONS = 4  # as in llama.cpp
ALIGNMENT = 32  # bytes, where a file does not say
ROWS = {"token_embd.weight": "vocab_size", "position_embd.weight": "max_position_embeddings"}
"""What the rows of a tensor are, which the header need not say, or Transformers does not read from it."""
HEADER = "model.gguf"  # the copy of a part of it


class Stored(NamedTuple):
    """Where the numbers of a tensor lie in the file: their type, shape (rows first), first byte, and how many bytes."""

    kind: Any  # gguf.GGMLQuantizationType
    shape: tuple[int, ...]
    start: int
    size: int


class _Cursor:
    """A place in a header. Raises ValueError where its bytes end too soon."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def skip(self, n: int) -> int:
        """Go on by some bytes; returns where they begin."""
        if n > len(self.data) - self.at:
            raise ValueError("the file ends in the middle of it; get the file anew")
        if n > LONGEST - self.at:
            raise ValueError(f"it has more than {LONGEST:,} bytes, as no model's has; get the file anew")
        self.at += n
        return self.at - n

    def number(self, packed: str) -> Any:
        return struct.unpack_from(f"<{packed}", self.data, self.skip(struct.calcsize(packed)))[0]

    def string(self) -> str:
        start = self.skip(self.number("Q"))
        return self.data[start : self.at].decode()

    def value(self, kind: int) -> Any:
        """A number, a string, or how many values an array has."""
        if kind == STRING:
            return self.string()
        of, n = (self.number("I"), self.number("Q")) if kind == ARRAY else (kind, 1)
        if of not in (*NUMBERS, STRING):
            raise ValueError(f"it has a value of type {of}, and GGUF has none such; get the file anew")
        if kind != ARRAY:
            return self.number(NUMBERS[of])
        if of == STRING:
            for _ in range(n):
                self.skip(self.number("Q"))
        else:
            self.skip(n * struct.calcsize(NUMBERS[of]))
        return n


class GgufFile:
    """A GGUF file whose header fits its size.

    Attributes:
        fields: of the header: numbers and strings, and of an array how many values it has.
        tensors: where each tensor is.

    Args:
        path: the file.

    Raises:
        ValueError: if the package gguf is missing; or the file is none, a part of one, or damaged.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ValueError("it is a file, but no GGUF file: give one, or the folder that save_pretrained wrote")
            needs("gguf", "reading a GGUF file")
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.path, cursor = path, _Cursor(self._data)
        cursor.skip(len(MAGIC))
        self._version, n_tensors, n_fields = (cursor.number(packed) for packed in "IQQ")
        if self._version not in VERSIONS:
            raise ValueError(f"it is of version {self._version}; this reads 2 and 3, lowest byte first")
        self.fields: dict[str, Any] = {}
        self._parts: list[tuple[str, int, int, int]] = []  # of each field its name, where it, its value and it ends
        for _ in range(n_fields):
            start, key, at = cursor.at, cursor.string(), cursor.at
            self.fields[key] = cursor.value(cursor.number("I"))
            self._parts.append((key, start, at, cursor.at))
        kind, n_files = self.fields.get("general.type", "model"), self.fields.get("split.count", 1)
        if kind != "model":
            raise ValueError(f"it holds no model, but: {kind}; an adapter is merged by llama.cpp's llama-export-lora")
        if n_files != 1:
            raise ValueError(f"it is one of {n_files} files; make one of them by llama.cpp's llama-gguf-split --merge")
        if not isinstance(self.architecture, str):
            raise ValueError("it does not say which architecture the model has (general.architecture)")
        self.tensors = self._read_table(cursor, n_tensors)

    def _read_table(self, cursor: _Cursor, n_tensors: int) -> dict[str, Stored]:
        """Where each tensor is. Raises ValueError unless it is one that lies within the file."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        table = []
        for _ in range(n_tensors):
            name, n = cursor.string(), cursor.number("I")
            if n > MOST_DIMENSIONS:
                raise ValueError(f"{harmless(name)} has {n} dimensions, and none has more than {MOST_DIMENSIONS}")
            table.append((name, [cursor.number("Q") for _ in range(n)], cursor.number("I"), cursor.number("Q")))
        alignment = self.fields.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"by general.alignment tensors begin at multiples of {alignment!r}")
        first, tensors = -(-cursor.at // alignment) * alignment, dict[str, Stored]()
        for name, columns_first, number, offset in table:
            if number not in list(GGMLQuantizationType):
                raise ValueError(f"{harmless(name)} is of type {number}, unknown to the package gguf; renew it")
            kind, shape = GGMLQuantizationType(number), tuple(reversed(columns_first))
            together, size = GGML_QUANT_SIZES[kind]
            if shape and shape[-1] % together:
                raise ValueError(f"{harmless(name)} is {list(shape)}, and {kind.name} has {together} columns together")
            stored = Stored(kind, shape, first + offset, prod(shape) // together * size)
            if stored.start + stored.size > len(self._data):
                raise ValueError(f"the file ends before the end of {harmless(name)}; get it anew")
            if tensors.setdefault(name, stored) is not stored:
                raise ValueError(f"{harmless(name)} is in it twice; get the file anew")
        return tensors

    @property
    def architecture(self) -> Any:
        """What llama.cpp calls the model's architecture."""
        return self.fields.get("general.architecture")

    @property
    def title(self) -> str:
        """The name of the file, and beside it the quantisation that most of its numbers had, if they had any."""
        numbers: dict[str, int] = {}
        for stored in self.tensors.values():
            numbers[stored.kind.name] = numbers.get(stored.kind.name, 0) + prod(stored.shape)
        most = max(numbers, key=lambda kind: numbers[kind], default=FLOATS[0])
        return self.path.name if most in FLOATS else f"{self.path.name} ({most}, dequantised)"

    def config(self) -> PreTrainedConfig:
        """The model's config. Raises ValueError if Transformers does not read its architecture from such a file."""
        from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

        known = {re.sub("[-_]", "", name) for name in GGUF_SUPPORTED_ARCHITECTURES}  # qwen3_moe, which is qwen3moe
        if re.sub("[-_]", "", self.architecture) not in known:
            raise ValueError(
                f"Transformers does not read {harmless(self.architecture)} from a GGUF file; give the folder of the "
                "model that save_pretrained wrote"
            )
        layers = self.fields.get(f"{self.architecture}.block_count", 0)
        if not isinstance(layers, int) or layers > MOST_LAYERS:  # of which Transformers makes lists at once
            raise ValueError(f"block_count is {layers!r}, and no model has more than {MOST_LAYERS:,} layers")
        with TemporaryDirectory() as folder:
            Path(folder, HEADER).write_bytes(self._without_words())
            config = AutoConfig.from_pretrained(folder, gguf_file=HEADER)
        config.name_or_path = ""
        for key, field in ROWS.items():
            if key in self.tensors and self.tensors[key].shape:
                setattr(config.get_text_config(decoder=True), field, self.tensors[key].shape[0])
        scaling = self.fields.get(f"{self.architecture}.rope.scaling.type", "none")
        rope = getattr(config, "rope_parameters", None) or {}
        if scaling != "none" and rope.get("rope_type", "default") == "default":
            raise ValueError(f"its positions are scaled ({scaling}), which Transformers does not read from a GGUF file")
        return config

    def _without_words(self) -> bytes:
        """The same header, where arrays of the tokenizer are empty, and each tensor is one number."""
        fields = []
        for key, start, at, end in self._parts:
            of_type = self._data[at : at + 4]
            if key.startswith("tokenizer.") and of_type == struct.pack("<I", ARRAY):
                fields.append(self._data[start : at + 8] + struct.pack("<Q", 0))
            elif key != "general.alignment":
                fields.append(self._data[start:end])
        names = [name.encode() for name in self.tensors]
        table = [struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 1, 0, 0) for name in names]
        head = MAGIC + struct.pack("<IQQ", self._version, len(table), len(fields)) + b"".join([*fields, *table])
        return head + bytes(-len(head) % ALIGNMENT + 4)

    def tokenizer(self) -> PreTrainedTokenizerBase | None:
        """The tokenizer that the file holds; None where it holds none."""
        if self.fields.get("tokenizer.ggml.model", "none") in ("none", "no_vocab"):
            return None
        start, end = self._parts[0][1], self._parts[-1][-1]
        with TemporaryDirectory() as folder:
            head = MAGIC + struct.pack("<IQQ", self._version, 0, len(self._parts))
            Path(folder, HEADER).write_bytes(head + self._data[start:end])
            made = PreTrainedTokenizerFast.from_pretrained(folder, gguf_file=HEADER)
        made.name_or_path = ""
        n_tokens = self.fields.get("tokenizer.ggml.tokens", 0)
        if len(made) > n_tokens:  # Transformers adds GPT-2's end of text to a vocabulary without one, as Llama 3's
            whole = json.loads(made.backend_tokenizer.to_str())
            whole["added_tokens"] = [token for token in whole["added_tokens"] if token["id"] < n_tokens]
            made._tokenizer = Tokenizer.from_str(json.dumps(whole))
        return made

    def weights(
        self, kind: type[PreTrainedModel], name: str, options: dict[str, Any], progress: bool
    ) -> dict[str, Tensor]:
        """The weights, dequantised, as `check_weights` lets them pass.

        Args:
            kind, options: the class of the model, and of `from_pretrained`.
            name: what to call the model.
            progress: show a progress bar.

        Raises:
            ValueError: if there is less memory than they need, their type cannot be dequantised, or as `check_weights`.
        """
        from gguf import dequantize
        from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor, get_gguf_hf_weights_map

        config, dtype = options["config"], options["dtype"]
        check_memory(sum(prod(stored.shape) for stored in self.tensors.values()) * dtype.itemsize, "the model")
        processor = TENSOR_PROCESSORS.get(self.architecture, TensorProcessor)(config=config.to_dict())
        model, _ = without_memory(kind, {}, len(self.tensors), options)
        names = get_gguf_hf_weights_map(
            _names_of(model, 1), processor, model_type=self.architecture, num_layers=config.num_hidden_layers
        )
        weights: dict[str, Tensor] = {}
        left_out: dict[str, tuple[str, tuple[int, ...]]] = {}
        for key, stored in tqdm(self.tensors.items(), "Dequantising weights", disable=not progress):
            row = stored.size // max(prod(stored.shape[:-1]), 1)
            raw = np.frombuffer(self._data, np.uint8, stored.size, stored.start).reshape(*stored.shape[:-1], row)
            given = {"tensor_key_mapping": names, "parsed_parameters": {"tensors": weights}}
            numbers, known, _ = processor.process(weights=dequantize(raw, stored.kind), name=key, **given)
            if known in names:
                weights[names[known]] = torch.from_numpy(np.array(numbers, order="C")).to(dtype)
            elif known is not None:
                left_out[key] = ("F32", stored.shape)
            if known not in names and "rope_f" in key and (numbers != 1).any():
                raise ValueError(f"its positions are scaled ({key}), which Transformers does not read from a GGUF file")
        check_weights(kind, {k: ("F32", tuple(x.shape)) for k, x in weights.items()} | left_out, name, options)
        return weights


def _names_of(module: nn.Module, depth: int) -> Any:
    """What Transformers asks a model for its tensors' names; of the modules in it too, to a depth."""
    children = [(name, _names_of(child, depth - 1)) for name, child in module.named_children()] if depth else []
    return SimpleNamespace(state_dict=module.state_dict, named_children=lambda: children)
