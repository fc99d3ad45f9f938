"""Models of Hugging Face from a folder on this machine or from the hub, and one clear line where that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from workbench.models.pretrained.attention_functions import FIELD, set_attention
from workbench.models.pretrained.model import Pretrained
from workbench.tasks.known_text import KnownText
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

    Weights are read from safetensors files only, and no code that comes with a model is run.

    Args:
        name_or_path: a folder that `save_pretrained` wrote, or the name of a model on the Hugging Face hub.
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
    check_folder(name, folder)
    source = str(folder) if folder.is_dir() else name
    with told(name, "its config"):
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    check_architecture(config, name)
    for field in DROPOUT if attention_dropout is not None else ():
        if hasattr(config, field):
            setattr(config, field, attention_dropout)
    with told(name, "its weights"), shown(progress):
        model = AutoModelForCausalLM.from_pretrained(
            source, config=config, dtype=dtype, use_safetensors=True, trust_remote_code=False
        )
    attention = getattr(model.config.get_text_config(decoder=True), FIELD, None)
    if attention is not None:
        set_attention(model, attention)
    return Loaded(model, load_tokenizer(source, name), folder.name if folder.is_dir() else name)


def check_folder(name: str, folder: Path) -> None:
    """Raise ValueError if this is a folder without a model, or looks like one that is not there."""
    if name.strip() and folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ValueError(f"{name} holds no model of Hugging Face: there is no config.json in it")
    elif folder.is_file():
        raise ValueError(f"{name} is a file: give the folder that save_pretrained wrote")
    elif name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise ValueError(f"there is no folder {name!r}")


def check_architecture(config: Any, name: str) -> None:
    """Raise ValueError unless this is the config of a causal language model."""
    causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type)
    named = config.architectures or [causal]
    if causal is None or (named[0] != causal and not str(named[0]).endswith(("ForCausalLM", "LMHeadModel"))):
        raise ValueError(
            f"{name} is no causal language model of Transformers: its architecture is {named[0] or config.model_type}"
        )


def load_tokenizer(source: str, name: str) -> PreTrainedTokenizerBase | None:
    """A model's own tokenizer; None for a folder without one."""
    folder = Path(source)
    if folder.is_dir() and not any((folder / file).is_file() for file in TOKENIZERS):
        return None
    with told(name, "its tokenizer"):
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)


@contextmanager
def shown(progress: bool) -> Iterator[None]:
    """Transformers' progress bars within this context: as they are, or none."""
    before = logging.is_progress_bar_enabled()
    if not progress:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


@contextmanager
def told(name: str, what: str) -> Iterator[None]:
    """Turn what Transformers raises while it loads into one line that says what was wrong and what to do."""
    try:
        yield
    except Exception as error:  # a damaged file may raise anything
        causes = list(chain(error))
        folder = Path(name).expanduser().is_dir()
        if any(isinstance(cause, GatedRepoError) for cause in causes):
            reason = f"{name} is gated: accept its conditions at https://huggingface.co/{name}, then `hf auth login`"
        elif any(isinstance(cause, RepositoryNotFoundError) for cause in causes):
            reason = (
                f"there is no folder {name!r} here and no such model on the hub; a private one needs `hf auth login`"
            )
        elif isinstance(error, OSError) and not folder:
            reason = (
                f"{name!r} is no folder here, and {what} could not be fetched from the hub: without network, give the "
                f"folder that save_pretrained wrote ({brief(error, 200)})"
            )
        elif "trust_remote_code" in str(error) or "does not recognize this architecture" in str(error):
            reason = f"Transformers does not know the architecture of {name}, and code that comes with it is not run"
        else:
            reason = f"{name}: cannot read {what}: {brief(error, 300)}"
        raise ValueError(brief(reason)) from None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and all that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
