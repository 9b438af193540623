"""ClickHouse's tables of a case against the oracle."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from tests.pairs import rollups
from tests.pairs.differences import Said, counters_differ, rows_differ
from tests.pairs.events import time_path
from tests.pairs.expected import Expected
from tests.pairs.places import Home
from tests.pairs.tables import BIDS, MAIN, OTHER, SHAPES, TRAFFIC, reading
from tests.support.oracle import Number

_INSIDE = re.compile(r'\[(\d+|"(?:[^"\\]|\\.)*")\]')
_KEY = slice(2, 7)  # cluster, topic, partition, offset, row: of what tables.READ_LAKE reads
_REJECTED_ROWS = (
    "SELECT toUnixTimestamp(slice), cluster, topic, partition, offset, row, type, column, value, payload "
    "FROM sluice.rejected WHERE target = '{db}.main'"
)
_OTHERS_REJECTED_ROWS = (
    "SELECT target, column, count() FROM sluice.rejected WHERE startsWith(target, '{db}.') AND target NOT IN "
    "('{db}.main', '{db}.traffic') GROUP BY ALL"
)
_TRAFFIC = (
    "SELECT toUnixTimestamp(_slice), _cluster, toUnixTimestamp(hour), type, country, city, count "
    "FROM {db}.traffic"
)
_TRAFFIC_REJECTED_ROWS = (
    "SELECT toUnixTimestamp(slice), cluster, column, JSONExtractUInt(payload, 'count') FROM sluice.rejected "
    "WHERE target = '{db}.traffic'"
)
_LEDGER = (
    "SELECT target, toUnixTimestamp(slice), cluster, "
    "argMax((toString(state), rows, rejected_rows), (generation, attempt, state)) AS newest "
    "FROM sluice.ledger WHERE startsWith(target, '{db}.') GROUP BY target, slice, cluster"
)


def tables_differ(expected: Expected, home: Home) -> list[str]:
    found: list[str] = []
    for table in expected.targets:
        found += _target_differs(expected, home, table)
    views = expected.views()
    for name, select in SHAPES[home.case.target].views:
        found += counters_differ(f"view's table {name}", views[name], Counter(home.rows(select)))
    found += _rejected_rows_differ(expected, home)
    if home.case.counts != "none":
        found += _traffic_differs(expected, home)
    wanted = expected.rollups()
    for one in rollups.rollups_of(home.case):
        seen = Counter(home.rows(rollups.reading(one)))
        found += counters_differ(f"rollup {one.name} ({one.select})", wanted[one.name], seen)
    return [*found, *_ledger_differs(expected, home), *_left(home)]


def _target_differs(expected: Expected, home: Home, table: str) -> list[str]:
    case, wanted = home.case, expected.table(table)
    if case.decoded and table in (BIDS, OTHER):
        wanted = {key: (*row[:-1], Said(row[-1], time_path(case))) for key, row in wanted.items()}
    seen = home.rows(reading(case, table))
    found = rows_differ(f"table {table}", wanted, [(row[_KEY], row) for row in seen])
    if case.shards > 1 and table == MAIN:
        for number, client in enumerate(home.clients):
            rows = client.query(reading(case, table).replace("{db}", home.db)).result_rows
            own = {fit.row.key for fit in expected.main[0] if fit.shard == number}
            there = {tuple(row)[_KEY] for row in rows}
            if there != own:
                found.append(f"table {table} on shard {number}: rows of another, {sorted(there ^ own)[:3]}")
    return found


def _rejected_rows_differ(expected: Expected, home: Home) -> list[str]:
    """A rejected row names its record and a column that does not take it, or a place in it, with the
    value."""
    wanted, seen, found = {}, [], []
    for unfit in expected.main[1]:
        row = unfit.row
        wanted[row.key] = (row.slice, row.type, True, _payload(home, row.text))
    columns = {unfit.row.key: unfit.columns for unfit in expected.main[1]}
    for start, cluster, topic, partition, offset, number, kind, column, value, payload in home.rows(
        _REJECTED_ROWS
    ):
        key = (cluster, topic, partition, offset, number)
        named = columns.get(key, {})
        right = any(_names(place, column, value) for place in named.items())
        seen.append((key, (start, kind, right or f"{column}={value!r}, not {dict(named)}", payload)))
    found += rows_differ("rejected rows of main", wanted, seen)
    others = home.rows(_OTHERS_REJECTED_ROWS)
    return [*found, *([f"rejected rows of other tables: {others[:3]}"] if others else [])]


def _payload(home: Home, text: str) -> object:
    return Said(text, time_path(home.case)) if home.case.decoded else text


def _names(place: tuple[str, Any], told: str, text: str) -> bool:
    """Whether `told` is the column, or `["key"]` or `[0]` behind it, and `text` the value there."""
    column, value = place
    inside = told.removeprefix(column)
    if not told.startswith(column) or _INSIDE.sub("", inside):
        return False
    for step in _INSIDE.finditer(inside):
        try:
            value = value[json.loads(step[1])]
        except (KeyError, IndexError, TypeError):
            return False
    return _told(value, text)


def _told(value: object, text: str) -> bool:
    """Whether `text` says the value; of what is no text or number, that something is said."""
    return text == value if isinstance(value, (str, Number)) else bool(text)


def _traffic_differs(expected: Expected, home: Home) -> list[str]:
    seen: Counter[tuple] = Counter()
    for *key, count in home.rows(_TRAFFIC):
        seen[tuple(key)] += count
    rejected_rows: Counter[tuple] = Counter()
    for *key, count in home.rows(_TRAFFIC_REJECTED_ROWS):
        rejected_rows[tuple(key)] += count
    wanted: Counter[tuple] = Counter()
    for key, count in expected.traffic_rejected_rows().items():
        wanted[(*key[:2], "hour")] += count
    return [
        *counters_differ(f"table {TRAFFIC}", expected.traffic(), seen),
        *counters_differ(f"rejected rows of {TRAFFIC}", wanted, rejected_rows),
    ]


def _ledger_differs(expected: Expected, home: Home) -> list[str]:
    seen: dict[tuple, tuple] = {}
    for target, start, cluster, (state, rows, rejected_rows) in home.rows(_LEDGER):
        name = target.partition(".")[2]
        if name in expected.targets:
            known = seen.get((name, start, cluster), (state, 0, 0))
            both = state if state == known[0] else f"{state} and {known[0]}"
            seen[name, start, cluster] = (both, known[1] + rows, known[2] + rejected_rows)
    wanted = {key: ("committed", *counts) for key, counts in expected.ledger().items()}
    return rows_differ("ledger", wanted, list(seen.items()))


def _left(home: Home) -> list[str]:
    """Temporary tables that stay behind."""
    found = home.rows(
        "SELECT name FROM system.tables WHERE database = 'sluice' AND position(name, '{db}') > 0 "
        "AND engine NOT IN ('View')"
    )
    return [f"tables left behind: {found[:3]}"] if found else []
