"""`workbench finetune`: train a Hugging Face model on a text or a task with another attention."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.fields import parse_fields
from workbench.cli.options import add_out, add_quiet, add_seed, refuse
from workbench.cli.output import INTERRUPTED, say, speaks
from workbench.cli.parser import Commands, Parser, add_command

if TYPE_CHECKING:
    from workbench.training.finetune_config import Finetuned

SETTINGS: dict[str, tuple[type, str, str]] = {
    "steps": (int, "N", "optimizer steps (default: 1000)"),
    "lr": (float, "RATE", "the highest learning rate (default: 5e-5)"),
    "batch_size": (int, "N", "sequences in a step (default: 8)"),
    "length": (int, "N", "tokens in a sequence (default: 256, or the context)"),
    "warmup": (int, "N", "steps over which the learning rate rises (default: 0)"),
    "weight_decay": (float, "DECAY", "of AdamW (default: 0.01)"),
    "gamma_warmup": (int, "N", "steps over which gamma rises from 0 (default: 0)"),
    "gamma_learned": (str, "layer|head", "learn a gamma of each layer or of each head"),
    "gamma_learning_rate": (float, "RATE", "the highest learning rate of learned gammas (default: 0.02)"),
    "seq_vcr": (int, "LAYER", "add Seq-VCR of the output of this layer, from 0; -1 for the last"),
    "device": (str, "DEVICE", "where to train: auto, cpu, cuda, mps (default: cpu)"),
    "eval_size": (int, "N", "the most sequences that perplexity is measured on (default: 64)"),
    "log_every": (int, "N", "steps between lines of the log (default: 10)"),
    "eval_every": (int, "N", "steps between measurements of perplexity (default: 200)"),
    "save_every": (int, "N", "steps between saved states (default: 200)"),
}
"""Option -> the type of its value, how the help names the value, and what it says."""

NAMES = {"lr": "learning_rate"}
NESTED = ("attention", "task", "seq_vcr")  # whose settings are given by name
ALSO = {"attention": "attention.variant", "gamma": "attention.gamma", "task": "task.name", "seq_vcr": "seq_vcr.layer"}
"""An option -> the setting that is the same."""


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="train a Hugging Face model on a text or a task with another attention",
        description="Give a model of Hugging Face another attention, train all its weights on a text or on a task, and "
        "write an ordinary folder of Hugging Face. Perplexity is measured on held-out data with the model's own "
        "attention, directly after the exchange, and after training. `workbench resume DIR` goes on where it was "
        "stopped. Further settings are given as --attention.NAME VALUE, --task.NAME VALUE and --seq_vcr.NAME VALUE.",
        usage="MODEL --text FILE | --task NAME --out DIR [--attention NAME] [--gamma G] [--layers LAYER …] [--steps N] "
        "[--lr RATE] …",
        takes_fields=True,
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a folder that save_pretrained wrote, a GGUF file, or a name on the hub"
    )
    parser.add_argument("--text", type=Path, metavar="FILE", help="what to train on, in UTF-8")
    parser.add_argument("--task", metavar="NAME", help="train on this task; `workbench list tasks` shows them")
    add_out(parser, "the folder to make", required=True)
    parser.add_argument("--attention", default="chacal", metavar="NAME", help="the variant (default: chacal)")
    parser.add_argument("--gamma", type=float, metavar="G", help="of the variant, such as 0.9 (default: its own)")
    parser.add_argument("--layers", type=int, nargs="+", metavar="LAYER", help="the layers to give it (default: all)")
    add_settings(parser)
    add_seed(parser, "of the order of the data, and of dropout")
    add_quiet(parser)


def add_settings(parser: Parser) -> None:
    """The options that are fields of the config; spelt with hyphens they are taken too, and not shown twice."""
    for name, (kind, value, text) in SETTINGS.items():
        parser.add_argument(f"--{name}", type=kind, metavar=value, help=text)
        if "_" in name:
            parser.add_argument(f"--{name.replace('_', '-')}", type=kind, dest=name, help=argparse.SUPPRESS)


def run(options: argparse.Namespace, fields: list[str]) -> int:
    from workbench.training.finetune import finetune

    more: dict[str, Any] = parse_fields(fields)
    wrong = next((name for name, value in more.items() if name not in NESTED or not isinstance(value, dict)), None)
    if wrong is not None:
        raise ValueError(f"unrecognised argument '--{wrong}'; see `workbench finetune --help`")
    settings = {
        NAMES.get(name, name): getattr(options, name) for name in SETTINGS if getattr(options, name) is not None
    }
    settings |= {"model": options.model, "layers": options.layers, "seed": options.seed}
    settings["text"] = None if options.text is None else str(options.text)
    for name, other in ALSO.items():
        part, setting = other.split(".")
        if setting in more.get(part, {}):
            refuse(options, (name,), f"is given, and --{other} too; leave one of the two out")
    gamma = {} if options.gamma is None else {"gamma": options.gamma}
    settings["attention"] = {"variant": options.attention, **more.get("attention", {}), **gamma}
    if options.task is not None or "task" in more:
        settings["task"] = {"name": options.task, **more.get("task", {})}
    if "seq_vcr" in more:
        layer = {} if options.seq_vcr is None else {"layer": options.seq_vcr}
        settings["seq_vcr"] = {**layer, **more["seq_vcr"]}
    return say_finetuned(finetune(settings, options.out, progress=not options.quiet))


def say_finetuned(result: Finetuned) -> int:
    """Say how a fine-tuning ended, and what can be done next; returns the exit code."""
    if not speaks():
        return 0 if result.finished else INTERRUPTED
    if not result.finished:
        say(f"stopped at step {result.step} of {result.config.steps}; `workbench resume {result.path}` goes on")
        return INTERRUPTED
    words = {"before": "with its own attention", "exchanged": "directly after the exchange", "after": "after training"}
    figures = ", ".join(f"{result.perplexity[name]:.4g} {text}" for name, text in words.items())
    what = "text" if result.config.task is None else "sequences"
    say(f"trained {result.path}: perplexity of held-out {what} {figures}")
    if result.accuracy:
        from workbench.measurement.numbers import percent

        right = {"answer tokens right": result.accuracy, "whole answers right": result.whole_answer}
        told = {name: [percent(each[when]) for when in ("before", "after")] for name, each in right.items()}
        say(", ".join(f"{name} {before} before, {after} after" for name, (before, after) in told.items()))
    say(f"next: workbench inspect {result.path} --text FILE")
    return 0
