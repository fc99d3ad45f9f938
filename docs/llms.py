"""Writes `llms.txt` and `llms-full.txt` beside the built pages: what each page is about, and the text of all of them.

The form of the first is that of https://llmstxt.org: a title, a summary, and sections of links with a line about each.
MkDocs calls the functions named `on_…`.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

START = "Start here"  # the section of pages that are in none
OPTIONAL = ("Reference", "Project")  # what can be left out, which the form has a section for
FROM_DOCSTRINGS = "reference/"  # pages of directives, that become text only in HTML
COMMANDS = "reference/command-line.md"
NO_PROSE = ("#", "|", "!", "<", "```", "~~~", ":::", "- ", "* ", "1. ", "===", "    ", "---", ">")

PAGES: list[Page] = []
"""Those of the navigation, in its order."""


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Remember the pages."""
    PAGES[:] = nav.pages
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write both files."""
    site = Path(config.site_dir)
    (site / "llms.txt").write_text(links(config.site_name, config.site_description or "", PAGES), encoding="utf-8")
    (site / "llms-full.txt").write_text(texts(PAGES), encoding="utf-8")


def text_of(page: Page) -> str:
    """A page's Markdown, with its tables and before its equations became MathML where `hooks.py` has kept that."""
    return str(page.meta.get("text", page.markdown or "")).strip()


def section_of(page: Page) -> str:
    """The part of the navigation that a page is in."""
    top = str(page.ancestors[-1].title) if page.ancestors else START
    return "Optional" if top in OPTIONAL else top


def links(name: str, summary: str, pages: list[Page]) -> str:
    """`llms.txt`: every page of the navigation in its section, with its first sentence."""
    sections: dict[str, list[str]] = {START: []}
    for page in pages:
        about = first_sentence(text_of(page))
        line = f"- [{page.title}]({page.url or 'index.html'})" + (f": {about}" if about else "")
        sections.setdefault(section_of(page), []).append(line)
    sections["Optional"] = sections.pop("Optional", [])  # the last
    parts = [f"## {section}\n\n" + "\n".join(lines) for section, lines in sections.items() if lines]
    whole = "[llms-full.txt](llms-full.txt) is the text of these pages in one file."
    return "\n\n".join([f"# {name}", f"> {summary}", whole, *parts]) + "\n"


def texts(pages: list[Page]) -> str:
    """`llms-full.txt`: the Markdown of every page but those that are made of docstrings in HTML alone."""
    own = [page for page in pages if not page.file.src_uri.startswith(FROM_DOCSTRINGS) or page.file.src_uri == COMMANDS]
    return "\n\n---\n\n".join(f"Page: {page.url or 'index.html'}\n\n{text_of(page)}" for page in own) + "\n"


def first_sentence(markdown: str) -> str:
    """The first sentence of prose, without links and emphasis; empty where there is none."""
    without_code = re.sub(r"^(```|~~~).*?^\1$|<!--.*?-->", "", markdown, flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n", without_code):
        if paragraph.strip() and not paragraph.startswith(NO_PROSE):
            line = " ".join(paragraph.split())
            line = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", line)
            line = re.sub(r"(\*+)(\S(?:.*?\S)?)\1", r"\2", line)
            return re.split(r"(?<=[.?!])\s", line, maxsplit=1)[0].rstrip(":")
    return ""
