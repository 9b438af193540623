"""What the page counts of a slice's rejected rows on a real server."""

from __future__ import annotations

import pytest

from sluice.page.rejected_samples import rejected_row_counts, rejected_rows, rejects_of
from sluice.slices import Slice
from sluice.state.system_tables import create_system_tables
from tests.integration.landed import client_of
from tests.support.page_world import START, pipeline

pytestmark = pytest.mark.integration
HOUR = Slice(START)
ROWS = [
    # Items of arrays and keys of maps, whatever they hold, are one column.
    *(("events.clicks", 0, f"items[{n}].price", "does not fit UInt8") for n in range(4)),
    ("events.clicks", 0, 'tags["a]\\"[1]"]', "does not fit UInt8"),
    ("events.clicks", 0, 'tags["b"]', "does not fit UInt8"),
    ("events.clicks", 0, "price", "does not fit Float64"),
    ("events.clicks", 1, "price", "does not fit Float64"),
    ("events.nobody", 0, "price", "does not fit Float64"),
]


def test_rejected_rows_are_counted_by_table_column_and_reason(clickhouse_server):
    client, spec = client_of(clickhouse_server), pipeline(tables={"*": "events.clicks"})
    create_system_tables(client, "sluice verify made")
    for number, (table, hours, column, reason) in enumerate(ROWS):
        at = int(HOUR.start.add(hours=hours).timestamp())
        client.run(
            "INSERT INTO sluice.rejected (pipeline, target, slice, cluster, topic, offset, column, reason) "
            "SELECT 'p', {table:String}, {at:UInt32}, 'dc1', 't', {n:Int64}, {column:String}, "
            "{reason:String}",
            {"table": table, "at": at, "n": number, "column": column, "reason": reason},
        )
    counts = rejected_row_counts(client, spec, ["events.clicks"], HOUR)
    assert counts == [
        ("events.clicks", "items[].price", "does not fit UInt8", 4),
        ("events.clicks", "tags[]", "does not fit UInt8", 2),
        ("events.clicks", "price", "does not fit Float64", 1),
    ]
    found = rejects_of({}, counts, rejected_rows(client, spec, ["events.clicks"], HOUR, "masked"), "masked")
    assert [sorted(s.offset for s in group.samples) for group in found.groups] == [[0, 1, 2], [4, 5], [6]]
    client.run("DELETE FROM sluice.rejected WHERE cluster = 'dc1' AND topic = 't'")
