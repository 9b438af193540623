"""What the forecast of an erasure says of the tables: each row once."""

from __future__ import annotations

import pytest

from sluice.flow.erase.erase import by_table
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from tests.support.landing_world import hours, pipeline

[UNIT] = [Unit(piece, "dc1") for piece in hours(1)]
ROWS = {"click": 3, "view": 2, "odd": 1}


@pytest.mark.parametrize(
    ("own", "counts"),
    [
        ({}, (3, 3)),
        ({"db.clicks": ("click",), "db.other": ("view", "odd")}, (3, 3)),
        ({"db.clicks": ("click", "view")}, (5, 1)),  # the file sends views to the other table by now
        ({"db.other": ("click", "odd", "view")}, (0, 6)),
    ],
)
def test_a_row_counts_in_the_table_that_has_it(own: dict[str, tuple[str, ...]], counts: tuple[int, int]):
    spec = pipeline(tables={"click": "db.clicks", "*": "db.other"}, counts=[{"table": "db.traffic"}])
    rows = {name: LedgerRow(UNIT, "1-a", types, 6, 6, 0, "", 1) for name, types in own.items()}
    found = by_table(spec, ROWS, rows)
    assert (found["db.clicks"], found["db.other"], found.total()) == (*counts, 6)
