"""RankMe, LiDAR, DiME and InfoNCE: the papers' formulas in NumPy, planted geometries, and streams."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Subject
from workbench.instruments import SETS, matrix_entropy
from workbench.instruments.sets import dime, infonce, lidar, rankme
from workbench.instruments.sets.over_sequences import PairGroups, _answer_positions, over_sequences
from workbench.models import Decoder, DecoderConfig
from workbench.tasks import Task, make
from workbench.util.seeds import generator

EPS = 1e-7


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed, "sets"), dtype=torch.float64)


def entropy_rank(values: np.ndarray) -> float:
    p = values / values.sum() + EPS
    return float(np.exp(-(p * np.log(p)).sum()))


def shannon(matrix: np.ndarray) -> float:
    p = np.linalg.eigvalsh(matrix / np.trace(matrix))
    p = p[p > 1e-14]
    return float(-(p * np.log(p)).sum())


def test_rankme_is_the_papers_formula_however_the_rows_come() -> None:
    z = noise(300, 20) @ torch.linspace(0.01, 2, 20, dtype=torch.float64).diag() + 5.0
    expected = entropy_rank(np.linalg.svd(z.numpy(), compute_uv=False))
    assert rankme.rankme(z) == pytest.approx(expected, abs=1e-9)
    for sizes in ([300], [1] * 300, [7, 193, 100]):
        stream = rankme._RankMeStream()
        for part in z.split(sizes):
            stream.add(part)
        assert stream.value() == pytest.approx(expected, abs=1e-6) and stream.n == 300


def test_rankme_counts_planted_directions_and_nothing_has_none() -> None:
    directions = torch.linalg.qr(noise(30, 30)).Q[:6]
    assert rankme.rankme(torch.linalg.qr(noise(50, 6)).Q @ directions) == pytest.approx(6, abs=1e-3)
    assert rankme.rankme(torch.zeros(4, 3)) == 1.0
    with pytest.raises(ValueError, match="add vectors"):
        rankme._RankMeStream().value()


def lidar_of(groups: np.ndarray, delta: float = 1e-4) -> float:
    """Equations 1-3 of the paper, `[answer, question, d]`, a loop over everything."""
    n, q, d = groups.shape
    means, mean = groups.mean(1), groups.mean((0, 1))
    between, within = np.zeros((d, d)), delta * np.eye(d)
    for c in range(n):
        between += np.outer(means[c] - mean, means[c] - mean) / n
        for i in range(q):
            within += np.outer(groups[c, i] - means[c], groups[c, i] - means[c]) / (n * q)
    values, vectors = np.linalg.eigh(within)
    whiten = vectors @ np.diag(values**-0.5) @ vectors.T
    return entropy_rank(np.linalg.eigvalsh(whiten @ between @ whiten).clip(0))


def test_lidar_is_the_papers_formula_however_the_rows_come() -> None:
    groups = 2 * noise(9, 1, 6, seed=1) + noise(9, 5, 6) + 100.0
    rows, answers = groups.flatten(0, 1), [number for number in range(9) for _ in range(5)]
    expected = lidar_of(groups.numpy())
    for size in (1, 4, 45):
        order = torch.randperm(45, generator=generator(2))
        stream = lidar._LidarStream()
        for part in order.split(size):
            stream.add(rows[part], [answers[i] for i in part.tolist()])
        assert stream.value() == pytest.approx(expected, abs=1e-6)


def test_lidar_counts_the_directions_between_answers_and_not_those_within() -> None:
    axes = torch.eye(12, dtype=torch.float64)
    means = 30 * torch.cat([axes[:3], -axes[:3]])
    rows = means.repeat(40, 1) + noise(240, 12)
    stream = lidar._LidarStream()
    stream.add(rows, list(range(6)) * 40)
    assert stream.value() == pytest.approx(3, abs=0.1)
    assert rankme.rankme(rows) > 4, "the spread within answers counts there"
    mixed = lidar._LidarStream()
    mixed.add(rows, torch.randint(0, 6, (240,), generator=generator(3)).tolist())
    assert mixed.value() > 3.5, "shuffled answers lie apart by chance, in all of their directions"


def test_lidar_leaves_out_answers_that_came_once_and_needs_two_others() -> None:
    rows, answers = noise(20, 4), [0, 1] * 10
    alone, with_single = lidar._LidarStream(), lidar._LidarStream()
    alone.add(rows, answers)
    with_single.add(torch.cat([rows, noise(1, 4, seed=5) * 50]), [*answers, "once"])
    assert with_single.value() == pytest.approx(alone.value(), abs=1e-12) and with_single.answers == 2
    few = lidar._LidarStream()
    few.add(rows, [0] * 10 + list(range(1, 11)))
    with pytest.raises(ValueError, match="at least twice"):
        few.value()
    with pytest.raises(ValueError, match="delta"):
        lidar._LidarStream(0.0)


def test_infonce_is_simclrs_loss_as_a_loop_says_it() -> None:
    a, b = noise(6, 5), noise(6, 5, seed=1)
    for centre in (False, True):
        rows = torch.cat([a, b])
        rows = rows - rows.mean(0) if centre else rows
        unit = (rows / rows.norm(dim=-1, keepdim=True)).numpy()
        terms = []
        for i in range(12):
            exp = {j: math.exp(unit[i] @ unit[j] / 0.3) for j in range(12) if j != i}
            terms.append(-math.log(exp[(i + 6) % 12] / sum(exp.values())))
        assert infonce.infonce(a, b, temperature=0.3, centre=centre) == pytest.approx(np.mean(terms), abs=1e-9)
    with pytest.raises(ValueError, match="temperature"):
        infonce.infonce(a, b, temperature=0.0)


def test_infonce_of_equal_partners_is_small_and_of_equal_rows_is_chance() -> None:
    apart = 10 * torch.eye(8, dtype=torch.float64)
    assert infonce.infonce(apart, apart) < 0.01
    assert infonce.infonce(torch.ones(8, 3), torch.ones(8, 3)) == pytest.approx(math.log(15), abs=1e-9)


def test_dime_is_the_difference_of_joint_entropies() -> None:
    x, y = noise(7, 4), noise(7, 4, seed=1)
    kx, ky = x @ x.T, y @ y.T
    orders = [torch.randperm(7, generator=generator(number)) for number in range(3)]
    joint = [shannon((kx * ky[order][:, order]).numpy()) for order in orders]
    expected = np.mean(joint) - shannon((kx * ky).numpy())
    assert dime.dime(kx, ky, orders) == pytest.approx(expected, abs=1e-9)


def test_dime_of_the_same_view_is_large_and_of_independent_views_is_none() -> None:
    def of(x: Tensor, y: Tensor) -> float:
        stream = PairGroups(32, dime._of_groups("gaussian", "median", True, 1.0, 0))
        for start in range(0, len(x), 32):
            both = torch.cat([x[start : start + 32], y[start : start + 32]])
            stream.add(both, [*range(32)] * 2, list(range(64)))
        return float(np.mean(stream.values))

    x = noise(320, 6)
    assert of(x, x) > 0.2
    assert abs(of(x, noise(320, 6, seed=1))) < 0.02
    assert of(x, x) > of(x, x + noise(320, 6, seed=2)) > 0.05


def test_a_pair_is_two_questions_with_one_answer_and_a_group_has_every_answer_once() -> None:
    full: list[tuple[list[float], list[float]]] = []

    def kept(a: Tensor, b: Tensor) -> float:
        full.append((a[:, 0].tolist(), b[:, 0].tolist()))
        return 0.5

    groups, rows = PairGroups(2, kept), torch.arange(8.0)[:, None]
    groups.add(rows, ["a", "a", "a", "b", "b", "b", "c", "c"], [1, 1, 2, 3, 4, 5, 6, 6])
    assert full == [([0.0, 3.0], [2.0, 4.0])], "row 1 asks what row 0 asks; row 5 waits for the next group"
    groups.add(rows[:1], ["b"], [9])
    assert groups.values == [0.5] and "1 answers came with two questions" in groups.why_none()
    with pytest.raises(ValueError, match="2 or more"):
        PairGroups(1, kept)


@pytest.fixture(scope="module")
def chain() -> tuple[Decoder, Subject]:
    task = make("pointer_chain", n=16, k=4, reading="root")
    config = DecoderConfig(n_layers=2, d_model=16, n_heads=2, d_vocab=16, n_ctx=16)
    model = Decoder(config, generator(0)).eval()
    return model, Subject.of(model, task, "chain")


def captured(model: Decoder, subject: Subject, n: int) -> tuple[dict[str, Tensor], list[object]]:
    """All vectors of the last answers at once, with the answers."""
    batch = subject.task.sample(n, generator(4))
    names = ["blocks.0.hook_resid_pre", "blocks.1.hook_resid_post"]
    with torch.no_grad():
        kept = model(batch.tokens, keep=names)[1]
    return {name: kept[name][:, -1].double() for name in names}, batch.targets[:, -1].tolist()


def test_streamed_over_a_models_layers_they_are_what_all_vectors_at_once_are(chain: tuple[Decoder, Subject]) -> None:
    model, subject = chain
    rows, answers = captured(model, subject, 400)
    whole = subject.task.sample(400, generator(4))
    batches = [whole[start : start + 64] for start in range(0, 400, 64)]
    names = list(rows)
    measured = {name: one.measure(model, subject, batches, points=names) for name, one in SETS.items()}
    for layer, point in enumerate(names):
        stream = lidar._LidarStream()
        stream.add(rows[point], answers)
        assert measured["lidar"].values[layer] == pytest.approx(stream.value(), abs=1e-6)
        assert measured["rankme"].values[layer] == pytest.approx(rankme.rankme(rows[point]), abs=1e-6)
    for name in ("dime", "infonce"):
        m = measured[name]
        assert m.dims == ("layer",) and m.low is not None and (m.low <= m.values).all()
        assert m.settings["groups"] == m.n[0] > 5


def test_shuffled_answers_are_those_of_the_sequence_before(chain: tuple[Decoder, Subject]) -> None:
    model, subject = chain

    class Seen:
        def __init__(self) -> None:
            self.rows, self.answers = [], []

        def add(self, rows: Tensor, answers: list[int], questions: list[int]) -> None:
            self.rows += rows[:, 0].tolist()
            self.answers += answers

    whole = subject.task.sample(20, generator(4))
    batches = [whole[:1], whole[1:9], whole[9:]]
    own, moved = (
        over_sequences(Seen, model, subject, batches, points=["blocks.0.hook_resid_pre"], shuffled=shuffled)
        for shuffled in (False, True)
    )
    own, moved = own["blocks.0.hook_resid_pre"], moved["blocks.0.hook_resid_pre"]
    assert own.answers == whole.targets[:, -1].tolist()
    assert moved.answers == own.answers[:-1] and moved.rows == own.rows[1:]


@pytest.mark.parametrize(
    ("task", "position"),
    [
        (make("sorting", q=8, min_length=3, max_length=3), 3),
        (make("pointer_chain", n=9, k=3), 8),
        (make("multiplication", digits=2, mode="chain_of_thought"), None),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_answer_is_the_first_of_a_whole_one_and_the_last_of_many(task: Task, position: int | None) -> None:
    batch = task.sample(6, generator(0))
    found = _answer_positions(task, batch)
    if position is not None:
        assert found.position.tolist() == [position] * 6
    else:
        found = _answer_positions(task, batch, "first")
        assert found.position.tolist() == task.answer_mask(batch).long().argmax(-1).tolist() != [0] * 6
    if batch.targets.ndim == 3:
        assert found.answers[0] == tuple(batch.targets[0, 8].nonzero().flatten().tolist())
    assert len(set(found.questions)) == 6
    with pytest.raises(ValueError, match="first or last"):
        _answer_positions(task, batch, "middle")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SETS)
def test_each_says_what_it_does_not_show_and_refuses_nothing_to_measure(
    name: str, chain: tuple[Decoder, Subject]
) -> None:
    text = " ".join((SETS[name].__doc__ or "").split())
    assert "Does not show" in text and "Control" in text and SETS[name].CONTROLS == ("untrained",)
    with pytest.raises(ValueError, match="no batch"):
        SETS[name].measure(*chain, [])
    assert SETS[name].why_not(chain[1]) is None


def test_too_few_answers_say_what_to_do(chain: tuple[Decoder, Subject]) -> None:
    batch = chain[1].task.sample(12, generator(0))
    with pytest.raises(ValueError, match="ask for fewer pairs"):
        infonce.measure(*chain, [batch], pairs=12)


def published(z: np.ndarray) -> float:
    """The entropy that the code published with "Layer by Layer" computes, from its definition."""
    rows = z - z.mean(0)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    matrix = (rows.T @ rows if len(rows) > rows.shape[1] else rows @ rows.T).clip(0)
    values = np.linalg.eigvalsh(matrix)
    p = values[values > 0] / values[values > 0].sum()
    return float(-(p * np.log(p)).sum())


@pytest.mark.parametrize("shape", [(32, 64), (64, 32), (5, 5)])
def test_as_published_sets_negative_inner_products_to_zero(shape: tuple[int, int]) -> None:
    z = noise(*shape)
    how = {"centre": True, "unit_rows": True}
    assert matrix_entropy(z, **how, as_published=True).item() == pytest.approx(published(z.numpy()), abs=1e-9)
    assert matrix_entropy(z, **how).item() == pytest.approx(
        shannon(
            (lambda r: (r / r.norm(dim=-1, keepdim=True)) @ (r / r.norm(dim=-1, keepdim=True)).T)(z - z.mean(0)).numpy()
        ),
        abs=1e-9,
    )


def test_the_clamp_raises_the_entropy_of_random_rows_and_is_off_by_default() -> None:
    z = noise(50, 32, 64)
    clamped, plain = (matrix_entropy(z, unit_rows=True, as_published=on).mean().item() for on in (True, False))
    assert clamped == pytest.approx(3.36, abs=0.02) and plain == pytest.approx(3.22, abs=0.02)
    assert torch.equal(matrix_entropy(z, unit_rows=True, as_published=False), matrix_entropy(z, unit_rows=True))
    for alpha in (0.5, 1.0, 2.0):
        assert matrix_entropy(torch.zeros(1, 4, 3), alpha=alpha, as_published=True).item() == 0
    with pytest.raises(ValueError, match="nothing below 0"):
        matrix_entropy(z, kernel="gaussian", as_published=True)
