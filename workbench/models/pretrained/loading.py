"""Models of Hugging Face from a folder on this machine or from the hub, and one clear line where that fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from workbench.models.attention import ATTENTION
from workbench.models.pretrained.attention_functions import FIELD, set_attention
from workbench.models.pretrained.checks import HIDDEN_STATES
from workbench.models.pretrained.folder import (
    LONGEST,
    check_config,
    check_folder,
    check_weights,
    field_with,
    listed_tensors,
)
from workbench.models.pretrained.gguf_file import GgufFile
from workbench.models.pretrained.model import Pretrained
from workbench.tasks.known_text import KnownText
from workbench.util.files import check_utf8
from workbench.util.messages import brief

TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
"""Files of which a folder with a tokenizer has at least one."""
DROPOUT = ("attn_pdrop", "attention_dropout")  # what configs call dropout of the attention pattern


def load_model(
    name_or_path: str | Path,
    *,
    attention: Any = None,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    progress: bool = True,
) -> Pretrained:
    """Load a causal language model, hooked, with its own tokenizer, ready for every instrument.

    Weights are read from safetensors or GGUF files only, and no code that comes with a model is run.

    Args:
        name_or_path: a folder that `save_pretrained` wrote, a file of llama.cpp (GGUF), or the name of a model on the
            Hugging Face hub. What a file holds is dequantised, and its model is named by it and its quantisation.
        attention: this library's attention in place of the model's own, as `set_attention` takes it; by default what
            the model was saved with.
        dtype: of the weights and of what is computed: `torch.bfloat16` halves the memory.
        device: where the model runs.
        progress: show Transformers' progress bar.

    Raises:
        ValueError: in one line, if there is no such model, it is not accessible, its architecture is unknown to
            Transformers or TransformerLens, it is not causal, its files are damaged, or its tokenizer does not fit.
    """
    loaded = load_causal(name_or_path, dtype=dtype, progress=progress)
    if attention is not None:
        set_attention(loaded.model, attention)
    loaded.model.to(torch.device(device))  # type: ignore[arg-type]
    model = Pretrained(loaded.model, loaded.tokenizer, loaded.name)
    model.known_text = KnownText.read(Path(name_or_path).expanduser())
    return model


def loaded(model: Pretrained | str | Path) -> Pretrained:
    """A model as it is where it is loaded already; else as `load_model` loads it, without a progress bar."""
    return model if isinstance(model, Pretrained) else load_model(model, progress=False)


@dataclass(frozen=True)
class Loaded:
    """A causal language model of Transformers with the attention it was saved with, and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    name: str

    @property
    def n_ctx(self) -> int:
        """The longest sequence in tokens; 2048 where its config does not say."""
        return int(getattr(self.model.config.get_text_config(decoder=True), "max_position_embeddings", None) or 2048)


def load_causal(
    name_or_path: str | Path, *, dtype: torch.dtype, progress: bool = True, attention_dropout: float | None = None
) -> Loaded:
    """Load a causal language model of Transformers, not hooked; arguments and errors as `load_model`.

    Args:
        attention_dropout: in place of what the model's config has, where it has such dropout; None leaves it.
    """
    name, folder = str(name_or_path), Path(name_or_path).expanduser()
    source = str(folder) if folder.exists() else name
    file = open_file(folder) if folder.is_file() else None
    config, revision = read_config(source, name, file)
    for field in DROPOUT if attention_dropout is not None else ():
        if hasattr(config, field):
            setattr(config, field, attention_dropout)
    with told(name, "its weights", config.to_dict()):
        kind, options = _what_to_load(config, dtype)
        with shown(False):
            weights = None if file is None else file.weights(kind, name, options, progress)
            if file is None:
                check_weights(kind, listed_tensors(source, revision), name, options)
        with shown(progress):
            options |= {"revision": revision, "use_safetensors": True, "trust_remote_code": False}
            model = kind.from_pretrained(source if file is None else None, state_dict=weights, **options)
    attention = getattr(model.config.get_text_config(decoder=True), FIELD, None)
    if attention is not None:
        set_attention(model, attention)
    if file is None:
        return Loaded(model, _load_tokenizer(source, revision, name), folder.name if folder.is_dir() else name)
    with told(name, "its tokenizer"):
        return Loaded(model, file.tokenizer(), file.title)


def open_file(path: Path) -> GgufFile:
    """A model in one file, of which the header alone is read yet; errors as `load_model`."""
    with told(str(path), "its header"):
        return GgufFile(path)


def read_config(source: str, name: str, file: GgufFile | None = None) -> tuple[PreTrainedConfig, str]:
    """The config of a causal language model, with its revision on the hub; errors as `load_model`."""
    if file is None:
        check_folder(name, Path(source))
    with told(name, "its config"):
        revision = check_config(source) if file is None else "main"
        if file is None:
            config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)
        else:
            config = file.config()
    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    named = config.architectures or [causal]
    if causal is None or (named[0] != causal and not str(named[0]).endswith(("ForCausalLM", "LMHeadModel"))):
        raise ValueError(
            f"{name} is no causal language model of Transformers: its architecture is {named[0] or config.model_type}; "
            f"{HIDDEN_STATES}"
        )
    for part in (config, config.get_text_config(decoder=True)):
        part.return_dict = True  # what a model gives out is read by name
    return config, revision


def _what_to_load(config: PreTrainedConfig, dtype: torch.dtype) -> tuple[type[PreTrainedModel], dict[str, Any]]:
    """The class that a config is of, and the options of its `from_pretrained`.

    A config may name an attention or experts that Transformers fetches as code from the hub: only variants of this
    library are taken from it, and all else is computed as Transformers does by default.
    """
    kind = cast(type[PreTrainedModel], MODEL_FOR_CAUSAL_LM_MAPPING[type(config)])
    text, implementation = config.get_text_config(decoder=True), config._attn_implementation
    computed = {
        "attn_implementation": implementation if implementation in ATTENTION else None,
        "experts_implementation": None,
    }
    return kind, {"config": text if type(text) is kind.config_class else config, "dtype": dtype, **computed}


def _load_tokenizer(source: str, revision: str, name: str) -> PreTrainedTokenizerBase | None:
    """A model's own tokenizer; None for a folder without one."""
    folder = Path(source)
    if folder.is_dir() and not any((folder / file).is_file() for file in TOKENIZERS):
        return None
    if folder.is_dir():
        check_utf8(folder, as_text=True)
    with told(name, "its tokenizer"):
        for file in TOKENIZERS if folder.is_dir() else ():
            if (folder / file).is_file() and (folder / file).stat().st_size > LONGEST:
                raise ValueError(f"{file} has more than {LONGEST:,} bytes")
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
        if not isinstance(longest := tokenizer.model_max_length, int | float):
            raise ValueError(f"in tokenizer_config.json model_max_length is {longest!r}, and it is a number")
        return tokenizer


@contextmanager
def shown(progress: bool) -> Iterator[None]:
    """Within this context Transformers prints no reports, and progress bars as before or none."""
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.set_verbosity_error()
    if not progress:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def told(name: str, what: str, config: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Turn what Transformers raises while it loads into one line that says what was wrong and what to do.

    A name that it looks up and does not know is told with the field of the config that has it.
    """
    try:
        yield
    except Exception as error:  # a damaged file may raise anything
        causes: list[BaseException] = [error]
        while cause := causes[-1].__cause__ or causes[-1].__context__:
            causes.append(cause)
        here = Path(name).expanduser().exists()
        if any(isinstance(cause, GatedRepoError) for cause in causes):
            reason = f"{name} is gated: accept its conditions at https://huggingface.co/{name}, then `hf auth login`"
        elif any(isinstance(cause, RepositoryNotFoundError) for cause in causes):
            reason = (
                f"there is no folder {name!r} here and no such model on the hub; a private one needs `hf auth login`"
            )
        elif isinstance(error, OSError) and not here:
            reason = (
                f"{name!r} is no folder here, and {what} could not be fetched from the hub: without network, give the "
                f"folder that save_pretrained wrote ({brief(error, 200)})"
            )
        elif "trust_remote_code" in str(error) or "does not recognize this architecture" in str(error):
            reason = f"Transformers does not know the architecture of {name}, and code that comes with it is not run"
        elif isinstance(error, KeyError) and (field := field_with(config or {}, *error.args[:1])):
            reason = f"{name}: by its config.json {field} is {error}, which Transformers does not know"
        elif "conversion of the weights" in str(error):
            reason = (
                f"{name}: cannot read {what}: tensors that the model puts together, such as its experts', do not fit "
                "each other, as one is missing or of another shape; get the model anew, or save it by save_pretrained"
            )
        else:
            reason = f"{name}: cannot read {what}: {brief(error, 300)}"
        raise ValueError(brief(reason)) from None
