"""Models of one's own as run folders: what comes back, and what is refused without leaving anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import workbench
from tests.models.own_modules import CONTEXT, KINDS, PARTS, VOCABULARY, Language, Softmax
from workbench import tasks
from workbench.models import MODELS, ModuleKind, OwnModel
from workbench.models.facts import logits_of
from workbench.runs import save_model
from workbench.runs.folder import CONFIG
from workbench.tasks import SEQUENCES, Vocabulary, own_sequences
from workbench.util.seeds import generator

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in KINDS.items():
        monkeypatch.setitem(MODELS, name, kind)


def tokens(n: int = 12, length: int = CONTEXT, seed: int = 0) -> Tensor:
    return torch.randint(VOCABULARY, (n, length), generator=generator(seed, "tokens"))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_saved_module_computes_the_same_when_it_is_opened(tmp_path: Path, kind: str) -> None:
    module = KINDS[kind].fresh({}, generator(3, kind)).eval()
    save_model(tmp_path / "run", module, kind, tokens())
    opened = workbench.load_run(tmp_path / "run")
    model = opened.model()
    assert isinstance(model, OwnModel)
    assert torch.equal(model(tokens()), logits_of(module(tokens())))
    assert opened.config.model.n_layers == 2 and opened.config.steps == 0
    held_out = opened.task().sample(12, workbench.generator(0), split="test").tokens
    assert sorted(held_out.tolist()) == sorted(tokens().tolist())


@torch.no_grad()
def test_float64_stays_float64(tmp_path: Path) -> None:
    module = KINDS["softmax"].fresh({}, generator(3, "double")).double().eval()
    model = save_model(tmp_path / "run", module, "softmax", tokens()).model()
    assert torch.equal(model(tokens()), logits_of(module(tokens()))) and model(tokens()).dtype == torch.float64


def test_a_run_that_was_moved_finds_its_sequences(tmp_path: Path) -> None:
    save_model(tmp_path / "run", Language(), "fused", tokens())
    assert json.loads((tmp_path / "run" / CONFIG).read_text())["task"]["path"] == SEQUENCES
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").rename(tmp_path / "elsewhere" / "moved")
    assert workbench.load_run(tmp_path / "elsewhere" / "moved").task().n_ctx == CONTEXT


def test_settings_are_what_it_is_built_from_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "deep", ModuleKind(lambda layers, tied: Language(layers=layers, tied=tied), PARTS))
    module = Language(layers=3, tied=True)
    settings = {"layers": 3, "tied": True}
    run = save_model(tmp_path / "run", module, "deep", tokens(), settings=settings)
    model = run.model()
    assert model.config.n_layers == 3
    assert model.unembedding.weight is model.token_embedding.weight
    with pytest.raises(ValueError, match=r"deep builds another module from these settings: layers.2"):
        save_model(tmp_path / "other", module, "deep", tokens(), settings={"layers": 2, "tied": True})
    assert not (tmp_path / "other").exists()


def test_it_can_be_inspected_on_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.make("sorting", q=8, min_length=2, max_length=6)
    n_tokens = len(task.vocabulary)
    monkeypatch.setitem(MODELS, "sorter", ModuleKind(lambda: Language(vocabulary=n_tokens), PARTS))
    run = save_model(tmp_path / "run", Language(vocabulary=n_tokens), "sorter", task)
    assert run.task() == task
    with pytest.raises(ValueError, match="d_vocab is 50, but the task has"):
        save_model(tmp_path / "other", Language(), "fused", task)


class Complex(Language):
    def __init__(self) -> None:
        super().__init__(Softmax)
        self.register_buffer("turns", torch.zeros(4, dtype=torch.complex64))


@pytest.mark.parametrize(
    ("module", "given", "said"),
    [
        (Language().half(), tokens(), "float32, or all in float64"),
        (Complex(), tokens(), "turns is torch.complex64, which .* persistent=False"),
        (Language(), tokens() + 1, "token 50 is outside the model's vocabulary 0..49"),
        (Language(), [tokens()[0], tokens()[1, :5]], "different lengths need pad"),
        (Language(), tokens()[:, :1], "each of two tokens or more"),
        (Language(), [], "at least one"),
        (Language(Softmax), tokens(), "fused builds another module"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_left(
    tmp_path: Path, module: nn.Module, given: Tensor | list[Tensor], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        save_model(tmp_path / "run", module, "fused", given)
    assert not list(tmp_path.iterdir())


def test_there_are_as_many_words_as_tokens() -> None:
    with pytest.raises(ValueError, match="2 words for 50 tokens"):
        own_sequences(tokens(), VOCABULARY, words=["a", "b"])


def test_shorter_sequences_are_padded_and_padding_is_left_out(tmp_path: Path) -> None:
    rows = [tokens()[0], tokens()[1, :7]]
    rows[0][-1] = rows[1][-1] = 3  # no padding token at the end
    run = save_model(tmp_path / "run", Language(), "fused", own_sequences(rows, VOCABULARY, pad=0))
    batch = run.task().sample(2, workbench.generator(0), split="test")
    assert sorted(run.task().lengths(batch.tokens).tolist()) == [7, CONTEXT]
    assert batch.loss_mask.sum().item() == 6 + CONTEXT - 1


def test_what_must_be_trained_first_asks_for_other_sequences(tmp_path: Path) -> None:
    run = save_model(tmp_path / "run", Language(), "fused", tokens())
    with pytest.raises(ValueError, match="training=others"):
        run.task().sample(4, workbench.generator(0), split="train")
    others = tokens(seed=1)
    run = save_model(tmp_path / "more", Language(), "fused", own_sequences(tokens(), VOCABULARY, training=others))
    drawn = run.task().sample(24, workbench.generator(0), split="train").tokens
    assert {tuple(row) for row in drawn.tolist()} == {tuple(row) for row in others.tolist()}


def test_words_and_ids_can_be_typed(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(VOCABULARY)]
    task = save_model(tmp_path / "run", Language(), "fused", own_sequences(tokens(), VOCABULARY, words=words)).task()
    assert task.parse("w3 4 w5").tokens.tolist() == [[3, 4, 5]]
    assert task.words(torch.tensor([3, 4])) == ["w3", "w4"]
    with pytest.raises(ValueError, match="'w99' is neither a word of the vocabulary nor an id below 50"):
        task.parse("w3 w99")


def test_the_texts_of_tokens_are_kept_with_their_words(tmp_path: Path) -> None:
    known = Vocabulary(tuple(f"␣w{i}" for i in range(VOCABULARY)), tuple(f" w{i}" for i in range(VOCABULARY)))
    run = save_model(tmp_path / "run", Language(), "fused", own_sequences(tokens(), VOCABULARY, words=known))
    assert run.task().vocabulary == known
    with pytest.raises(ValueError, match="there are 1 words for 50 tokens"):
        own_sequences(tokens(), VOCABULARY, words=Vocabulary(known.words, ("w",)))


PLUGIN = """
from modules_of_mine import PARTS, Language
from workbench.models import ModuleKind

MODELS = {"mine": ModuleKind(Language, PARTS)}
"""


def test_without_its_plugin_a_run_says_which_one_it_needs(tmp_path: Path) -> None:
    """A plugin may import what lies beside it."""
    (tmp_path / "modules_of_mine.py").write_text((ROOT / "tests/models/own_modules.py").read_text())
    (tmp_path / "mine.py").write_text(PLUGIN)
    script = (
        "import torch, workbench; workbench.load_plugins(['mine.py']); from modules_of_mine import Language;"
        "workbench.save_model('runs/mine', Language(), 'mine', torch.arange(20).view(2, 10))"
    )
    there = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "capture_output": True, "text": True}
    subprocess.run([sys.executable, "-P", "-c", script], check=True, **there)  # type: ignore[call-overload]
    bare = [sys.executable, "-P", "-m", "workbench", "inspect", "runs/mine", "--only", "entropy", "--n", "2"]
    without = subprocess.run(bare, **there)  # type: ignore[call-overload]
    assert without.returncode and "Traceback" not in without.stderr
    assert "mine" in without.stderr and "plugin mine.py" in without.stderr
    found = subprocess.run([*bare, "--plugin", "mine.py"], **there)  # type: ignore[call-overload]
    assert found.returncode == 0 and "2 layers, mine" in found.stdout, found.stderr
