"""The files of a Hugging Face model, which a stranger may have made: checked before memory is taken for them.

Names come first, then the headers of the weights, then the model without memory, with which every tensor is compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import PreTrainedModel
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from workbench.util.files import check_contents, read_object, read_shapes
from workbench.util.memory import check_memory
from workbench.util.messages import Notice, brief

CONFIG, ADAPTER = "config.json", "adapter_config.json"
MERGE = "merge it into its model by peft's merge_and_unload, and give the folder that save_pretrained then writes"
LONGEST = 2**27  # bytes of a config, an index or a tokenizer's file; the largest tokenizers have 2**25
MOST_LAYERS, MOST_PARAMETERS = 100_000, 10_000  # the second of a model whose files have fewer tensors
ELSEWHERE = {
    "transformers_weights": "names other files of weights",
    "fusion_config": "exchanges parts of the model",
    "quantization_config": "says that its weights are quantized: they are not the numbers that it computes with",
}
"""Fields of a config by which weights are not read as they stand, and what a config with them does."""
BESIDE = ("generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
FLOATS = ("F64", "F32", "F16", "BF16")  # as safetensors calls them

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
"""Name -> dtype and shape."""


def check_folder(name: str, folder: Path) -> None:
    """Raise ValueError unless a folder holds a model and nothing leads out of it, or this may be a name on the hub.

    The small files of JSON beside the config are objects: Transformers says nothing that helps where one is none.
    """
    if name.strip() and folder.is_dir():
        if not (folder / CONFIG).is_file():
            hint = f", but an adapter: {MERGE}" if (folder / ADAPTER).is_file() else ""
            if file := next(iter(sorted(folder.glob("*.gguf"))), None):
                hint = f"; give the file of its model itself, such as {file}"
            raise ValueError(f"{name} holds no model of Hugging Face: there is no {CONFIG} in it{hint}")
        snapshots = folder.resolve().parent
        blobs = snapshots.parent / "blobs"  # in the hub's cache, what the files of each snapshot are links to
        cached = snapshots.name == "snapshots" and not blobs.is_symlink()
        check_contents(folder, *([blobs] if cached else []))
        for path in (folder / file for file in BESIDE):
            if path.is_file():
                read_object(path, LONGEST)
    elif folder.is_file():
        raise ValueError(f"{name} is a file: give the folder that save_pretrained wrote")
    elif name.endswith(".gguf"):
        raise ValueError(f"there is no file {name!r}")
    elif name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise ValueError(f"there is no folder {name!r}")


def _fetch(source: str, file: str, revision: str = "main") -> Path | None:
    """The path of one of a model's files, in its folder or fetched from the hub; None if it has none.

    Raises:
        OSError: if the config of a model on the hub cannot be fetched.
    """
    if Path(source).is_dir():
        path = Path(source, file)
        return path if path.is_file() else None
    try:
        return Path(hf_hub_download(source, file, revision=revision))
    except EntryNotFoundError:
        if file == CONFIG:
            raise
        return None


def check_config(source: str) -> str:
    """Check what a model's config holds before Transformers makes anything of it; returns the model's revision.

    Raises:
        ValueError: if it is damaged, has more layers than any model, or does not read the weights as they stand.
        OSError: if it cannot be fetched.
    """
    path = _fetch(source, CONFIG)
    assert path is not None  # `check_folder` comes first
    fields = read_object(path, LONGEST)
    if "model_type" not in fields and {"format", "task", "objectives"} <= set(fields):
        raise ValueError(f"it is a run folder, whose model is load_run({source!r}).hooked()")
    _check_fields(fields)
    return "main" if Path(source).is_dir() else path.parent.name  # a folder of the hub's cache has that name


def _check_fields(fields: Mapping[str, Any]) -> None:
    """Raise ValueError as `check_config`, for what a config or a part of it holds."""
    for field, value in fields.items():
        if value and field in ELSEWHERE:
            raise ValueError(
                f"it {ELSEWHERE[field]} ({field}); load the model by Transformers, and save it without by "
                "save_pretrained"
            )
        many = isinstance(value, int | float) and value > MOST_LAYERS
        if many and ("layer" in field or field == "num_labels"):  # of which Transformers makes lists at once
            raise ValueError(f"{field} is {value:,}, and no model has more than {MOST_LAYERS:,}")
        named = isinstance(value, str) and field in ("dtype", "torch_dtype")
        if named and not isinstance(getattr(torch, value, None), torch.dtype):
            raise ValueError(f"{field} is {value!r}, which is no type of PyTorch, such as float32 or bfloat16")
        if field == "architectures" and not (value is None or isinstance(value, list)):
            raise ValueError(f"{field} is {value!r}, and it is a list of names")
        if isinstance(value, Mapping):
            _check_fields(value)


def field_with(fields: Mapping[str, Any], value: object) -> str | None:
    """The name of the field that has this value, such as `rope_parameters.rope_type`; None where none has."""
    for field, entry in fields.items():
        if entry == value:
            return field
        if isinstance(entry, Mapping) and (inner := field_with(entry, value)):
            return f"{field}.{inner}"
    return None


def listed_tensors(source: str, revision: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The dtype and shape of each tensor in a model's weight files, from their headers alone.

    Raises:
        ValueError: if an adapter lies beside the weights, they are not in safetensors files beside the config, a file
            is missing or damaged, or two have the same tensor.
    """
    if _fetch(source, ADAPTER, revision) is not None:
        raise ValueError(f"an adapter lies beside them ({ADAPTER}), which is not applied here; {MERGE}")
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    files = [SAFE_WEIGHTS_NAME]
    if _fetch(source, SAFE_WEIGHTS_NAME, revision) is None:
        index = _fetch(source, SAFE_WEIGHTS_INDEX_NAME, revision)
        if index is None:
            raise ValueError(
                f"there is no {SAFE_WEIGHTS_NAME}, and no {SAFE_WEIGHTS_INDEX_NAME} that lists several; load the model "
                "by Transformers, and save it by save_pretrained"
            )
        about = read_object(index, LONGEST)
        parts = about.get("weight_map")
        if not isinstance(parts, dict) or not isinstance(about.get("metadata"), dict):
            raise ValueError(f"{index} is damaged: it has no weight_map and metadata; get the model anew")
        files = sorted(set(map(str, parts.values())))
        for file in files:
            if Path(file).name != file or not file.endswith(".safetensors"):
                raise ValueError(f"{index} names {file!r}, and only files *.safetensors beside it are read")
    for file in files:
        path = _fetch(source, file, revision)
        if path is None:
            raise ValueError(f"there is no {file}, which is a part of them; get the model anew")
        listed = read_shapes(path)
        if twice := sorted(listed.keys() & tensors.keys()):
            raise ValueError(f"{twice[0]} is in {file} and in another file too; get the model anew")
        tensors |= listed
    return tensors


def check_weights(kind: type[PreTrainedModel], tensors: Tensors, name: str, options: dict[str, Any]) -> None:
    """Compare a model without memory with the tensors of its files; warn of those that it has no place for.

    Args:
        kind: the class of the model.
        tensors: those in its files.
        name: what to call it.
        options: of `from_pretrained`; its config and dtype among them.

    Raises:
        ValueError: if a tensor is missing, has another shape or is no floating-point numbers, or the model needs more
            memory than there is.
    """
    empty = {tensor: torch.empty(shape, device="meta") for tensor, (_, shape) in tensors.items()}
    model, info = without_memory(kind, empty, len(tensors), options)
    for tensor, got, want in sorted(info["mismatched_keys"]):
        raise ValueError(f"by its config {tensor} should be {list(want)}, and it is {list(got)}")
    if missing := info["missing_keys"]:
        raise ValueError(
            f"none of its files holds {_some(missing)}, which would be random numbers; get the model anew, or save it "
            "by save_pretrained"
        )
    others = {dtype for dtype, _ in tensors.values() if dtype not in FLOATS}
    if others:  # masks and positions of old files, which the model does not take, or quantized weights
        numbers = {tensor: x for tensor, x in empty.items() if tensors[tensor][0] in FLOATS}
        rest = without_memory(kind, numbers, len(tensors), options)[1]["missing_keys"]
        counts = {buffer for buffer, values in model.named_buffers() if not values.is_floating_point()}
        if raw := set(rest) - counts:
            raise ValueError(
                f"what its files hold of {_some(raw)} is of type {', '.join(sorted(others))}: quantized numbers are "
                "not those that a model computes with; load it by what quantized it, and save it in floating point"
            )
    check_memory(sum(x.numel() * x.element_size() for x in (*model.parameters(), *model.buffers())), "the model")
    if unexpected := info["unexpected_keys"]:
        left = f"{name}: left out of its files, as no part of {kind.__name__}: {_some(unexpected)}"
        warnings.warn(brief(left), Notice, stacklevel=2)


def without_memory(
    kind: type[PreTrainedModel], state: dict[str, torch.Tensor], n_tensors: int, options: dict[str, Any]
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A model that takes no memory, and which tensors it misses, has no place for or has in another shape.

    Args:
        kind, options: its class, and of `from_pretrained`, its config among them.
        state: its tensors, which take none either.
        n_tensors: in its files. Raises ValueError if by its config it has many times as many.
    """
    from_pretrained: Any = kind.from_pretrained  # its types do not say what `output_loading_info` adds
    how = {"device_map": "meta", "ignore_mismatched_sizes": True, "output_loading_info": True, **options}
    made, most, thread = 0, max(MOST_PARAMETERS, 4 * n_tensors), get_ident()

    def count(*_: Any) -> None:
        nonlocal made
        made += get_ident() == thread
        if made > most:
            raise ValueError(f"by its config it has more than {most:,} tensors, and its files do not")

    counting = register_module_parameter_registration_hook(count)
    try:
        loaded: tuple[PreTrainedModel, dict[str, Any]] = from_pretrained(None, state_dict=state, **how)
        return loaded
    finally:
        counting.remove()


def _some(names: Collection[str]) -> str:
    """The first three names, and how many there are beside them."""
    first = ", ".join(sorted(names)[:3])
    return first if len(names) < 4 else f"{first} and {len(names) - 3:,} more"
