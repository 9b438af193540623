"""How each table does in a range."""

from __future__ import annotations

from dataclasses import replace

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import lacking_landed, targets_of
from sluice.flow.verify.verdict import OpenAnomaly, Verification, opened_by
from sluice.page.table_marks import table_marks
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.page_world import START, TABLE, complete, missing, pipeline, unit

OTHER = "events.views"
BOTH = pipeline(tables={"click": TABLE, "view": OTHER})
FOUND = Verification("2026-11-20T20:00:00Z", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", 24, 10, 1)
HOURS = [f"2026-11-20T{hour}Z" for hour in range(10, 16)]


def landed(hour: int) -> UnitStatus:
    """In no table."""
    return replace(complete(unit(hour)), state=UnitState.LANDED, tables={})


def anomaly(kind: AnomalyKind, name: str, table: str, **more: str) -> OpenAnomaly:
    return opened_by(Anomaly(kind, "5", "4", slice=name, cluster="dc1", table=table, **more), FOUND)


def said(*statuses: UnitStatus, anomalies=(), gone=(), until: int = 9) -> list[tuple[str, str, int]]:
    targets = targets_of(BOTH)
    lacking = [(one.unit.slice, lacking_landed(BOTH, targets, one)) for one in statuses]
    marks = table_marks(BOTH, lacking, anomalies, gone, HOURS, START.add(hours=until))
    return [(one.table, str(one.state), one.hours) for one in marks]


def test_all_is_well():
    assert said(complete(unit(0)), missing(unit(1))) == [(TABLE, "healthy", 0), (OTHER, "healthy", 0)]


def test_an_hour_is_behind_once_it_should_be_complete():
    assert said(landed(0), landed(1))[0] == (TABLE, "behind", 2)
    assert said(landed(0), until=1)[0] == (TABLE, "healthy", 0)


def test_a_missing_table_lacks_every_hour_that_landed():
    assert said(landed(0), landed(1), gone=(TABLE,), until=1)[0] == (TABLE, "missing", 2)


def test_an_hour_is_wrong_once_however_much_of_it_is():
    found = [
        anomaly(AnomalyKind.ROWS_MISSING, HOURS[0], TABLE),
        anomaly(AnomalyKind.VALUES, HOURS[0], TABLE),
        anomaly(AnomalyKind.ROWS_EXTRA, HOURS[1], OTHER),
        anomaly(AnomalyKind.ROWS_EXTRA, "2026-11-19T00Z", OTHER),  # outside of the range
        anomaly(AnomalyKind.INCOMPLETE, HOURS[2], TABLE),  # no count is wrong
        anomaly(AnomalyKind.FILE_MISSING, HOURS[3], ""),  # of no table
    ]
    assert said(complete(unit(0)), anomalies=found) == [(TABLE, "wrong", 1), (OTHER, "wrong", 1)]
