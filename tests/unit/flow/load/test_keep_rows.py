"""The refusal of a refill names records, and nothing that is in them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sluice.clients.clickhouse.sql import identifier
from sluice.flow.load.kept_rows import KeepRows, TakesRowsOut
from tests.support.page_world import pipeline, unit

PIPELINE = pipeline()
PLACES = ["contacts[].sent", "price"]


class Writer:
    """Answers with one unit's new rejected rows, as include/sql/load/new_rejected_rows.sql asks for them."""

    attempt = SimpleNamespace(rejected_rows=identifier("m"), fence=identifier("f"))

    def rows(self, sql: str, parameters: dict) -> list[tuple]:
        assert "value" not in sql.partition("FROM")[0]
        return [(0, "dc1", 2, PLACES, (PLACES[0], "does not fit UInt8", "bids", 3, 71))]

    def unit_of(self, start: int, cluster: str):
        return unit(0)


def test_the_refusal_names_a_record_and_not_its_value():
    work = SimpleNamespace(unit=unit(0), held=SimpleNamespace(rows=5, rejected_rows=0), brought=0)
    columns = [SimpleNamespace(name=name) for name in ("contacts", "price", "n")]
    table = SimpleNamespace(table="e.clicks", columns=columns)
    with pytest.raises(TakesRowsOut) as refusal:
        KeepRows(table, [work], Writer(), PIPELINE, dict).check({unit(0): 3})
    assert str(refusal.value) == (
        "table e.clicks: the load would take rows out of it, and leaves these slices as they are: 2 of slice "
        f"{unit(0)}: in column contacts[].sent the value of record dc1/bids/3/71 does not fit UInt8; `ALTER "
        "TABLE `e`.`clicks` MODIFY COLUMN `contacts` Nullable(String), MODIFY COLUMN `price` "
        f"Nullable(String)` and run it again, or `sluice run {PIPELINE.name} {' '.join(unit(0).slice.words)} "
        "--table e.clicks --mode reload`, which takes them out"
    )


def test_rows_that_a_retry_brought_may_be_rejected_rows_and_none_that_was_there():
    """Five rows were there, two rows are rejected rows now, and so many landed beside the five."""
    for brought, refused in ((2, False), (1, True)):
        work = SimpleNamespace(unit=unit(0), held=SimpleNamespace(rows=5, rejected_rows=0), brought=brought)
        check = KeepRows(
            SimpleNamespace(table="e.clicks", columns=[]), [work], Writer(), PIPELINE, dict
        ).check
        if refused:
            with pytest.raises(TakesRowsOut):
                check({unit(0): 5})
        else:
            check({unit(0): 5})
