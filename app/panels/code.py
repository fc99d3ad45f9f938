"""The code of a panel: one object that computes its figure and writes the lines of Python that a reader can export.

A `Symbol` is an object together with the Python expression that makes it. What is done to a symbol (an attribute, an
item, a call, `==`) is done to the object and written down, so that a panel states its steps once:

    table = assign("table", projection.top_tokens, seen, top=8)
    lines(call(figures.projection_bars, table, "embed", 3))

computes the table and the figure, and writes

    from workbench import figures
    from workbench.instruments.residual import projection

    run = workbench.load_run('runs/chain')
    …
    table = projection.top_tokens(seen, top=8)
    figure = figures.projection_bars(table, 'embed', 3)
    figure

Imports follow from the functions, and only what the figure needs is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from inspect import signature
from operator import attrgetter
from textwrap import indent
from typing import TYPE_CHECKING, Any

import workbench
from workbench.runs import ModelRun, Run, open_model

if TYPE_CHECKING:
    from workbench.app.state import Look, Opened

WIDEST = 100  # characters of an expression in one line
PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Text:
    """A Python expression and what has to stand above it.

    Attributes:
        expression: the expression.
        above: name -> the expression that is assigned to it, in order.
        imports: (package, name), as in `from package import name`; of `import name` the package is empty.
    """

    expression: str
    above: Mapping[str, str] = field(default_factory=dict)
    imports: frozenset[tuple[str, str]] = frozenset()


class Symbol:
    """An object, and the Python that makes it. Read the object with `value_of`."""

    def __init__(self, value: Any, text: Text) -> None:
        self._value, self._text = value, text

    def __getattr__(self, name: str) -> Symbol:
        if name.startswith("_"):
            raise AttributeError(name)
        return Symbol(getattr(self._value, name), _joined(f"{self._text.expression}.{name}", self._text))

    def __getitem__(self, item: Any) -> Symbol:
        text = _text_of(item)
        inside = text.expression[1:-1] if isinstance(item, tuple) and len(item) > 1 else text.expression
        expression = f"{self._text.expression}[{inside}]"
        return Symbol(self._value[value_of(item)], _joined(expression, self._text, text))

    def __call__(self, *args: Any, **kwargs: Any) -> Symbol:
        return call(self, *args, **kwargs)

    def __eq__(self, other: object) -> Any:
        text = _text_of(other)
        expression = f"{self._text.expression} == {text.expression}"
        return Symbol(self._value == value_of(other), _joined(expression, self._text, text))

    __hash__ = object.__hash__
    __iter__ = None  # else `__getitem__` would make it an endless sequence

    def __bool__(self) -> bool:
        raise TypeError(f"{self._text.expression} is a symbol; ask `value_of` it")


def assign(name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Symbol:
    """A call whose result has a name of its own in the code: `name = function(…)`. See `call`."""
    return named(name, call(function, *args, **kwargs))


def call(
    function: Callable[..., Any], /, *args: Any, computed_by: Callable[..., Any] | None = None, **kwargs: Any
) -> Symbol:
    """A call: computed now, and written as Python.

    Args:
        function: a public function or class of the library, or a symbol.
        args, kwargs: symbols, plain values, functions, dataclasses, or lists, tuples and dicts of these. A keyword that
            equals the function's default is not written.
        computed_by: what computes the result in place of the function, from the same arguments: a cached version.

    Raises:
        TypeError: if an argument has no Python expression.
    """
    target = _text_of(function)
    given = {key: value for key, value in kwargs.items() if not _is_default(value_of(function), key, value)}
    positional = [_text_of(value) for value in args]
    by_name = {key: _text_of(value) for key, value in given.items()}
    items = [text.expression for text in positional] + [f"{key}={text.expression}" for key, text in by_name.items()]
    text = _joined(_bracketed(f"{target.expression}(", items, ")"), target, *positional, *by_name.values())
    compute = computed_by or value_of(function)
    return Symbol(compute(*map(value_of, args), **{key: value_of(value) for key, value in kwargs.items()}), text)


def named(name: str, symbol: Symbol) -> Symbol:
    """The same object under a name, which the code assigns it to."""
    above = dict(symbol._text.above)
    assert above.get(name, symbol._text.expression) == symbol._text.expression, f"two things called {name}"
    return Symbol(symbol._value, Text(name, above | {name: symbol._text.expression}, symbol._text.imports))


def imported(module: str, name: str) -> Symbol:
    """A symbol for a constant of a module, such as `INSTRUMENTS` of `workbench.instruments`."""
    return Symbol(getattr(import_module(module), name), Text(name, {}, frozenset({(module, name)})))


def value_of(given: Any) -> Any:
    """The object behind a symbol, also within lists, tuples and dicts; anything else as it is."""
    if isinstance(given, Symbol):
        return given._value
    if type(given) in (list, tuple):
        return type(given)(map(value_of, given))
    if type(given) is dict:
        return {value_of(key): value_of(value) for key, value in given.items()}
    return given


def lines(figure: Symbol) -> str:
    """The lines of Python that make a figure and call it `figure`."""
    text = named("figure", figure)._text
    names = [*(name for _, name in text.imports), *text.above]
    assert len(set(names)) == len(names), f"one name twice: {names}"
    imports = [
        f"from {package} import {name}" if package else f"import {name}" for package, name in sorted(text.imports)
    ]
    return "\n".join([*imports, "", *(f"{name} = {expression}" for name, expression in text.above.items()), "figure"])


def run(opened: Opened, suffix: str = "") -> Symbol:
    """The run, as `run`.

    Args:
        opened: the run.
        suffix: what its name ends with: `_b` for the second of two that are compared.
    """
    return named(f"run{suffix}", loaded(opened.run))


def loaded(run: Run) -> Symbol:
    """A run as it is opened, without a name of its own."""
    if isinstance(run, ModelRun):
        return call(open_model, run.source, text=run.text, computed_by=lambda source, text: run)
    return call(workbench.load_run, str(run.path), computed_by=lambda path: run)


def task(opened: Opened, suffix: str = "") -> Symbol:
    """The run's task, as `task`."""
    return assign(f"task{suffix}", run(opened, suffix).task, computed_by=lambda: opened.subject.task)


def model(opened: Opened, suffix: str = "") -> Symbol:
    """The run's model at the step that was chosen."""
    return _at_step(run(opened, suffix).model, opened, opened.model)


def hooked(opened: Opened) -> Symbol:
    """The same with hooks."""
    return _at_step(run(opened).hooked, opened, opened.hooked)


def _at_step(load: Symbol, opened: Opened, loaded: Any) -> Symbol:
    step = () if opened.step is None else (opened.step,)
    return call(load, *step, computed_by=lambda *step: loaded)


def seen(look: Look) -> Symbol:
    """What was captured of the run on its input, as `seen`."""
    return assign(
        f"seen{look.suffix}",
        workbench.see,
        run(look.opened, look.suffix),
        look.input,
        step=look.opened.step,
        computed_by=lambda run, batch, step: look.seen,
    )


def _text_of(given: Any) -> Text:
    if isinstance(given, Symbol):
        return given._text
    if type(given) in PLAIN:
        return Text(f"float('{given}')" if isinstance(given, float) and not math.isfinite(given) else repr(given))
    if type(given) is dict:
        parts = [(_text_of(key), _text_of(value)) for key, value in given.items()]
        items = [f"{key.expression}: {value.expression}" for key, value in parts]
        return _joined(_bracketed("{", items, "}"), *(text for part in parts for text in part))
    if type(given) in (list, tuple):
        texts = [_text_of(value) for value in given]
        inside = ", ".join(text.expression for text in texts)
        whole = f"[{inside}]" if type(given) is list else f"({inside}{',' if len(texts) == 1 else ''})"
        return _joined(whole, *texts)
    if is_dataclass(given) and not isinstance(given, type):
        settings = {one.name: getattr(given, one.name) for one in fields(given)}
        return call(type(given), **settings, computed_by=lambda **_: given)._text  # type: ignore[no-any-return]
    return _public_name(given)


def _public_name(given: Any) -> Text:
    """A function or class by the outermost module that offers it, and the import of that.

    Raises:
        TypeError: if no module does.
    """
    name, parts = str(getattr(given, "__qualname__", "")), str(getattr(given, "__module__", "")).split(".")
    for length in range(1, len(parts) + 1) if name else ():
        module = ".".join(parts[:length])
        try:
            if attrgetter(name)(import_module(module)) != given:
                continue
        except AttributeError:
            continue
        return Text(f"{parts[length - 1]}.{name}", {}, frozenset({(".".join(parts[: length - 1]), parts[length - 1])}))
    raise TypeError(f"{given!r} has no Python expression; give a symbol")


def _is_default(function: Any, key: str, value: Any) -> bool:
    try:
        parameter = signature(function).parameters.get(key)
    except ValueError:  # some builtins have none
        return False
    return (
        parameter is not None
        and type(value) in PLAIN
        and type(parameter.default) is type(value)
        and bool(parameter.default == value)
    )


def _bracketed(opening: str, items: list[str], closing: str) -> str:
    """Items in brackets: in one line where they fit, else one a line."""
    line = f"{opening}{', '.join(items)}{closing}"
    if len(items) < 2 or len(line) <= WIDEST:
        return line
    inside = "".join(indent(f"{item},\n", "    ") for item in items)
    return f"{opening}\n{inside}{closing}"


def _joined(expression: str, *parts: Text) -> Text:
    """An expression made of parts, below everything that each of them needs."""
    above: dict[str, str] = {}
    for part in parts:
        for name, made in part.above.items():
            assert above.setdefault(name, made) == made, f"two things called {name}"
    return Text(expression, above, frozenset().union(*(part.imports for part in parts)))
