"""Rejected rows of hours of which the lake has forgotten the files: what is printed for them works."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from sluice.cli.rejected import RejectedReport, show_report
from sluice.clients.lake import layout
from sluice.flow.rejected.rejections import RejectionFilter, RejectionReader, RejectionTally
from sluice.manifest import Forgotten, decode, encode
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline

COMMAND = "sluice rejected demo --from 2026-01-01T00:00Z --to 2026-01-01T03:00Z"


@dataclass(frozen=True)
class Server:
    """Has rejected rows: of each hour 5 of column `n`, and 2 of `m` in the first one. The table is the
    pipeline's."""

    lake: str

    @property
    def reached(self) -> Server:
        return self

    def rows(self, statement: str, parameters: Any = None) -> list[tuple]:
        if parameters is None:
            return [("rejected", "MergeTree", "", 1)]
        if "sluice.targets" in statement:
            return [("db.click", "demo", self.lake)]
        assert parameters["targets"] == ["db.click"], statement
        starts = [int(START.add(hours=n).timestamp()) for n in range(3)]
        of_n = [(start, "dc1", "db.click", "n", "not a UInt64", 5) for start in starts]
        return [*of_n, (starts[0], "dc1", "db.click", "m", "not a UInt8", 2)]


def forget(lake: MemoryLake, name: str, said: Forgotten) -> None:
    key = layout.manifest(name, "dc1")
    manifest = decode(lake.read(key).data, key)
    lake.put(key, encode(replace(manifest, forgotten=said)))


def test_a_retry_is_offered_for_the_hours_that_the_lake_holds(capsys: pytest.CaptureFixture[str]):
    spec, lake = pipeline(), MemoryLake()
    world = World({("dc1", "bids"): [[event("click", n) for n in range(0, 180, 9)]]})
    world.resolve(spec, lake, hours(3))
    world.land(spec, lake, hours(3))
    forget(lake, "2026-01-01T00Z", Forgotten(lake="2028-01-01T00:00:00Z", removed=True))
    bytes_alone = Forgotten(rejected="2028-01-01T00:00:00Z", removed=True)  # its rows can be loaded again
    forget(lake, "2026-01-01T01Z", bytes_alone)

    tally = RejectionTally()
    tally.add(
        RejectionReader(spec, lake, RejectionFilter(), print).rejected_rows([Server(lake.url)], hours(3))
    )
    groups = [
        (one.cause.column, one.records, one.forgotten, one.last_held and one.last_held.id)
        for one in tally.sorted
    ]
    assert groups == [("n", 15, 5, "2026-01-01T02Z"), ("m", 2, 2, None)]

    show_report(RejectedReport("demo", hours(3), tally.sorted, []), COMMAND, wide=True, json=False)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("then", "the lake"))]
    why = "of these records: `reland` brings their slices, as long as Kafka has them"
    assert lines == [
        f"the lake has forgotten the bytes of 5 {why}",
        f"then: {COMMAND} --table db.click --column n --reason 'not a UInt64' --retry",
        f"the lake has forgotten the bytes of 2 {why}",
    ]
