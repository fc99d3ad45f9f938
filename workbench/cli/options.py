"""Options that several commands have, each defined once."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path

PAIRS = 64  # `report.pairs.PAIRS`, without importing it to show the help


def add_run(parser: ArgumentParser, text: str = "the run folder") -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help=text)


def add_runs(parser: ArgumentParser, text: str = "run folders, or folders of runs") -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=text)


def add_out(parser: ArgumentParser, text: str, *, metavar: str = "DIR", required: bool = False) -> None:
    parser.add_argument("--out", type=Path, required=required, metavar=metavar, help=text)


def add_new_run(parser: ArgumentParser) -> None:
    add_out(parser, "the run folder to make", required=True)


def add_root(parser: ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, default=Path("runs"), help="folder that holds run folders (default: runs)")


def check_root(root: Path) -> None:
    """Raise ValueError if the folder of `--root` does not exist."""
    if not root.is_dir():
        raise ValueError(f"there is no folder {root}; give the folder that holds your runs with --root")


def add_repository(parser: ArgumentParser, text: str = "OWNER/NAME") -> None:
    parser.add_argument("repo", metavar="REPO", help=text)


def add_hugging_face(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--hugging-face",
        action="store_true",
        help="as a model that Transformers loads (always so for one that `workbench finetune` wrote)",
    )


def add_count(parser: ArgumentParser, text: str, default: int | None = None) -> None:
    parser.add_argument("--n", type=int, default=default, help=text)


def add_pairs(parser: ArgumentParser) -> None:
    """The model, and the pairs of questions that it is asked."""
    add_run(
        parser, "the run folder; or with --pairs a model of Hugging Face, a folder, a GGUF file or a name on the hub"
    )
    parser.add_argument("kind", nargs="?", metavar="PAIRS", help="what is changed (default: the task's first kind)")
    parser.add_argument(
        "--pairs",
        type=Path,
        metavar="FILE|SET",
        help="of a model: pairs written by hand, JSON lines or CSV of clean, corrupted, answer, wrong; or a prompt "
        "set, such as indirect-objects (all: workbench list prompts)",
    )
    add_count(parser, f"pairs (default: {PAIRS}; of a file, all)")
    parser.add_argument(
        "--later", action="store_true", help="ask for the answers behind the first that the change changes"
    )
    parser.add_argument("--metric", default="logit_difference", help="logit_difference, probability or kl")


def check_pairs(options: Namespace) -> None:
    """Raise ValueError if pairs are given together with what is of a run's own; of a prompt set, n are drawn."""
    if options.pairs is not None:
        from workbench.tasks.prompt_sets import named

        of_runs = ("step", "later") if named(options.pairs) else ("step", "n", "later")
        refuse(options, of_runs, "is of a run's own pairs; leave it or --pairs out")
        if options.kind is not None:
            raise ValueError(f"the kind {options.kind!r} is of a run's own pairs; leave it or --pairs out")


def add_seed(parser: ArgumentParser, text: str) -> None:
    parser.add_argument("--seed", type=int, default=0, help=f"{text} (default: 0)")


def add_where(parser: ArgumentParser, metavar: str, text: str) -> None:
    parser.add_argument("--where", action="append", default=[], metavar=metavar, help=text)


def add_workers(parser: ArgumentParser, text: str, default: int | None = None) -> None:
    parser.add_argument("--workers", type=int, default=default, metavar="N", help=text)


def add_json(parser: ArgumentParser, of: str = "") -> None:
    parser.add_argument("--json", action="store_true", help=f"{of}print the result with every number as JSON instead")


def add_quiet(parser: ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def add_track(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--track", metavar="TRACKER", help="log for a tracker too: tensorboard (in the run folder) or trackio"
    )


def refuse(options: Namespace, names: Iterable[str], reason: str) -> None:
    """Raise ValueError if one of these options is given, with another value than its default."""
    given = next((name for name in names if getattr(options, name) != options.default_of(name)), None)
    if given is not None:
        raise ValueError(f"--{given.replace('_', '-')} {reason}")
