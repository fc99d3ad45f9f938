"""A run, or a model that `workbench finetune` wrote, as a folder of Hugging Face that Transformers loads by itself.

    AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)

The code in the folder is a few lines that import this package. Weights are one safetensors file.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from workbench.models import Decoder
from workbench.runs import CONFIG, LONGEST_CONFIG, Run, load_run
from workbench.sharing.contents import README
from workbench.util.files import check_free, check_utf8, new_folder, read_object

MODELLING = "modeling_workbench"
CODE = f"{MODELLING}.py"
"""The module of a folder's code, and its file."""
COPIED = (
    "*.safetensors",
    "*.safetensors.index.json",
    "generation_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.*",
    "merges.txt",
)
"""What is taken from a folder of Hugging Face besides its config."""
MISSING = (
    "this model needs the Python package interp-workbench (imported as workbench), which is not installed: "
    "in a copy of its source, `pip install .`"
)
HEAD = f'''"""This model's code is the package `workbench`; this file only names it."""

try:
    from workbench.models.pretrained import exported
except ImportError:
    raise ImportError({MISSING!r}) from None
'''
OF_A_RUN = """

class WorkbenchConfig(exported.WorkbenchConfig):
    pass


class WorkbenchForCausalLM(exported.WorkbenchForCausalLM):
    config_class = WorkbenchConfig
"""
OF_A_MODEL = """
import transformers


class {name}(exported.SavedAttention, transformers.{name}):
    pass
"""
CARD = """---
library_name: transformers
tags: [workbench]
---

It needs the Python package `interp-workbench`, whose attention it has.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{place}", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("{place}")
```
"""


def export_hugging_face(source: Run | str | Path, out: str | Path, *, repo_id: str | None = None) -> Path:
    """Write a run, or a Hugging Face folder with this library's attention, as a folder that Transformers loads.

    Its logits are exactly those of the run's model, or of the model with its attention.

    Args:
        source: a run or its folder, or a folder that `workbench finetune` or `set_attention` and `save_pretrained`
            wrote.
        out: the folder to make; it must not exist yet, or be empty.
        repo_id: the repository that the model card says to load from.

    Raises:
        ValueError: in one line, if there is no such model, the run is not finished or its model is one of one's own,
            or `out` is taken or ends in .zip.
    """
    out = Path(out)
    if out.suffix.lower() == ".zip":
        raise ValueError(f"{out} would be a folder, since Transformers loads no zip: leave .zip out")
    check_free(out)
    check_utf8(out, as_text=True)
    of_hugging_face = not isinstance(source, Run) and is_hugging_face(Path(source))
    with new_folder(out) as folder:
        if of_hugging_face:
            _write_model(Path(str(source)), folder)
        else:
            _write_run(load_run(source), folder)
        (folder / README).write_text(CARD.format(place=repo_id or "PATH"), encoding="utf-8")
    return out


def is_hugging_face(path: Path) -> bool:
    """Whether a folder holds a model of Hugging Face, and no run."""
    try:
        config = read_object(path / CONFIG, LONGEST_CONFIG)
    except (ValueError, OSError):
        return False
    return "model_type" in config and "format" not in config


def _write_run(run: Run, folder: Path) -> None:
    """A run's decoder, and its task's words where there is a tokenizer of them."""
    if not run.finished:
        raise ValueError(f"{run.path} is not finished; `workbench resume {run.path}` first, then export it")
    decoder = run.model()
    if not isinstance(decoder, Decoder):
        raise ValueError(f"{run.path} holds a model of your own, which only its own code can write for Hugging Face")
    from workbench.models.pretrained.exported import WorkbenchConfig, WorkbenchForCausalLM
    from workbench.models.pretrained.loading import shown

    model = WorkbenchForCausalLM(WorkbenchConfig(decoder.config, dtype=run.config.dtype))
    model.decoder.to(run.config.dtype).load_state_dict(decoder.state_dict())
    names = {"AutoConfig": "WorkbenchConfig", "AutoModelForCausalLM": "WorkbenchForCausalLM"}
    model.config.auto_map = {auto: f"{MODELLING}.{name}" for auto, name in names.items()}
    task = run.task()
    model.config.pad_token_id = model.generation_config.pad_token_id = task.pad if task.pad >= 0 else None
    with shown(False):
        model.save_pretrained(folder)
    task.fast_tokenizer().save_pretrained(folder)
    if task.known_text is not None:
        task.known_text.save(folder)
    (folder / CODE).write_text(HEAD + OF_A_RUN, encoding="utf-8")


def _write_model(source: Path, folder: Path) -> None:
    """The files of a model of Hugging Face, with the code that gives it its attention."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    from workbench.models.pretrained.attention_functions import FIELD
    from workbench.models.pretrained.folder import listed_tensors
    from workbench.models.pretrained.loading import read_config, told

    read, revision = read_config(str(source), str(source))
    if getattr(read.get_text_config(decoder=True), FIELD, None) is None:
        raise ValueError(f"{source} has its own attention: it is an ordinary folder of Hugging Face as it is")
    with told(str(source), "its weights"):
        listed_tensors(str(source), revision)
    name = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[read.model_type]
    config = read_object(source / CONFIG, LONGEST_CONFIG)
    config |= {"architectures": [name], "auto_map": {"AutoModelForCausalLM": f"{MODELLING}.{name}"}}
    for file in (file for pattern in COPIED for file in source.glob(pattern)):
        shutil.copyfile(file, folder / file.name)
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / CODE).write_text(HEAD + OF_A_MODEL.format(name=name), encoding="utf-8")
