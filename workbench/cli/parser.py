"""The argument parser: how a command is added to it, options that several commands have, and settings given by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from workbench.util.settings import place, value_of

PAIRS = 64  # `report.pairs.PAIRS`, without importing it to show the help

SHARED: dict[str, dict[str, Any]] = {
    "model": {
        "metavar": "MODEL",
        "help": "a run folder; or a model of Hugging Face, a folder, a GGUF file or a name on the hub",
    },
    "run": {"type": Path, "metavar": "RUN"},
    "runs": {"nargs": "+", "type": Path, "metavar": "RUN"},
    "--root": {"type": Path, "default": Path("runs"), "help": "folder that holds run folders (default: runs)"},
    "--out": {"type": Path, "metavar": "DIR"},
    "--where": {"action": "append", "default": []},
    "--step": {"type": int, "help": "of a checkpoint (default: the end)"},
    "--text": {"type": Path, "metavar": "FILE"},
    "--basis": {"type": Path, "metavar": "FILE"},
    "--layers": {"type": int, "nargs": "+", "metavar": "LAYER"},
    "--length": {
        "type": int,
        "metavar": "N",
        "help": "with --text: tokens in a sequence (default: 256, or the context)",
    },
    "--seed": {"type": int, "default": 0},
    "--workers": {"type": int, "metavar": "N"},
    "--ray": {"metavar": "ADDRESS", "help": "train on a Ray cluster: host:port, auto, or local"},
    "--track": {"metavar": "TRACKER", "help": "log for a tracker too: tensorboard (in the run folder) or trackio"},
    "--hugging-face": {
        "action": "store_true",
        "help": "as a model that Transformers loads (always so for one that `workbench finetune` wrote)",
    },
    "--json": {"action": "store_true", "help": "print the result with every number as JSON instead"},
    "--quiet": {"action": "store_true", "help": "no progress on standard error"},
}
"""Options that several commands have, as argparse takes them."""


class Parser(argparse.ArgumentParser):
    """argparse with its errors in one line, and with names before, between or after the options.

    Attributes:
        mixed: whether names may follow options. Not where unknown options are passed on as fields: their values could
            not be told from names.
        no_name: what stands for the name of a command that takes fields, where it begins with an option; None if a
            name is needed.
    """

    mixed = False
    no_name: str | None = None

    def add_shared(self, *names: str, **changes: Any) -> None:
        """Add options of `SHARED`, with what this command says of them itself."""
        for name in names:
            self.add_argument(name, **SHARED[name] | changes)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self.no_name is not None and args and args[0].startswith("--") and "--help" not in args:
            args = [self.no_name, *args]
        if not self.mixed:
            return super().parse_known_args(args, namespace)
        self.mixed = False  # argparse does it by calling this method twice
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.mixed = True

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


AddCommand: TypeAlias = Callable[..., Parser]
"""`add_command` for one command, which says the rest: `summary` and so on."""


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    run: Callable[[argparse.Namespace, list[str]], int | None],
    *,
    summary: str,
    description: str | None = None,
    usage: str | None = None,
    takes_fields: bool = False,
) -> Parser:
    """Add a command and return its parser, to which the command adds its options.

    Args:
        commands: where to add it.
        name: what is typed for it.
        run: what it does: its options and its fields (`--task.n 64 …`) in, the exit code out; None is 0.
        summary: its line in `workbench --help`.
        description: the paragraph above its options in its own help.
        usage: what follows `workbench NAME` in its help; by default argparse writes it.
        takes_fields: whether options that its parser does not know are passed on to `run` as fields.
    """

    def path(text: str) -> Path:
        if not text:  # `Path` takes it for the current folder
            raise argparse.ArgumentTypeError("the path is empty; give a path, or . for the current folder")
        return Path(text)

    usage = None if usage is None else f"workbench {name} {usage}"
    parser = commands.add_parser(name, help=summary, description=description, usage=usage, allow_abbrev=False)
    parser.register("type", Path, path)
    parser.set_defaults(command=run, takes_fields=takes_fields, default_of=parser.get_default)
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE.py", help="load parts of your own from this file"
    )
    parser.mixed = not takes_fields
    return parser


def add_pairs(parser: Parser) -> None:
    """The model, and the pairs of questions that it is asked."""
    parser.add_shared(
        "run",
        help="the run folder; or with --pairs a model of Hugging Face, a folder, a GGUF file or a name on the hub",
    )
    parser.add_argument("kind", nargs="?", metavar="PAIRS", help="what is changed (default: the task's first kind)")
    parser.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE|SET",
        help="of a model: pairs written by hand, JSON lines or CSV of clean, corrupted, answer, wrong; or a prompt "
        "set, such as indirect-objects (all: workbench list prompts)",
    )
    parser.add_argument("--n", type=int, help=f"pairs (default: {PAIRS}; of a file, all)")
    parser.add_argument(
        "--later", action="store_true", help="ask for the answers behind the first that the change changes"
    )
    parser.add_argument("--metric", default="logit_difference", help="logit_difference, probability or kl")


def check_pairs(options: argparse.Namespace) -> None:
    """Raise ValueError if pairs are given together with what is of a run's own; of a prompt set, n are drawn."""
    if options.pairs is not None:
        from workbench.tasks.prompt_sets import named

        of_runs = ("step", "later") if named(options.pairs) else ("step", "n", "later")
        refuse(options, of_runs, "is of a run's own pairs; leave it or --pairs out")
        if options.kind is not None:
            raise ValueError(f"the kind {options.kind!r} is of a run's own pairs; leave it or --pairs out")


def check_root(root: Path) -> None:
    """Raise ValueError if the folder of `--root` does not exist."""
    if not root.is_dir():
        raise ValueError(f"there is no folder {root}; give the folder that holds your runs with --root")


def chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The values of these options by name, as arguments of a function."""
    return {name: getattr(options, name) for name in names}


def refuse(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Raise ValueError if one of these options is given, with another value than its default."""
    given = next((name for name in names if getattr(options, name) != options.default_of(name)), None)
    if given is not None:
        raise ValueError(f"--{given.replace('_', '-')} {reason}")


def parse_fields(arguments: Sequence[str]) -> dict[str, Any]:
    """`--task.n 64 --batch-size=32` as `{"task": {"n": 64}, "batch_size": 32}`. Values are JSON, or else text.

    Raises:
        ValueError: if an argument is not a field, has no value or one that cannot be read, or is given twice.
    """
    fields: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        name, equals, text = rest.pop(0).partition("=")
        if not name.startswith("--"):
            raise ValueError(f"unrecognised argument {name!r}; fields are given as --name value")
        if not equals and (not rest or rest[0].startswith("--")):
            raise ValueError(f"{name} needs a value")
        inner, last = place(fields, name.removeprefix("--").replace("-", "_"))
        try:
            value = value_of(text if equals else rest.pop(0))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if isinstance(inner.get(last), dict) and isinstance(value, str):
            value = {**inner[last], "variant": value}
        elif last in inner:
            raise ValueError(f"{name} is given twice")
        inner[last] = value
    return fields
