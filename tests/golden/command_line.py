"""The picture of the command line: its help, what it lists, and what invocations good and bad answer."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

from tests.conftest import plugins_restored
from tests.golden.picture import PLUGIN, Picture, said
from workbench.cli import COMMANDS
from workbench.cli.list import LISTED

SMALL = ("--task.n", "8", "--task.k", "2", "--model.d_model", "16", "--model.n_heads", "2", "--eval_size", "8")
LISTS = tuple(what for what in LISTED if what != "schemas")  # which `tests/cli/test_json.py` holds to their numbers
INVOCATIONS: tuple[str, ...] = (
    # what is good
    "list",
    "study list",
    "study show chain-layers sorting-hints",
    "study show given/tiny.toml",
    f"study show golden-study {' '.join(PLUGIN)}",
    f"train chain-chacal --out new/run --quiet --steps 0 {' '.join(SMALL)}",
    f"train chain-chacal --out new/two --seeds 2 --quiet --steps 0 {' '.join(SMALL)}",
    f"train --task sorting --out new/sorted --quiet --steps 0 --eval_size 8 {' '.join(PLUGIN)}",
    f"train golden-backwards --out new/own --quiet --steps 0 --eval_size 8 {' '.join(PLUGIN)}",
    "resume runs/single --quiet",
    "resume tunings/tuned --quiet",
    "compile sorter --q 5 --max_length 4 --out new/sorter",
    "inspect runs/sorter --n 4 --only accuracy --quiet --out new/inspected",
    "inspect runs/single runs/rounded --n 4 --only accuracy --quiet --out new/compared",
    "inspect runs/stack --n 4 --only accuracy --quiet --out new/seeds",
    "inspect tunings/tuned --text given/text.txt --n 4 --length 16 --only entropy --quiet --out new/text",
    f"inspect runs/own-parts --n 4 --only golden_distance golden_size --quiet --out new/parts {' '.join(PLUGIN)}",
    "probe runs/learned hops --n 40 --no-causal --quiet --out new/probed",
    "data sorting --count 2 --q 5 --max_length 4",
    "data sorting --count 2 --q 5 --max_length 4 --hints successor --head successor --out new/file.jsonl --quiet",
    "data new/file.jsonl --count 1",
    f"data backwards --count 1 {' '.join(PLUGIN)}",
    "export runs/single new/single.zip",
    "import new/single.zip --out new/imported",
    "runs --root runs",
    "runs --root runs --where task.n=12",
    f"runs --root runs --where task.name=backwards {' '.join(PLUGIN)}",
    "table runs/single runs/rounded runs/stack --by model.attention,model.n_layers --csv",
    "table runs/single runs/rounded --by model.attention --latex",
    "table runs/single runs/rounded --by model.attention --metric loss --markdown",
    "new task backwards_again --out new/task.py",
    "sweep given/sweep.toml --out new/sweep --dry-run",
    # what is bad
    "",
    "unheard",
    "train",
    "train chain-chacal",
    "train chain-chacl --out new/wrong",
    "train chain-chacal --out runs/single",
    "train chain-chacal --out runs/single-half",
    "train chain-chacal --out new/wrong --unheard 1",
    "train chain-chacal --out new/wrong --steps -1",
    "train chain-chacal --out new/wrong --steps many",
    "train chain-chacal --out new/wrong --task.m 8",
    "train chain-chacal --out new/wrong --model.attention unheard",
    "train chain-chacal --out new/wrong --model.n_heads 7",
    "train chain-chacal --out new/wrong --objectives.unheard.weight 1",
    "train chain-chacal --out new/wrong --seeds 0",
    "train chain-chacal --out new/wrong --seeds 2 --model.dropout 0.1",
    "train --task unheard --out new/wrong",
    "train golden-backwards --out new/wrong",
    "train chain-chacal --out new/wrong --plugin nowhere.py",
    "resume nowhere",
    "resume runs",
    "resume runs/single --unheard 1",
    "finetune nowhere --text given/text.txt --out new/wrong --quiet",
    "finetune given/gpt2 --out new/wrong --quiet",
    "finetune given/gpt2 --text given/text.txt --out new/wrong --layers 5 --quiet",
    "sweep nowhere.toml",
    "sweep given/text.txt --out new/wrong",
    "study",
    "study run",
    "study run unheard",
    "study run nowhere.toml",
    "study run chain-layers --scale huge",
    "study run given/tiny.toml --seeds 0 --quiet",
    "study run given/tiny.toml --workers 0 --quiet",
    "study report --root nowhere",
    "compile unheard --out new/wrong",
    "compile sorter --q 1 --out new/wrong",
    "inspect",
    "inspect nowhere",
    "inspect runs/broken",
    "inspect runs/damaged --quiet",
    "inspect runs/single --only unheard",
    "inspect runs/single --n 1",
    "inspect runs/single --length 8",
    "inspect runs/single --unheard 1",
    "inspect runs/single --entropy.unheard 1",
    "inspect runs/single --entropy.alpha -1",
    "inspect runs/single --conditions unheard=1",
    "inspect runs/rounded --timeline --only accuracy --n 4",
    "inspect runs/own-parts",
    "inspect tunings/tuned",
    "inspect given/gpt2 --text nowhere.txt",
    "probe runs/single",
    "probe runs/single unheard",
    "probe runs/single carry",
    "probe runs/single hops --kind unheard",
    "probe nowhere hops",
    "circuit nowhere",
    "circuit runs/single unheard",
    "circuit runs/single --method unheard",
    "circuit runs/single --metric unheard",
    "circuit runs/single --n 1",
    "explore --root nowhere",
    "explore --root runs --port 0x",
    "data unheard",
    "data sorting --count 0",
    "data sorting --where unheard=1",
    "data sorting --head unheard",
    "data nowhere.jsonl",
    "export nowhere new/wrong.zip",
    "export runs/single runs/single",
    "import nowhere.zip --out new/wrong",
    "import given/text.txt --out new/wrong",
    "push runs/single noname",
    "runs --root nowhere",
    "runs --root runs --where unheard=1",
    "runs --root runs --sort unheard",
    "table runs/single --by unheard",
    "table runs/single runs/rounded --by model.attention --against unheard",
    "list unheard",
    "new unheard name",
    "new task Name",
)
"""Command lines, in the order in which they run in one copy of the golden folders."""


def pictured() -> Picture:
    """Help, lists and invocations, in the current folder."""
    with patch.dict(os.environ, {"COLUMNS": "120", "NO_COLOR": "1"}):
        return {"help": helps(), "list": lists(), "invocations": {line: invoked(line) for line in INVOCATIONS}}


def helps() -> Picture:
    """What `--help` of the workbench and of every command prints."""
    return {" ".join(["workbench", *command]): _printed([*command, "--help"]) for command in [(), *zip(COMMANDS)]}


def lists() -> Picture:
    """What `workbench list` prints of every kind of part."""
    return {what: _printed(["list", what]) for what in LISTS}


def _printed(arguments: Sequence[str]) -> list[str]:
    code, out, errors = said(arguments)
    assert code == 0, errors
    return out.splitlines()


def invoked(line: str) -> Picture:
    """The exit code of a command line, and what it prints."""
    _spoil()
    with plugins_restored():
        code, out, errors = said(line.split())
    told = [error for error in errors.splitlines() if error.startswith("workbench: ")]  # without progress
    return {"code": code, "out": out.splitlines(), "errors": [_anywhere(error) for error in told]}


def _anywhere(text: str) -> str:
    """A message without where this copy lies, and without the version of Pydantic."""
    return re.sub(r"(errors\.pydantic\.dev/)[\d.]+", r"\1…", text.replace(str(Path.cwd()), "."))


def _spoil() -> None:
    """A run whose config is broken, and one whose weights are damaged."""
    for name, file, content in (("broken", "config.json", "{"), ("damaged", "weights.safetensors", "no tensors")):
        folder = Path("runs", name)
        if not folder.exists():
            folder.mkdir()
            for part in Path("runs/single").glob("*.*"):
                (folder / part.name).write_bytes(part.read_bytes())
        (folder / file).write_text(content, encoding="utf-8")


def words_that_differ(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """A unified diff of texts, but for what differs between versions of Python: how argparse wraps and quotes."""
    before, after = (list(_alike(lines)) for lines in (old, new))
    return [] if before == after else list(difflib.unified_diff(before, after, "was", "is", lineterm="", n=1))


def _alike(lines: Sequence[str]) -> Iterator[str]:
    """The sentences of a help text: unwrapped, with an option's aliases as older versions of argparse write them."""
    text = re.sub(r"\s+", " ", "\n".join(lines))
    text = re.sub(r"(--[\w-]+) ([A-Z][\w.|]*), (--[\w-]+) \2", r"\1, \3 \2", text)
    text = re.sub(r"\(choose from ([^)]*)\)", lambda found: found.group().replace("'", ""), text)
    return iter(re.split(r"(?<=[.;:]) | (?=--)", text))
