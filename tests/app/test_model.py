"""The explorer on a model of Hugging Face: its pages on sentences, on what is typed, and on pieces of a text."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from transformers import GPT2Config, GPT2LMHeadModel

from tests.app import support
from tests.app.browsing import settle, started
from tests.app.conftest import APP
from workbench.app.views import PAGES
from workbench.cli import main
from workbench.models.pretrained import set_attention
from workbench.models.pretrained.text_file import SENTENCES, TypedText
from workbench.runs import open_model
from workbench.tasks.text import SHIPPED, Text
from workbench.util.seeds import generator

DRAWN = {"canvas": 3, "residual": 4, "entropy": 3, "hops": 4, "probes": 2}
"""Page -> the least charts and drawings."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 with fresh weights and ChaCAL in its second layer, whose tokens are bytes."""
    folder = tmp_path_factory.mktemp("models") / "small-gpt2"
    text = Text(path="shakespeare", block=128)
    shape = {"n_positions": 128, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": None, "eos_token_id": None}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(text.vocabulary), attn_pdrop=0.0, **shape))
    set_attention(model, {"variant": "chacal", "gamma": 0.8}, layers=[1])
    model.save_pretrained(folder)
    text.fast_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def explorer(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(tmp_path), "--model", str(folder)])
    return AppTest.from_file(str(APP), default_timeout=120)


def test_what_is_typed_is_read_by_its_own_tokenizer(explorer: AppTest, folder: Path) -> None:
    support.page(explorer, "residual", how="Type", input="The cat sat.")
    assert not explorer.error and len(support.charts(explorer)) + len(support.drawings(explorer)) >= 3
    block = next(block.value for block in explorer.code if block.language == "python")
    assert f"runs.open_model({str(folder)!r})" in block and "task.parse('The cat sat.')" in block
    assert support.check_code(explorer) >= 3
    support.page(explorer, "residual", how="Type", input="x" * 200)
    assert any("a text has 2 to 128 tokens, not 200" in error.value.replace("\\", "") for error in explorer.error)


def test_the_canvas_begins_with_what_comes_next_and_asks_nothing_of_running_text(explorer: AppTest) -> None:
    support.page(explorer, "canvas", how="Type", input="The cat sat")
    assert support.panels(explorer)[:2] == ["What comes next", "Canvas"], "what claims say of a task is not here"
    assert support.says(explorer, "After “The cat sat” comes most likely")
    assert support.says(explorer, "positions the token that follows is the one the model holds likeliest.")
    assert not support.says(explorer, "to this input")
    drawn = support.drawings(explorer)
    assert any("predicts next" in svg for svg in drawn) and not any("right answer" in svg for svg in drawn)
    assert support.check_code(explorer) >= 3
    assert not {"Which inputs", "Next wrong"} & {field.label for field in (*explorer.selectbox, *explorer.button)}


def test_a_prompt_set_chooses_the_input_and_says_what_is_right_after_it(explorer: AppTest) -> None:
    support.page(explorer, "residual", how="Prompt", prompts="repeated-tokens", prompt=3)
    assert not explorer.error
    clean = next(text.value for text in explorer.caption if "followed the last one before" in text.value)
    block = next(block.value for block in explorer.code if block.language == "python")
    assert "prompt_set('repeated-tokens', run.model())" in block and "prompts.example(3)" in block
    assert support.check_code(explorer) >= 3
    explorer.toggle(key="changed").set_value(True).run()
    assert not explorer.error
    changed = next(text.value for text in explorer.caption if "followed the last one before" in text.value)
    assert changed != clean, "another token is right after the changed prompt"
    explorer.selectbox(key="prompts").set_value("indirect-objects").run()
    assert any("does not fit" in error.value for error in explorer.error), "a byte is no name"
    assert "The page still shows the input before it." in [text.value for text in explorer.caption]


def test_a_prompt_is_compared_with_its_changed_one(explorer: AppTest) -> None:
    support.page(explorer, "compare", how="Prompt", prompts="repeated-tokens", prompt=3, how2="Prompt")
    assert not explorer.error
    assert [explorer.selectbox(key="prompts2").value, explorer.number_input(key="prompt2").value] == [
        "repeated-tokens",
        3,
    ]
    assert explorer.toggle(key="changed2").value and not explorer.toggle(key="changed").value


@pytest.mark.browser
def test_the_menu_has_the_pages_that_say_something_of_a_model(browser: Any, folder: Path, tmp_path: Path) -> None:
    with started(tmp_path, str(folder)) as (_, address):
        assert "/canvas?token=" in address, "the page that says what comes next"
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        settle(page)
        menu = page.get_by_role("navigation").get_by_role("link").all_inner_texts()
        assert [PAGES[name].title for name in PAGES if PAGES[name].of_models] == menu
        page.goto(address.split("/canvas")[0] + "/weights")  # an old link
        settle(page)
        assert "whose maps are known by name" in page.inner_text('[data-testid="stMain"]')


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens(explorer: AppTest, page: str) -> None:
    support.page(explorer, page)
    assert not explorer.error
    said = [text.value for text in explorer.caption]
    assert any("standard, then chacal (γ = 0.8)" in text.replace("\\", "") for text in said)
    assert len(support.charts(explorer)) + len(support.drawings(explorer)) >= DRAWN.get(page, 0)


def test_a_text_is_looked_at_in_pieces(folder: Path) -> None:
    run = open_model(str(folder), str(SHIPPED["shakespeare"]))
    task = run.task()
    assert isinstance(task, TypedText) and task.n_ctx == 128 and task.n_given == 64
    batch = task.sample(3, generator(0))
    assert batch.tokens.shape == (3, 32)
    assert task.question(batch.tokens[0]) in SHIPPED["shakespeare"].read_text(encoding="utf-8")
    assert open_model(str(folder)).task().n_given == len(SENTENCES)


def test_what_is_wrong_is_said_in_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no-tokenizer").mkdir()
    for file in ("config.json", "model.safetensors"):
        (tmp_path / "no-tokenizer" / file).write_bytes((folder / file).read_bytes())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text('{"format": 1}')
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    for given, words in {
        (str(tmp_path / "no-tokenizer"),): "has no tokenizer",
        (str(tmp_path / "nothing"),): "there is no folder",
        (str(tmp_path / "run"),): "is a run folder; `workbench explore --root",
        (str(folder), "--text", str(tmp_path / "none.txt")): "there is no text file",
    }.items():
        assert main(["explore", *given, "--root", str(tmp_path), "--port", str(port), "--headless"]) == 2
        shown = capsys.readouterr()
        assert words in shown.err and shown.err.strip().splitlines()[-1].startswith("workbench: "), shown.err
    assert main(["explore", "--text", "x", "--root", str(tmp_path)]) == 2
    assert "name the model too" in capsys.readouterr().err
