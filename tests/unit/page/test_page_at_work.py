"""What the page offers while a run is at work: nothing that the run may do itself."""

from __future__ import annotations

from dataclasses import replace

import pendulum
import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import OpenAnomaly, Verdict, Verification, opened_by
from sluice.page.findings import Known, findings_of
from sluice.page.models import Cell, OverviewCell
from sluice.page.slice_findings import RunRow, SliceFacts
from sluice.page.slice_view import SliceView, slice_view
from sluice.state.months import Summaries
from sluice.state.unit_state import UnitState
from tests.support.verified import FOUND, TEN, pipeline

AT = Verification("2026-11-21T00:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T12:00:00Z", 1, 10, 1)
NOW = pendulum.datetime(2026, 11, 21)
MISSING = replace(FOUND[0], state=UnitState.MISSING, manifest=None, tables={})
HOURLY = RunRow(dag_id="ads", run_id="r", state="running", started="", asked="", tasks=[])


def wrong_rows() -> OpenAnomaly:
    repair = Repairs("ads").repair(TEN.slice, "e.clicks")
    where = {"slice": TEN.slice.id, "cluster": "dc1", "table": "e.clicks"}
    return opened_by(Anomaly(AnomalyKind.ROWS_MISSING, "5 rows", "4", repair, **where), AT)


def view(running: str, cell: Cell, state: UnitState = UnitState.MISSING) -> SliceView:
    hour = OverviewCell(id=TEN.slice.id, cell=cell, running=running)
    verdict = Verdict(anomalies=(wrong_rows(),))
    facts = SliceFacts(pipeline(), hour, (replace(MISSING, state=state),), NOW, verdict, (HOURLY,))
    return slice_view(facts, TEN.slice, running, Summaries([]), TEN.slice.end)


def test_an_hour_offers_no_repair_while_a_run_works_on_it():
    idle, busy = view("", Cell.LATE).findings, view("resolving", Cell.WAITING).findings
    words = ["rows are missing (e.clicks)", "Not landed"]
    assert [(one.what, one.tone, len(one.repairs)) for one in idle] == [
        (words[0], "bad", 1),
        (words[1], "warn", 1),
    ]
    assert [(one.what, one.tone, len(one.repairs)) for one in busy] == [
        (words[0], "bad", 0),
        (words[1], "", 0),
    ]
    assert {one.advice for one in busy} == {
        "a run is working on it: repairs are offered again once it has ended"
    }


def test_an_hour_that_is_not_over_is_open_and_no_table_lacks_it():
    (unit,) = view("", Cell.OPEN, UnitState.NOT_OVER).units
    assert (unit.state, {table.state for table in unit.tables}) == ("open", {"open"})


@pytest.mark.parametrize(
    ("busy", "offered"),
    [
        (["2026-11-20T10Z"], False),
        (["2026-11-20T09Z", "2026-11-20T11Z"], True),
        (["2026-11-20"], False),
        (["2026-11-19", "2026-11-21"], True),
        ([], True),
    ],
)
def test_a_pipeline_offers_repairs_of_the_hours_that_no_run_works_on(busy: list[str], offered: bool):
    """The anomaly is of 10:00 to 11:00."""
    cells = [OverviewCell(id=name, cell=Cell.WAITING, running="landing") for name in busy]
    (found,) = findings_of(Known(pipeline=pipeline(), now=NOW, cells=cells, anomalies=[wrong_rows()]))
    assert bool(found.repairs) is offered
