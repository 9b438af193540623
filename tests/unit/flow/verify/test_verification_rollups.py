"""Tables of rollups against their ledger, word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config.rollups import Rollup
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_derived import check_rollup
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Slice, Unit
from sluice.state.ledger import LedgerRow
from tests.support.verified import FACTS, FOUND, START, TEN, pipeline

HOUR = Unit(Slice(START), "")
RUN = "sluice run ads --from 2026-11-20T{}:00Z --to 2026-11-20T{}:00Z --mode repair"


def facts(folder, grain: str) -> VerifyFacts:
    (folder / "r.sql").write_text("SELECT * FROM {source}")
    time = {"grain": "hour", "time": "at"} if grain == "hour" else {}
    spec = {"from": "e.clicks", "sql": str(folder / "r.sql"), **time}
    assert Rollup.model_validate(spec).grain == grain
    return replace(FACTS, pipeline=pipeline(rollups={"e.users": spec}), statuses=FOUND)


def told(known: VerifyFacts, unit: Unit, rows: int, there: int, *commits: str) -> list[Anomaly]:
    ledger = {unit: LedgerRow(unit, "m", commits, rows, rows, 0, "t", 1)}
    table = TableFacts("e.users", rows={unit: {"": there}}, ledger=ledger)
    return list(check_rollup(known, table, Repairs("ads")))


@pytest.mark.parametrize(
    ("commits", "command", "advice"),
    [
        (("2026-11-20T10Z/dc1@3:aa", "2026-11-20T10Z/dc2@4:bb"), RUN.format(10, 11), ""),
        (("2026-11-20T11Z/dc1@3:aa", "2026-11-20T10Z/dc1@4:bb"), RUN.format(10, 12), ""),
        (
            ("2026-11-20T10Z/dc1@3:aa", "2026-11-20T13Z/dc1@3:bb"),
            "",
            "reload the slices that brought its rows: 2026-11-20T10Z, 2026-11-20T13Z",
        ),
        ((), "", "no slice brings rows to it now"),
    ],
)
def test_rows_of_an_event_hour(tmp_path, commits, command, advice):
    assert told(facts(tmp_path, "hour"), HOUR, 1200, 0, *commits) == [
        Anomaly(
            AnomalyKind.ROWS_MISSING,
            "1,200 rows of event hour 2026-11-20T10Z, by the ledger",
            "0",
            command,
            advice,
            slice="2026-11-20T10Z",
            table="e.users",
        )
    ]


@pytest.mark.parametrize(
    ("grain", "rows", "expected"),
    [
        ("slice", 2, "2 rows, by the ledger"),
        ("slice", 0, "0 rows, by the ledger"),
        ("hour", 0, "no rows: those of this rollup belong to event hours, not to slices"),
    ],
)
def test_rows_of_a_slice(tmp_path, grain, rows, expected):
    [found] = told(facts(tmp_path, grain), TEN, rows, 3)
    assert (found.kind, found.expected, found.seen) == (AnomalyKind.ROWS_EXTRA, expected, "3")
    assert (found.command, found.advice) == (RUN.format(10, 11), "")


def test_what_agrees_is_no_anomaly(tmp_path):
    assert told(facts(tmp_path, "hour"), HOUR, 4, 4, "2026-11-20T10Z/dc1@3:aa") == []
    assert told(facts(tmp_path, "slice"), TEN, 4, 4) == []
