"""A refill fills columns that were added, and takes no row out of a table."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from sluice.clients.lake import layout
from sluice.errors import TargetRefused
from sluice.manifest import FieldSeen, TypeFields, encode
from sluice.state.additions import read_additions
from tests.integration.landed import Event, World, event, land, unit
from tests.integration.load.test_evolve import columns, evolving, make, planned, world
from tests.support.long_form import per_commit

__all__ = ["world"]  # the fixture

OLD = [event(n=n, k="word5") if n < 3 else event(n=n) for n in range(40)]
NEW = [event(n=100 + n, k=n) for n in range(20)]
MESSAGE = (
    r"^table {t}: the load would take rows out of it, and leaves these slices as they are: "
    r"{what}: in column k the value of record \S+/\d+/\d+ does not fit Nullable\(UInt64\); "
    r"`ALTER TABLE {q} MODIFY COLUMN `k` Nullable\(String\)` and run it again, or "
    r"`sluice run \S+ --from \S+ --to \S+ --table {t} --mode reload`.*, which takes them out$"
)


def message(world: World, what: str) -> str:
    return MESSAGE.format(t=rf"{world.database}\.clicks", q=rf"`{world.database}`\.`clicks`", what=what)


def loaded_one_by_one(world: World, pipeline, *slices: list[Event]) -> None:
    for hour, events in enumerate(slices):
        land(world.lake, unit(hour), events)
        world.load(pipeline, unit(hour))


def rows(world: World) -> list[tuple]:
    return world.sql("SELECT _slice, n, k FROM {db}.clicks ORDER BY _slice, n")


def ledger(world: World) -> list[tuple]:
    query = "SELECT * FROM sluice.ledger WHERE target = '{db}.clicks' ORDER BY ALL"
    return world.sql(query)


def rejected(world: World) -> list[tuple]:
    query = "SELECT toHour(slice), column, reason, value, payload FROM sluice.rejected"
    return world.sql(query + " WHERE target = '{db}.clicks' ORDER BY ALL")


def left_over(world: World) -> list[tuple]:
    """Temporary tables of attempts, of whatever table."""
    return world.sql(
        "SELECT name FROM system.tables WHERE database = 'sluice' AND "
        "(name LIKE 'fence_%' OR name LIKE 'staging_%' OR name LIKE '%rejected rows%')"
    )


@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
def test_a_refill_takes_no_row_out(world: World, read: str):
    make(world)
    pipeline = evolving(world, rows=5, clickhouse={"read": read})
    loaded_one_by_one(world, pipeline, OLD, NEW)
    assert columns(world) == {"k": "Nullable(UInt64)"}
    before = (rows(world), ledger(world), left_over(world))
    assert len(before[0]) == 60
    with pytest.raises(TargetRefused, match=message(world, f"3 of slice {unit()}")):
        world.load(pipeline, unit(), unit(1), mode="reload --missing-columns")
    assert (rows(world), ledger(world), left_over(world)) == before
    assert rejected(world) == []


@pytest.mark.parametrize("read", per_commit(["push", "pull"]))
@pytest.mark.long
def test_the_other_slices_of_the_load_are_filled(world: World, read: str):
    make(world)
    pipeline = evolving(world, rows=5, clickhouse={"read": read})
    fine = [[event(n=200 + 10 * hour + n, k=n) for n in range(3)] for hour in range(2)]
    loaded_one_by_one(world, pipeline, fine[0], OLD, fine[1], OLD[:2], NEW)
    units = [unit(hour) for hour in range(5)]
    left = [row for row in rows(world) if row[0].hour in (11, 13, 14)]
    what = f"3 of slice {unit(1)}, 2 of slice {unit(3)}"
    for _ in range(2):
        with pytest.raises(TargetRefused, match=message(world, what)):
            world.load(pipeline, *units, mode="reload --missing-columns")
        found = rows(world)
        assert [row for row in found if row[0].hour in (11, 13, 14)] == left
        filled = [(n, k) for at, n, k in found if at.hour in (10, 12)]
        assert filled == [(200, 0), (201, 1), (202, 2), (210, 0), (211, 1), (212, 2)]
        assert rejected(world) == []


@pytest.mark.long
def test_either_remedy_that_the_message_names_ends_it(world: World):
    make(world)
    pipeline = evolving(world, rows=5)
    loaded_one_by_one(world, pipeline, OLD, NEW)
    with pytest.raises(TargetRefused) as refused:
        world.load(pipeline, unit(), unit(1), mode="reload --missing-columns")
    world.load(pipeline, unit(), mode="reload")
    assert [n for _, n, _ in rows(world)] == [*range(3, 40), *range(100, 120)]
    assert [(at, column, value) for at, column, _, value, _ in rejected(world)] == [(10, "k", "word5")] * 3
    world.sql(str(refused.value).split("`ALTER")[1].split("` and run")[0].join(["ALTER", ""]))
    world.load(pipeline, unit(), unit(1), mode="reload")
    assert rejected(world) == []
    told = {item["n"]: item.get("k") for item in (json.loads(one.payload) for one in [*OLD, *NEW])}
    assert [(n, k) for _, n, k in rows(world)] == [
        (n, None if k is None else str(k)) for n, k in told.items()
    ]


@pytest.mark.long
def test_the_wider_column_takes_the_refill(world: World):
    make(world)
    pipeline = evolving(world, rows=5)
    loaded_one_by_one(world, pipeline, OLD, NEW)
    world.sql("ALTER TABLE {db}.clicks MODIFY COLUMN k Nullable(String)")
    world.load(pipeline, unit(), unit(1), mode="reload --missing-columns")
    assert [(n, k) for _, n, k in rows(world)][:4] == [(0, "word5"), (1, "word5"), (2, "word5"), (3, None)]
    assert len(rows(world)) == 60 and rejected(world) == []


@pytest.mark.long
def test_a_row_that_comes_back_does_not_pay_for_one_that_would_go(world: World):
    """As many rejected rows as before, and others: a person has widened `n` since."""
    make(world, "n UInt8")
    pipeline = evolving(world, rows=5)
    old = [event(n=1000), event(n=1, k="word5"), event(n=2)]
    loaded_one_by_one(world, pipeline, old, [event(n=n, k=n) for n in range(5)])
    assert [value for *_, value, _ in rejected(world)] == ["1000"]
    world.sql("ALTER TABLE {db}.clicks MODIFY COLUMN n UInt16")
    before = (rows(world), rejected(world))
    with pytest.raises(TargetRefused, match=message(world, f"1 of slice {unit()}")):
        world.load(pipeline, unit(), mode="reload --missing-columns")
    assert (rows(world), rejected(world)) == before


@pytest.mark.parametrize("emptied", per_commit([True, False]))
@pytest.mark.long
def test_rejected_rows_of_before_are_no_reason(world: World, emptied: bool):
    """Also where somebody has emptied sluice.rejected."""
    make(world)
    pipeline = evolving(world, rows=5)
    old = [event(n="x"), event(n=1, k=7), event(n=2)]
    loaded_one_by_one(world, pipeline, old, NEW)
    assert [one.column for one in read_additions(world.lake)] == ["k"]
    if emptied:
        world.sql(
            "ALTER TABLE sluice.rejected DELETE WHERE target = '{db}.clicks' SETTINGS mutations_sync = 1"
        )
    world.load(pipeline, unit(), mode="reload --missing-columns")
    assert [(n, k) for _, n, k in rows(world)][:2] == [(1, 7), (2, None)]
    assert [value for *_, value, _ in rejected(world)] == ["x"]


KINDS = [
    ([1, 2], "word5", "Nullable(String)", "word5"),
    ([1, 2], 0.25, "Nullable(Float64)", "0.25"),
    ([True, False], 7, "Nullable(String)", "7"),
    ([1, 2], [3], "Nullable(String)", "[3]"),
    ([1, 2], None, "Nullable(UInt64)", None),
    (["2026-11-20", "2026-11-21"], "2026-11-22", "Nullable(Date)", "2026-11-22"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("new", "old", "kind", "held"), per_commit(KINDS, 2), ids=[str(one[1]) for one in KINDS]
)
def test_a_column_holds_the_kinds_that_manifests_of_loaded_slices_have(world: World, new, old, kind, held):
    """The older slice has the field in fewer rows than get a column."""
    make(world)
    pipeline = evolving(world, rows=2)
    slices = [[event(n=0), event(n=1, k=old)], [event(n=10 + n, k=value) for n, value in enumerate(new)]]
    for hour, events in enumerate(slices):
        counted_kinds(world, hour, events)
    world.load(pipeline, unit())
    assert columns(world) == {}
    said = planned(world, pipeline, 2)
    world.load(pipeline, unit(1))
    assert columns(world) == {"k": kind} and f"would add `k` {kind}," in said[0]
    world.load(pipeline, unit(), unit(1), mode="reload --missing-columns")
    assert rejected(world) == [] and [n for _, n, _ in rows(world)] == [0, 1, 10, 11]
    assert world.sql("SELECT toString(k) FROM {db}.clicks WHERE n = 1") == [(held,)]


def counted_kinds(world: World, hour: int, events: list[Event]) -> None:
    """Lands events with a manifest that has counted the field `k` and its kinds in every row."""
    names = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        type(None): "null",
    }
    values = [fields["k"] for fields in (json.loads(one.payload) for one in events) if "k" in fields]
    kinds = Counter(names[type(value)] for value in values)
    known = {
        "n": FieldSeen(len(events), {"integer": len(events)}),
        "type": FieldSeen(len(events), {"string": len(events)}),
        "k": FieldSeen(len(values), kinds),
    }
    manifest = land(world.lake, unit(hour), events)
    made = replace(manifest, fields=(TypeFields("click", len(events), True, known),))
    world.lake.put(layout.manifest(unit(hour).slice.id, unit(hour).cluster), encode(made))
