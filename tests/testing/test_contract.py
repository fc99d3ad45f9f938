"""The contract tests that ship: what is wrong with a part is said in words, and what `new` writes keeps them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workbench.cli import main
from workbench.testing import ContractError, NotTested, cases, check, contract

pytestmark = pytest.mark.usefixtures("no_plugins")

NAMES = {"task": "backwards", "variant": "soft_sigmoid", "instrument": "looks_back", "mechanism": "reads_gold"}
NAMES |= {"study": "short_chains", "method": "all_agree"}

TASK = """
import torch
from workbench.tasks import Batch, Task, Truth, Vocabulary

class Copy(Task):
    name, summary, group, unit = "copy_once", "digits, twice", "place", "position"
    length: int = 6
    vocabulary = property(lambda self: Vocabulary((*"0123456789", "|")))
    n_ctx = property(lambda self: 2 * self.length + 1)
    groups = property(lambda self: tuple(range(self.length)))

    def draw(self, n, generator, *, head="main", **condition):
        self.refuse(condition)
        return self.batch(torch.randint(10, (n, self.length), generator=generator))

    def batch(self, digits):
        tokens = torch.cat([digits, torch.full_like(digits[:, :1], 10), digits], dim=1)
        return Batch.next_token(tokens, self.length, 2 * self.length)

    def question_length(self, tokens):
        return torch.full((len(tokens),), self.length + 1)

    def truth(self, tokens):
        place = torch.full_like(tokens, -1)
        place[:, self.length : -1] = torch.arange(self.length)
        return Truth(torch.zeros(0, 4, dtype=torch.long), {"place": place})

    def parse(self, text):
        if len(digits := self.vocabulary.encode(text.strip().removesuffix("|"))) != self.length:
            raise ValueError("six digits")
        return self.batch(torch.tensor([digits]))

TASKS = {"copy_once": Copy}
"""

VARIANT = """
from workbench.models.attention import base

class Mine(base.Attention):
    name = "mine"
    def pattern(self, q, k, at=None):
        return self.scores(q, k, at).sigmoid()

ATTENTION = {"mine": Mine}
"""

OBJECTIVE = """
import torch
from workbench.objectives import Objective

class Mine(Objective):
    name = "mine"
    needs = ("blocks.0.hook_resid_post",)
    def forward(self, logits, kept, batch):
        real = (batch.tokens != self.pad).unsqueeze(-1)
        loss = (kept["blocks.0.hook_resid_post"].square() * real).sum() / real.sum()
        return loss, {"mine": loss.detach()}

OBJECTIVES = {"mine": Mine}
"""

INSTRUMENT = '''
"""Norm. Does not show: much. Control: fresh weights (`untrained`)."""
import sys
from workbench.measurement import Measurement

CONTROLS = ("untrained",)
def why_not(subject): return None
def needs(subject): return ["blocks.0.hook_resid_post"]
def measure(capture):
    values = capture["blocks.0.hook_resid_post"].norm(dim=(1, 2)).numpy()
    settings = {"model": capture.subject.name}
    return Measurement("Norm", values, ("example",), {"example": range(len(values))}, "1", settings, caption="Norm.")

INSTRUMENTS = {"norm": sys.modules[__name__]}
'''

STUDY = """
from workbench.studies import Higher, Study
from workbench.studies.figures import by_group
from workbench.studies.measures import Logged

BOTH = [{"name": "one", "preset": "chain-chacal"}, {"name": "two", "preset": "chain-standard"}]
RUNS = {"settings": {"steps": 2}, "variants": BOTH}
STUDIES = {"mine": Study(question="Is one better?", runs={"small": RUNS}, measure=Logged(("accuracy",)),
    seeds={"small": 3}, contrasts=[Higher("accuracy", "one", "two")],
    draw=lambda groups: by_group(groups, "accuracy", "Accuracy"))}
"""


WEIGHTS = '''
"""Size. Does not show: much. Its control would be fresh weights."""
import sys
from workbench.measurement import Measurement

CONTROLS = ()
def why_not(subject): return None
def measure(subject):
    values = subject.encoder.norm(dim=1).numpy()
    settings = {"model": subject.name}
    return Measurement("Size", values, ("token",), {"token": range(len(values))}, "1", settings, caption="Size.")

WEIGHTS = {"size": sys.modules[__name__]}
'''

METHOD = '''
import torch
from workbench.benchmark.questions import Answer, Asks

def mine(question):
    """The order of the names."""
    if question.asks is not Asks.NODES:
        return None
    return Answer(scores={name: float(place) for place, name in enumerate(question.candidates)})

METHODS = {"mine": mine}
'''

MODEL = """
import torch
from torch import nn
from workbench.models import ModuleKind, Parts

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.norm, self.mlp = nn.MultiheadAttention(8, 2, batch_first=True), nn.RMSNorm(8), nn.Linear(8, 8)
    def forward(self, x):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.attn(x, x, x, attn_mask=later)[0]
        return x + self.mlp(self.norm(x))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(11, 8), nn.ModuleList([Block(), Block()])
        self.norm, self.out = nn.RMSNorm(8), nn.Linear(8, 11)
    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks: x = block(x)
        return self.out(self.norm(x))

PARTS = Parts(embed="embed", blocks="blocks", attn="attn", mlp="mlp", final_norm="norm", unembed="out")
MODELS = {"mine": ModuleKind(Model, PARTS)}
"""


KINDS = {"task": TASK, "variant": VARIANT, "objective": OBJECTIVE, "instrument": INSTRUMENT, "study": STUDY}
KINDS |= {"instrument of weights": WEIGHTS, "model": MODEL}


@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS)
def test_a_part_that_keeps_its_contract_has_held_every_check(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text, encoding="utf-8")
    untested = 0
    for case in cases(file):
        try:
            case.run()
        except NotTested:
            untested += 1
    assert len(check(file)) == len(cases(file)) - untested > 0


@pytest.mark.parametrize(
    ("text", "right", "wrong", "said"),
    [
        (TASK, "generator=generator)", "generator=None)", "something else than `generator` is asked for chance"),
        (TASK, "2 * self.length + 1", "2 * self.length", "a sequence has 13 tokens, but n_ctx says 12"),
        (TASK, "(len(tokens),), self.length + 1", "(len(tokens),), 0", "see question_length"),
        (TASK, "self.refuse(condition)", "pass", "{'no_such_condition': 3}, is not refused"),
        (TASK, '.removesuffix("|")', "", "parse does not read what question writes"),
        (TASK, "torch.arange(self.length)", "torch.arange(self.length) + 9", r"no answer is in any of the groups"),
        (TASK, "torch.zeros(0, 4,", "torch.tensor([[0, 1, 2, 5]],", "from a query to a later key"),
        (TASK, '{"place": place}', '{"where": place}', "no label 'place' to break accuracy down by"),
        (TASK, "place = torch.full_like(tokens, -1)", "place = [][0]", "it raises IndexError: list index out of range"),
        (VARIANT, "self.scores(q, k, at).sigmoid()", "(q @ k.mT).sigmoid()", "weight on a later key"),
        (VARIANT, ".sigmoid()", ".tanh().tril()", "negative weight"),
        (VARIANT, 'name = "mine"', 'name = "mine"; passes_constants = True', "rows do not sum to 1"),
        (
            VARIANT,
            "    def pattern",
            "    def mix(self, q, k, v): return self.scores(q, k).softmax(-1) @ v\n    def pattern",
            r"mix\(q, k, v\) is not read\(pattern\(q, k\), v\) in float64: they differ by up to",
        ),
        (
            VARIANT,
            "    def pattern",
            "    def read(self, pattern, v): return pattern @ (pattern @ v)\n"
            "    def step_terms(self, pattern): yield pattern @ pattern\n    def pattern",
            "the term of 1 steps reads what is not 1 back",
        ),
        (VARIANT, "self.scores(q, k, at)", "self.scores(q, k)", "at=\\[4, 7\\]"),
        (OBJECTIVE, "loss.detach()", "loss", "keeps the graph of the loss alive"),
        (OBJECTIVE, " * real", "", "columns of padding"),
        (OBJECTIVE, 'needs = ("blocks.0.hook_resid_post",)', 'needs = ("blocks.9.hook_resid_post",)', "a model keeps"),
        (OBJECTIVE, 'kept["blocks.0.hook_resid_post"]', "logits.detach()", "gradient"),
        (OBJECTIVE, ".square()", ".square() * torch.rand(())", "drawn at random"),
        (INSTRUMENT, "Does not show: much.", "", 'nothing of what it does "not show"'),
        (INSTRUMENT, '("untrained",)', '("shuffled",)', r"CONTROLS names \['shuffled'\]"),
        (INSTRUMENT, "dim=(1, 2)", "dim=(0, 2)", "12 examples were given, and"),
        (INSTRUMENT, ".norm(dim", ".mul_(2).norm(dim", "other numbers|changes the activations"),
        (WEIGHTS, '("token",), {"token"', '("example",), {"example"', "of the weights alone, without it"),
        (WEIGHTS, ".norm(dim=1)", ".add_(1).norm(dim=1)", "gave other numbers"),
        (MODEL, ".triu(1)", ".triu(2)", "another last token changes the logits before it"),
        (MODEL, 'mlp="mlp"', 'mlp="norm"', "block 0 is not its input with what attn and norm write added"),
        (
            MODEL,
            "super().__init__()\n        self.embed",
            "super().__init__(); torch.manual_seed(0)\n        self.embed",
            "built from other draws it has the same weights",
        ),
        (STUDY, '"one", "two")', '"one", "three")', "names the group 'three'; the runs of 'small' make: one; two"),
        (STUDY, '"chain-standard"', '"chain-standart"', "cannot be made"),
        (METHOD, "The order of the names.", "", "a sentence that ends with a stop, not ''"),
        (METHOD, "is not Asks.NODES", "", "it answers no question about any model"),
        (METHOD, "name: float", "name + '!': float", "asked about nodes: scores name 'a0.h0!', which is not asked"),
        (METHOD, "float(place)", "float(torch.rand(()))", "draw from `question.seed` alone"),
        (
            METHOD,
            "    return Answer",
            "    question.run.model().unembedding.weight.data += 1\n    return Answer",
            "weights",
        ),
    ],
)
def test_what_is_broken_is_said_in_words(text: str, right: str, wrong: str, said: str, tmp_path: Path) -> None:
    assert text.count(right) >= 1
    file = tmp_path / "mine.py"
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    with pytest.raises(ContractError, match=said):
        check(file)


def test_a_plugin_or_a_part_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(VARIANT, encoding="utf-8")
    with pytest.raises(ValueError, match="cannot be read"):
        check(tmp_path / "other.py")
    with pytest.raises(ValueError, match="no plugin 'other' is loaded"):
        check("other")
    with pytest.raises(ValueError, match="has no part 'yours'; it has: mine"):
        check(tmp_path / "mine.py", settings={"yours": [{}]})


def test_the_settings_that_are_given_are_checked(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TASK, encoding="utf-8")
    found = cases(tmp_path / "mine.py", settings={"copy_once": [{"length": 3}, {"length": 4}]})
    assert {case.subject.length for case in found} == {3, 4}
    assert {case.settings for case in found} == {"length=3", "length=4"}


def test_it_is_a_test_for_pytest_with_a_case_for_each_check(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(VARIANT, encoding="utf-8")
    (mark,) = contract(tmp_path / "mine.py").pytestmark
    assert mark.name == "parametrize"
    assert list(map(str, mark.args[1])) == list(map(str, cases(tmp_path / "mine.py")))


@pytest.mark.slow
def test_what_new_writes_keeps_its_contract_in_a_strangers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a part, in the user's own pytest; and one of them broken."""
    monkeypatch.chdir(tmp_path)
    for kind, name in NAMES.items():
        assert main(["new", kind, name]) == 0
    lines = [f'test_{kind} = contract("{name}.py")' for kind, name in NAMES.items()]
    Path("test_mine.py").write_text("\n".join(["from workbench.testing import contract", *lines]), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout
    variant = Path("soft_sigmoid.py")
    variant.write_text(variant.read_text(encoding="utf-8").replace(").sigmoid()", ").tanh()"), encoding="utf-8")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "weight on a later key" in done.stdout and "Traceback" not in done.stdout
