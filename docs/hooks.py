"""Makes pages of the site from the source while it is built: the reference, and tables of what there is.

MkDocs calls the functions named `on_…` (https://www.mkdocs.org/user-guide/plugins/#events). Python sources are read,
not run, but for the parser of the command line, and what makes the pages to play with: of studies, of runs.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "workbench"
COMMANDS = "command-line"  # the page of the commands, beside a page for each room

# Dicts of parts, each with the words of its table and what a part is called.
PARTS = {
    "tasks": ("tasks", "TASKS", "Tasks"),
    "variants": ("models/attention", "ATTENTION", "Attention variants"),
    "objectives": ("objectives", "OBJECTIVES", "Objectives"),
    "instruments": ("instruments", "INSTRUMENTS", "Instruments"),
    "mechanisms": ("mechanisms", "MECHANISMS", "Mechanisms"),
    "controls": ("measurement/controls", "CONTROLS", "Controls"),
}


def first_sentence(docstring: str | None) -> str:
    """The first paragraph of a docstring in one line."""
    return " ".join((docstring or "").strip().split("\n\n")[0].split())


def rooms() -> list[str]:
    """Every room of the library that has Python in it, by name."""
    return sorted(path.name for path in LIBRARY.iterdir() if (path / "__init__.py").is_file())


def modules(room: str) -> Iterator[tuple[str, ast.Module]]:
    """Dotted name and syntax tree of each public module of a room, the room itself first."""
    folder = LIBRARY / room
    for path in sorted(folder.rglob("*.py"), key=lambda path: (path.name != "__init__.py", path)):
        parts = path.relative_to(LIBRARY).with_suffix("").parts
        if path.name == "__init__.py":
            parts = parts[:-1]
        if not any(part.startswith("_") or part == "templates" for part in parts):  # what `new` writes is no API
            yield ".".join(("workbench", *parts)), ast.parse(path.read_text(encoding="utf-8"))


def room_page(room: str) -> str:
    """The page of one room: what it is, its modules in a table, and their API."""
    listed = list(modules(room))
    described = [(name, first_sentence(ast.get_docstring(tree))) for name, tree in listed]
    table = "\n".join(f"| [`{name}`][{name}] | {escaped(words)} |" for name, words in described)
    api = "\n\n".join(directive(name, tree) for name, tree in listed)
    return f"# workbench.{room}\n\n{described[0][1]}\n\n| module | |\n| --- | --- |\n{table}\n\n{api}\n"


def directive(name: str, tree: ast.Module) -> str:
    """What mkdocstrings replaces by a module's API: what is written in the module, not what it takes from others."""
    written = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            written.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            written += [target.id for target in targets if isinstance(target, ast.Name)]
    public = [name for name in written if not name.startswith("_")]
    return f"::: {name}\n    options:\n      members: {public or 'false'}"


def escaped(words: str) -> str:
    """Text for a cell of a Markdown table."""
    return words.replace("|", "\\|").replace("<", "&lt;")


def library_page() -> str:
    """The front page of the reference: every room with the first sentence of its docstring."""
    top = ast.parse((LIBRARY / "__init__.py").read_text(encoding="utf-8"))
    rows = []
    for room in rooms():
        words = first_sentence(ast.get_docstring(next(modules(room))[1]))
        rows.append(f"| [`workbench.{room}`]({room}.md) | {escaped(words)} |")
    return (
        f"# Reference\n\nThe [command line]({COMMANDS}.md), and the library, room by room, from its docstrings.\n\n"
        f"| room | |\n| --- | --- |\n{chr(10).join(rows)}\n\n## The names at the top\n\n"
        f"```text\n{ast.get_docstring(top)}\n```\n"
    )


def commands() -> argparse.ArgumentParser:
    """The parser of the command line itself."""
    sys.path.insert(0, str(ROOT))
    try:
        from workbench.cli import make_parser
    finally:
        sys.path.remove(str(ROOT))
    return make_parser()


def command_page() -> str:
    """The page of the command line: each command's usage, description and options, from its parser."""
    parser = commands()
    (sub,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in sub._choices_actions}
    parts = [f"# The command line\n\n{parser.description}\n\n| command | what it does |\n| --- | --- |"]
    parts[0] += "".join(
        f"\n| [`workbench {name}`](#workbench-{name}) | {escaped(words)} |" for name, words in helps.items()
    )
    for name, command in sub.choices.items():
        usage = re.sub(r"\s+", " ", command.format_usage().removeprefix("usage: ").replace("[-h] ", "")).strip()
        words = command.description or f"{helps[name][:1].upper()}{helps[name][1:]}."
        parts.append(f"## workbench {name}\n\n{escaped(words)}\n\n```text\n{usage}\n```")
        rows = [option_row(action) for action in command._actions if not isinstance(action, argparse._HelpAction)]
        if rows:
            parts.append("| argument | meaning |\n| --- | --- |\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def option_row(action: argparse.Action) -> str:
    """One argument of a command as a row of a table."""
    takes = action.nargs != 0
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    names = " ".join(filter(None, [", ".join(action.option_strings), str(value) if takes else ""]))
    required = "; required" if action.required and action.option_strings else ""
    return f"| `{escaped(names)}` | {escaped(action.help or '')}{required} |"


def part_table(kind: str) -> str:
    """One row for each entry of a dict of parts: its name, and the first sentence of what it names."""
    folder, dict_name, _ = PARTS[kind]
    home = LIBRARY / folder
    tree = ast.parse((home / "__init__.py").read_text(encoding="utf-8"))
    rows = [
        f"| `{name}` | {escaped(first_sentence(described(home, tree, value)))} |"
        for name, value in entries(tree, dict_name)
    ]
    return "| name | what it is |\n| --- | --- |\n" + "\n".join(rows)


def entries(tree: ast.Module, name: str) -> Iterator[tuple[str, str]]:
    """Key and value, as they are written, of each entry of a dict literal at a module's top."""
    constants = {}
    for node in tree.body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if not isinstance(target, ast.Name):
            continue
        if isinstance(node.value, ast.Constant):
            constants[target.id] = node.value.value
        if target.id == name and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                yield (key.value if isinstance(key, ast.Constant) else constants[ast.unparse(key)]), ast.unparse(value)


def described(home: Path, tree: ast.Module, value: str) -> str | None:
    """The docstring of what an entry names: of a class, or of the module that it is or is in."""
    name = value.split(".")[0].split("(")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            path = ROOT / Path(*(node.module or "").split("."))
            for file in (path / f"{name}.py", path / name / "__init__.py"):
                if file.is_file():
                    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
            return of_class(path.with_suffix(".py"), name)
    return None


def of_class(file: Path, name: str) -> str | None:
    """The docstring of a class or function of this name in a file, else the file's."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ast.get_docstring(tree)
    return ast.get_docstring(tree)


def glossary_table() -> str:
    """One row for each word of the glossary that the explorer shows too."""
    tree = ast.parse((LIBRARY / "report" / "glossary.py").read_text(encoding="utf-8"))
    rows = [f"| **{word}** | {escaped(ast.literal_eval(meaning))} |" for word, meaning in entries(tree, "GLOSSARY")]
    return "| word | what it means |\n| --- | --- |\n" + "\n".join(rows)


def figure_table() -> str:
    """One row for each function that `workbench.figures` exports: its name and first sentence."""
    tree = ast.parse((LIBRARY / "figures" / "__init__.py").read_text(encoding="utf-8"))
    rows = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workbench.figures."):
            path = ROOT / Path(*(node.module or "").split("."))
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            functions = {
                n.name: n for n in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef)
            }
            for alias in node.names:
                if alias.name in functions:
                    words = first_sentence(ast.get_docstring(functions[alias.name]))
                    rows.append(
                        (alias.name, f"| [`figures.{alias.name}`][{node.module}.{alias.name}] | {escaped(words)} |")
                    )
    return "| figure | what it draws |\n| --- | --- |\n" + "\n".join(row for _, row in sorted(rows))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the part of the navigation that is made: one entry for each room."""
    for part in config.nav or []:
        if isinstance(part, dict) and "Reference" in part:
            pages = [{f"workbench.{room}": f"reference/{room}.md"} for room in rooms()]
            part["Reference"] = ["reference/index.md", {"Command line": f"reference/{COMMANDS}.md"}, *pages]
    return config


# Files of the repository that are pages of the site too, and where their links to other files lead.
BORROWED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
BENCHMARKS = "benchmarks.md"
PLAYED_WITH = ("chain-chacal", "sort-plain")  # runs that come along, each as a page to play with


def studies_page() -> str:
    """All results of studies as one page."""
    from workbench.studies import STUDIES, keep_earlier, read_ledger
    from workbench.studies.page import page

    return page(keep_earlier([], read_ledger(ROOT / "docs" / "studies" / "ledger.json"), STUDIES), STUDIES)


def page_of_run(name: str) -> str:
    """A run that comes along as one page."""
    from workbench.report.run_page import run_page
    from workbench.runs import load_run

    return run_page(load_run(ROOT / "app" / "zoo" / name))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, those borrowed from elsewhere in the repository, and the notebooks."""
    made = {"index": library_page(), COMMANDS: command_page()} | {room: room_page(room) for room in rooms()}
    for name, content in made.items():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    for name, page in BORROWED.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    tables = ROOT / "tests" / "benchmarks"
    files.append(File.generated(config, BENCHMARKS, content=(tables / "README.md").read_text(encoding="utf-8")))
    files.append(File.generated(config, "growth.png", abs_src_path=str(tables / "growth.png")))
    files.append(File.generated(config, "studies/page.html", content=studies_page()))
    for run in PLAYED_WITH:
        files.append(File.generated(config, f"runs/{run}.html", content=page_of_run(run)))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.name}", abs_src_path=str(notebook)))
    return files


def site_links(markdown: str, page: Page) -> str:
    """Links that are right in the repository, as they are right on the site."""
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri in BORROWED.values():
        markdown = markdown.replace("](docs/", "](")
    markdown = re.sub(r"\]\((?:\.\./)*tests/benchmarks/README\.md", f"]({up}{BENCHMARKS}", markdown)
    return re.sub(r"\]\((?:\.\./)*notebooks/", f"]({up}notebooks/", markdown)


def mathml(markdown: str) -> str:
    """TeX between dollar signs as MathML, which browsers draw themselves; GitHub draws the same source."""
    parts = re.split(r"(^```.*?^```|`[^`\n]+`)", markdown, flags=re.M | re.S)
    for i in range(0, len(parts), 2):  # what is not code
        parts[i] = re.sub(r"\$\$(.+?)\$\$", lambda m: convert(m[1].strip(), display="block"), parts[i], flags=re.S)
        parts[i] = re.sub(r"\$([^$\n]+?)\$", lambda m: f"<span>{convert(m[1])}</span>", parts[i])
    return "".join(parts)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put tables where a page asks for them (`<!-- table: tasks -->`), mend links, draw equations, rank pages."""

    def table(found: re.Match[str]) -> str:
        own = {"figures": figure_table, "glossary": glossary_table}
        rows = own[found[2]]() if found[2] in own else part_table(found[2])
        return "\n".join(found[1] + row for row in rows.splitlines())

    if page.file.src_uri.startswith("how-to/"):
        page.meta.setdefault("hide", ["toc"])  # short pages, whose code needs the room
    if page.file.src_uri.startswith(("reference/", "changelog", "studies/")):
        page.meta["search"] = {"boost": 0.3}  # what a page explains comes before where a name is listed
    markdown = re.sub(r"^( *)<!-- table: (\w+) -->", table, site_links(markdown, page), flags=re.M)
    page.meta["text"] = markdown  # which `llms.py` writes
    return mathml(markdown) if page.file.src_uri == "concepts/models.md" else markdown
