"""`workbench new`: write the file of a part of your own, with a small example that works."""

from __future__ import annotations

import argparse
import keyword
import re
from importlib.resources import files
from pathlib import Path

from workbench.cli.output import say
from workbench.cli.parser import AddCommand

NEXT = {
    "task": "workbench train --task {name} --out runs/{name} --plugin {file}",
    "variant": "workbench train chain-standard --model.attention {name} --out runs/{name} --plugin {file}",
    "instrument": "workbench inspect runs/… --only {name} --plugin {file}",
    "mechanism": "workbench inspect runs/… --only {name} --plugin {file}",
    "study": "workbench study run {name} --plugin {file}",
    "method": "workbench bench run {name} --plugin {file}",
}
"""What can be made -> the command that uses it."""


def add(command: AddCommand) -> None:
    parser = command(
        summary="write the file of a task, attention variant, instrument, mechanism, study or method of your own",
        description="Write a file with a small example that works, to be changed into a part of your own. Every "
        "command takes the file with --plugin.",
    )
    parser.add_argument("kind", choices=tuple(NEXT), help="what to make")
    parser.add_argument("name", metavar="NAME", help="its name, such as modular_addition")
    parser.add_shared("--out", help="the file (default: NAME.py)", metavar="FILE.py")


def run(options: argparse.Namespace, _: list[str]) -> None:
    path = new(options.kind, options.name, options.out)
    say(f"wrote {path}; next: {NEXT[options.kind].format(name=options.name, file=path)}")


def new(kind: str, name: str, out: str | Path | None = None) -> Path:
    """Write the file of a part of your own, with a small example that works; returns its path.

    Args:
        kind: one of `NEXT`.
        name: the part's name, such as modular_addition.
        out: the file; by default NAME.py.

    Raises:
        ValueError: if there is no such kind, the name cannot be a part's or is taken, or the file is there.
    """
    from workbench.util.files import check_free, write_atomically
    from workbench.util.lookup import lookup
    from workbench.util.plugins import KINDS

    lookup(NEXT, kind, "kind of part")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(f"a part's name is of small letters, digits and _, such as modular_addition, not {name!r}")
    path = Path(out or f"{name}.py")
    if path.suffix != ".py":
        raise ValueError(f"{path} is to be a Python file: give a name that ends in .py")
    check_free(path, file=True)
    where = next(each for each in KINDS.values() if each.words.endswith(kind))
    if name in where.parts:
        raise ValueError(f"{where.words} {name!r} exists already; give another name")
    template = (files("workbench.cli.templates") / f"{kind}.py").read_text(encoding="utf-8")
    words = "".join(part.capitalize() for part in name.split("_"))
    text = template.replace("template_name", name).replace("TemplateName", words)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path
