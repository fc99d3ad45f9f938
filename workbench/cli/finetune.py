"""`workbench finetune`: train a Hugging Face model on a text with another attention."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.fields import parse_fields
from workbench.cli.options import add_out, add_quiet, add_seed
from workbench.cli.output import INTERRUPTED, say
from workbench.cli.parser import Commands, Parser, add_command

if TYPE_CHECKING:
    from workbench.training.finetune_config import Finetuned

SETTINGS: dict[str, tuple[type, str]] = {
    "steps": (int, "optimizer steps (default: 1000)"),
    "lr": (float, "the highest learning rate (default: 5e-5)"),
    "batch_size": (int, "sequences in a step (default: 8)"),
    "length": (int, "tokens in a sequence (default: 256, or the context)"),
    "warmup": (int, "steps over which the learning rate rises (default: 0)"),
    "weight_decay": (float, "of AdamW (default: 0.01)"),
    "gamma_warmup": (int, "steps over which gamma rises from 0 (default: 0)"),
    "seq_vcr": (int, "add Seq-VCR of the output of this layer, from 0"),
    "eval_size": (int, "the most sequences that perplexity is measured on (default: 64)"),
    "log_every": (int, "steps between lines of the log (default: 10)"),
    "eval_every": (int, "steps between measurements of perplexity (default: 200)"),
    "save_every": (int, "steps between saved states (default: 200)"),
}
NAMES = {"lr": "learning_rate"}


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="train a Hugging Face model on a text with another attention",
        description="Give a model of Hugging Face another attention, train all its weights on a text, and write an "
        "ordinary folder of Hugging Face. Perplexity is measured on held-out text with the model's own attention, "
        "directly after the exchange, and after training. `workbench resume DIR` goes on where it was stopped. Further "
        "settings of the attention are given as --attention.NAME VALUE.",
        usage="MODEL --text FILE --out DIR [--attention NAME] [--gamma G] [--layers LAYER …] [--steps N] [--lr RATE] …",
        takes_fields=True,
    )
    parser.add_argument("model", metavar="MODEL", help="a folder that save_pretrained wrote, or a name on the hub")
    parser.add_argument("--text", type=Path, required=True, metavar="FILE", help="what to train on, in UTF-8")
    add_out(parser, "the folder to make", required=True)
    parser.add_argument("--attention", default="chacal", metavar="NAME", help="the variant (default: chacal)")
    parser.add_argument("--gamma", type=float, metavar="G", help="of the variant, such as 0.9 (default: its own)")
    parser.add_argument("--layers", type=int, nargs="+", metavar="LAYER", help="the layers to give it (default: all)")
    add_settings(parser)
    add_seed(parser, "of the order of the text, and of dropout")
    add_quiet(parser)


def add_settings(parser: Parser) -> None:
    """The options that are numbers."""
    for name, (kind, text) in SETTINGS.items():
        parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", type=kind, metavar="N", help=text)


def run(options: argparse.Namespace, fields: list[str]) -> int:
    from workbench.training.finetune import finetune

    attention = {"variant": options.attention}
    given: dict[str, Any] = parse_fields(fields)
    if given.keys() - {"attention"} or not isinstance(given.get("attention", {}), dict):
        wrong = next(iter(given.keys() - {"attention"}), "attention")
        raise ValueError(f"unrecognised argument '--{wrong}'; see `workbench finetune --help`")
    attention |= given.get("attention", {}) | ({} if options.gamma is None else {"gamma": options.gamma})
    settings = {
        NAMES.get(name, name): getattr(options, name) for name in SETTINGS if getattr(options, name) is not None
    }
    settings |= {"model": options.model, "text": str(options.text), "layers": options.layers, "seed": options.seed}
    return say_finetuned(finetune({**settings, "attention": attention}, options.out, progress=not options.quiet))


def say_finetuned(result: Finetuned) -> int:
    """Say how a fine-tuning ended, and what can be done next; returns the exit code."""
    if not result.finished:
        say(f"stopped at step {result.step} of {result.config.steps}; `workbench resume {result.path}` goes on")
        return INTERRUPTED
    words = {"before": "with its own attention", "exchanged": "directly after the exchange", "after": "after training"}
    figures = ", ".join(f"{result.perplexity[name]:.4g} {text}" for name, text in words.items())
    say(f"trained {result.path}: perplexity of held-out text {figures}")
    say(f"next: workbench inspect {result.path} --text FILE")
    return 0
