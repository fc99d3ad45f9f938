"""What every method of the benchmark must do, on a subject with every kind of question and one that knows nothing."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from workbench.benchmark.methods import METHODS
from workbench.benchmark.questions import Answer, Posed, posed
from workbench.benchmark.scoring import check
from workbench.testing.require import ContractError, require

SUBJECT, NULL = "clipping_mlp", "re-initialised"


def _answers(name: str) -> Iterator[tuple[Posed, Answer]]:
    """Each question that it answers, with its answer."""
    for null in ("", NULL):
        for part in posed(SUBJECT, 0, null):
            answer = METHODS[name](part.question)
            if answer is not None:
                yield part, answer


def its_text_says_what_it_does(name: str) -> None:
    """The first line of its docstring is a sentence."""
    first = (METHODS[name].__doc__ or "").strip().split("\n")[0]
    require(first.endswith("."), f"the first line of its docstring is a sentence that ends with a stop, not {first!r}")


def its_answers_are_about_what_is_asked(name: str) -> None:
    """It answers at least one kind of question, as `Answer` says and about the candidates alone; others with None."""
    answers = list(_answers(name))
    require(answers, "it answers no question about any model: each time it returned None")
    for part, answer in answers:
        try:
            check(part.question, answer)
        except ValueError as error:
            raise ContractError(f"asked about {part.question.asks}: {error}") from None
        given = (answer.scores, answer.intervals, answer.bases, answer.calls is not None)
        require(any(given), f"asked about {part.question.asks} it says nothing; it should return None")


def it_answers_the_same_twice(name: str) -> None:
    """Asked twice with the same seed, it answers the same."""
    for (part, first), (_, second) in zip(_answers(name), _answers(name), strict=True):
        plain = (first.scores, first.calls, first.intervals) == (second.scores, second.calls, second.intervals)
        same = plain and all(torch.equal(basis, second.bases[point]) for point, basis in first.bases.items())
        require(same, f"asked twice about {part.question.asks}, it gave two answers: draw from `question.seed` alone")


def it_leaves_the_model_as_it_is(name: str) -> None:
    """It does not change the model's weights."""
    for part in posed(SUBJECT, 0):
        model = part.question.run.model()
        before = [tensor.clone() for tensor in model.state_dict().values()]
        METHODS[name](part.question)
        same = all(map(torch.equal, before, model.state_dict().values()))
        require(same, f"asked about {part.question.asks}, it changed the model's weights")


CHECKS = (
    its_text_says_what_it_does,
    its_answers_are_about_what_is_asked,
    it_answers_the_same_twice,
    it_leaves_the_model_as_it_is,
)
