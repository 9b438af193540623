"""Files of the lake that are pushed: a damaged one is named, with what writes it again."""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.errors import Conservation
from sluice.flow.load.source.pull_or_push import bodies
from tests.support.fakes import MemoryLake
from tests.support.verified import TEN, pipeline

KEY = "type=click/x.parquet"
RELAND = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode reland"
COLUMNS = ("_offset", "_row", "_payload")


def parquet(**columns: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


GOOD = parquet(_offset=pa.array([4, 5]), _payload=pa.array(["{}", "[]"]))


def pushed(stored: bytes | None) -> list[dict]:
    lake = MemoryLake() if stored is None else MemoryLake(objects={KEY: (stored, 1)})
    streams = bodies(pipeline(), lake, [(TEN, KEY)], COLUMNS)
    return [row for body in streams for row in pa.ipc.open_stream(body).read_all().to_pylist()]


def test_rows_of_a_file():
    at = TEN.slice.start
    assert pushed(GOOD) == [
        {"_offset": 4, "_row": 0, "_payload": b"{}", "_slice": at},
        {"_offset": 5, "_row": 0, "_payload": b"[]", "_slice": at},
    ]


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (None, "is missing"),
        (b"", "cannot be read (Parquet file size is 0 bytes"),
        (GOOD[:-40], "cannot be read (Parquet magic bytes not found"),
        (parquet(_offset=pa.array([4])), "cannot be read (it has no column _payload)"),
        (parquet(x=pa.array([4])), "cannot be read (it has no column _offset)"),
        (parquet(_offset=pa.array(["x"]), _payload=pa.array(["{}"])), "cannot be read ("),
    ],
)
def test_a_file_that_is_damaged_is_named_with_what_writes_it_again(stored: bytes | None, why: str):
    named = re.escape(f"slice {TEN}: lake file {KEY} of its manifest {why}")
    with pytest.raises(Conservation, match=f"{named}.*: `{RELAND}` writes it again"):
        pushed(stored)
