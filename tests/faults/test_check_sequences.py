"""Operations in any order on a table whose checks change: its rows, its rejected rows and their checks are
those of a plain model, and `verify --contents` finds nothing wrong with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sluice.flow.load.row_checks import RowsHeld
from sluice.slices import SliceRange
from sluice.state.held import release
from sluice.state.system_tables import create_system_tables
from tests.integration.landed import World, client_of, event, land, unit
from tests.integration.verify.test_contents import compared
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

COLUMNS = (
    "n Int64, total Nullable(Int64), _topic LowCardinality(String), _partition Int32, _offset Int64, "
    "_slice DateTime('UTC'), _cluster String"
)
STEPS = ("edit", "land", "fill", "fill", "reload", "repair", "retry", "release")
Condition = Callable[[int, int | None], bool | None]
SQL: dict[str, Condition] = {
    "total >= 0": lambda n, total: None if total is None else total >= 0,
    "total > -3": lambda n, total: None if total is None else total > -3,
    "n % 3 != 1": lambda n, total: n % 3 != 1,
    "n < 7 OR total = 4": lambda n, total: True if n < 7 else None if total is None else total == 4,
    "total IS NULL": lambda n, total: total is None,
}
KINDS = ("warn", "reject", "reject", "hold")
File = dict[str, tuple[str, str]]  # by name the SQL, and what becomes of rows that fail
Own = dict[str, tuple[str, ...]]  # by name the SQLs that reject: a row passes by any


@dataclass
class Hour:
    """What has landed, and what the table has of which landing, by which checks."""

    landing: int = 0
    events: list[tuple[int, int | None]] = field(default_factory=list)
    loaded: int = 0  # the landing
    own: Own = field(default_factory=dict)
    rows: list[tuple[int, int | None]] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    released: set[tuple[str, str]] = field(default_factory=set)  # of the landing
    noted: set[tuple[str, str]] = field(default_factory=set)

    def load(self, file: File | None, own: Own) -> bool:
        """By these checks; returns False where a check of the file holds the hour."""
        rows, rejected, failing = [], [], set()
        for offset, one in enumerate(self.events):
            bad = [name for name in sorted(own) if not any(SQL[sql](*one) for sql in own[name])]
            if bad:
                rejected.append((offset, bad[0]))
                continue
            rows.append(one)
            held = [(name, sql) for name, (sql, kind) in (file or {}).items() if kind == "hold"]
            failing |= {(name, sql) for name, sql in held if not SQL[sql](*one)}
        if failing - self.released:
            self.noted, self.released = failing, set()
            return False
        self.rows, self.rejected, self.own, self.loaded = rows, rejected, own, self.landing
        return True


def rejecting(file: File) -> Own:
    return {name: (sql,) for name, (sql, kind) in file.items() if kind == "reject"}


def chosen(chance: random.Random) -> File:
    names = chance.sample("abc", chance.randrange(4))
    return {name: (chance.choice([*SQL]), chance.choice(KINDS)) for name in names}


@pytest.mark.parametrize("steps", per_commit([30, *[60] * 10]))
def test_operations_in_any_order(
    clickhouse_server, name: str, tmp_path: Path, seed: int, steps: int, request, monkeypatch
):
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    world = World(tmp_path, client, name)
    create_system_tables(client, "")
    world.sql(f"CREATE TABLE {{db}}.t ({COLUMNS}) ENGINE = MergeTree ORDER BY n")
    chance = random.Random(f"{seed} {request.node.name}")
    hours, file, told = [Hour(), Hour()], File(), []

    def pipeline():
        checks = {check: {"sql": sql, "on_fail": kind} for check, (sql, kind) in file.items()}
        return world.pipeline({"click": {"table": "t", "checks": checks}})

    def ask(number: int, mode: str) -> bool:
        """Returns whether the load was not held."""
        try:
            world.load(pipeline(), unit(number), mode=mode, token=f"{len(told)}")
        except RowsHeld:
            return False
        return True

    for _ in range(steps):
        number = chance.randrange(len(hours))
        hour, step = (
            hours[number],
            chance.choice(STEPS),
        )
        told.append(f"{step} {number}")
        if step == "edit":
            file = chosen(chance)
            told[-1] = f"edit {file}"
        elif step == "land":
            hour.landing += 1
            hour.events = [
                (chance.randrange(12), chance.choice([-5, -2, 0, 4, None]))
                for _ in range(chance.randrange(1, 9))
            ]
            hour.released, hour.noted = set(), set()
            at = unit(number).slice.id.removesuffix("Z")
            events = [replace(event(n=n, total=total), hour=at) for n, total in hour.events]
            land(world.lake, unit(number), events, hour.landing)
        elif not hour.landing or (step == "retry" and hour.loaded != hour.landing):
            continue  # `sluice rejected --retry` fills first what is not loaded
        elif step == "release":
            slices = SliceRange(unit(number).slice.start, unit(number).slice.end)
            found = release(world.lake, slices, f"{name}.t", "")  # a container's user has no name
            assert bool(found) == bool(hour.noted), told
            hour.released, hour.noted = hour.noted or hour.released, set()
        elif step == "fill":
            went = hour.loaded == hour.landing or hour.load(file, rejecting(file))
            assert ask(number, step) == went, told
        elif step == "reload" or hour.loaded != hour.landing:
            assert ask(number, step) == hour.load(file, rejecting(file)), told
        else:
            checks = hour.own
            if step == "retry":
                now = rejecting(file)
                checks = {c: tuple(dict.fromkeys((*hour.own[c], *now[c]))) for c in hour.own if c in now}
            assert hour.load(None, checks) and ask(number, step), told
        _compare(world, hours, told)
        settled = [unit(n) for n, one in enumerate(hours) if one.landing and one.loaded == one.landing]
        assert not settled or compared(world, pipeline(), *settled).anomalies == [], told


def _compare(world: World, hours: list[Hour], told: list[str]) -> None:
    for number, hour in enumerate(hours):
        at = f"toDateTime({int(unit(number).slice.start.timestamp())}, 'UTC')"
        rows = world.sql(f"SELECT n, total FROM {{db}}.t WHERE _slice = {at} ORDER BY _offset")
        assert rows == hour.rows, told
        rejected = world.sql(
            f"SELECT offset, column FROM sluice.rejected WHERE target = '{{db}}.t' AND slice = {at} "
            "ORDER BY offset"
        )
        assert rejected == hour.rejected, told
