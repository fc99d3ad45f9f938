"""Plugins: parts of one's own, in a file or an installed package outside this repository.

A plugin's file has the same dicts as the folders here, any of them: `TASKS`, `PRESETS`, `ATTENTION`, `MODELS`,
`OBJECTIVES`, `INSTRUMENTS`, `WEIGHTS`, `MECHANISMS`, `PROBES`, `STUDIES`, `METHODS`. An installed package names each
part in an entry point of a group such as `workbench.tasks`. Both are then in the dicts of this package, for every
command, the processes that it starts, and the explorer. A plugin is code: it is loaded because its user names or
installed it, never because a run asks for it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench.util.lookup import check_name
from workbench.util.messages import brief

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGINS = "WORKBENCH_PLUGINS"  # an environment variable: files to load, with the path separator between them


@dataclass(frozen=True)
class _Kind:
    """A kind of part.

    Attributes:
        words: what one is called.
        module, table: where the dict of its parts is.
        base: what a part must be: an instance or, if it is a class itself, a subclass of this class (`module.Class`);
            None where any object with the right methods will do.
    """

    words: str
    module: str
    table: str
    base: str | None = None

    @property
    def parts(self) -> dict[str, Any]:
        """The dict of all parts of this kind, by name."""
        parts: dict[str, Any] = getattr(import_module(self.module), self.table)
        return parts


# The modules are named, not imported: a plugin of one kind does not import the rooms of the others.
KINDS: dict[str, _Kind] = {
    "tasks": _Kind("task", "workbench.tasks", "TASKS", "workbench.tasks.base.Task"),
    "presets": _Kind("preset", "workbench.training.presets", "PRESETS", "builtins.dict"),
    "attention": _Kind(
        "attention variant", "workbench.models.attention", "ATTENTION", "workbench.models.attention.base.Attention"
    ),
    "models": _Kind("model", "workbench.models", "MODELS", "workbench.models.own_model_config.ModuleKind"),
    "objectives": _Kind("objective", "workbench.objectives", "OBJECTIVES", "workbench.objectives.base.Objective"),
    "instruments": _Kind("instrument", "workbench.instruments", "INSTRUMENTS"),
    "weights": _Kind("instrument of weights", "workbench.instruments", "WEIGHTS"),
    "mechanisms": _Kind("mechanism", "workbench.mechanisms", "MECHANISMS"),
    "probes": _Kind("probe preset", "workbench.probes.presets", "PRESETS", "workbench.probes.presets.Preset"),
    "studies": _Kind("study", "workbench.studies", "STUDIES", "workbench.studies.study.Study"),
    "methods": _Kind("method", "workbench.benchmark.methods", "METHODS"),
}
"""Kind of part, which is the group of its entry points and, in capitals, its dict in a file -> where it belongs."""


@dataclass(frozen=True)
class Plugin:
    """A plugin that is loaded.

    Attributes:
        name: of the file, or of the installed distribution.
        version: of the distribution; nothing for a file.
        sha256: of the file; nothing for a distribution.
    """

    name: str
    version: str = ""
    sha256: str = ""

    def __str__(self) -> str:
        mark = self.version or self.sha256[:12]
        return f"{self.name} ({mark})" if mark else self.name


ORIGINS: dict[tuple[str, str], Plugin] = {}
"""(kind, name of a part) -> the plugin that it came with; nothing of the parts of this package."""
_files: dict[Path, Plugin] = {}


def load_plugins(files: Iterable[str | Path] = ()) -> list[Plugin]:
    """Load the installed plugins, the files that `WORKBENCH_PLUGINS` lists, and these files.

    The files are added to `WORKBENCH_PLUGINS`, so that processes started from this one load them too. What is loaded
    already stays, unless its file has changed; then its parts are replaced.

    Returns all plugins that are loaded.

    Raises:
        ValueError: in one line, if a file is missing or fails, or a part is not of its kind or has a name that exists.
    """
    from importlib.metadata import entry_points  # slow to import, and not needed for `--help`

    listed = [Path(name) for name in os.environ.get(PLUGINS, "").split(os.pathsep) if name]
    paths = list(dict.fromkeys(Path(path).expanduser().absolute() for path in (*listed, *map(Path, files))))
    if split := next((path for path in paths if os.pathsep in str(path)), None):
        raise ValueError(
            f"the plugin {split} has a {os.pathsep!r} in its path, which ends a path in {PLUGINS}: rename it"
        )
    installed = entry_points()
    for kind in KINDS:
        for point in installed.select(group=f"workbench.{kind}"):
            _load_installed(kind, point)
    for path in paths:
        _load_file(path)
    if paths:
        os.environ[PLUGINS] = os.pathsep.join(map(str, paths))
    return list(dict.fromkeys(ORIGINS.values()))


def sources() -> dict[str, str]:
    """The text of each file that is loaded, by the file's name, to be loaded on another machine."""
    return {path.name: path.read_text(encoding="utf-8") for path in _files}


@contextmanager
def plugins_from(texts: Mapping[str, str]) -> Iterator[None]:
    """Load what `sources` gave on another machine.

    Processes that are started within the block load it too. It stays loaded after the block; its files do not stay.
    """
    before = os.environ.get(PLUGINS)
    with TemporaryDirectory(prefix="workbench-") as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        load_plugins(Path(folder) / name for name in texts)
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(PLUGINS, None)
            else:
                os.environ[PLUGINS] = before


def not_loaded(noted: Any) -> str:
    """What to do about the plugins that a run notes and that are not loaded, in words; nothing where there are none.

    Args:
        noted: what a config.json says, unchecked.
    """
    notes = [note for note in noted if isinstance(note, Mapping)] if isinstance(noted, list) else []
    needed = [Plugin(*(str(note.get(name, ""))[:64] for name in ("name", "version", "sha256"))) for note in notes[:8]]
    loaded = {plugin.name for plugin in ORIGINS.values()}
    missing = ", ".join(str(plugin) for plugin in needed if plugin.name not in loaded)
    if not missing:
        return ""
    how = f"name its file with --plugin or in {PLUGINS}, or install it"
    return f"; it needs the plugin {missing}, which is not loaded: {how}"


def changed_since(noted: Iterable[Any]) -> str:
    """Which of the plugins that a run notes are loaded in another version, in words; nothing where none is.

    Args:
        noted: each with `name`, `version` and `sha256`.
    """
    loaded = {plugin.name: plugin for plugin in ORIGINS.values()}
    then = [Plugin(note.name, note.version, note.sha256) for note in noted]
    now = [(before, loaded[before.name]) for before in then if loaded.get(before.name, before) != before]
    return "; ".join(f"it was made with the plugin {before}, and {after} is loaded" for before, after in now)


def _load_installed(kind: str, point: EntryPoint) -> None:
    distribution = point.dist
    plugin = Plugin(distribution.name, distribution.version) if distribution else Plugin(point.module)
    if ORIGINS.get((kind, point.name)) == plugin:
        return
    try:
        part = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(
            f"the plugin {plugin} is installed but cannot be loaded ({type(error).__name__}: {brief(error)}); "
            f"mend or uninstall it"
        ) from None
    _add({(kind, point.name): part}, plugin)


def _load_file(path: Path) -> None:
    if path.exists() and not path.is_file():  # a pipe or device might never end
        raise ValueError(f"the plugin {path} is not a file")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ValueError(f"the plugin {path} cannot be read: {error.strerror}") from None
    plugin = Plugin(path.name, sha256=hashlib.sha256(source).hexdigest())
    if plugin in _files.values():  # this file, or one with the same name and text
        return
    if same := [other for other in _files if other.name == path.name and other != path]:
        raise ValueError(f"two plugins are named {path.name}: {same[0]} and {path}; rename one")
    parts, before = _parts_in(_executed(path), path), _files.get(path)
    own = [part for part, owner in ORIGINS.items() if owner == before]
    replaced = {(kind, name): KINDS[kind].parts.pop(name) for kind, name in own}
    for part in own:
        del ORIGINS[part]
    try:
        _add(parts, plugin)
    except ValueError:
        if before is not None:
            _add(replaced, before)
        raise
    _files[path] = plugin


def _executed(path: Path) -> ModuleType:
    """The module that a file makes."""
    name = f"workbench_plugin_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"the plugin {path} is no Python file; its name ends in .py")
    module = module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # before it runs: dataclasses look there for the module that they are in
    if str(path.parent) not in sys.path:  # at the end: a plugin may import its neighbours, which hide no library
        sys.path.append(str(path.parent))
    try:
        with running(path, "plugin"):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise
    return module


@contextmanager
def running(path: Path, what: str) -> Iterator[None]:
    """Turn whatever the code of a file raises, `sys.exit` too but Ctrl-C, into a ValueError that names its line."""
    from workbench.util.files import open_text  # slow to import

    with open_text(path):  # refuses UTF-16, of which Python names no encoding
        pass
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        line = next(
            (at.lineno for at in reversed(traceback.extract_tb(error.__traceback__)) if at.filename == str(path)), None
        )
        where = f"{path}, line {line}" if line else str(path)
        raise ValueError(f"the {what} fails in {where}: {type(error).__name__}: {brief(error)}") from None


def _parts_in(module: ModuleType, path: Path) -> dict[tuple[str, str], Any]:
    """The parts of a plugin's file: its dicts, by the names of the kinds in capitals."""
    parts: dict[tuple[str, str], Any] = {}
    for kind in KINDS:
        table = getattr(module, kind.upper(), {})
        if table and table is KINDS[kind].parts:
            raise ValueError(
                f"{kind.upper()} of the plugin {path} is the workbench's own dict: make a dict of that name, with "
                f"the plugin's parts alone, in place of importing it"
            )
        if not isinstance(table, Mapping) or not all(isinstance(name, str) for name in table):
            raise ValueError(f"{kind.upper()} of the plugin {path} must be a dict: name -> {KINDS[kind].words}")
        parts |= {(kind, name): part for name, part in table.items()}
    if not parts:
        raise ValueError(
            f"the plugin {path} has no parts: give it one of the dicts {', '.join(map(str.upper, KINDS))}, "
            f"such as TASKS = {{'my_task': MyTask}}"
        )
    return parts


def _add(parts: Mapping[tuple[str, str], Any], plugin: Plugin) -> None:
    """Put parts into the dicts that they belong to, all or none.

    Raises:
        ValueError: if a name exists or is none of a file, or a part is not of its kind or calls itself by another name.
    """
    tables = {kind: KINDS[kind].parts for kind, _ in parts}
    for (kind, name), part in parts.items():
        words = KINDS[kind].words
        if name in tables[kind]:
            whose = ORIGINS.get((kind, name))
            owner = f" (of the plugin {whose})" if whose else ""
            raise ValueError(f"the plugin {plugin.name} has a {words} {name!r}, which exists already{owner}; rename it")
        check_name(name, f"the {words}, as of the plugin {plugin.name}")
        called = f"{kind.upper()}[{name!r}] of the plugin {plugin.name}"
        if (base := KINDS[kind].base) is not None:
            module, _, attribute = base.rpartition(".")
            wanted = getattr(import_module(module), attribute)
            if not (issubclass(part, wanted) if isinstance(part, type) else isinstance(part, wanted)):
                raise ValueError(f"{called} must be a {attribute}, not {brief(repr(part))}")
        own = getattr(part, "name", name)
        if isinstance(part, type) and isinstance(own, str) and own != name:
            raise ValueError(f"{called} calls itself {own!r}; give both the same name")
    for (kind, name), part in parts.items():
        tables[kind][name] = part
        ORIGINS[kind, name] = plugin
