"""A model on pairs: how it answers each question, and what every attribution starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.circuits.metrics import METRICS, Metric
from workbench.interventions import Hooks
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.models.facts import check_editable
from workbench.tasks import Pairs
from workbench.util.lookup import lookup

Direction = Literal["denoise", "noise"]
FORKED_AT_ONCE = 2**26  # numbers in the copies of the residual that one pass may hold
INPUT = "blocks.0.hook_resid_pre"


@dataclass(frozen=True)
class Comparison:
    """A hooked model, the pairs that it is compared on, and how.

    Attributes:
        model: the hooked model (`run.hooked()`); its weights stay as they are.
        pairs: what it is compared on (`task.minimal_pairs`).
        metric: a name in `METRICS`.
        direction: `denoise` puts parts of the clean run into the corrupted one and measures how far the answer comes
            back; `noise` puts parts of the corrupted run into the clean one and measures how far it is lost. An effect
            is positive, either way, where the part speaks for the clean answer.
        name: what to call the model in captions.
        rows: the most sequences in one pass; by default as many as fit a fixed amount of memory.
        progress: called after each part of the pairs with how many are done, and how many there are.

    Raises:
        ValueError: if there is no such metric or direction, the pairs do not fit the model, or it is in training mode.
    """

    model: AnyHooked
    pairs: Pairs
    metric: str = "logit_difference"
    direction: Direction = "denoise"
    name: str = "model"
    rows: int | None = None
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        lookup(METRICS, self.metric, "metric")
        if self.direction not in get_args(Direction):
            raise ValueError(f"unknown direction {self.direction!r}; there is: {', '.join(get_args(Direction))}")
        if self.rows is not None and self.rows < 1:
            raise ValueError(f"rows must be at least 1, not {self.rows}")
        if any(module.training and _computes(module) for module in self.model.modules()):
            raise ValueError("the model is in training mode, in which two runs differ by chance: call model.eval()")

    @property
    def measure(self) -> Metric:
        return METRICS[self.metric]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def rows_at_once(self) -> int:
        """The most sequences in one pass."""
        if self.rows is not None:
            return self.rows
        cfg = cast(Any, self.model.cfg)
        each = (3 * cfg.n_heads + 2) * cfg.n_layers * cfg.d_model * self.pairs.clean.tokens.shape[1]
        return max(1, FORKED_AT_ONCE // each)

    def parts(self) -> Iterator[tuple[slice, Pairs]]:
        """The pairs in parts that fit one pass, on the model's device, with where they are; the last may be smaller."""
        for start in range(0, len(self.pairs), self.rows_at_once):
            where = slice(start, min(start + self.rows_at_once, len(self.pairs)))
            yield where, self.pairs[where].to(self.device)
            if self.progress is not None:
                self.progress(where.stop, len(self.pairs))

    def sides(self, part: Pairs) -> tuple[Int[Tensor, "pair pos"], Int[Tensor, "pair pos"]]:
        """The tokens of the run that is edited, and of the run that parts are taken from."""
        clean, corrupted = part.clean.tokens, part.corrupted.tokens
        return (corrupted, clean) if self.direction == "denoise" else (clean, corrupted)

    def sign(self) -> float:
        """The factor that makes (edited less unedited) positive where the part speaks for the clean answer."""
        return 1.0 if self.direction == "denoise" else -1.0

    @torch.no_grad()
    def clean_logits(self, part: Pairs) -> Tensor:
        """The logits of the clean run, `[pair, pos, class]`, for a metric that looks at them; else an empty tensor."""
        return cast(Tensor, self.model(part.clean.tokens)) if self.measure.needs_clean else torch.empty(0)

    def run(self, tokens: Int[Tensor, "row pos"], hooks: Hooks) -> Float[Tensor, "row pos class"]:
        """The logits with these hooks."""
        with self.model.hooks(fwd_hooks=hooks):
            return cast(Tensor, self.model(tokens))

    def score(self, logits: Tensor, part: Pairs, clean: Tensor) -> Float[Tensor, " pair"]:
        """The metric of each pair of a part."""
        return self.measure.of(logits, part, clean)

    @cached_property
    def baselines(self) -> Float[np.ndarray, "run pair"]:
        """The metric of each pair in the clean and in the corrupted run, which bound what an edit can do."""
        values = np.zeros((2, len(self.pairs)))
        with torch.no_grad():
            for where, part in self.parts():
                clean, corrupted = (cast(Tensor, self.model(side.tokens)) for side in (part.clean, part.corrupted))
                for row, logits in enumerate((clean, corrupted)):
                    values[row, where] = self.score(logits, part, clean).double().cpu().numpy()
        return values

    def unedited(self, where: slice) -> Float[np.ndarray, " pair"]:
        """The metric of the run that is edited, before any edit."""
        return self.baselines[1 if self.direction == "denoise" else 0, where]

    def of(self, pairs: Pairs) -> Comparison:
        """The same of other pairs, such as a control's."""
        return replace(self, pairs=pairs)

    def measurement(
        self, name: str, values: np.ndarray, coords: Mapping[str, Sequence[Any]], caption: str
    ) -> Measurement:
        """Effects of each pair as a measurement: the dims of `coords`, and `example`, a pair each."""
        return Measurement(
            name=name,
            values=values,
            dims=(*coords, "example"),
            coords={**coords, "example": range(len(self.pairs))},
            units=self.measure.units,
            settings={
                "model": self.name,
                "metric": self.measure.name,
                "direction": self.direction,
                "pairs": self.pairs.kind,
                "later": self.pairs.later,
                "control": self.pairs.is_control,
            },
            caption=caption,
        )


def _computes(module: nn.Module) -> bool:
    """Whether a module does something itself: a wrapper, or a hook point, is the same in training."""
    return isinstance(module, nn.Dropout) or any(True for _ in module.parameters(recurse=False))


def baselines(comparison: Comparison) -> Measurement:
    """The metric in the clean and in the corrupted run: dims `run` (`clean`, `corrupted`), `example`."""
    about = "What the model answers before any edit. Without a gap between the two there is nothing to attribute."
    coords = {"run": ("clean", "corrupted")}
    return comparison.measurement(f"The {comparison.measure.name} of pairs", comparison.baselines, coords, about)


@torch.no_grad()
def activations(comparison: Comparison, tokens: Int[Tensor, "row pos"], names: Sequence[str]) -> dict[str, Tensor]:
    """The named activations of a run without edits."""
    kept: dict[str, Tensor] = {}
    check_names(comparison.model, names)
    comparison.run(tokens, [(name, partial(_keep, kept=kept, name=name)) for name in names])
    _check_reached(kept, names)
    return kept


def _check_reached(kept: dict[str, Tensor], names: Sequence[str]) -> None:
    """Raise ValueError if a hook point was never reached: a module of one's own may not show all its parts."""
    missing = [name for name in names if name not in kept]
    if missing:
        raise ValueError(
            f"the model's forward pass never reaches its hook point {missing[0]!r}: it cannot be attributed"
        )


def check_names(model: AnyHooked, names: Sequence[str]) -> None:
    """Raise ValueError if the model has no such hook point."""
    there = model.hook_dict  # which a bridge makes anew each time
    missing = [name for name in names if name not in there]
    if missing:
        raise ValueError(f"the model has no hook point {missing[0]!r}: what is read there cannot be attributed")


def _keep(activation: Tensor, hook: Any, *, kept: dict[str, Tensor], name: str) -> Tensor:
    # What is kept is what the run goes on with behind this point alone: an MLP's input is else the residual itself.
    kept[name] = activation.view_as(activation)
    return kept[name]


def gradients(
    comparison: Comparison,
    tokens: Int[Tensor, "row pos"],
    part: Pairs,
    clean: Tensor,
    names: Sequence[str],
    start: Float[Tensor, "row pos d_model"] | None = None,
    hooks: Hooks | None = None,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The named activations of a run, and the gradient of each pair's metric there.

    Args:
        comparison, part, clean: what the metric needs.
        tokens: the run's input.
        names: hook names.
        start: the residual before the first layer; by default its own.
        hooks: of the run besides.

    Raises:
        ValueError: if the output does not depend on what is computed at one of them.
    """
    check_names(comparison.model, names)
    check_editable(comparison.model, names)
    kept: dict[str, Tensor] = {}

    def begin(residual: Tensor, hook: Any) -> Tensor:
        # there is a gradient although the weights may be frozen
        return (residual if start is None else start).detach().requires_grad_(True)

    with torch.enable_grad():
        keep = [(name, partial(_keep, kept=kept, name=name)) for name in names]
        total = comparison.score(comparison.run(tokens, [(INPUT, begin), *keep, *(hooks or [])]), part, clean).sum()
        _check_reached(kept, names)
        of_total = torch.autograd.grad(total, [kept[name] for name in names], allow_unused=True)
    slopes = {
        name: torch.zeros_like(kept[name]) if slope is None else slope
        for name, slope in zip(names, of_total, strict=True)
    }
    return {name: tensor.detach() for name, tensor in kept.items()}, slopes
