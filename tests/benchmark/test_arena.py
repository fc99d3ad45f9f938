"""Unnamed models, and claims about them: three entrants, and claims that are wrong, empty or hostile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from workbench.benchmark.arena import MODELS, Entry, Marked, _drawn, arena, entries, mark
from workbench.benchmark.subjects import SUBJECTS
from workbench.circuits import Comparison, activation_patching
from workbench.cli import main
from workbench.models.hooked import hook

SEED = 14  # of its models that know some hold what they do not use, and none has nodes that carry no change of a pair
Claims = dict[str, dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("arena") / "folder"
    assert arena(place, SEED) == SEED
    return place


def marked(folder: Path, claim: object, seed: int = SEED) -> Marked:
    file = folder.parent / "claim.json"
    file.write_text(claim if isinstance(claim, str) else json.dumps({"models": claim}))
    return mark(folder, file, seed)


def always_yes(entry: Entry) -> dict[str, dict[str, float]]:
    return {section: dict.fromkeys(names, 1.0) for section, names in entry.asked.items()}


def probe_only(entry: Entry) -> dict[str, dict[str, float]]:
    """What a probe decodes better than the most frequent label is held, and used."""
    model, found = hook(entry.model), {}
    for name in entry.asked["used"]:
        label, point = name.split("@")
        with torch.no_grad():
            _, cache = model.run_with_cache(entry.sequences.tokens, names_filter=point)
        there = entry.labels[label] >= 0
        x, y = cache[point][there].numpy(), entry.labels[label][there].numpy()
        half = len(x) // 2
        right = (LogisticRegression(max_iter=200).fit(x[:half], y[:half]).predict(x[half:]) == y[half:]).mean()
        frequent = torch.from_numpy(y).bincount().max().item() / len(y)
        found[name] = 1.0 if right > frequent + 0.1 else 0.0
    return {"held": found, "used": found}


def patching(entry: Entry) -> dict[str, dict[str, float]]:
    """Heads and MLPs that move the answer when they are patched are needed, where the model knows the answers."""
    comparison = Comparison(hook(entry.model), entry.pairs)
    if (comparison.baselines[0] > 0).mean() < 0.9:
        return {"nodes": dict.fromkeys(entry.asked["nodes"], 0.0)}
    heads = activation_patching(comparison, "head").values.mean(-1)
    mlps = activation_patching(comparison, "mlp_out", ()).values.mean(-1)
    effects = {f"a{i}.h{h}": value for i, row in enumerate(heads) for h, value in enumerate(row)}
    effects |= {f"m{i}": value for i, value in enumerate(mlps)}
    return {"nodes": {name: 0.95 if abs(effects[name]) > 1e-3 else 0.05 for name in entry.asked["nodes"]}}


def test_three_entrants_are_told_apart(folder: Path) -> None:
    marks = {}
    for entrant in (always_yes, probe_only, patching):
        marks[entrant.__name__] = marked(folder, {name: entrant(entry) for name, entry in entries(folder).items()})
    yes, probe, patch = marks["always_yes"], marks["probe_only"], marks["patching"]
    assert yes.mean("nodes", "false_alarms", False) == yes.mean("used", "false_alarms", False) == 1
    assert yes.score < 0 < patch.score
    assert patch.mean("nodes", "false_alarms", False) == 0 and patch.mean("nodes", "power", True) == 1
    assert probe.mean("held", "false_alarms", True) < 0.1 < 0.15 < probe.mean("used", "false_alarms", True)
    assert "models that know nothing" in patch.says and json.loads(patch.json())["rows"]


def test_the_truth_claimed_is_right_and_sure_and_its_opposite_wrong(folder: Path) -> None:
    truth: Claims = {
        name: {section: {key: float(so) for key, so in known.items()} for section, known in drawn.asked.items()}
        for name, drawn in _drawn(SEED)
    }
    assert marked(folder, truth).score == 1
    opposite = {
        name: {section: {key: 1 - so for key, so in known.items()} for section, known in of.items()}
        for name, of in truth.items()
    }
    assert marked(folder, opposite).score == -3


def test_the_folder_names_no_subject_no_seed_and_no_truth(folder: Path) -> None:
    content = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    for word in [
        *SUBJECTS,
        "truth",
        "decoy",
        "backup",
        "seed",
        "re-initialised",
        "symbols",
        "pointer_chain",
    ]:
        assert word.encode() not in content, word
    assert len(entries(folder)) == MODELS and sum(not drawn.knows for _, drawn in _drawn(SEED)) == 2
    shapes = {name: sorted(of.asked) for name, of in entries(folder).items()}
    assert all(sections == ["held", "nodes", "used"] for sections in shapes.values())


def test_another_seed_is_another_folder_and_its_truth_is_not_taken(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"model-0 was not drawn from the seed 8; give the seed"):
        marked(folder, {}, seed=8)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("[]", "claim.json"),
        ("{", "claim.json"),
        ('{"models": 3}', "models"),
        ('{"models": {"model-0": {"nodes": {"m0": 2}}}}', "less than or equal to 1"),
        ('{"models": {"model-0": {"nodes": {"m0": NaN}}}}', "finite number"),
        ('{"models": {"model-0": {"nodes": {"m0": true}}}}', "number"),
        ('{"models": {"model-0": {"nodes": {"../../x": 1}}}}', "nodes names '../../x', which is not asked about"),
        ('{"models": {"../model-0": {}}}', "is about '../model-0'; there is: model-0"),
        ('{"models": {}, "score": 1}', "score"),
        ("[" * 5000, "claim.json"),
        ('{"models": {"model-0": {"nodes": {"m0": 0.5' + "0" * 2**21 + "}}}}", "claim.json"),
    ],
)
def test_a_wrong_or_hostile_claim_is_one_line(folder: Path, claim: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        marked(folder, claim)
    assert message in str(raised.value) and "\n" not in str(raised.value) and len(str(raised.value)) < 500


def test_an_empty_claim_says_nothing_in_one_line(folder: Path) -> None:
    claims: tuple[Claims, ...] = ({}, {"model-0": {"nodes": {}}})
    for claim in claims:
        said = marked(folder, claim)
        assert said.says == "the claim says nothing of any of 6 models; its score is 0" and said.score == 0


def test_the_command_line_writes_a_folder_and_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "arena", "--out", "folder"]) == 0
    seed = capsys.readouterr().out.split("--seed ")[1].strip()
    assert int(seed) > 2**20
    Path("claim.json").write_text('{"models": {"model-1": {"nodes": {"a0.h0": 0.9}}}}')
    assert main(["bench", "score", "folder", "claim.json", "--seed", seed]) == 0
    assert capsys.readouterr().out.startswith("score ")
    assert main(["bench", "arena", "--out", "folder"]) == 2
    assert "already exists" in capsys.readouterr().err
    for wrong in ("-1", "9" * 50):
        assert main(["bench", "arena", "--out", "other", "--seed", wrong]) == 2
        assert "a seed is a whole number from 0 to 2^48" in capsys.readouterr().err and not Path("other").exists()
    assert main(["bench", "score", "folder", "nosuch.json", "--seed", seed]) == 2
    assert capsys.readouterr().err.count("\n") == 1
