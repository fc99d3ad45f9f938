"""Every interval covers the truth as often as it says, or the table in the docs says why not. Minutes: slow."""

from __future__ import annotations

import pytest

from tests.measurement.coverage import KINDS, NAME, PROMISED, SIZES, SLACK, covered
from tests.tables_in_docs import written
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT

pytestmark = pytest.mark.slow
AT_WORST = 0.88  # of what no interval known covers better


@pytest.mark.parametrize("name", KINDS)
def test_from_five_values_on_an_interval_covers_as_it_says(name: str) -> None:
    kind = KINDS[name]
    for n in SIZES:
        if n < LEAST_FOR_A_VERDICT:
            continue
        found = covered(name, n)
        assert found >= (AT_WORST if kind.short else PROMISED[0]) - SLACK, n
        assert found <= (1.0 if kind.wider else PROMISED[1] + SLACK), n


def test_the_table_in_the_docs_is_what_is_simulated() -> None:
    rows = {cells[0]: cells[1 : 1 + len(SIZES)] for cells in written(NAME)}
    assert list(rows) == list(KINDS)
    for name in list(KINDS)[::3]:
        for n, share in zip(SIZES, rows[name], strict=True):
            assert 100 * covered(name, n) == pytest.approx(float(share), abs=0.5), (name, n)
