"""Whether a hooked model is the model: what fires, what edits reach, what its logits rest on; found by running it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from workbench.judgement.words import model_check as words
from workbench.models import Decoder, OwnModel
from workbench.report.hooked_checks import Check, HookedChecks
from workbench.runs import load_run, means_run
from workbench.util.settings import as_json
from workbench.util.words import as_it_says


@dataclass(frozen=True)
class ModelCheck:
    """The checks of one hooked model.

    Attributes:
        name: the model's.
        sample: what it was run on, in words.
        checks: each check.
    """

    name: str
    sample: str
    checks: tuple[Check, ...]
    __repr__ = as_it_says

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.passed is not False for check in self.checks)

    @property
    def says(self) -> str:
        """A line for each check, and what failed, was refused or silent."""
        rows: list[words.Row] = [(c.what, c.how, c.number, c.bound, c.passed) for c in self.checks]
        notes = [f"{check.what}: {note}" for check in self.checks for note in check.notes]
        table = words.of_checks(self.name, self.sample, rows, [check.of_edits for check in self.checks])
        return "\n".join([*table, "", *notes, words.READ])

    def table(self) -> pd.DataFrame:
        """A row for each check."""
        return pd.DataFrame([{**asdict(check), "notes": "; ".join(check.notes)} for check in self.checks])

    def json(self) -> str:
        """Every check with its numbers."""
        checks = [asdict(check) for check in self.checks]
        about = {"format": "check/1", "model": self.name, "sample": self.sample, "passed": self.passed}
        return as_json({**about, "checks": checks})


def check(model: Any, *, step: int | None = None, progress: bool = False) -> ModelCheck:
    """Run a hooked model on a few random tokens and see whether it is the model, and whether edits reach its output.

    Args:
        model: a run or its folder; a decoder or a model of one's own; or a model of Hugging Face: its folder or file,
            its name on the hub, or loaded, where nothing is left to compare the hooked model with.
        step: of a run's checkpoint; by default the end.
        progress: say on standard error how long it takes, where that is long.

    Raises:
        ValueError: if there is no such model, or it cannot be opened.
    """
    if means_run(model):
        run = load_run(model)
        checks = HookedChecks(run.name_at(step), run.model(step))
    elif step is not None:
        raise ValueError("step is of a run's checkpoints; leave it out for another model")
    elif isinstance(model, str | Path):
        checks = _of_hugging_face(model)
    elif isinstance(model, Decoder | OwnModel):
        checks = HookedChecks(model.config.module if isinstance(model, OwnModel) else "decoder", model)
    else:
        kind = type(model).__name__
        raise ValueError(f"a run, a model of this library or one of Hugging Face is checked, not a {kind}")
    n, length = checks.tokens.shape
    return ModelCheck(checks.name, f"{n} sequences of {length} random tokens", checks.all(progress))


@torch.no_grad()
def _of_hugging_face(source: str | Path) -> HookedChecks:
    """A model of Hugging Face, whose own logits are taken before it is bridged."""
    from workbench.models.pretrained.checks import random_tokens
    from workbench.models.pretrained.loading import load_causal
    from workbench.models.pretrained.model import Pretrained

    loaded = load_causal(source, dtype=torch.float32, progress=False)
    tokens = random_tokens(loaded.model)
    logits = loaded.model.eval()(tokens, use_cache=False).logits
    return HookedChecks(loaded.name, Pretrained(loaded.model, loaded.tokenizer, loaded.name), tokens, logits)
