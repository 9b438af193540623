"""Any order of landings, late hours, reloads, kills and merges against a plain model: once all is filled, the
table has with FINAL the newest change of each key, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st

from sluice import crash_points
from sluice.crash_points import Load, Point, TableLoad
from tests.integration.landed import World, client_of, unit
from tests.integration.newest import Change, Newest

pytestmark = pytest.mark.integration

UNITS = (unit(0), unit(0, "dc2"), unit(1), unit(2))

places = st.sampled_from(UNITS)
changes = st.lists(
    st.builds(
        Change,
        id=st.integers(1, 4),
        name=st.sampled_from("abcdefgh"),
        lsn=st.none() | st.integers(-2, 3),
        gone=st.sampled_from([None, False, False, True]),
    ),
    max_size=6,
)
points = st.sampled_from([*TableLoad][1:]) | st.just(Load.STATEMENT)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("land"), places, changes),
        st.tuples(st.just("land"), places, changes),
        st.tuples(st.just("reload"), places, st.sampled_from(["log", "customer"])),
        st.tuples(st.just("repair"), places),
        st.tuples(st.just("kill"), st.sampled_from(["log", "customer"]), points, st.integers(1, 12)),
        st.tuples(st.just("merge")),
        st.tuples(st.just("version")),
        st.tuples(st.just("customer")),
        st.tuples(st.just("column")),
        st.tuples(st.just("damage"), st.integers(1, 4)),
        st.tuples(st.just("fill")),
    ),
    min_size=4,
    max_size=14,
)


class Killed(BaseException):
    """Ends a load where a kill would: nothing is tidied up, but for the lease."""


def run(newest: Newest, sequence: list[tuple], monkeypatch: pytest.MonkeyPatch) -> None:
    for step, *arguments in [*sequence, ("fill",)]:
        if step == "land":
            newest.land(*arguments)
            newest.fill_table("log")
        elif step == "reload":
            place, table = arguments
            if place in newest.landed:
                newest.fill_table("log")
                newest.load(place, table=table, mode="reload")
        elif step == "repair" and arguments[0] in newest.landed:
            newest.fill_table("log")
            newest.load(arguments[0], table="customer", mode="repair")
        elif step == "kill":
            kill(newest, *arguments, monkeypatch)
        elif step == "merge":
            newest.world.sql("OPTIMIZE TABLE {db}.customer FINAL")
        elif step == "damage":
            damage(newest, *arguments)
        elif step == "version":
            newest.version = () if newest.version else ("lsn",)
        elif step == "column":
            add_column(newest)
        elif step == "customer":
            newest.fill_table("customer")
        elif step == "fill":
            check(newest)


def kill(newest: Newest, table: str, point: Point, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads all that is due, and ends at the point; at a STATEMENT after so many of them."""
    passed = count(1)

    def reached(step: Point) -> None:
        if step is point and (point is not Load.STATEMENT or next(passed) == times):
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reached", reached)
        with suppress(Killed):
            newest.fill_table(table)


def damage(newest: Newest, key: int) -> None:
    """Deletes rows of a key behind Sluice's back: verify says so, and a repair of what it names mends it."""
    check(newest)
    newest.world.sql(f"DELETE FROM {{db}}.customer WHERE id = {key}")
    if any(one.id == key for rows in newest.landed.values() for one in rows):
        assert newest.wrong()
        named = {one.slice for one in newest.anomalies()}
        newest.load(*(u for u in newest.landed if u.slice.id in named), table="customer", mode="repair")
    assert newest.wrong() == []


def add_column(newest: Newest) -> None:
    """Adds a column to the log, and to the table once the log has it."""
    lacking = [name for name in ("log", "customer") if not has_column(newest, name)]
    if lacking:
        default = " DEFAULT upper(name)" if lacking[0] == "log" else ""
        newest.world.sql(f"ALTER TABLE {{db}}.{lacking[0]} ADD COLUMN more String{default}")


def has_column(newest: Newest, table: str) -> bool:
    found = f"SELECT 1 FROM system.columns WHERE (database, table, name) = ('{{db}}', '{table}', 'more')"
    return bool(newest.world.sql(found))


def check(newest: Newest) -> None:
    newest.fill_table("log")
    newest.fill_table("customer")
    assert newest.seen() == newest.expected()
    if has_column(newest, "customer"):
        more = newest.world.sql("SELECT more FROM {db}.customer FINAL ORDER BY id")
        assert more == [(row[1].upper(),) for row in newest.expected()]
    assert all(status.state.done for status in newest.statuses(*newest.landed)), "nothing is left to do"
    assert newest.fill_table("customer") == 0
    assert newest.differing() == newest.wrong() == []


def test_the_newest_rows_are_those_of_the_log(clickhouse_server, tmp_path, name, pytestconfig, monkeypatch):
    runs, long_form = count(), pytestconfig.getoption("--long")

    @settings(
        max_examples=300 if long_form else 1,
        deadline=None,
        derandomize=not long_form,
        database=None,
        print_blob=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @example([("land", UNITS[0], [Change(1, "a")]), ("fill",), ("column",), ("column",)])
    @given(sequence=steps)
    def any_sequence(sequence: list[tuple]) -> None:
        root = tmp_path / str(next(runs))
        root.mkdir()
        world = World(root, client_of(clickhouse_server), f"{name}_{root.name}")
        note(f"database {world.database}")
        newest = Newest(world)
        newest.create()
        try:
            run(newest, sequence, monkeypatch)
        finally:
            world.sql("DROP DATABASE {db} SYNC")

    any_sequence()
