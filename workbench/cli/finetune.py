"""`workbench finetune`: train a Hugging Face model on a text or a task with another attention."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from workbench.cli.output import INTERRUPTED, say, speaks
from workbench.cli.parser import AddCommand, parse_fields, refuse

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
"""Field of the config, and option -> the type of its value, how the help names the value, and what it says."""

NAMES = {"lr": "learning_rate"}
NESTED = ("attention", "task", "seq_vcr")  # whose settings are given by name
ALSO = {"attention": "attention.variant", "gamma": "attention.gamma", "task": "task.name", "seq_vcr": "seq_vcr.layer"}
"""An option -> the setting that is the same."""


def add(command: AddCommand) -> None:
    parser = command(
        summary="train a Hugging Face model on a text or a task with another attention",
        description="Give a model of Hugging Face another attention, train all its weights on a text or on a task, and "
        "write an ordinary folder of Hugging Face. Perplexity is measured on held-out data with the model's own "
        "attention, directly after the exchange, and after training. What the variant does is said beside a control, "
        "the same steps with standard attention: --control trains it too, in DIR-control; without data, of the folder "
        "MODEL that was fine-tuned before. `workbench resume DIR` goes on where it was stopped. Further settings are "
        "given as --attention.NAME VALUE, --task.NAME VALUE and --seq_vcr.NAME VALUE.",
        usage="MODEL --text FILE | --task NAME --out DIR [--attention NAME] [--gamma G] [--layers LAYER …] [--steps N] "
        "[--lr RATE] … [--control] | DIR --control",
        takes_fields=True,
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a folder that save_pretrained wrote, a GGUF file, or a name on the hub"
    )
    parser.add_shared("--text", help="what to train on, in UTF-8")
    parser.add_argument("--task", metavar="NAME", help="train on this task; `workbench list tasks` shows them")
    parser.add_shared("--out", help="the folder to make")
    parser.add_argument("--control", action="store_true", help="train the same with standard attention too")
    parser.add_argument("--attention", default="chacal", metavar="NAME", help="the variant (default: chacal)")
    parser.add_argument("--gamma", type=float, metavar="G", help="of the variant, such as 0.9 (default: its own)")
    parser.add_shared("--layers", help="the layers to give it (default: all)")
    for setting, (kind, value, text) in SETTINGS.items():  # spelt with hyphens they are taken too, and not shown twice
        parser.add_argument(f"--{setting}", type=kind, metavar=value, help=text)
        if "_" in setting:
            parser.add_argument(f"--{setting.replace('_', '-')}", type=kind, dest=setting, help=argparse.SUPPRESS)
    parser.add_shared("--seed", help="of the order of the data, and of dropout (default: 0)")
    parser.add_shared("--quiet")


def run(options: argparse.Namespace, fields: list[str]) -> int:
    from workbench.training.finetune import finetune, finetune_control

    if options.control and options.text is None and options.task is None:
        given = ("out", "attention", "gamma", "layers", "seed", *SETTINGS)
        refuse(options, given, f"is not of a control, which is trained as {options.model} was; leave it out")
        if fields:
            raise ValueError(f"{fields[0]} is not of a control, which is trained as {options.model} was; leave it out")
        return say_finetuned(finetune_control(options.model, progress=not options.quiet))
    if options.out is None:
        raise ValueError("give the folder to make: --out DIR")
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
    return say_finetuned(finetune(settings, options.out, control=options.control, progress=not options.quiet))


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
    control = result.control
    if result.config.is_variant and control is not None:
        say(_beside_control(result, control))
    elif result.config.is_variant:
        say(
            f"no control: how much of this comes of {result.config.attention['variant']}, and how much of training "
            "alone, is not known; the same steps with standard attention: "
            f"workbench finetune {result.path} --control"
        )
    say(f"next: workbench inspect {result.path} --text FILE")
    return INTERRUPTED if control is None and result.control_path.exists() and result.config.is_variant else 0


def _beside_control(result: Finetuned, control: Finetuned) -> str:
    """The variant against the control: loss of both, their difference over the same held-out sequences, and no more."""
    import numpy as np

    from workbench.measurement import intervals
    from workbench.measurement.numbers import number, percent, with_interval

    variant, losses = result.config.attention["variant"], [np.array(each.test_losses) for each in (result, control)]
    difference = losses[0] - losses[1]
    low, high = map(float, intervals.around(difference, intervals.bootstrap(difference)))
    clear = "lower" if high < 0 else "higher" if low > 0 else "not clearly another"
    ours, theirs = (number(float(each.mean()), "nats") for each in losses)
    right = [(percent(each.whole_answer["after"])) for each in (result, control) if each.whole_answer]
    answers = f"; whole answers right {right[0]} against {right[1]}" if right else ""
    return (
        f"against the control {control.path} (the same {control.config.steps} steps with standard attention, seed "
        f"{control.config.seed}), on {len(difference)} held-out sequences: loss {ours} with {variant}, {theirs} "
        f"without, difference {with_interval(float(difference.mean()), low, high, 'nats')}: {clear}{answers}; one seed "
        "of each says nothing of other seeds"
    )
