"""`checks` of a table: rows that fail are counted, become rejected rows, or hold their hour."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sluice.cli.commands import commands
from sluice.errors import Refused, SluiceError, TargetRefused
from sluice.slices import SliceRange
from sluice.state.held import hold, read_held, release
from tests.integration.landed import World, client_of, event, land, unit

pytestmark = pytest.mark.integration

UNIT = "_slice DateTime('UTC'), _cluster String"
SLICES = SliceRange(unit().slice.start, unit(2).slice.start)
REJECT = {"sql": "total >= 0", "on_fail": "reject"}
HOLD = {"sql": "total >= 0", "on_fail": "hold"}


@pytest.fixture
def world(clickhouse_server, name: str, tmp_path: Path) -> World:
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    world = World(tmp_path, client, name)
    world.sql(
        f"CREATE TABLE {{db}}.t (n Int64, total Nullable(Int64), half Int64 DEFAULT intDiv(n, 2), {UNIT}) "
        "ENGINE = MergeTree ORDER BY n"
    )
    return world


def checked(world: World, **checks):
    return world.pipeline({"click": {"table": "t", "checks": checks}})


def rejected(world: World) -> list[tuple]:
    return world.sql(
        "SELECT offset, column, reason, JSONExtractString(payload, 'type') FROM sluice.rejected "
        "WHERE target = '{db}.t' ORDER BY slice, offset"
    )


def ledger(world: World) -> list[tuple]:
    return world.sql(
        "SELECT argMax((toString(state), rows, rejected_rows, failed), (generation, attempt, state)) "
        "FROM sluice.ledger WHERE target = '{db}.t' GROUP BY slice ORDER BY slice"
    )


def test_rows_are_rejected_by_each_check_and_by_their_types(world: World):
    """Expected values are Python's: NULL fails, a DEFAULT is there, and a value that fits no type comes
    first."""
    chance = random.Random(7)
    sent = [
        {
            "n": chance.choice([chance.randrange(-9, 9), "x"]),
            "total": chance.choice([-2, 0, 5, None]),
            **({"half": chance.randrange(20)} if chance.random() < 0.5 else {}),
        }
        for _ in range(500)
    ]
    land(world.lake, unit(), [event(**fields) for fields in sent], partitions=1)
    pipeline = checked(
        world,
        positive=REJECT,
        small={"sql": "half < 4 OR total = 5", "on_fail": "reject"},
        odd={"sql": "n % 2 = 1", "on_fail": "warn"},
    )
    world.load(pipeline, unit())
    rows, refused, even = [], [], 0
    for offset, fields in enumerate(sent):
        n, total = fields["n"], fields["total"]
        if n == "x":
            refused.append((offset, "n", "does not fit Int64", "click"))
            continue
        half = fields.get("half", int(n / 2))
        if total is None or total < 0:
            refused.append((offset, "positive", "fails the check `total >= 0`", "click"))
        elif not (half < 4 or total == 5):
            refused.append((offset, "small", "fails the check `half < 4 OR total = 5`", "click"))
        else:
            rows.append((n, total, half))
            even += not (n % 2 == 1 and n > 0)  # ClickHouse's remainder of -3 is -1
    assert world.sql("SELECT n, total, half FROM {db}.t ORDER BY ALL") == sorted(rows)
    assert rejected(world) == refused
    assert ledger(world) == [(("committed", len(rows), len(refused), {"odd": even}),)]


def test_an_hour_is_held_until_somebody_releases_it_and_others_load(world: World):
    good = land(world.lake, unit(1), [event(n=1, total=1)])
    bad = land(world.lake, unit(), [event(n=n, total=n - 3) for n in range(10)])
    pipeline = checked(world, positive=HOLD)
    with pytest.raises(TargetRefused, match=r"3 rows fail the check positive \(`total >= 0`\)") as told:
        world.load(pipeline, unit(), unit(1))
    name = f"{world.database}.t"
    command = f"sluice release p --table {name} --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z"
    assert f"`{command}`" in str(told.value)
    assert world.sql("SELECT n FROM {db}.t") == [(1,)]
    left = (
        "SELECT name FROM system.tables WHERE database = 'sluice' AND name LIKE '%{db}%' AND engine != 'View'"
    )
    assert world.sql(left) == []
    [[held]] = read_held(world.lake, SLICES).values()
    assert (held.manifest, held.checks, held.released) == (bad.id, {"positive": ("total >= 0", 3)}, False)
    assert good.id != bad.id

    with pytest.raises(TargetRefused):  # nobody has released it
        world.load(pipeline, unit())
    assert release(world.lake, SLICES, "another.t", "me") == {}
    assert list(release(world.lake, SLICES, name, "me")) == ["2026-11-20T10Z"]
    other = checked(world, positive={"sql": "total > 0", "on_fail": "hold"})
    with pytest.raises(TargetRefused):  # released of another check
        world.load(other, unit())
    release(world.lake, SLICES, name, "me")
    with pytest.raises(TargetRefused):  # that one was noted last
        world.load(pipeline, unit())
    release(world.lake, SLICES, name, "me")
    world.load(pipeline, unit())
    assert world.sql("SELECT n FROM {db}.t ORDER BY n") == [(0,), (1,), (1,), *((n,) for n in range(2, 10))]
    assert ledger(world)[0] == (("committed", 10, 0, {"positive": 3}),)

    world.load(pipeline, unit(), mode="repair", token="r")  # what was committed is not held afterwards
    land(world.lake, unit(), [event(n=n, total=n - 2) for n in range(10)], generation=2)
    with pytest.raises(TargetRefused, match="2 rows fail"):  # another landing, which nobody has seen
        world.load(pipeline, unit())
    assert len(world.sql("SELECT n FROM {db}.t")) == 11


def test_a_repair_keeps_the_checks_of_the_load_and_a_reload_takes_todays(world: World):
    land(world.lake, unit(), [event(n=n, total=n - 3) for n in range(6)])
    world.load(checked(world, positive=REJECT), unit())
    later = checked(world, more={"sql": "n < 5", "on_fail": "reject"})
    world.load(later, unit(), mode="repair", token="a")
    assert world.sql("SELECT n FROM {db}.t ORDER BY n") == [(3,), (4,), (5,)]
    world.load(later, unit(), mode="reload", token="b")
    assert world.sql("SELECT n FROM {db}.t ORDER BY n") == [(0,), (1,), (2,), (3,), (4,)]
    assert [(offset, column) for offset, column, *_ in rejected(world)] == [(5, "more")]


def test_a_row_whose_default_fails_and_rows_that_fail_a_check_are_each_rejected_once(world: World):
    world.sql("ALTER TABLE {db}.t ADD COLUMN part Int64 DEFAULT intDiv(12, n)")
    land(world.lake, unit(), [event(n=n, total=n - 3) for n in range(6)])
    world.load(checked(world, positive=REJECT), unit())
    assert world.sql("SELECT n, part FROM {db}.t ORDER BY n") == [(3, 4), (4, 3), (5, 2)]
    assert [(offset, column) for offset, column, *_ in rejected(world)] == [
        (0, "part"),
        (1, "positive"),
        (2, "positive"),
    ]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("total", "it gives Nullable(Int64), and not true or false"),
        ("nothing > 0", "nothing"),
        ("max(total) > 0", "max"),
        ("n IN (SELECT 1)", "it reads other rows by a SELECT"),
        ("arrayJoin([1, 0]) = 1", "arrayJoin() makes several rows of one"),
        ("_slice < now()", "now() may say another thing of the same row later"),
        ("rowNumberInAllBlocks() < 9", "rowNumberInAllBlocks() may say"),
        ("total >= 0; DROP TABLE x", "Syntax error"),
        ("(lower(toString(n)) AS half) = '1'", "it gives an expression a name (AS)"),
        ("(n + 1 AS n) > 0", "it gives an expression a name (AS)"),
        ("total >= 0) OR (1", "Syntax error"),
        ("1\n] OR [1", "Syntax error"),
        ("passing > 0", "it reads passing, which is EPHEMERAL"),
    ],
)
def test_what_is_no_condition_on_a_row_is_refused_before_anything_is_written(
    world: World, sql: str, reason: str
):
    world.sql("ALTER TABLE {db}.t ADD COLUMN passing Int64 EPHEMERAL 1")
    land(world.lake, unit(), [event(n=1, total=1)])
    with pytest.raises(Refused, match="`checks: odd`") as told:
        world.load(checked(world, odd={"sql": sql, "on_fail": "reject"}), unit())
    assert reason in str(told.value)
    assert ledger(world) == []


@pytest.mark.parametrize("on_fail", ["warn", "reject", "hold"])
def test_a_check_that_fails_itself_is_named(world: World, on_fail: str):
    land(world.lake, unit(), [event(n=1, total=0)])
    pipeline = checked(world, ratio={"sql": "intDiv(n, total) > 0", "on_fail": on_fail})
    with pytest.raises(SluiceError, match=rf"while pushing to view {world.database}\.t \(checks: ratio\)"):
        world.load(pipeline, unit())
    assert "committed" not in [state for ((state, *_),) in ledger(world)]
    world.load(checked(world, ratio={"sql": "n > total", "on_fail": on_fail}), unit())
    assert [row[:3] for (row,) in ledger(world)] == [("committed", 1, 0)]


def test_what_changes_with_the_clock_may_count_and_hold(world: World):
    land(world.lake, unit(), [event(n=1, total=1)])
    pipeline = checked(world, past={"sql": "_slice > now()", "on_fail": "warn"})
    world.load(pipeline, unit())
    assert ledger(world) == [(("committed", 1, 0, {"past": 1}),)]


@pytest.mark.parametrize(
    "sql", ["toString(n) != 'x (alias y)'", "CAST(n AS Int32) = 1", "n = 1 -- (alias x)"]
)
def test_a_text_that_looks_like_a_name_is_none(world: World, sql: str):
    land(world.lake, unit(), [event(n=1, total=1)])
    world.load(checked(world, odd={"sql": sql, "on_fail": "reject"}), unit())
    assert world.sql("SELECT n FROM {db}.t") == [(1,)]


def test_what_a_hold_meets_in_a_reload_is_loaded_by_a_reload_after_its_release(world: World):
    land(world.lake, unit(), [event(n=n, total=n - 3) for n in range(6)])
    world.load(checked(world), unit())
    with pytest.raises(TargetRefused):
        world.load(checked(world, positive=HOLD), unit(), mode="reload", token="a")
    [[held]] = release(world.lake, SLICES, f"{world.database}.t", "me").values()
    assert held.mode == "reload"
    world.load(checked(world, positive=HOLD), unit(), mode="reload", token="b")
    assert ledger(world) == [(("committed", 6, 0, {"positive": 3}),)]


def test_one_release_is_for_all_checks_that_an_hour_fails(world: World):
    """Else two that change places would hold it for ever."""
    land(world.lake, unit(), [event(n=n, total=n - 3) for n in range(6)])
    small = {"sql": "n < 5", "on_fail": "hold"}
    for checks in ({"positive": HOLD}, {"positive": HOLD, "small": small}):
        with pytest.raises(TargetRefused):
            world.load(checked(world, **checks), unit())
        release(world.lake, SLICES, f"{world.database}.t", "")
    world.load(checked(world, positive=HOLD, small=small), unit())
    assert ledger(world) == [(("committed", 6, 0, {"positive": 3, "small": 1}),)]


def test_a_release_is_for_the_landing_that_is_there_and_stays(world: World):
    manifest = land(world.lake, unit(), [event(n=n, total=n - 3) for n in range(6)])
    with pytest.raises(TargetRefused):
        world.load(checked(world, positive=HOLD), unit())
    [[held]] = read_held(world.lake, SLICES).values()
    release(world.lake, SLICES, held.table, "me")
    hold(world.lake, {unit(): held})  # by a load that began before
    [[still]] = read_held(world.lake, SLICES).values()
    assert (still.released, still.by, still.manifest) == (True, "me", manifest.id)
    land(world.lake, unit(), [event(n=1, total=-1)], generation=2)
    with pytest.raises(TargetRefused):
        world.load(checked(world, positive=HOLD), unit())
    land(world.lake, unit(), [event(n=2, total=-1)], generation=3)
    assert release(world.lake, SLICES, held.table, "me") == {}  # nobody has seen the third


def test_a_check_of_the_file_that_is_broken_stops_no_repair_and_no_erasure(world: World):
    land(world.lake, unit(), [event(n=n, total=n - 3) for n in range(6)])
    world.load(checked(world, positive=REJECT), unit())
    broken = checked(world, other={"sql": "nothing > 0", "on_fail": "warn"}, held={**HOLD, "sql": "nothing"})
    world.load(broken, unit(), mode="repair", token="a")
    assert world.sql("SELECT n FROM {db}.t ORDER BY n") == [(3,), (4,), (5,)]
    world.sql("ALTER TABLE {db}.t DROP COLUMN total")
    with pytest.raises(
        TargetRefused, match="`checks: positive`: .*reload these hours, which takes the checks"
    ):
        world.load(checked(world), unit(), mode="repair", token="b")


def test_an_erasure_takes_rows_out_of_hours_that_the_table_has_and_leaves_those_that_are_held(world: World):
    """`amend` is how it loads: hour 10 was loaded and landed again since, hour 11 never was."""
    land(world.lake, unit(), [event(n=n, total=1) for n in range(6)])
    world.load(checked(world), unit())
    for hour in (0, 1):
        land(world.lake, unit(hour), [event(n=n, total=-1) for n in range(1, 6)], generation=2)
    world.load(checked(world, positive=HOLD), unit(), unit(1), mode="amend")
    assert world.sql("SELECT n, total FROM {db}.t ORDER BY n") == [(n, -1) for n in range(1, 6)]
    assert len(ledger(world)) == 1


def test_a_retry_brings_rows_in_and_takes_none_out_whichever_way_a_check_has_changed(world: World):
    """Rows that are there passed the check of then: a row passes by either."""
    world.sql("ALTER TABLE {db}.t ADD COLUMN _offset Int64")
    land(world.lake, unit(), [event(n=n, total=n - 3) for n in range(10)])
    world.load(checked(world, positive=REJECT), unit())
    for number, (sql, first) in enumerate((("n > 8", 3), ("total >= -1", 2), ("n > 1", 2), ("n > 0", 1))):
        changed = checked(world, positive={"sql": sql, "on_fail": "reject"})
        world.load(changed, unit(), mode="retry", token=str(number))
        found = [n for (n,) in world.sql("SELECT n FROM {db}.t ORDER BY n")]
        assert found == list(range(first, 10)), sql
    world.load(checked(world, other=REJECT), unit(), mode="retry", token="z")  # the check is gone
    assert len(world.sql("SELECT n FROM {db}.t")) == 10


def test_the_first_check_by_name_rejects_a_row_in_a_load_as_in_a_repair(world: World):
    land(world.lake, unit(), [event(n=n, total=-1) for n in range(3)])
    pipeline = checked(world, z=REJECT, a={"sql": "n < 0", "on_fail": "reject"})
    for mode in ("fill", "repair"):
        world.load(pipeline, unit(), mode=mode, token=mode)
        assert {column for _, column, *_ in rejected(world)} == {"a"}


def test_a_check_with_the_name_of_a_column_is_refused(world: World):
    land(world.lake, unit(), [event(n=1, total=1)])
    with pytest.raises(TargetRefused, match="a column has the name, too"):
        world.load(checked(world, total=REJECT), unit())


def test_the_command_releases_and_says_what_loads(world: World, monkeypatch: pytest.MonkeyPatch):
    land(world.lake, unit(), [event(n=1, total=-1)])
    pipeline = checked(world, positive=HOLD)
    with pytest.raises(TargetRefused):
        world.load(pipeline, unit())
    name, file = f"{world.database}.t", world.root / "p.yaml"
    spec = {
        "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["events"]}],
        "event": {"type": {"field": "type"}, "time": {"record": True}},
        "lake": f"file://{world.root}",
        "tables": {"click": {"table": name, "checks": {"positive": HOLD}}},
    }
    file.write_text(yaml.safe_dump(spec))
    words = ["release", "p", "--config", str(file), "--table", "click"]
    range_ = ["--from", "2026-11-20T10:00Z", "--to", "2026-11-20T11:00Z"]
    done = CliRunner().invoke(commands, [*words, *range_])
    assert done.exit_code == 0, done.output
    assert "2026-11-20T10Z released: 1 row fails positive" in done.output
    assert f"sluice run p --config {file} --from 2026-11-20T10:00Z" in done.output
    again = CliRunner().invoke(commands, [*words, *range_])
    assert (again.exit_code, again.output.split(" is held")[0]) == (0, f"nothing of table {name}")
    world.load(pipeline, unit())
    assert world.sql("SELECT n FROM {db}.t") == [(1,)]
    assert json.loads(CliRunner().invoke(commands, [*words, *range_, "--json"]).output)["released"] == {}
