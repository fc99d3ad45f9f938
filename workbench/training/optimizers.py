"""What changes the weights: AdamW, or Muon for the matrices of a decoder's blocks and AdamW for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.optim import AdamW, Muon, Optimizer

from workbench.runs import RunConfig
from workbench.training.learning_rate import learning_rate


def make_optimizer(config: RunConfig, parameters: Sequence[Tensor], matrices: Sequence[Tensor] = ()) -> Optimizer:
    """AdamW, in its fused form: one kernel for all parameters; and Muon for those that are listed as matrices too.

    Muon (Jordan and others 2024) orthogonalises the step of each matrix. Its steps are scaled to be as large as AdamW's
    (`match_rms_adamw`: Liu and others 2025, arXiv 2502.16982, Eq. 4), so that one learning rate serves both.
    """
    of_both: dict[str, Any] = {"lr": learning_rate(config, 0), "weight_decay": config.weight_decay}
    by_muon = set(map(id, matrices))
    rest = [parameter for parameter in parameters if id(parameter) not in by_muon]
    adamw = AdamW(rest, betas=(0.9, config.beta2), fused=True, **of_both)
    return _Together(adamw, Muon(matrices, adjust_lr_fn="match_rms_adamw", **of_both)) if matrices else adamw


class _Together(Optimizer):
    """Several optimizers, of a group of parameters each, as one: with one list of groups and one state."""

    def __init__(self, *parts: Optimizer) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make the step. There is no closure to call again."""
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.state, part.param_groups = self.state, [group]  # loading a state has put others in their place
            part.step()
