"""Compiled models as run folders: their mechanism is known, so every instrument can be tried on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from workbench import runs, tasks
from workbench.models import Decoder, compiled
from workbench.runs import Run
from workbench.tasks import Task
from workbench.util.lookup import lookup
from workbench.util.strict_settings import Checked, checked


class _Recipe(Checked):
    """Settings of a compiled model and of the task it solves."""

    rotate_seed: int | None = Field(None, ge=0, description="turn the residual's basis at random")

    def make(self) -> tuple[Decoder, Task]:
        """The model and the task."""
        raise NotImplementedError


class _Sorter(_Recipe):
    """The depth-two sorter of Theorem 5.1 (the task-hinting paper), on the task `sorting`."""

    q: int = Field(10, ge=2, le=1000, description="alphabet size")
    max_length: int = Field(20, ge=2, le=255, description="longest sequence")
    form: Literal["plain", "layernorm"] = Field("plain", description="layernorm: with every norm of a decoder (§A.7)")

    def make(self) -> tuple[Decoder, Task]:
        task = tasks.make("sorting", q=self.q, max_length=self.max_length)
        return compiled.sorter(self.q, self.rotate_seed, task.n_ctx, form=self.form, pad=True), task


class _Chaser(_Recipe):
    """One layer of ChaCAL that follows pointers to the end of their chain, on the task `pointer_chain`."""

    n: int = Field(32, ge=2, le=1024, description="tokens in a sequence")
    k: int = Field(4, ge=1, description="tokens in a block; divides n")
    gamma: float = Field(0.9, gt=0, lt=1, description="γ")
    reading: Literal["chain", "root"] = Field("root", description="predict the chain's positions, or its root's value")

    def make(self) -> tuple[Decoder, Task]:
        task = tasks.make("pointer_chain", n=self.n, k=self.k, reading=self.reading)
        return compiled.chaser(self.n, self.k, self.rotate_seed, gamma=self.gamma, reading=self.reading), task


COMPILED: dict[str, type[_Recipe]] = {"sorter": _Sorter, "chaser": _Chaser}


def compile_run(name: str, out: str | Path, settings: Mapping[str, Any] | None = None, **more: Any) -> Run:
    """Write a compiled model as a run folder.

    Args:
        name: one of `COMPILED`.
        out: the run folder to make.
        settings, more: the settings of that recipe, as a mapping or by name.

    Raises:
        ValueError: in one line, if there is no such model, a setting is wrong, or `out` is taken.
    """
    kind = lookup(COMPILED, name, "compiled model")
    model, task = checked(kind, {**(settings or {}), **more}, f"{name}: ").make()
    return runs.save_run(out, model, task, preset=f"compiled {name}")
