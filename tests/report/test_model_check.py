"""`workbench check`: sound models of every kind pass, and each check is seen to fail on a model broken on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor
from transformer_lens.hook_points import HookPoint

import workbench
from tests.models import own_modules
from tests.models.architecture_table import ARCHITECTURES, build
from workbench.cli import main
from workbench.interventions import RemoveHead
from workbench.models import Decoder, DecoderConfig, OwnModel
from workbench.models.hooked import hook
from workbench.models.pretrained.model import Pretrained
from workbench.report import hooked_checks
from workbench.report.hooked_checks import Check
from workbench.report.model_check import ModelCheck, check
from workbench.runs import Run
from workbench.runs.compiled import compile_run

QUICK = ("gpt2", "gptj", "opt", "gpt_neox", "llama", "gemma2, capped at 3", "mixtral", "falcon", "jetmoe")
EDITS = ("a head writes nothing", "a query reads nothing", "a query reads another key", "one head reads an edit")


def decoder(variant: str = "standard", **shape: Any) -> Decoder:
    torch.manual_seed(0)
    attention = [{"variant": variant}] * 2
    return Decoder(DecoderConfig(d_vocab=20, n_ctx=16, n_layers=2, d_model=16, n_heads=2, attention=attention, **shape))


def named(checked: ModelCheck) -> dict[str, Check]:
    return {each.what: each for each in checked.checks}


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("run") / "sorter", {"q": 6, "max_length": 6})


@pytest.mark.parametrize("name", QUICK)
def test_a_model_of_hugging_face_passes(name: str, tmp_path: Path) -> None:
    assert name in ARCHITECTURES
    build(name).save_pretrained(tmp_path / "model")
    checked = check(tmp_path / "model")
    assert checked.passed, checked.says
    each = named(checked)
    assert each["hooked equals bare"].passed and each["hooked equals bare"].number < 1e-5
    untold = {what for what, made in each.items() if made.passed is None}
    assert untold <= {*EDITS, "a head writes its average"}, "these alone a model may refuse"
    assert all("refused, as " in each[what].notes[0] for what in untold)
    assert each["something is added"].number > 1e-4


@pytest.mark.parametrize("shape", [{}, {"d_mlp": 0}, {"positions": "rotary", "n_kv_heads": 1, "activation": "swiglu"}])
@pytest.mark.parametrize("variant", ["standard", "chacal", "tempered", "scalable"])
def test_a_decoder_passes(variant: str, shape: dict[str, Any]) -> None:
    checked = check(decoder(variant, **shape))
    assert all(each.passed for each in checked.checks), checked.says


def test_a_compiled_run_passes_and_a_head_that_weighs_nothing_is_no_fault(sorter: Run) -> None:
    checked = check(sorter)
    assert checked.passed and checked.name == "sorter"
    assert workbench.check(sorter.path).json() == checked.json()
    model = decoder()
    with torch.no_grad():
        model.layers[0].attn.o.weight[:, :8] = 0
    checked = check(model)
    assert checked.passed, checked.says
    note = "1 of 4 change nothing, where what is edited is 0 or has weights of 0: blocks.0.attn.hook_z"
    assert named(checked)["a head writes nothing"].notes == (note,)


@pytest.mark.parametrize("kind", ["fused", "softmax", "encoder", "unseen"])
def test_a_module_of_ones_own_passes_and_lists_no_hook_that_never_fires(kind: str) -> None:
    torch.manual_seed(0)
    made = own_modules.KINDS[kind]
    model = OwnModel(made.build(), made.parts, own_modules.CONTEXT)
    checked = check(model)
    assert checked.passed, checked.says
    hooked = model.hooked()
    _, cache = hooked.run_with_cache(torch.randint(50, (2, 9)))
    assert set(hooked.hook_dict) == set(cache)
    shows_z = "blocks.0.attn.hook_z" in hooked.hook_dict
    assert shows_z == (kind in ("fused", "encoder"))
    assert named(checked)["a head writes nothing"].passed == (True if shows_z else None)


def test_a_loaded_model_is_checked_but_for_what_is_gone() -> None:
    checked = check(Pretrained(build("llama")))
    assert checked.passed and "give its folder or file" in named(checked)["hooked equals bare"].notes[0]
    with pytest.raises(ValueError, match="step is of a run's checkpoints"):
        check(decoder(), step=3)
    with pytest.raises(ValueError, match="is checked, not a int"):
        check(3)


class Deaf(HookPoint):
    """Calls no hook."""

    def __call__(self, x: Tensor) -> Tensor:
        return x


class Mute(HookPoint):
    """Calls its hooks, and goes on with what it was given."""

    def __call__(self, x: Tensor) -> Tensor:
        super().__call__(x)
        return x


class Off(HookPoint):
    """Computes something else than the model."""

    def __call__(self, x: Tensor) -> Tensor:
        return 1.01 * super().__call__(x)


class Leak(HookPoint):
    """Lets every position see all others."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x) + 0.1 * x.mean(1, keepdim=True)


class Mixed(HookPoint):
    """Lets every sequence see all others."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x) + 0.1 * x.mean(0, keepdim=True)


class Wrong(HookPoint):
    """Shows something else than goes on."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(2 * x) / 2


BROKEN: dict[str, tuple[type[HookPoint], str, set[str]]] = {
    "a hook that does not fire": (Deaf, "blocks.1.attn.hook_v", {"every step's hook fires"}),
    "an edit that changes nothing": (
        Mute,
        "blocks.1.attn.hook_z",
        {"something is added", "a head writes nothing", "a head writes its average"},
    ),
    "a pattern that nothing reads": (
        Mute,
        "blocks.0.attn.hook_pattern",
        {"something is added", "a query reads nothing", "a query reads another key"},
    ),
    "other logits": (Off, "unembed.hook_out", {"hooked equals bare"}),
    "a look ahead": (
        Leak,
        "unembed.hook_out",
        {"hooked equals bare", "later tokens change nothing", "padding behind changes nothing"},
    ),
    "a look aside": (Mixed, "unembed.hook_out", {"hooked equals bare", "alone as in a batch"}),
    "a part that is not what it writes": (Wrong, "blocks.0.hook_mlp_out", {"blocks add what they write"}),
}


def breaking(kind: type[HookPoint], point: str) -> Callable[[Any], Any]:
    def broken(model: Any) -> Any:
        hooked = hook(model)
        hooked.hook_dict[point].__class__ = kind
        return hooked

    return broken


@pytest.mark.parametrize("fault", BROKEN)
def test_each_check_fails_on_what_is_broken_and_names_it(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, point, expected = BROKEN[fault]
    monkeypatch.setattr(hooked_checks, "hook", breaking(kind, point))
    checked = check(decoder())
    failed = {what for what, made in named(checked).items() if made.passed is False}
    assert not checked.passed
    assert expected <= failed, checked.says
    if kind in (Deaf, Mute):
        assert failed == expected and f"{point}" in checked.says
    assert f"{len(failed)} of " in checked.says and checked.says.count("FAILED") == len(failed) + 1


def test_a_kind_of_edit_that_does_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = lambda self, model, seen: [(f"blocks.{self.layer}.attn.hook_z", lambda z, hook: z)]  # noqa: E731
    monkeypatch.setattr(RemoveHead, "hooks", nothing)
    checked = named(check(decoder()))
    assert checked["a head writes nothing"].passed is False and checked["something is added"].passed
    assert "not even where it is made" in checked["a head writes nothing"].notes[0]


def test_the_command_says_what_the_function_does_and_fails_with_an_exit_code(
    sorter: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = workbench.check(sorter)
    assert main(["check", str(sorter.path), "--quiet"]) == 0
    assert capsys.readouterr() == (f"{checked.says}\n", "")
    assert main(["check", str(sorter.path), "--json", "--quiet"]) == 0
    assert capsys.readouterr().out == f"{checked.json()}\n"
    read = json.loads(checked.json())
    assert read["passed"] is True and len(read["checks"]) == len(checked.checks)
    table = checked.table()
    assert isinstance(table, pd.DataFrame) and list(table["what"]) == [each.what for each in checked.checks]
    monkeypatch.setattr(hooked_checks, "hook", breaking(Mute, "blocks.1.hook_attn_out"))
    assert main(["check", str(sorter.path), "--quiet"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("sorter: 3 of ") or "checks FAILED" in said.splitlines()[0]
    assert main(["check", "/nowhere"]) == 2
    assert capsys.readouterr().err.startswith("workbench: there is no folder '/nowhere'")
