"""What decides a fine-tuning, and how a folder that is fine-tuned is opened."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, field_validator, model_validator
from safetensors import safe_open

from workbench import runs
from workbench.runs.model_run import FINETUNE
from workbench.util.files import read_object
from workbench.util.strict_settings import Checked, checked

BEFORE, EXCHANGED, AFTER = "before", "exchanged", "after"  # when perplexity is measured
LOSSES = "held_out.json"  # of each sequence that is held out, after training
LONGEST = 2**20  # bytes of the config
STANDARD, CONTROL = "standard", "-control"  # the variant of a control, and the end of its folder's name
BESIDE = {"device", "log_every", "eval_every", "save_every"}  # settings that decide no weight


class FinetuneConfig(Checked):
    """Every setting of a fine-tuning. Raises ValueError if one is unknown or out of range."""

    model: str = Field(description="the folder or name of the model to begin with")
    text: str | None = Field(None, description="a text file in UTF-8")
    task: dict[str, Any] | None = Field(None, description="in place of a text: a task's name and settings")
    attention: dict[str, Any] = Field(description="the variant to train with and its settings")
    layers: tuple[int, ...] | None = Field(None, description="the layers that get it; by default all")
    steps: int = Field(1000, ge=1, le=10**9, description="optimizer steps")
    batch_size: int = Field(8, ge=1, le=2**20, description="sequences in a step")
    length: int | None = Field(None, ge=2, le=2**20, description="tokens in a sequence; by default 256, or the context")
    learning_rate: float = Field(5e-5, gt=0, description="the highest learning rate")
    warmup: int = Field(0, ge=0, description="steps over which the learning rate rises")
    schedule: Literal["cosine", "constant"] = Field("cosine", description="how it then falls")
    weight_decay: float = Field(0.01, ge=0, description="of AdamW")
    clip: float = Field(1.0, gt=0, description="the largest norm of the gradient")
    gamma_warmup: int = Field(0, ge=0, description="steps over which gamma rises from 0")
    gamma_learned: Literal["layer", "head"] | None = Field(None, description="learn a gamma of each layer or head")
    gamma_learning_rate: float = Field(0.02, gt=0, description="the highest learning rate of learned gammas")
    seq_vcr: dict[str, Any] | None = Field(None, description="settings of Seq-VCR, such as its layer and projection")
    device: str = Field("cpu", description="where it trains: auto, cpu, cuda, mps")
    seed: int = Field(0, description="of the order of the data, and of dropout")
    eval_size: int = Field(64, ge=1, description="the most sequences that perplexity is measured on")
    log_every: int = Field(10, ge=1, description="steps between lines of the log")
    eval_every: int = Field(200, ge=1, description="steps between measurements of perplexity")
    save_every: int = Field(200, ge=1, description="steps between saved states")
    digest: str = Field("", description="SHA-256 of what decides the data, against data that changed")
    model_digest: str = Field("", description="SHA-256 of the weights in the model's folder, against another model")

    @staticmethod
    def read(folder: Path) -> FinetuneConfig:
        """The config of a folder that is, or was, fine-tuned. Raises ValueError in one line if there is none."""
        path = folder / FINETUNE
        return checked(FinetuneConfig, read_object(path, LONGEST), f"{path} is not the config of a fine-tuning: ")

    @field_validator("attention", mode="before")
    @classmethod
    def _a_name_is_a_variant(cls, value: Any) -> Any:
        return {"variant": value} if isinstance(value, str) else value

    @field_validator("seq_vcr", mode="before")
    @classmethod
    def _a_number_is_a_layer(cls, value: Any) -> Any:
        return {"layer": value} if isinstance(value, int) else value

    @model_validator(mode="after")
    def _fits_together(self) -> FinetuneConfig:
        if (self.text is None) == (self.task is None):
            raise ValueError("give a text or a task to train on, one of the two")
        if self.task is not None and self.length is not None and not self.digest:
            raise ValueError("length cuts a text; how long its sequences are is the task's own setting")
        if self.gamma_learned is not None and self.gamma_warmup:
            raise ValueError("gamma is learned or raised by a schedule (gamma_warmup), not both")
        if self.gamma_learned is not None and self.attention.get("variant") != "chacal":
            raise ValueError(f"gamma is learned of chacal, not of {self.attention.get('variant')}")
        if self.gamma_warmup and not isinstance(self.attention.get("gamma"), int | float):
            raise ValueError("gamma_warmup raises gamma from 0 to a value, and none was given: give gamma too")
        if self.gamma_warmup > self.steps:
            raise ValueError(f"gamma rises over {self.gamma_warmup} steps, and there are {self.steps}")
        return self

    def in_full(self) -> FinetuneConfig:
        """The same, with paths on this machine in full, so that training is resumed from any folder."""
        places = {"model": self.model, "text": self.text}
        paths = {name: Path(place).expanduser() for name, place in places.items() if place is not None}
        in_full = {name: str(path.resolve()) for name, path in paths.items() if path.exists()}
        return self.model_copy(update=in_full)  # a name on the hub stays as it is

    @property
    def is_variant(self) -> bool:
        """Whether the model gets another attention than the standard one."""
        return self.attention.get("variant") != STANDARD

    def control(self) -> FinetuneConfig:
        """The same steps on the same data with standard attention: what training alone makes of the model."""
        of_variants = {"layers": None, "gamma_warmup": 0, "gamma_learned": None, "gamma_learning_rate": 0.02}
        return self.model_copy(update={"attention": {"variant": STANDARD}, **of_variants})

    def same_training(self, other: FinetuneConfig) -> bool:
        """Whether both come to the same weights: they differ in how often something is logged or saved at most."""
        return self.model_dump(exclude=BESIDE) == other.model_dump(exclude=BESIDE)

    def attention_at(self, step: int) -> dict[str, Any]:
        """The variant and its settings in the step that follows `step` finished ones: γ · min(1, step / gamma_warmup).

        Without `gamma_warmup`, they are the same in every step.
        """
        if step >= self.gamma_warmup:
            return self.attention
        return {**self.attention, "gamma": self.attention["gamma"] * step / self.gamma_warmup}


def digest_of_weights(model: str) -> str:
    """SHA-256 of the names and numbers of the weights in a folder, or of a file; empty for a name on the hub."""
    if Path(model).expanduser().is_file():
        with Path(model).expanduser().open("rb") as whole:
            return hashlib.file_digest(whole, "sha256").hexdigest()
    digest, files = hashlib.sha256(), sorted(Path(model).expanduser().glob("*.safetensors"))
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in sorted(tensors.keys()):
                numbers = tensors.get_tensor(name).contiguous().reshape(-1).view(torch.uint8)
                digest.update(name.encode() + numbers.numpy().tobytes())
    return digest.hexdigest() if files else ""


@dataclass(frozen=True)
class Finetuned:
    """A folder that was fine-tuned.

    Attributes:
        path: the folder.
        config: what it was made with.
        step: how many steps are done.
        finished: whether all are.
        perplexity: `before`, with the model's own attention; `exchanged`, directly after the exchange; `after`
            training, once it is finished.
        accuracy: of a task the same, for the share of answer tokens that are right; and `whole_answer`, of answers that
            are right throughout.
    """

    path: Path
    config: FinetuneConfig
    step: int
    finished: bool
    perplexity: Mapping[str, float]
    accuracy: Mapping[str, float] = field(default_factory=dict)
    whole_answer: Mapping[str, float] = field(default_factory=dict)
    test_losses: Sequence[float] = ()

    @staticmethod
    def beside(path: Path) -> Path:
        """Where the control of a fine-tuning goes."""
        return path.with_name(f"{path.name}{CONTROL}")

    @property
    def control_path(self) -> Path:
        return self.beside(self.path)

    def begun_control(self) -> Finetuned | None:
        """The control of a fine-tuning with a variant, finished or not; None where there is none.

        Raises:
            ValueError: if what is where its control goes is another folder.
        """
        if not self.config.is_variant or not self.control_path.exists():
            return None
        control = Finetuned.of(self.control_path)
        if not control.config.same_training(self.config.control()):
            raise ValueError(
                f"{control.path} is no control of {self.path}: it has other settings than that, with standard "
                "attention; move it away"
            )
        return control

    @property
    def control(self) -> Finetuned | None:
        """The finished control of a fine-tuning with a variant; None where there is none."""
        try:
            control = self.begun_control()
        except ValueError:  # another folder has its name
            return None
        return control if control is not None and control.finished else None

    @staticmethod
    def of(path: Path) -> Finetuned:
        """A folder that is being, or was, fine-tuned. Raises ValueError in one line if it is none."""
        config = FinetuneConfig.read(path)
        done = not (path / runs.STATES).exists() and (path / runs.CONFIG).is_file()
        step = config.steps if done else max(map(runs.step_of, runs.states(path)), default=0)
        rows = runs.read_log(path / runs.METRICS)
        figures = {
            name: {row["event"]: row[name] for row in rows if name in row and "event" in row}
            for name in ("perplexity", "accuracy", "whole_answer")
        }
        losses = read_object(path / LOSSES, 2**28).get("test_losses") if (path / LOSSES).is_file() else []
        if not isinstance(losses, list) or not all(isinstance(loss, float) for loss in losses):
            raise ValueError(f"{path / LOSSES} is corrupted: it holds no losses")
        return Finetuned(path, config, step, done, **figures, test_losses=losses)
