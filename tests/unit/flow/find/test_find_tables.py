"""What a table has of an array is compared with all of its rows, whichever are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.flow.find import find
from sluice.flow.find import find as read_table_records
from sluice.flow.find.find import RecordFinder
from sluice.flow.find.outcome import Outcome, RecordFacts, outcome_of
from sluice.flow.find.search_files import read_match
from sluice.state.ledger import LedgerRow
from sluice.state.manifests import read_manifest, units_in
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

SPEC = pipeline(
    event={"type": {"field": "type"}, "time": {"field": "at"}, "rows": "array"},
    tables={"click": "db.click", "view": "db.view"},
)
ARRAY = [event("click", 1, id="a"), event("click", 2, id="b"), event("click", 61, id="c"), event("view", 4)]
OTHER = [event("click", 1, id="b")]
STORED = {"db.click": {0: 3, 1: 1}, "db.view": {0: 1, 1: 0}}
"""Rows of each offset in each table."""
COLUMNS = tuple(SimpleNamespace(name=name) for name in ("_topic", "_partition", "_offset"))


class Tables:
    """A ClickHouse whose `sluice.rejected` has the offset, column and row of each rejected row."""

    def __init__(self, rejected_rows: Sequence[tuple[int, str, int]] = (), most: int = 10_000) -> None:
        self.rejected_rows, self.most = rejected_rows, most
        self.stored = {table: dict(rows) for table, rows in STORED.items()}
        for offset in STORED["db.click"]:
            self.stored["db.click"][offset] -= len({row for at, _, row in rejected_rows if at == offset})

    def rows(self, statement: str, parameters: dict[str, Any] | None = None) -> list[tuple]:
        if parameters is None or "sluice.targets" in statement:
            return []
        offset, table = parameters["offset"], parameters["target"]
        rejected_rows = [one for one in self.rejected_rows if one[0] == offset and table == "db.click"]
        if "sluice.ledger" in statement:
            return []
        if "sluice.rejected" not in statement:
            return [(self.stored[table][offset],)]
        if "uniqExact(row)" in statement:
            return [(len({row for _, _, row in rejected_rows}),)]
        return [(column, "does not fit", row) for _, column, row in rejected_rows][: self.most]


@pytest.fixture
def finder(monkeypatch) -> RecordFinder:
    lake, stamp = MemoryLake(), event()[1]
    log = [(b"[" + b",".join(value for value, _ in array) + b"]", stamp) for array in (ARRAY, OTHER)]
    world = World({("dc1", "bids"): [log]})
    world.resolve(SPEC, lake, hours(1))
    world.land(SPEC, lake, hours(1))
    (unit,) = units_in(lake, hours(1))
    manifest = read_manifest(lake, unit)
    row = LedgerRow(unit, manifest.id, ("click", "view"), 5, 5, 0, "t", 1)
    monkeypatch.setattr(read_table_records, "ledgers_of", lambda *_: {table: {unit: row} for table in STORED})
    target = SimpleNamespace(table="db.t", engine="MergeTree", ttl=False, columns=COLUMNS)
    monkeypatch.setattr(read_table_records, "read_table", lambda *_: target)
    answer_by(monkeypatch, Tables())
    return RecordFinder(SPEC, lake, world.topics_of)


def answer_by(monkeypatch, tables: Tables) -> None:
    servers = [SimpleNamespace(reached=tables)]
    monkeypatch.setattr(read_table_records, "connect_shards", lambda _: nullcontext(servers))


def found(finder: RecordFinder, field: str) -> list[RecordFacts]:
    return list(finder.matching(hours(1), read_match(None, field), 100, lambda _: None))


def seen(records: list[RecordFacts]) -> list[tuple]:
    """Offset, elements that are shown, outcome, and of each table its rows and those that it has to have."""
    return [
        (
            facts.place.offset,
            sorted(row.number for row in facts.rows),
            outcome_of(facts),
            {table.table: (table.rows, table.expected) for table in facts.tables},
        )
        for facts in records
    ]


def test_one_element_of_several_matches(finder):
    assert seen(found(finder, "id=a")) == [(0, [0], Outcome.IN_TABLE, {"db.click": (3, 3)})]
    assert seen(found(finder, "id=b")) == [
        (0, [1], Outcome.IN_TABLE, {"db.click": (3, 3)}),
        (1, [0], Outcome.IN_TABLE, {"db.click": (1, 1)}),
    ]
    assert seen(found(finder, "type=view")) == [(0, [3], Outcome.IN_TABLE, {"db.view": (1, 1)})]
    assert seen(finder.at("bids", 0, 0)) == [
        (0, [0, 1, 2, 3], Outcome.IN_TABLE, {"db.click": (3, 3), "db.view": (1, 1)})
    ]


@pytest.mark.parametrize(("stored", "outcome"), [(2, Outcome.ABSENT), (4, Outcome.TWICE)])
def test_what_is_wrong_is_still_seen(finder, monkeypatch, stored: int, outcome: Outcome):
    tables = Tables()
    tables.stored["db.click"][0] = stored
    answer_by(monkeypatch, tables)
    assert [outcome_of(facts) for facts in found(finder, "id=a")] == [outcome]


def test_a_record_in_which_the_search_ends(finder, monkeypatch):
    monkeypatch.setattr(find, "_MOST_ROWS", 2)
    assert seen(found(finder, "type=click")) == [(0, [0, 1], Outcome.IN_TABLE, {"db.click": (3, 3)})]


def test_more_rejected_rows_than_are_shown(finder, monkeypatch):
    rejected_rows = [(0, column, row) for row in (0, 1) for column in ("a", "b")]
    answer_by(monkeypatch, Tables(rejected_rows, most=2))
    (facts,) = finder.at("bids", 0, 0)
    click = facts.tables[0]
    assert (click.rows, click.expected, len(click.rejected_rows)) == (1, 1, 2)
    assert outcome_of(facts) == Outcome.REJECTED_ROW


def test_an_array_whose_other_file_is_gone(finder):
    """Rows of it that cannot be counted are not too many."""
    (facts,) = found(finder, "id=a")
    (other,) = [
        file for file in facts.manifest.files if file.key.startswith("type=click/date=2026-01-01/hour=01")
    ]
    finder.lake.delete([other.key, other.attempt_key])
    (facts,) = finder.at("bids", 0, 0)
    assert (outcome_of(facts), len(facts.unreadable)) == (Outcome.UNREADABLE, 1)
