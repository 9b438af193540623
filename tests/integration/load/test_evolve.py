"""`evolve: add` on a real server: fields without a column get one in the load that first has them."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from sluice import crash_points
from sluice.clients.clickhouse.shards import Server
from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Load, TableLoad
from sluice.errors import TargetRefused
from sluice.flow.load.evolve import lake_values
from sluice.flow.load.evolve.evolve import forecast
from sluice.manifest import FieldSeen, Manifest, TypeFields, encode
from sluice.state.additions import read_additions
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import committed
from sluice.state.manifests import read_manifest
from sluice.state.status import statuses
from tests.integration.landed import START, Event, World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String), _offset Int64"


@pytest.fixture
def world(clickhouse_server, tmp_path, name) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def make(world: World, columns: str = "n UInt16", more: str = "ORDER BY tuple()") -> None:
    world.sql(f"CREATE TABLE {{db}}.clicks ({columns}, {KEYS}) ENGINE = MergeTree {more}")


def evolving(world: World, rows: int = 1, columns: dict[str, str] | None = None, **more: Any):
    target = {"table": "clicks", "evolve": "add", "evolve_rows": rows, "columns": columns or {}}
    return world.pipeline({"click": target}, **more)


def columns(world: World) -> dict[str, str]:
    """The columns beside those of KEYS and `n`."""
    query = "SELECT name, type FROM system.columns WHERE database = '{db}' AND table = 'clicks'"
    known = {"n", "_slice", "_cluster", "_offset"}
    return {name: kind for name, kind in world.sql(query) if name not in known}


def counted(world: World, place, manifest: Manifest, events: list[Event]) -> Manifest:
    """The manifest as a landing writes it that counts the fields exactly."""
    seen: dict[str, dict[str, int]] = {}
    for item in events:
        for name, value in json.loads(item.payload).items():
            kind = "null" if value is None else "string"
            of = seen.setdefault(name, {})
            of[kind] = of.get(kind, 0) + 1
    fields = {name: FieldSeen(sum(kinds.values()), kinds) for name, kinds in seen.items()}
    made = replace(manifest, fields=(TypeFields("click", len(events), True, fields),))
    world.lake.put(layout.manifest(place.slice.id, place.cluster), encode(made))
    return made


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("read", per_commit(["pull", "push"]))
def test_a_field_gets_its_column_in_the_load_that_first_has_it(world: World, read: str, exact: bool):
    make(world)
    pipeline = evolving(world, rows=2, clickhouse={"read": read})
    values = [None, "SAVE10", "HELLO", 7]
    events = [event(n=n, coupon=value) for n, value in enumerate(values)] + [event(n=4), event(n=5, rare=1)]
    manifest = land(world.lake, unit(), events)
    if exact:
        counted(world, unit(), manifest, events)
    said: list[str] = []
    assert world.load(pipeline, unit(), on_progress=said.append).summary()["rows"] == 6
    assert columns(world) == {"coupon": "Nullable(String)"}
    rows = world.sql("SELECT n, coupon FROM {db}.clicks ORDER BY n")
    assert rows == [(0, None), (1, "SAVE10"), (2, "HELLO"), (3, "7"), (4, None), (5, None)]
    assert rows == world.sql("SELECT n, coupon FROM sluice.`{db}.clicks` ORDER BY n")
    assert any("column coupon Nullable(String) was added: in 3 of 6 rows" in line for line in said)


@pytest.mark.long
def test_the_addition_is_remembered_for_good(world: World):
    make(world)
    land(world.lake, unit(), [event(n=1, price=1.5), event(n=2, price=20)])
    world.load(evolving(world), unit(), token="the run")
    (one,) = read_additions(world.lake)
    table = f"{world.database}.clicks"
    assert (one.table, one.column, one.type) == (table, "price", "Nullable(Decimal(18, 2))")
    assert (one.slice, one.filled, one.rows, one.run) == (unit().slice.id, 2, 2, "the run")
    assert list(one.shards) == [""] and one.by.startswith("process ")
    [(comment,)] = world.sql(
        "SELECT comment FROM system.columns WHERE database = '{db}' AND table = 'clicks' AND name = 'price'"
    )
    assert comment.startswith(f"added by Sluice: in 2 of 2 rows of slice {unit().slice.id}; numbers")
    world.load(evolving(world), unit(), mode="reload")
    assert read_additions(world.lake) == (one,)


def test_off_adds_nothing(world: World):
    make(world)
    land(world.lake, unit(), [event(n=1, coupon="a")])
    world.load(world.pipeline({"click": {"table": "clicks", "evolve": False}}), unit())
    assert columns(world) == {} and read_additions(world.lake) == ()


def test_all_units_of_a_load_decide_the_type(world: World):
    """Of the second unit alone it would be a number; no row may be a rejected row by a column of its own
    load."""
    make(world)
    land(world.lake, unit(), [event(n=1, code=1), event(n=2, code=2)])
    land(world.lake, unit(1), [event(n=3, code="twelve")])
    assert world.load(evolving(world, rows=2), unit(), unit(1)).summary()["rejected_rows"] == 0
    assert columns(world) == {"code": "Nullable(String)"}
    assert world.sql("SELECT code FROM {db}.clicks ORDER BY n") == [("1",), ("2",), ("twelve",)]


KINDS: list[tuple[list[Any], str, list[Any]]] = [
    ([1, 2**40], "Nullable(UInt64)", [1, 2**40]),
    ([-1, 3], "Nullable(Int64)", [-1, 3]),
    ([True, False], "Nullable(Bool)", [True, False]),
    ([["a"], []], "Array(String)", [["a"], []]),
    ([{"a": 1}, {"a": 2}], "Tuple(`a` Nullable(UInt64))", [{"a": 1}, {"a": 2}]),
    ([1e300, 2.5], "Nullable(Float64)", [1e300, 2.5]),
    ([2**64, "x"], "Nullable(String)", None),
]


@pytest.mark.parametrize(("values", "kind", "held"), per_commit(KINDS, 2), ids=[kind for _, kind, _ in KINDS])
def test_types_and_rows_that_lack_the_field(world: World, values: list[Any], kind: str, held: list[Any]):
    make(world)
    events = [event(n=n, x=value) for n, value in enumerate(values)] + [event(n=9)]
    land(world.lake, unit(), events)
    loaded = world.load(evolving(world), unit()).summary()
    assert columns(world)["x"].replace("`", "") == kind.replace("`", "")
    rows = world.sql("SELECT x FROM {db}.clicks ORDER BY n")
    if held is not None:
        missing = {"Array": [], "Tuple": {"a": None}}.get(kind.split("(")[0])
        assert [value for (value,) in rows] == [*held, missing] and loaded["rejected_rows"] == 0


def test_what_covers_a_field(world: World):
    """A column of its name whatever fills it, a path into it, the event's type; no name in another case."""
    computed = "al UInt8 ALIAS n, ma UInt16 MATERIALIZED n + 1, eph String EPHEMERAL"
    make(world, f"n UInt16, user_id Nullable(UInt64), payload JSON, {computed}, up String DEFAULT upper(eph)")
    fields = {
        "user": {"id": 5, "x": 1},
        "payload": {"deep": [1]},
        "al": 3,
        "ma": 4,
        "eph": "e",
        "type": "click",
    }
    land(world.lake, unit(), [event(n=1, **{**fields, "UP": "other", "user_id": 9}), event(n=2)])
    before = columns(world)
    world.load(evolving(world, columns={"user_id": "user.id"}), unit())
    assert columns(world) == {**before, "UP": "Nullable(String)"}
    rows = world.sql("SELECT n, user_id, ma, up, UP FROM {db}.clicks ORDER BY n")
    assert rows == [(1, 5, 2, "E", "other"), (2, None, 3, "", None)]


HOSTILE = {
    "": "no column can have this name",
    "null": "no column can have this name",
    "_part": "names that begin with _",
    "_row_exists": "names that begin with _",
    "a\u0000b": "all of them visible",
    "n.size0": "a part of column n",
    "user_id": "that of a column that another field fills",
    "long" * 50: "at most 100 bytes",
    "header:x": "takes the record's header",
}


def test_fields_that_can_be_no_column_are_told_and_stop_nothing(world: World):
    make(world, "n UInt16, user_id Nullable(UInt64)")
    said: list[str] = []
    fine = {"`; DROP TABLE x; --": 1, "it's \\": "q", "日本": "語", "http.method": "GET"}
    land(world.lake, unit(), [Event("click", json.dumps({"type": "click", "n": 1, **HOSTILE, **fine}))])
    world.load(evolving(world, columns={"user_id": "user.id"}), unit(), on_progress=said.append)
    assert set(columns(world)) == {"user_id", *fine}
    query = "SELECT `\\`; DROP TABLE x; --`, `it\\'s \\\\`, `日本`, `http.method` FROM {db}.clicks"
    assert world.sql(query) == [(1, "q", "語", "GET")]
    told = [line for line in said if "gets no column" in line]
    assert len(told) == len(HOSTILE)
    for why in set(HOSTILE.values()):
        assert any(why in line for line in told), why


@pytest.mark.long
def test_ten_thousand_fields_do_not_make_as_many_columns(world: World):
    make(world)
    often = {f"often{k}": k for k in range(5)}
    rows = [event(n=1, **often, **{f"f{k}": 1 for k in range(10_000)}), event(n=2, **often)]
    land(world.lake, unit(), rows)
    said: list[str] = []
    world.load(evolving(world), unit(), on_progress=said.append)
    found = columns(world)
    assert len(found) == 100 and often.keys() <= found.keys()
    assert len(said) < 150 and any("more fields get no column" in line for line in said)
    assert world.sql("SELECT n, often4 FROM {db}.clicks ORDER BY n") == [(1, 4), (2, 4)]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.long
def test_fields_beyond_those_that_are_counted_are_told_by_their_values(
    world: World, monkeypatch, exact: bool
):
    """Two rows with six fields in all, of which the manifest, or the load, counts those of the first row."""
    make(world, "n UInt16, type String")
    events = [event(n=1, a=1), event(n=2, b=1, c=2, d=3)]
    manifest = land(world.lake, unit(), events)
    monkeypatch.setattr(lake_values, "_MOST_NAMES", 3)
    if exact:
        known = {"n": FieldSeen(2, {}), "type": FieldSeen(2, {}), "a": FieldSeen(1, {})}
        made = replace(manifest, fields=(TypeFields("click", 2, True, known, others=3),))
        world.lake.put(layout.manifest(unit().slice.id, unit().cluster), encode(made))
    said: list[str] = []
    world.load(evolving(world), unit(), on_progress=said.append)
    told = "values of fields beyond those that are counted one by one, and get no column: 3"
    assert [line for line in said if "values of fields" in line] == [
        f"{world.database}.clicks: slice {unit().slice.id}: {told}"
    ]
    assert columns(world) == {"type": "String", "a": "Nullable(UInt64)"}


@pytest.mark.parametrize(
    "star",
    per_commit(["*", "t.*", "COLUMNS('n|_.*')", "n, _slice, _cluster, _offset, toString(tuple(*)) AS x"]),
)
def test_a_view_that_selects_all_columns_is_named_before_any_is_added(world: World, star: str):
    make(world)
    world.sql(f"CREATE TABLE {{db}}.copy (n UInt16, x String, {KEYS}) ENGINE = MergeTree ORDER BY tuple()")
    world.sql(f"CREATE MATERIALIZED VIEW {{db}}.v TO {{db}}.copy AS SELECT {star} FROM {{db}}.clicks AS t")
    land(world.lake, unit(), [event(n=1, coupon="a")])
    with pytest.raises(
        TargetRefused, match=r"evolve: add.*view \S+\.v selects all its columns.*name the columns"
    ):
        world.load(evolving(world), unit())
    assert columns(world) == {} and read_additions(world.lake) == ()


@pytest.mark.long
def test_a_view_that_names_its_columns_stays_as_it_is(world: World):
    make(world)
    fed = "_slice DateTime('UTC'), _cluster String, n UInt64"
    world.sql(f"CREATE TABLE {{db}}.hours ({fed}) ENGINE = MergeTree ORDER BY _slice")
    select = "SELECT _slice, _cluster, count(*) * 2 AS n FROM {db}.clicks GROUP BY _slice, _cluster"
    world.sql(f"CREATE MATERIALIZED VIEW {{db}}.v TO {{db}}.hours AS {select}")
    land(world.lake, unit(), [event(n=1)])
    world.load(evolving(world), unit())
    land(world.lake, unit(1), [event(n=2, coupon="a"), event(n=3)])
    world.load(evolving(world), unit(1))
    assert world.sql("SELECT n, coupon FROM {db}.clicks ORDER BY n") == [(1, None), (2, "a"), (3, None)]
    assert world.sql("SELECT n FROM {db}.hours ORDER BY _slice") == [(2,), (4,)]


FIRST = [Load.ALTERED, TableLoad.MOVED]
POINTS = [
    *FIRST,
    Load.ANNOUNCED,
    Load.STATEMENT,
    Load.EVOLVED,
    *(p for p in TableLoad if p not in (TableLoad.LEASED, TableLoad.RELEASED, *FIRST)),
]


@pytest.mark.parametrize("point", per_commit(POINTS, 2), ids=str)
def test_a_load_that_dies_anywhere_is_done_by_the_next(world: World, point, monkeypatch):
    """Each addition is there once, also of one that died right after its ALTER."""
    make(world)
    pipeline = evolving(world)
    land(world.lake, unit(), [event(n=n, coupon=str(n)) for n in range(3)])

    def reached(here) -> None:
        if here is point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "reached", reached)
        with pytest.raises(KeyboardInterrupt):
            world.load(pipeline, unit())
    world.load(pipeline, unit())
    assert columns(world) == {"coupon": "Nullable(String)"}
    assert world.sql("SELECT n, coupon FROM {db}.clicks ORDER BY n") == [(n, str(n)) for n in range(3)]
    (one,) = read_additions(world.lake)
    assert (one.column, one.type, list(one.shards)) == ("coupon", "Nullable(String)", [""])
    ((generation,),) = world.sql("SELECT max(generation) FROM sluice.ledger WHERE target = '{db}.clicks'")
    assert one.shards[""] <= generation


@pytest.mark.long
def test_a_type_that_was_announced_only_makes_room(world: World, monkeypatch):
    """The attempt that would have added it died, and its slice was landed again with other values."""
    make(world)
    land(world.lake, unit(), [event(n=1, code=1)])

    def reached(here) -> None:
        if here is Load.ANNOUNCED:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "reached", reached)
        with pytest.raises(KeyboardInterrupt):
            world.load(evolving(world), unit())
    (announced,) = read_additions(world.lake)
    assert (announced.type, announced.done) == ("Nullable(UInt64)", False)
    land(world.lake, unit(), [event(n=1, code="x")], generation=2)
    world.load(evolving(world), unit())
    (one,) = read_additions(world.lake)
    assert (one.type, one.done) == ("Nullable(String)", True)
    assert world.sql("SELECT code FROM {db}.clicks") == [("x",)]


def test_a_column_that_a_person_adds_meanwhile_stays_his(world: World, monkeypatch):
    make(world)
    land(world.lake, unit(), [event(n=1, code=1)])

    def reached(here) -> None:
        if here is Load.ANNOUNCED:
            world.sql("ALTER TABLE {db}.clicks ADD COLUMN code Nullable(Int32)")

    monkeypatch.setattr(crash_points, "reached", reached)
    world.load(evolving(world), unit())
    assert columns(world) == {"code": "Nullable(Int32)"}
    assert world.sql("SELECT code FROM {db}.clicks") == [(1,)]


@pytest.mark.long
def test_an_event_is_an_element_of_an_array(world: World):
    """The lake has a row for each; its manifest counts rows."""
    make(world)
    land(world.lake, unit(), [event(n=n, tag="t") for n in range(4)])
    world.load(
        evolving(world, rows=4, event={"type": {"field": "type"}, "time": {"record": True}, "rows": "array"}),
        unit(),
    )
    assert world.sql("SELECT n, tag FROM {db}.clicks ORDER BY n") == [(n, "t") for n in range(4)]


@pytest.mark.long
def test_types_in_one_file_are_told_apart(world: World):
    """Of the folder of many types only the table's own rows are looked at."""
    make(world)
    events = [
        Event("click", json.dumps({"type": "click", "n": n, "mine": n}), overflow=True) for n in range(2)
    ]
    events += [
        Event("view", json.dumps({"type": "view", "n": n, "theirs": n}), overflow=True) for n in range(2)
    ]
    land(world.lake, unit(), events)
    world.load(evolving(world), unit())
    assert columns(world) == {"mine": "Nullable(UInt64)"}
    assert world.sql("SELECT mine FROM {db}.clicks ORDER BY n") == [(0,), (1,)]


@pytest.mark.long
def test_two_clusters_of_one_slice_count_together(world: World):
    make(world)
    both = [{"cluster": c, "bootstrap": "x:1", "topics": ["events"]} for c in ("dc1", "dc2")]
    pipeline = evolving(world, rows=2, kafka=both)
    for cluster in ("dc1", "dc2"):
        land(world.lake, unit(cluster=cluster), [event(n=1, coupon=cluster)])
    world.load(pipeline, unit(), unit(cluster="dc2"))
    assert world.sql("SELECT coupon FROM {db}.clicks ORDER BY coupon") == [("dc1",), ("dc2",)]


@pytest.mark.long
def test_a_refill_loads_exactly_the_slices_that_lack_values(world: World):
    """One has the field below the limit, one has not, one was counted in a sample, one has the column."""
    make(world)
    pipeline = evolving(world, rows=2)
    slices = [
        [event(n=1, coupon="rare"), event(n=2)],
        [event(n=10), event(n=11)],
        [event(n=20), event(n=21, coupon=None)],
        [event(n=30, coupon="a"), event(n=31, coupon="b")],
    ]
    for hour, events in enumerate(slices):
        manifest = land(world.lake, unit(hour), events)
        if hour != 2:
            counted(world, unit(hour), manifest, events)
        world.load(pipeline, unit(hour))
    units = [unit(hour) for hour in range(4)]
    assert world.load(pipeline, *units).loaded == ()
    assert world.sql("SELECT count(coupon) FROM {db}.clicks") == [(2,)]
    again = world.load(pipeline, *units, mode="reload --missing-columns")
    assert [loaded.unit for loaded in again.loaded] == [unit(0), unit(2)]
    rows = world.sql("SELECT n, coupon FROM {db}.clicks ORDER BY n")
    told = {
        item["n"]: item.get("coupon") for events in slices for item in (json.loads(e.payload) for e in events)
    }
    assert rows == sorted(told.items())
    assert world.load(pipeline, *units, mode="reload --missing-columns").loaded == ()


def planned(world: World, pipeline: Pipeline, hours: int, mode: str = "fill") -> list[str]:
    """What a plan says of `hours` slices; those without a manifest have not landed."""
    units = [unit(hour) for hour in range(hours)]
    found = {u: m for u in units if (m := read_manifest(world.lake, u))}
    target = pipeline.targets[0]
    ledgers = {target.table: committed(world.client, pipeline, world.lake.url, target)}
    known = (pipeline, units, Boundaries(), found, ledgers, START.add(days=1), None)
    told = statuses(*known, read_additions(world.lake))
    [shard] = pipeline.clickhouse.parts
    return list(forecast(Server(shard, world.client), pipeline, world.lake, told, mode))


@pytest.mark.long
def test_a_plan_says_what_would_be_added_and_changes_nothing(world: World):
    make(world)
    pipeline = evolving(world, rows=2)
    table = f"{world.database}.clicks"
    first = [event(n=n, coupon=f"c{n}", rare=n if n == 1 else None) for n in range(3)] + [event(n=3)]
    second = [event(n=4, coupon="x", price=1.5), event(n=5, price=2)]
    for hour, events in enumerate([first, second]):
        counted(world, unit(hour), land(world.lake, unit(hour), events), events)
    assert planned(world, pipeline, 3) == [
        f"{table}: would add `coupon` Nullable(String), in 3 of 4 rows of slice 2026-11-20T10Z",
        f"{table}: would add `price` Nullable(Decimal(18, 2)), in 2 of 2 rows of slice 2026-11-20T11Z",
        "what has not landed is not known: 1 slice",
    ]
    assert columns(world) == {} and read_additions(world.lake) == ()
    world.load(pipeline, unit(), unit(1))
    assert list(columns(world).values()) == ["Nullable(String)", "Nullable(Decimal(18, 2))"]
    assert planned(world, pipeline, 2) == []
    land(world.lake, unit(2), [event(n=6, more=1), event(n=7, more=2)])
    told = f"{table}: the fields of 1 slice are not counted in every row: the load counts them"
    assert planned(world, pipeline, 3) == [told]
    assert planned(world, world.pipeline({"click": "clicks"}), 4) == []


PARTS: list[Any] = [
    *(0, 1, -1, 2**53 + 1, 2**63, 2**64 - 1, -(2**63), 1.5, -0.1, 1e300, 5e-324, 0.1 + 0.2, 1e22),
    *(True, False, "", "a", "12", "1.50", "null", "ключ", 123456789.123, "2026-11-20", "2026-02-30",),
    *("2026-11-20T10:00:00Z", "2026-11-20T10:00:00.123456789Z", "2026-11-20 10:00", "2299-12-31T23:59:59Z"),
    *("2262-05-01T00:00:00.1234567Z", "1900-01-01T00:00:00+14:00", "10.0.0.1", "::1", "::ffff:10.0.0.1"),
    *("00000000-0000-0000-0000-000000000001", 1795168800, 1795168800123, "1795168800", "[1]", '{"a": 1}'),
]  # fmt: skip
NAMED = ["price", "created_at", "ts", "x", "amount", "total_cost"]


def some_value(random: Random, depth: int = 0) -> Any:
    shape = random.random()
    if depth < 3 and shape < 0.12:
        return [some_value(random, depth + 1) for _ in range(random.randrange(3))]
    if depth < 3 and shape < 0.24:
        names = random.sample(["a", "b", "c.d", "null", "", "ж"], random.randrange(4))
        return {name: some_value(random, depth + 1) for name in names}
    return None if depth and shape > 0.97 else random.choice(PARTS)


def like(random: Random, value: Any) -> Any:
    """Another value that a field with `value` may have: mostly the same, of the same shape, or anything."""
    shape = random.random()
    if isinstance(value, dict) and shape < 0.8:
        return {name: like(random, inner) for name, inner in value.items() if random.random() < 0.95}
    if isinstance(value, list) and shape < 0.8:
        return [like(random, inner) for inner in value]
    return value if shape < 0.6 else random.choice(PARTS) if shape < 0.7 else some_value(random)


@pytest.mark.parametrize("seed", per_commit(range(3)))
@pytest.mark.long
def test_no_row_is_a_rejected_row_by_a_column_that_its_own_load_adds(world: World, seed: int):
    """Each field has a few shapes; the load judges every value by itself, whatever the inference thought."""
    make(world)
    random = Random(seed)
    fields = {f"{random.choice(NAMED)}{k}": [some_value(random)] for k in range(90)}
    for values in fields.values():
        same = random.random() < 0.6
        values += [values[0] if same else like(random, values[0]) for _ in range(random.choice([1, 3, 30]))]
    count = max(map(len, fields.values()))
    rows = [
        event(n=n, **{name: values[n] for name, values in fields.items() if n < len(values)})
        for n in range(count)
    ]
    land(world.lake, unit(), rows)
    loaded = world.load(evolving(world), unit()).summary()
    rejected = world.sql("SELECT column, type, value FROM sluice.rejected WHERE target = '{db}.clicks'")
    assert (loaded["rejected_rows"], rejected) == (0, [])
    assert loaded["rows"] == count and len(columns(world)) > 80


def test_a_field_cannot_have_the_name_of_a_helper_column(world: World):
    """What a DEFAULT is computed from has two columns more in the load's own table."""
    make(world, "n UInt16, x UInt32 DEFAULT n + 7")
    hostile = dict.fromkeys(
        ("x (given)", "sluice_given x", "sluice_missing x", "sluice1_", "sluice_key"), "p"
    )
    for hour in range(2):
        land(world.lake, unit(hour), [event(n=1, **hostile), event(n=2, x=5)])
        world.load(evolving(world), unit(hour))
    world.load(evolving(world), unit(0), mode="reload")
    assert set(columns(world)) == {"x", *hostile}
    assert (
        sorted(world.sql("SELECT n, x, `sluice_key` FROM {db}.clicks"))
        == [(1, 8, "p")] * 2 + [(2, 5, None)] * 2
    )


def test_a_field_with_a_dot_gets_a_column_that_also_takes_the_field_inside_an_object(world: World):
    make(world, "n UInt16, `a.b` String")
    events = [
        event(n=1, **{"user.id": 7}),
        event(n=2, user={"id": "x"}),
        event(n=3, **{"user.id": 8, "user": {"id": "y"}}),
        event(n=4, **{"a": {"b": "p"}, "a.null": 1}),
        event(n=5, **{"user.id": 9}),
    ]
    land(world.lake, unit(), events)
    said: list[str] = []
    world.load(evolving(world), unit(), on_progress=said.append)
    assert columns(world) == {"a.b": "String", "user.id": "Nullable(String)"}
    rows = world.sql("SELECT n, `user.id`, `a.b` FROM {db}.clicks ORDER BY n")
    assert rows == [(1, "7", ""), (2, "x", ""), (3, "8", ""), (4, None, "p"), (5, "9", "")]
    assert any("field a.null gets no column" in line for line in said)
