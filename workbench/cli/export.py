"""`workbench export`: write a run as one folder or zip, as a model of Hugging Face, or as one page to look at."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.output import say
from workbench.cli.parser import AddCommand

if TYPE_CHECKING:
    from workbench.runs import Run


def add(command: AddCommand) -> None:
    parser = command(summary="write a run as one folder or zip, for Hugging Face, or as one page to look at")
    parser.add_shared("run", help="the run folder, or one that `workbench finetune` wrote")
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="the folder to make, or, of a run as it is, the file if it ends in .zip; of a page the file",
    )
    parser.add_shared("--hugging-face")
    parser.add_argument(
        "--page",
        action="store_true",
        help="as one HTML file that opens from a disk: what was found, to hover, play through and download",
    )


def run(options: argparse.Namespace, _: list[str]) -> None:
    out = export(options.run, options.out, hugging_face=options.hugging_face, page=options.page, progress=True)
    from workbench.sharing.hugging_face import CODE

    if options.page:
        say(f"exported {out}; any browser opens it")
    elif (out / CODE).is_file():
        say(f"exported {out}; AutoModelForCausalLM.from_pretrained({str(out)!r}, trust_remote_code=True) loads it")
    else:
        say(f"exported {out}; `workbench import` takes it anywhere")


def export(
    run: Run | str | Path,
    out: str | Path | None = None,
    *,
    hugging_face: bool = False,
    page: bool | str | Path = False,
    repo_id: str | None = None,
    progress: bool = False,
) -> Path:
    """Write a run as one folder or zip, for Hugging Face, or as one page.

    Args:
        run: the run or its folder.
        out: what to write; it must not exist yet.
        hugging_face, repo_id: as for `sharing.export`, which writes the run itself.
        page: write one HTML file to look at instead, as `report.run_page.export_page`; its path is this or `out`.
        progress: of a page, show a progress bar on standard error.

    Raises:
        ValueError: as those do, if a page is to be of Hugging Face, or if no path is given, or two.
    """
    if isinstance(page, str | Path):
        if out is not None:
            raise ValueError(f"a page is one file: {out} or {page}?")
        out = page
    if out is None:
        raise ValueError("give the path of what to write after the run")
    if page:
        if hugging_face:
            raise ValueError("a page is no model of Hugging Face: ask for one of the two (--page, --hugging-face)")
        from workbench.report.run_page import export_page

        return export_page(run, out, progress=progress)
    from workbench.sharing import export as as_it_is

    return as_it_is(run, out, hugging_face=hugging_face, repo_id=repo_id)
