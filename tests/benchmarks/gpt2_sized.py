"""A model of GPT-2's size with random weights, and the peak memory of inspecting it in a process of its own."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

WORDS = 50_257
MEASURES = ("entropy", "projection", "graph_measures", "logit_lens", "lens_agreement")
PEAK = """
import resource, sys
from workbench.cli import main
code = main(sys.argv[1:])
print("PEAK", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)  # of this process alone, on Linux in kB
sys.exit(code)
"""


def make_model(folder: Path, **shape: Any) -> float:
    """A GPT-2 with random weights and a tokenizer of one word a token; returns its size in MB."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    shape = {"vocab_size": WORDS, "bos_token_id": None, "eos_token_id": None, **shape}
    model = GPT2LMHeadModel(GPT2Config(**shape))
    model.save_pretrained(folder)
    words = {f"w{i}": i for i in range(shape["vocab_size"])}
    made = Tokenizer(models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=made, unk_token="w0").save_pretrained(folder)
    return sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20


def write_text(path: Path, n_words: int, vocabulary: int = WORDS) -> None:
    draws = random.Random(0)
    path.write_text(" ".join(f"w{draws.randrange(vocabulary)}" for _ in range(n_words)), encoding="utf-8")


def peak(folder: Path, text: Path, n: int, *more: str) -> tuple[float, str]:
    """Peak memory in MB of inspecting n sequences, and what was said on standard error."""
    command = ["inspect", str(folder), "--text", str(text), "--length", "256", "--n", str(n), *more]
    command += ["--out", str(folder / f"report-{n}")]
    ran = subprocess.run([sys.executable, "-c", PEAK, *command], capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return float(ran.stdout.rsplit("PEAK", 1)[1]), ran.stderr
