"""Newest rows whose log has other rows than were committed: nothing is compared, and a note says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.flow.contents.compare import Auditor, ContentsReport
from sluice.flow.load.rollups.decide import SourceUnit
from sluice.flow.load.work import work_for
from sluice.flow.verify.repairs import Repairs
from tests.support.fakes import MemoryLake
from tests.support.verified import FOUND, TEN, pipeline


@pytest.mark.parametrize("counted", [4, 6])
def test_too_many_rows_are_not_called_too_few(counted: int):
    """5 rows are committed of the hour."""
    log = {"table": "e.clicks", "latest": {"table": "e.new", "key": ["id"], "version": ["n"]}}
    spec = pipeline(tables={"click": log, "*": "e.other"})
    source, target = (next(t for t in spec.targets if t.table == name) for name in ("e.clicks", "e.new"))
    status, row = FOUND[0], FOUND[0].tables["e.clicks"]
    assert status.manifest is not None and target.rollup is not None
    work = work_for(spec, source, TEN, status.manifest, True)
    stage = SimpleNamespace(
        target=target,
        ledger=lambda: {TEN: row},
        placement=SimpleNamespace(stamp=""),
        source=lambda _: SimpleNamespace(
            ledger=lambda: {TEN: row},
            stamp="",
            units=lambda *_: {TEN: SourceUnit(row, counted, True, work)},
        ),
    )
    report = ContentsReport()
    auditor = Auditor(spec, MemoryLake(), Repairs("ads"), print, (), None)
    assert auditor.works(cast("Any", stage), [status], report) == []
    assert report.notes == [
        "table e.new: 1 slices are not compared (2026-11-20T10Z/dc1 to 2026-11-20T10Z/dc1): e.clicks has "
        "more or fewer rows of them than were committed"
    ]
    assert report.uncompared == {("2026-11-20T10Z", "dc1", "e.new")}
