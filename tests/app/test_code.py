"""The code of a panel: one object computes the figure and writes the lines that make it again."""

from __future__ import annotations

import math
from typing import Any

import pytest

import workbench
from workbench import figures
from workbench.app.panels import code
from workbench.instruments.residual import entropy
from workbench.interventions import CutEdge


def executed(lines: str) -> Any:
    names: dict[str, Any] = {}
    exec(lines, names)
    return names["figure"]


def test_the_lines_compute_what_the_symbol_holds() -> None:
    table = code.assign("table", dict, a=[1, 2], b=(None, 3), c={"x": math.inf})
    pair = code.named("pair", table["b"])
    figure = code.call(dict, pair=pair, whole=table, alike=table["a"][0] == 1, upper=code.call(str, "é").upper())
    assert executed(code.lines(figure)) == code.value_of(figure)
    assert code.value_of(figure)["alike"] is True and code.value_of(figure)["upper"] == "É"


def test_only_what_a_figure_needs_is_written_once_and_in_order() -> None:
    first = code.assign("first", dict, a=1)
    code.assign("unused", dict, first=first)
    second = code.assign("second", dict, first=first)
    assert code.lines(code.call(dict, second=second, first=first)).splitlines() == [
        "import builtins",
        "",
        "first = builtins.dict(a=1)",
        "second = builtins.dict(first=first)",
        "figure = builtins.dict(second=second, first=first)",
        "figure",
    ]


def test_a_function_is_written_under_its_public_name() -> None:
    assert code._text_of(workbench.see).expression == "workbench.see"
    assert code._text_of(figures.canvas).expression == "figures.canvas"
    text = code._text_of(entropy.measure)
    assert text.expression == "entropy.measure"
    assert text.imports == {("workbench.instruments.residual", "entropy")}


def test_a_cached_version_computes_but_the_public_call_is_written() -> None:
    given: list[Any] = []

    def cached(*args: Any, **kwargs: Any) -> str:
        given.append((args, kwargs))
        return "cached"

    run = code.assign("run", dict, path="a")
    result = code.call(workbench.see, run, "batch", step=None, computed_by=cached)
    assert code.value_of(result) == "cached" and given == [(({"path": "a"}, "batch"), {"step": None})]
    assert "figure = workbench.see(run, 'batch')\n" in code.lines(result)  # a default is not written


def test_an_edit_is_written_as_python() -> None:
    edit = CutEdge(3, None, 0, 1)
    assert executed(code.lines(code.call(dict, edit=edit))) == {"edit": edit}


def test_two_things_of_one_name_are_refused() -> None:
    one, other = code.assign("x", dict, a=1), code.assign("x", dict, a=2)
    with pytest.raises(AssertionError, match="two things called x"):
        code.call(dict, one=one, other=other)
    with pytest.raises(AssertionError, match="one name twice"):
        code.lines(code.call(dict, x=code.assign("builtins", dict, a=1)))


def test_what_has_no_python_is_refused() -> None:
    with pytest.raises(TypeError, match="has no Python expression"):
        code.call(dict, a=object())
    with pytest.raises(TypeError, match="ask `value_of` it"):
        bool(code.call(dict, a=1))
