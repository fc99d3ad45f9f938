"""Single inputs to look at: the same for the same arguments, held out, and as hard as they are said to be."""

from __future__ import annotations

import pytest
import torch

import workbench
from workbench.inspection.examples import POOL, SEARCHED, WHICH, example, next_wrong
from workbench.models.compiled import sorter
from workbench.objectives.next_token import next_token
from workbench.tasks import Task, correct, make

N_DISTINCT = 55  # of the 64 inputs drawn


@pytest.fixture(scope="module")
def task() -> Task:
    return make("sorting", q=9, max_length=6, test_max_length=8)


@pytest.fixture(scope="module")
def model(task: Task) -> workbench.Decoder:
    config = workbench.DecoderConfig(
        d_vocab=len(task.vocabulary), n_ctx=task.n_ctx, n_layers=1, d_model=16, n_heads=2, d_mlp=16
    )
    return workbench.Decoder(config, workbench.generator(0)).eval()


@pytest.mark.parametrize("which", WHICH)
def test_the_same_arguments_give_the_same_held_out_input(task: Task, model: workbench.Decoder, which: str) -> None:
    first, again, other = (example(model, task, number, which=which) for number in (2, 2, 3))
    assert torch.equal(first.tokens, again.tokens) and len(first) == 1
    assert first.tokens.shape != other.tokens.shape or not torch.equal(first.tokens, other.tokens)
    assert bool(task.is_test(first.tokens).all())


def test_hard_and_easy_ones_are_in_the_order_of_the_loss(task: Task, model: workbench.Decoder) -> None:
    def losses(which: str) -> list[float]:
        with torch.no_grad():
            found = [example(model, task, i, which=which) for i in range(0, N_DISTINCT, 7)]
            return [float(next_token(model(batch.tokens), batch)) for batch in found]

    hardest, easiest = losses("hardest"), losses("easiest")
    assert hardest == sorted(hardest, reverse=True) and easiest == sorted(easiest)
    assert hardest[0] > easiest[0]


def test_inputs_in_order_of_the_loss_come_once_each(task: Task, model: workbench.Decoder) -> None:
    found = {task.question(example(model, task, i, which="hardest").tokens[0]) for i in range(N_DISTINCT)}
    assert len(found) == N_DISTINCT


def test_wrong_ones_are_wrong(task: Task, model: workbench.Decoder) -> None:
    for number in range(3):
        batch = example(model, task, number, which="wrong", length=4)
        assert int(task.question_length(batch.tokens)[0]) == 4
        assert bool(((correct(model(batch.tokens), batch) < 1) & batch.loss_mask).any())


def test_an_error_in_a_thought_is_no_wrong_answer() -> None:
    """A model that says 0 throughout: wrong is who has another answer, whatever the thought is."""

    class Zero(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.one_hot(torch.zeros_like(tokens), len(task.vocabulary)).float()

    task = make("arithmetic", p=3, operators=2, mode="chain_of_thought")
    wrong, n = [], 0
    while True:
        try:
            wrong.append(example(Zero(), task, n, which="wrong"))  # type: ignore[arg-type]
        except ValueError:
            break
        n += 1
    assert 0 < n < POOL and all(batch.targets[batch.loss_mask][-1] != 0 for batch in wrong)


def test_a_model_without_failures_says_so() -> None:
    perfect, task = sorter(9, pad=True), make("sorting", q=9, max_length=6, test_max_length=8)
    with pytest.raises(ValueError, match="none have a wrong answer, so there is no failure to show"):
        example(perfect, task, 0, which="wrong")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"number": -1}, "numbered from 0, not -1"),
        ({"number": POOL, "which": "hardest"}, f"numbered 0 to {N_DISTINCT - 1}, not {POOL}"),
        ({"which": "worst"}, "there is: any, easiest, hardest, wrong"),
        ({"operations": 3}, "no condition 'operations'"),
    ],
)
def test_what_cannot_be_met_is_said_in_one_line(
    task: Task, model: workbench.Decoder, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        example(model, task, **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_the_next_wrong_one_is_the_first_after_it_that_is_wrong(task: Task, model: workbench.Decoder) -> None:
    """On either side of a number, by answering every input on the way."""

    class Half(torch.nn.Module):
        """Right throughout on inputs that begin with a small number, wrong on the others."""

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            following = torch.nn.functional.one_hot(tokens.roll(-1, 1), len(task.vocabulary)).float()
            return torch.where((tokens[:, :1] <= 5)[..., None], following, -following)

    half = Half()
    wrong = [
        n for n in range(40) if bool(((correct(half((b := example(half, task, n)).tokens), b) < 1) & b.loss_mask).any())
    ]
    assert 3 < len(wrong) < 37
    for number in range(30):
        assert next_wrong(half, task, number) == min(n for n in wrong if n > number)
        assert next_wrong(half, task, number, step=-1) == max((n for n in wrong if n < number), default=None)


def test_where_no_answer_is_wrong_there_is_no_next_one(task: Task) -> None:
    looked: list[int] = []

    class Right(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            looked.append(len(tokens))
            return torch.nn.functional.one_hot(tokens.roll(-1, 1), len(task.vocabulary)).float()

    assert next_wrong(Right(), task, 5, length=3) is None and sum(looked) == SEARCHED
