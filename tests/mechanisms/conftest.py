"""A stage for causal tests: models whose residual and way of reading it are given, so that their cause is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor

from workbench.interventions import SpanEdit


class StandIn:
    """Stands in for a hooked model of one layer with a single hook point; keeps what it was run on and how edited.

    `residual(tokens)` is what it holds at that point, `answer(residual)` its logits.
    """

    def __init__(self, point: str, residual: Callable[[Tensor], Tensor], answer: Callable[[Tensor], Tensor]) -> None:
        self.residual, self.answer = residual, answer
        self.hook_dict, self.cfg = {point}, SimpleNamespace(n_layers=1)
        self.runs: list[Tensor] = []
        self.edits: list[SpanEdit] = []
        self._waiting: list[Any] = []

    @contextmanager
    def hooks(self, fwd_hooks: list[tuple[str, Any]]) -> Iterator[None]:
        self._waiting = [function for _, function in fwd_hooks]
        self.edits += [function for function in self._waiting if isinstance(function, SpanEdit)]
        try:
            yield
        finally:
            self._waiting = []

    def __call__(self, tokens: Tensor) -> Tensor:
        self.runs.append(tokens)
        held = self.residual(tokens)
        for function in self._waiting:
            edited = function(held, hook=None)
            held = held if edited is None else edited
        return self.answer(held)


@pytest.fixture
def stand_in() -> type[StandIn]:
    return StandIn
