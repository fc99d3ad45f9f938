"""The golden picture: what the workbench did at one commit, against which a rewriting of its code is held.

    python -m tests.golden                            what is different now, of everything below
    python -m tests.golden --write words              take one part of the picture anew

| part | where | what it is |
| --- | --- | --- |
| `runs` | `runs/`, `tunings/`, `studies/`, `given/gpt2/` | runs, fine-tunings, studies and pins, some half done |
| `numbers` | `numbers.json` | what is measured of them: `inspect`, `probe`, `circuit`, and models on a batch |
| `words` | `words.json` | what the same commands say: captions, labels, verdicts, limits, sentences |
| `cli` | `cli.json` | help and lists, and for good and bad command lines the exit code and what they print |
| `links` | `links.json` | for each page of the explorer a link, and what its fields hold when it is opened |

When what may change:

- Words and verdicts are rewritten: `words`, and of `cli` what is said, each difference looked at. No number, no exit
  code. Links and pins that people have must open all the same: `links.json` keeps the old ones until they are meant to
  end.
- Code is rewritten: nothing.
- An instrument or a field is added: `numbers` and `words` get entries, and none of the others changes.
- `runs` are made anew only when old run folders are meant to open no more: whoever makes them again compares today's
  code with itself. `given/` was written by hand, and stays as it is.

Numbers of measurements are in `numbers.json`. What a verdict is held against (uninformed models, one by one)
belongs to the rule of the verdict, and what is made of it is in `words.json`. Numbers agree to 1e-6 (`compare.REL`).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.golden import command_line, links, make, picture
from tests.golden.compare import as_json, differences, in_lines, rounded
from tests.golden.picture import HERE, MEASURED, NUMBERS, WORDS, Picture


@contextmanager
def _in_a_copy() -> Iterator[None]:
    with TemporaryDirectory() as folder, picture.copied(Path(folder)):
        yield


def _measured() -> dict[str, Picture]:
    """What is measured, each in a copy of its own."""
    found = {}
    for name, measure in MEASURED.items():
        with _in_a_copy():
            found[name] = measure()
    return found


def _numbers() -> Picture:
    with _in_a_copy():
        opened = picture.all_opened()
    return {"opened": opened} | {name: one[NUMBERS] for name, one in _measured().items()}


def _words() -> Picture:
    return {name: one[WORDS] for name, one in _measured().items()}


def _cli() -> Picture:
    with _in_a_copy():
        return command_line.pictured()


def _links() -> Picture:
    with _in_a_copy():
        return links.all_linked()


PARTS: dict[str, Callable[[], Picture]] = {NUMBERS: _numbers, WORDS: _words, "cli": _cli, "links": _links}


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description="the golden picture, see this file")
    parser.add_argument("--write", nargs="+", choices=("runs", *PARTS), default=[], help="take these parts anew")
    written = parser.parse_args().write
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # of Streamlit, which misses its server
    if "runs" in written:
        make.make()
    found = []
    for name in written or PARTS:
        if name == "runs":
            continue
        file, new = HERE / f"{name}.json", rounded(PARTS[name]())
        if written:
            file.write_text(as_json(new), encoding="utf-8")
        else:
            found += differences(json.loads(file.read_text(encoding="utf-8")), new, key=name)
    if found:
        sys.stderr.write(in_lines(found) + os.linesep)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(_main())
