"""What is a problem, from values."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pendulum
import pytest

from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.config.airflow import Alarms, Channel
from sluice.flow.verify.verdict import OpenAnomaly, Verdict
from sluice.manifest import FieldSeen, LandedFile, Loss, OffsetRange, TypeFields, encode
from sluice.plan.backlog import Backlog
from sluice.plan.lag import Lag, PartitionLag
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.additions import Addition
from sluice.state.boundaries.model import Boundaries
from sluice.state.field_changes import ChangeKind, FieldChange, UnitChange, changes_of
from sluice.state.held import HeldRows, hold, release, still_held
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch import rules, watch
from sluice.watch.observe import (
    Disk,
    Observation,
    ServerErrorCount,
    ServerFacts,
    joined,
    log_starts,
    retention,
    server_problems,
    watched_range,
)
from sluice.watch.problems import LogStart, ProblemKind, WatchState
from sluice.watch.watch import Watched, problems_of
from tests.support.channels import mail, webhook
from tests.support.fakes import MemoryLake
from tests.support.manifests import made_manifest
from tests.unit.doctor.test_doctor_kafka import pipeline

TEN = pendulum.datetime(2026, 11, 20, 10)
TABLES = {"click": "e.clicks", "*": "e.other"}


def unit(hour: int = 0) -> Unit:
    return Unit(Slice(TEN.add(hours=hour)), "dc1")


def status(
    hour: int, state: UnitState, *, start: int = 100, until: int = 200, tables=(), losses=()
) -> UnitStatus:
    ranges = (OffsetRange("bids", "u", 0, start, until),)
    landed = state not in (UnitState.MISSING, UnitState.EXPIRED)
    manifest = (
        made_manifest("p", unit(hour).slice.id, "dc1", 1, "a", ranges, (), (), 0, {}, 0) if landed else None
    )
    held = {name: LedgerRow(unit(hour), "1-a", (), 0, 0, 0, "", 1) for name in tables}
    return UnitStatus(unit(hour), state, ranges, losses, manifest, held, (), 1)


def said(problems) -> list[tuple[ProblemKind, str]]:
    return [(problem.kind, problem.place) for problem in problems]


def test_an_hour_is_overdue_after_settle_and_its_bound():
    """Hour 10 ends at 11:00; settle is 2 minutes and `overdue` 30."""
    spec, found = pipeline(), [status(0, UnitState.MISSING)]
    assert said(rules.overdue(spec, found, TEN.add(hours=1, minutes=32))) == []
    (problem,) = rules.overdue(spec, found, TEN.add(hours=4, minutes=10))
    assert (problem.kind, problem.place) == (ProblemKind.OVERDUE, "slice 2026-11-20T10Z/dc1")
    assert "not landed 3 hours 10 minutes after its end" in problem.message


def test_an_expired_hour_says_how_much():
    lost = (Loss("bids", 0, 100, 160, exact=True),)
    (problem,) = rules.overdue(pipeline(), [status(0, UnitState.EXPIRED, losses=lost)], TEN.add(hours=9))
    assert problem.kind is ProblemKind.EXPIRED
    assert "up to 60 of its offsets expired" in problem.message


def test_fields_that_changed_are_one_event_for_each_slice_and_type():
    def new(hour: int, kind: str, name: str) -> UnitChange:
        return UnitChange(unit(hour), FieldChange(ChangeKind.NEW, kind, name, 50, 20, 100, 0, ("string",)))

    changes = [new(0, "click", "a"), new(0, "click", "b\x1b"), new(0, "bid", "a"), new(1, "click", "c")]
    found = list(rules.changed(pipeline(), changes))
    assert said(found) == [
        (ProblemKind.SCHEMA, "slice 2026-11-20T10Z/dc1, type click"),
        (ProblemKind.SCHEMA, "slice 2026-11-20T10Z/dc1, type bid"),
        (ProblemKind.SCHEMA, "slice 2026-11-20T11Z/dc1, type click"),
    ]
    assert found[0].message == (
        "field `a` is new: in 20 of 50 rows, 40 % (string); before in 0 of 100 rows, 0 %; "
        "field `b\\x1b` is new: in 20 of 50 rows, 40 % (string); before in 0 of 100 rows, 0 %; "
        f"`sluice status {pipeline().name} --changes` shows all"
    )


def test_columns_that_were_added_are_one_event_for_each_table_and_slice():
    def new(column: str, table: str = "e.clicks") -> Addition:
        return Addition(table, column, "String", "2026-11-20T10Z", 35, 4_000, "now", "me", shards={"": 1})

    found = list(rules.added(pipeline(), [new("a"), new("x", "e.views"), new("b\x1b")]))
    assert said(found) == [
        (ProblemKind.SCHEMA, "table e.clicks, slice 2026-11-20T10Z"),
        (ProblemKind.SCHEMA, "table e.views, slice 2026-11-20T10Z"),
    ]
    assert found[0].message == (
        "columns were added: a String in 35 of 4,000 rows; b\\x1b String in 35 of 4,000 rows; "
        f"`sluice status {pipeline().name} --changes` shows all"
    )


def test_a_look_at_an_hour_with_a_renamed_field_shows_one_problem(tmp_path):
    lake, fields = FolderLake(tmp_path), [("user_id", 30), ("user_id", 30), ("uid", 30)]
    found = [status(hour, UnitState.COMPLETE) for hour in range(3)]
    manifests = {}
    for one, (name, rows) in zip(found, fields, strict=True):
        kinds = TypeFields("click", rows, True, {name: FieldSeen(rows, {"integer": rows})})
        manifests[one.unit] = replace(one.manifest, fields=(kinds,))
    changes = tuple(changes_of(lake, manifests, manifests, pytest.fail))
    slices = SliceRange(TEN, TEN.add(hours=3))
    lag = Lag("", [], [])
    observation = Observation(slices, Boundaries(), tuple(found), lag, {}, Verdict(), None, changes=changes)
    problems = list(problems_of(pipeline(), observation, WatchState(), TEN.add(hours=3)))
    (changed,) = [problem for problem in problems if problem.kind is ProblemKind.SCHEMA]
    assert changed.place == "slice 2026-11-20T12Z/dc1, type click"
    assert "likely `uid` now" in changed.message


def test_older_hours_are_one_problem_with_their_range_and_what_to_do():
    assert list(rules.older(pipeline(), Backlog())) == []
    states = {unit(-30 + n): UnitState.EXPIRED if n == 1 else UnitState.MISSING for n in range(3)}
    (problem,) = rules.older(pipeline(), Backlog(states))
    assert problem.kind is ProblemKind.OLDER
    assert problem.message.startswith(
        "3 slices from 2026-11-19T04Z to 2026-11-19T06Z are not complete (2 missing, 1 expired); the runs of "
    )
    assert "--from 2026-11-19T04:00Z --to 2026-11-19T07:00Z" in problem.message
    assert "on_expired: land_rest" in problem.message
    late = {*rules.overdue(pipeline(), [status(-30, UnitState.MISSING), status(-9, UnitState.MISSING)], TEN)}
    assert {problem.place for problem in late if problem.key in rules.still_open(Backlog(states))} == {
        f"slice {unit(-30)}"
    }


def test_a_table_that_lacks_hours_is_one_problem_with_their_range():
    spec = pipeline(tables=TABLES)
    found = [status(h, UnitState.LANDED, tables=["e.other"]) for h in range(3)] + [
        status(3, UnitState.MISSING)
    ]
    (problem,) = rules.not_committed(spec, found, TEN.add(hours=9))
    assert (problem.kind, problem.place) == (ProblemKind.NOT_COMMITTED, "table e.clicks")
    assert "3 units from 2026-11-20T10Z/dc1 to 2026-11-20T12Z/dc1" in problem.message


def test_an_hour_that_a_check_holds_is_a_problem_of_its_own_until_it_is_released():
    checks = {"positive": {"sql": "n > 0", "on_fail": "hold"}}
    spec, lake = pipeline(tables={"click": {"table": "e.clicks", "checks": checks}}), MemoryLake()
    late = [status(h, UnitState.LANDED) for h in range(3)]
    ids = [one.manifest.id for one in late]
    for one in late:
        lake.put(
            layout.manifest(one.unit.slice.id, "dc1"), encode(replace(one.manifest, pipeline=lake.pipeline))
        )
    for hour in (0, 1):
        rows = HeldRows("e.clicks", "dc1", "", ids[hour], {"positive": ("n > 0", 12)}, 0)
        hold(lake, {unit(hour): rows})
    hold(lake, {unit(2): HeldRows("e.clicks", "dc1", "", "another landing", {"positive": ("n > 0", 12)}, 0)})
    slices = SliceRange(TEN, TEN.add(hours=3))
    waiting = still_held(spec, lake, slices, late)
    (problem,) = rules.held(spec, waiting)
    assert (problem.kind, problem.place) == (ProblemKind.HELD, "table e.clicks")
    assert problem.message == (
        "slice 2026-11-20T11Z is held: 12 rows fail positive, and 1 more are held; correct what sends them, "
        f"or `sluice release {spec.name} --table e.clicks --from 2026-11-20T10:00Z --to 2026-11-20T12:00Z` "
        "lets them in"
    )
    (other,) = rules.not_committed(spec, late, TEN.add(hours=9), of_hours=waiting)
    assert other.message.startswith("2026-11-20T12Z/dc1 has landed")
    release(lake, SliceRange(TEN, TEN.add(hours=1)), "e.clicks", "me")
    assert [one.slice.id for one in still_held(spec, lake, slices, late)] == ["2026-11-20T11Z"]
    without = pipeline(tables={"click": "e.clicks"})
    assert still_held(without, lake, slices, late) == []


def test_rows_that_fail_a_check_are_a_problem_of_the_newest_hours():
    def loaded(hour: int, **failed: int) -> UnitStatus:
        found = status(hour, UnitState.COMPLETE, tables=["e.clicks"])
        return replace(found, tables={"e.clicks": replace(found.tables["e.clicks"], failed=failed)})

    (problem,) = rules.failing([loaded(0), loaded(1, positive=3), loaded(2, positive=1), loaded(3)])
    assert (problem.kind, problem.place) == (ProblemKind.CHECK, "table e.clicks")
    assert problem.message.startswith("1 row fails positive in slice 2026-11-20T12Z, and")
    assert list(rules.failing([loaded(0, positive=3), *map(loaded, range(1, 4))])) == []


def routed(types_of_other: tuple[str, ...], sharding: str = "") -> UnitStatus:
    """Hour 10 with 3 clicks and 2 views, committed in both tables."""
    files = tuple(
        LandedFile(f"{kind}.parquet", "a", kind, "", n, n, "") for kind, n in (("click", 3), ("view", 2))
    )
    found = status(0, UnitState.STALE, tables=TABLES.values())
    rows = {
        "e.clicks": replace(found.tables["e.clicks"], types=("click",)),
        "e.other": replace(found.tables["e.other"], types=types_of_other, sharding=sharding),
    }
    return replace(found, manifest=replace(found.manifest, files=files), tables=rows)


@pytest.mark.parametrize(
    ("types", "sharding", "tables"),
    [
        (("view",), "", []),
        (("click", "view"), "", ["table e.other"]),
        (("view",), "a, b by n", ["table e.other"]),
    ],
    ids=["as the file says", "routed otherwise", "sharded otherwise"],
)
def test_an_hour_that_stays_as_it_was_is_not_committed(
    types: tuple[str, ...], sharding: str, tables: list[str]
):
    spec, late = pipeline(tables=TABLES), routed(types, sharding)
    found = list(rules.not_committed(spec, [late], TEN.add(hours=9)))
    assert [problem.place for problem in found] == tables
    assert all(
        "2026-11-20T10Z/dc1 has landed, and is not committed as the pipeline" in one.message for one in found
    )
    slices = SliceRange(TEN, TEN.add(hours=1))
    seen = Observation(slices, Boundaries(), (late,), Lag("", [], []), {}, Verdict(), ServerFacts("ch"))
    samples = watch.watched(spec, Watched(seen, (), {}, {}), "s3://lake", TEN.add(hours=9))
    behind = {s.labels["table"]: s.value for s in samples if s.metric.name == "table_units_behind"}
    assert behind == {"e.clicks": 0, "e.other": len(tables)}


def test_what_is_done_is_no_problem():
    spec = pipeline(tables=TABLES)
    found = [status(0, UnitState.COMPLETE, tables=["e.clicks", "e.other"])]
    assert [
        *rules.overdue(spec, found, TEN.add(days=1)),
        *rules.not_committed(spec, found, TEN.add(days=1)),
    ] == []


@pytest.mark.parametrize(
    ("alarms", "records", "expected"),
    [
        ({}, 10**9, []),
        ({"lag": "3h"}, 10**9, ["seconds"]),
        ({"lag": "5h"}, 0, []),
        ({"lag_records": 99}, 100, ["records"]),
        ({"lag_records": 100}, 100, []),
        ({"lag_records": 1}, None, []),
    ],
)
def test_lag_bounds(alarms: dict, records: int | None, expected: list[str]):
    """The newest complete hour ended at 11:00; it is 15:00."""
    found = [status(0, UnitState.COMPLETE), status(1, UnitState.MISSING)]
    spec = pipeline(alarms=alarms)
    problems = [*rules.behind(spec, found, TEN.add(hours=5)), *rules.waiting(spec, records)]
    assert [problem.place for problem in problems] == expected


def test_without_a_complete_hour_the_lag_is_that_of_the_watched_range():
    """The range begins at 10:00; it is 15:30."""
    spec, now = pipeline(alarms={"lag": "3h"}), TEN.add(hours=5, minutes=30)
    found = [status(hour, UnitState.MISSING) for hour in range(5)]
    (none,) = rules.behind(spec, found, now)
    assert none.message == (
        "no slice that ended in the last 5 hours 30 minutes is complete, the bound is 3 hours"
    )
    (one,) = rules.behind(spec, [status(0, UnitState.COMPLETE), *found[1:]], now)
    assert one.message == "the newest complete slice ended 4 hours 30 minutes ago, the bound is 3 hours"
    assert none.key == one.key


def facts(partition: PartitionFacts, **settings: str) -> dict:
    topic = TopicFacts("dc1", "bids", 1, 0, None, settings, {0: partition})
    return {("dc1", "bids"): topic}


def ms(instant) -> int:
    return int(instant.timestamp() * 1000)


def overtaking(topics, now, earlier=None, hour=0, **alarms):
    found = [status(hour, UnitState.MISSING)]
    return list(retention(pipeline(alarms=alarms), found, topics, earlier or {}, now))


def test_retention_by_age():
    """Records of 10:00 are kept until 10:00 two days later: 3 h 10 min after 06:50."""
    topics = facts(PartitionFacts(0, 500, ms(TEN)), **{"retention.ms": str(2 * 86_400_000)})
    (problem,) = overtaking(topics, TEN.add(days=2, hours=-3, minutes=-10))
    assert problem.place == "slice 2026-11-20T10Z/dc1"
    assert (
        "Kafka will delete hour 2026-11-20T10Z in 3 h 10 min (dc1/bids/0, by retention.ms)" in problem.message
    )
    assert overtaking(topics, TEN.add(days=1)) == []
    assert overtaking(topics, TEN.add(days=2, hours=-7)) == []
    assert len(overtaking(topics, TEN.add(days=2, hours=-7), retention="8h")) == 1
    assert overtaking(topics, TEN.add(days=2), retention="none") == []


def test_retention_by_size():
    """1,000 bytes in ten hours, 100 an hour; 900 of them from offset 100 on. A limit of 1,200 leaves 300
    bytes: three hours."""
    topics = facts(
        PartitionFacts(0, 1000, ms(TEN), 1000), **{"retention.ms": "-1", "retention.bytes": "1200"}
    )
    (problem,) = overtaking(topics, TEN.add(hours=10))
    assert "in 3 h 0 min (dc1/bids/0, by retention.bytes)" in problem.message


def test_retention_by_the_movement_of_the_log_start():
    """It went from 20 to 60 in the last two hours: 20 offsets an hour, and 40 more are two hours."""
    now = TEN.add(hours=6)
    stood = LogStart(60, int(now.timestamp()) - 60, True, (20, int(now.timestamp()) - 7200))
    topics = facts(PartitionFacts(60, 500), **{"retention.ms": "-1", "retention.bytes": "-1"})
    (problem,) = overtaking(topics, now, {"dc1/bids/0": stood})
    assert "in 2 h 0 min (dc1/bids/0, by the log start's movement)" in problem.message


def test_a_first_move_tells_no_pace_and_the_second_does():
    looks = [(0, 5), (60, 5), (3600, 9), (3660, 9), (7200, 17)]
    known: dict[str, LogStart] = {}
    for seconds, offset in looks:
        known = log_starts({"x": offset}, known, pendulum.from_timestamp(seconds))
        before = known["x"].before
        assert before == ((9, 3600) if seconds == 7200 else None)
    assert known["x"] == LogStart(17, 7200, True, (9, 3600))


@pytest.mark.parametrize("first", [-1, -(1 << 63), 0, 1_795_132_800_000_000, (1 << 63) - 1])
def test_no_setting_and_no_stamp_is_too_large(first):
    settings = {"retention.ms": str((1 << 63) - 1), "retention.bytes": str((1 << 63) - 1)}
    now = TEN.add(hours=10)
    assert overtaking(facts(PartitionFacts(0, 1000, first, 10), **settings), now) == []
    few = facts(PartitionFacts(0, 1000, ms(TEN), 1), **{**settings, "retention.bytes": str(1 << 62)})
    assert overtaking(few, now) == []


def test_the_earliest_of_several_counts_and_what_is_gone_does_not():
    now = TEN.add(days=1, hours=22)
    young = PartitionFacts(0, 1000, ms(TEN), 1000)
    topics = facts(young, **{"retention.ms": str(2 * 86_400_000), "retention.bytes": "900"})
    (problem,) = overtaking(topics, now)
    assert "in 0 min" in problem.message and "retention.bytes" in problem.message
    assert overtaking(facts(PartitionFacts(150, 1000, ms(TEN)), **{"retention.ms": "1"}), now) == []


def test_landed_hours_are_in_no_danger():
    topics = facts(PartitionFacts(0, 500, ms(TEN)), **{"retention.ms": "1"})
    assert list(retention(pipeline(), [status(0, UnitState.LANDED)], topics, {}, TEN.add(days=9))) == []


def test_server_bounds():
    spec = pipeline(alarms={"queue": 10, "parts": 20, "disk_free": 0.2})
    found = ServerFacts(
        "ch:8123",
        errors=(ServerErrorCount(286, "UNSATISFIED_QUORUM", 3, "1 of 2"),),
        queues=(("e.clicks", 10), ("e.other", 11)),
        parts=(("e.clicks", 21), ("e.other", 20)),
        disks=(Disk("default", 19, 100), Disk("large", 20, 100)),
    )
    problems = list(server_problems(spec, found))
    assert said(problems) == [
        (ProblemKind.SERVER_ERROR, "ch:8123, code 286"),
        (ProblemKind.QUEUE, "table e.other"),
        (ProblemKind.PARTS, "table e.clicks"),
        (ProblemKind.DISK, "ch:8123, disk default"),
    ]
    assert "an earlier write has not reached its quorum" in problems[0].message


@pytest.mark.parametrize(
    ("message", "said", "not_said"),
    [
        (
            "Too many partitions for single INSERT block (more than 100). The limit is controlled by",
            "max_partitions_per_insert_block",
            "merges",
        ),
        ("Too many parts (3001 with average size of 1.00 KiB) in table", "merges are behind", "partition it"),
    ],
)
def test_too_many_partitions_in_one_insert_are_no_merges_that_are_behind(message, said, not_said):
    found = ServerFacts("ch:8123", errors=(ServerErrorCount(252, "TOO_MANY_PARTS", 3, message),))
    (problem,) = server_problems(pipeline(), found)
    assert said in problem.message and not_said not in problem.message.split(":")[0]
    assert problem.message.endswith(f"(TOO_MANY_PARTS, 3 times since its start): {message}")


def test_a_table_that_is_gone_is_missing_and_not_late():
    spec = pipeline(tables=TABLES)
    late = [status(0, UnitState.LANDED)]
    now = TEN.add(hours=9)
    remedies = {"e.clicks": "create it as it was: CREATE TABLE e.clicks (n UInt8)"}
    found = ServerFacts("ch:8123", missing=(("e.clicks", "ch:8123"),), remedies=remedies)
    (problem,) = server_problems(spec, found)
    assert (problem.kind, problem.place) == (ProblemKind.TABLE, "table e.clicks")
    assert problem.message == f"ch:8123 has no such table; {remedies['e.clicks']}"
    assert [p.place for p in rules.not_committed(spec, late, now)] == ["table e.clicks", "table e.other"]
    assert [p.place for p in rules.not_committed(spec, late, now, {"e.clicks"})] == ["table e.other"]
    both = joined([("s1", found), ("s2", ServerFacts("ch:2", missing=(("e.clicks", "ch:2"),)))])
    assert both.missing == (("e.clicks", "ch:8123"), ("e.clicks", "ch:2"))


def test_open_anomalies_of_verify_and_not_what_is_only_late():
    """A problem for each cause; a table that the watch itself sees to be missing is no second one."""

    def opened(kind: str, hour: int = 10, table: str = "e.clicks") -> OpenAnomaly:
        text = {"message": "100 rows", "cluster": "dc1", "advice": "", "table": table}
        text |= dict.fromkeys(("topic", "type", "shard", "later", "cause"), "")
        command = f"sluice run p --from 2026-11-20T{hour}:00Z --to 2026-11-20T{hour + 1}:00Z --mode reload"
        place = {"place": f"table {table}", "slices": (f"2026-11-20T{hour}Z",)}
        return OpenAnomaly(kind=kind, command=command, start="", until="", found_at="", **text, **place)

    others = [opened("incomplete"), opened("stalled partition")]
    (problem,) = rules.anomalies([opened("rows missing"), opened("values differ", 11), *others])
    assert problem.place == "wrong rows, table e.clicks"
    assert problem.message == (
        "1 × rows missing, 1 × values differ in 2 hours, from 2026-11-20T10Z to 2026-11-20T11Z; of the "
        "first: 100 rows; repair: sluice run p --from 2026-11-20T10:00Z --to 2026-11-20T12:00Z --mode reload"
    )
    gone = opened("table missing", table="e.other")
    assert [p.place for p in rules.anomalies([gone])] == ["table missing, table e.other"]
    assert list(rules.anomalies([gone, *others], tables=True)) == []


def test_the_watched_range_is_what_the_hourly_run_takes_care_of():
    now = TEN.add(minutes=20)
    assert str(watched_range(pipeline(), now)) == "[2026-11-19T10:00Z, 2026-11-20T10:00Z)"
    young = watched_range(pipeline(start="2026-11-20T08:00Z"), now)
    assert (len(young), young.end) == (2, TEN)
    assert len(watched_range(pipeline(start="2027-01-01T00:00Z"), now)) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"every": "7m"},
        {"notify": [{"arguments": {}}]},
        {"notify": [{}]},
        {"notify": [webhook("h"), webhook("h")]},
        {"disk_free": 1.0},
        {"unknown": 1},
    ],
)
def test_a_wrong_alarms_block_is_refused(wrong: dict):
    with pytest.raises(ValueError):
        Alarms.model_validate(wrong)


def test_the_alarms_block():
    two = [mail("smtp", "a@example.com"), mail("smtp", "b@example.com"), webhook("smtp")]
    found = Alarms.model_validate({"every": "10m", "notify": two})
    assert found.every == timedelta(minutes=10)
    assert found.notify == tuple(Channel(**channel) for channel in two)
    assert len({channel.name for channel in found.notify}) == 3
    assert not any("example.com" in channel.name for channel in found.notify)


def test_the_servers_of_all_shards_are_told_as_one():
    def facts(address: str, errors: int, queue: int, parts: int) -> ServerFacts:
        return ServerFacts(
            address,
            (ServerErrorCount(285, "TOO_FEW_LIVE_REPLICAS", errors, "x"),),
            (("e.clicks", queue),),
            (("e.clicks", parts),),
            (Disk("default", 1, 2),),
        )

    one = joined([("s1", facts("a:1", 2, 3, 40)), ("s2", facts("b:1", 5, 7, 30))])
    assert (one.address, one.errors[0].count) == ("a:1, b:1", 7)
    assert (one.queues, one.parts) == ((("e.clicks", 10),), (("e.clicks", 40),))
    assert [disk.name for disk in one.disks] == ["s1: default", "s2: default"]


def lag_with(log_end: int, held: int, errors: tuple[str, ...] = ()) -> Lag:
    one = PartitionLag(
        cluster="dc1", topic="bids", partition=3, landed_until=None, log_start=0, log_end=log_end,
        records=held, seconds=None, rate=0.0, held=held,
    )  # fmt: skip
    return Lag(at="", partitions=[] if errors else [one], errors=list(errors))


def test_a_transaction_that_stays_open_is_told_after_settle_and_overdue():
    """Seen first at 10:00; settle is 2 minutes and `overdue` 30."""
    spec = pipeline()
    first = rules.open_transactions(lag_with(500, 7), {}, TEN)
    assert list(rules.held_up(spec, lag_with(500, 7), first, TEN.add(minutes=31))) == []
    (problem,) = rules.held_up(spec, lag_with(500, 1200), first, TEN.add(minutes=32))
    assert (problem.kind, problem.place) == (ProblemKind.TRANSACTION, "partition dc1/bids/3")
    assert problem.message.startswith(
        "1,200 offsets wait behind an open transaction that begins at offset 500, for 32 minutes at least"
    )


def test_transactions_that_follow_each_other_are_none():
    spec, later = pipeline(), TEN.add(hours=2)
    first = rules.open_transactions(lag_with(500, 7), {}, TEN)
    moved = rules.open_transactions(lag_with(600, 7), first, later)
    assert {name: (one.offset, one.at) for name, one in moved.items()} == {
        "dc1/bids/3": (600, int(later.timestamp()))
    }
    assert list(rules.held_up(spec, lag_with(600, 7), first, later)) == []
    assert rules.open_transactions(lag_with(500, 0), first, later) == {}
    assert rules.open_transactions(lag_with(500, 7, ("dc1 is silent",)), first, later) == first
    assert list(rules.held_up(spec, lag_with(0, 0, ("dc1 is silent",)), first, later)) == []
