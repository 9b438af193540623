"""Tables of rollups against their ledger, word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_tables import check_rollup
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.notes import notes
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Forgotten
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from tests.support.verified import FACTS, FOUND, TEN, pipeline

RUN = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode repair --table e.users"
GONE = (
    "nothing can make them again: rows of e.clicks that they are made from have expired, and the lake has "
    "forgotten the files; a backup of the table may have them"
)


def facts(folder, held: int = 9, forgotten: bool = False, steady: bool = True) -> VerifyFacts:
    """The hour's source was committed with 9 rows, and has `held` now."""
    (folder / "r.sql").write_text("SELECT * FROM {source}")
    spec = {"from": "e.clicks", "sql": str(folder / "r.sql")}
    source = LedgerRow(TEN, "m", (), 9, 9, 0, "t", 1)
    statuses = []
    for status in FOUND:
        manifest = status.manifest
        if status.unit == TEN and forgotten:
            manifest = replace(manifest, forgotten=Forgotten("2026-11-25T00:00:00Z", removed=True))
        statuses.append(replace(status, manifest=manifest, tables={**status.tables, "e.clicks": source}))
    clicks = TableFacts("e.clicks", rows={TEN: {"": held}}, steady=steady)
    return replace(
        FACTS, pipeline=pipeline(rollups={"e.users": spec}), statuses=tuple(statuses), tables=(clicks,)
    )


def told(known: VerifyFacts, unit: Unit, rows: int, there: int) -> list[Anomaly]:
    manifest = f"m@1#{known.pipeline.rollups['e.users'].digest}"
    row = LedgerRow(unit, manifest, (), rows, rows, 0, "t", 1)
    statuses = [
        replace(status, tables={**status.tables, "e.users": row}) if status.unit == unit else status
        for status in known.statuses
    ]
    table = TableFacts("e.users", rows={unit: {"": there}}, ledger={unit: row})
    return list(check_rollup(replace(known, statuses=tuple(statuses)), table, Repairs("ads")))


@pytest.mark.parametrize(
    ("rows", "there", "kind", "expected"),
    [
        (2, 3, AnomalyKind.ROWS_EXTRA, "2 rows, by the ledger"),
        (0, 3, AnomalyKind.ROWS_EXTRA, "0 rows, by the ledger"),
        (1200, 0, AnomalyKind.ROWS_MISSING, "1,200 rows, by the ledger"),
    ],
)
def test_rows_of_a_slice(tmp_path, rows, there, kind, expected):
    [found] = told(facts(tmp_path), TEN, rows, there)
    assert (found.kind, found.expected, found.seen) == (kind, expected, str(there))
    assert (found.command, found.advice) == (RUN, "")


@pytest.mark.parametrize(
    ("known", "repaired"),
    [
        ({"held": 9, "forgotten": True}, True),
        ({"held": 8, "forgotten": False}, True),
        ({"held": 8, "forgotten": True}, False),
        ({"held": 9, "forgotten": True, "steady": False}, False),
    ],
)
def test_a_repair_is_printed_where_it_can_make_the_rows(tmp_path, known, repaired):
    [found] = told(facts(tmp_path, **known), TEN, 4, 3)
    assert (found.command, found.advice) == ((RUN, "") if repaired else ("", GONE))


def test_what_agrees_is_no_anomaly(tmp_path):
    assert told(facts(tmp_path), TEN, 4, 4) == []


def test_frozen_slices_are_noted(tmp_path):
    known = facts(tmp_path)
    row = LedgerRow(TEN, "m@1#x frozen for m@2#x", (), 4, 4, 0, "t", 2)
    statuses = [
        replace(status, tables={**status.tables, "e.users": row}, derived=frozenset({"e.users"}))
        if status.unit == TEN
        else status
        for status in known.statuses
    ]
    assert [line for line in notes(replace(known, statuses=tuple(statuses))) if "frozen" in line] == [
        f"table e.users: 1 slices are frozen, from {TEN} to {TEN}: rows of e.clicks that they are made from "
        "have expired, and the lake has forgotten the files; their rows stay as they were made last"
    ]
