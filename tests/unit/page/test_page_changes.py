"""What has changed since: the file with its diff, Sluice, columns, fields, topics and partitions."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

from sluice.page import changes as page_changes
from sluice.page.changes import (
    MOST,
    MOST_LINES,
    ChangeFacts,
    NewType,
    TableVersion,
    TypesSeen,
    changes_of_pipeline,
    diff_of,
    read_tables,
)
from sluice.page.run_history import MovedByRun, RunRecord
from sluice.slices import SliceRange
from sluice.state.additions import Addition
from sluice.state.boundaries.boundary import UNKNOWN, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, Era
from sluice.state.erasures import AskedValue, Erasure
from sluice.state.field_changes import ChangeKind, FieldChange, UnitChange
from sluice.state.notes import FileVersion
from sluice.state.rules import TableRules
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, pipeline, unit

WEEK = SliceRange(START.subtract(days=7), START.add(hours=1))
AT = int(START.timestamp())


def version(hours: int, text: str, sluice: str = "1.0") -> FileVersion:
    return FileVersion(START.subtract(hours=hours).isoformat(), f"hash of {text}", sluice, text)


def facts(**known: object) -> ChangeFacts:
    return ChangeFacts(
        **{
            "slices": WEEK,
            "versions": (),
            "additions": (),
            "fields": (),
            "fields_at": "",
            "boundaries": Boundaries(),
            "erasures": (),
            **known,
        }
    )


def column(*offsets: int) -> PartitionColumn:
    some = array("q", offsets)
    return PartitionColumn(0, some, some, some, array("b", [0] * len(offsets)))


def test_the_file_and_sluice_by_version():
    old, mid, new = (
        version(300, "a: 1\nb: 2\nc: 3\n"),
        version(5, "a: 1\nb: 9\nc: 3\n"),
        version(2, "a: 1\nb: 9\nc: 3\n", "1.1"),
    )
    found = changes_of_pipeline(facts(versions=(old, mid, new)))
    sluice, file = found.changes
    assert (sluice.kind, sluice.what, sluice.at) == ("Sluice", "1.0 → 1.1", "2026-11-20T08:00:00+00:00")
    assert (file.kind, file.at) == ("file", "2026-11-20T05:00:00+00:00")
    assert file.lines == ["@@ -1,3 +1,3 @@", " a: 1", "-b: 2", "+b: 9", " c: 3"]
    assert found.known_since == old.at


def test_what_was_before_the_week_is_none_and_the_first_version_is_no_change():
    assert changes_of_pipeline(facts(versions=(version(400, "a"), version(200, "b")))).changes == []
    assert changes_of_pipeline(facts(versions=(version(1, "a"),))).changes == []


def test_a_diff_is_bounded_and_its_text_is_harmless():
    lines = diff_of("", "\n".join(f"k{n}: \x1b[2J\u202e" for n in range(500)))
    assert len(lines) == MOST_LINES + 1 and lines[-1] == "… 381 more lines"
    assert lines[1] == "+k0: \\x1b[2J\\u202e" and all(line.isprintable() for line in lines)


def test_columns_fields_topics_and_partitions_the_newest_first():
    added = Addition(
        "e.t", "country", "String", "2026-11-20T06Z", 3, 4, "2026-11-20T07:30:00+00:00", "p", "", {"": 5}
    )
    never = Addition("e.t", "lost", "String", "2026-11-20T06Z", 3, 4, "2026-11-20T07:31:00+00:00", "p")
    gone = FieldChange(ChangeKind.VANISHED, "click", "price", 90, 0, 100, 80, (), ("number",))
    instants = array("q", [AT - 7200, AT - 3600, AT])
    columns = {
        0: column(0, 5, 9),
        1: column(0, 5, 9),
        2: column(UNKNOWN, UNKNOWN, 3),
        3: column(UNKNOWN, UNKNOWN, 3),
    }
    block = TopicBoundaries("dc1", "t", "new", instants, columns)
    boundaries = Boundaries(2, None, {block.key: block}, {("dc1", "t"): (Era("old"), Era("new", AT - 3600))})
    found = changes_of_pipeline(
        facts(additions=(added, never), fields=[UnitChange(unit(-1), gone)], boundaries=boundaries)
    )
    assert [(one.kind, one.place, one.at[11:16]) for one in found.changes] == [
        ("partition", "dc1/t", "10:00"),
        ("topic", "dc1/t", "09:00"),
        ("field", "dc1, type click", "09:00"),
        ("column", "e.t", "07:30"),
    ]
    partition, topic, field, new_column = found.changes
    assert partition.what == "partitions 2–3 are new: 4 now, 2 before"
    assert topic.what == "the topic is another one: id new, before old"
    assert (field.slice, field.what) == ("2026-11-20T09Z", gone.said)
    assert new_column.what == "table e.t: column `country` String was added: in 3 of 4 rows"


def test_an_erasure_says_who_asked_for_what_and_no_value():
    """Two values of one field; the first entry was before the week."""
    digests = "5d41402abc4b2a76", "b9719d911017c592"
    asked = tuple(AskedValue(("user", "id"), digest, 9, 0) for digest in digests)
    early = Erasure(asked, "", "", "2026-11-01T00:00:00Z", "", "old", "2026-11-01T00:00:00Z", "ann")
    start, until = "2026-10-01T00:00:00Z", "2026-11-20T09:00:00Z"
    late = Erasure(asked, "click", start, until, "", "ticket\x1b 4711", "2026-11-20T09:30:00Z", "bob")
    whole = Erasure(asked[:1], "", "", until, "", "again", "2026-11-20T09:40:00Z", "bob")
    last, first = changes_of_pipeline(facts(erasures=(early, late, whole))).changes
    assert (first.kind, first.place, first.at) == ("erasure", "type click", "2026-11-20T09:30:00Z")
    assert first.what == (
        "erasure 1 of records by `user.id`, from 2026-10-01T00:00:00Z until 2026-11-20T09:00:00Z: "
        "ticket\\x1b 4711 (asked for by bob)"
    )
    assert (last.place, last.what) == (
        "all types",
        "erasure 2 of records by `user.id`, until 2026-11-20T09:00:00Z: again (asked for by bob)",
    )
    assert not any(digest in one.what for one in (first, last) for digest in digests)


def test_as_many_as_a_page_shows():
    versions = [version(160 - n // 2, str(n)) for n in range(MOST + 5)]
    found = changes_of_pipeline(facts(versions=versions))
    assert (len(found.changes), found.more) == (MOST, 4)


CREATE = (
    "CREATE TABLE e.t (`a` String, `b` Decimal(9, 2), `_slice` DateTime('UTC')) "
    "ENGINE = MergeTree PARTITION BY toYYYYMM(_slice) ORDER BY _slice{ttl} SETTINGS index_granularity = 8192"
)


def table(hours: int, *ddl: str, name: str = "e.t") -> TableVersion:
    return TableVersion(START.subtract(hours=hours).isoformat(), name, ddl)


def test_a_table_that_was_altered_or_dropped_is_a_change_with_its_lines():
    old, kept = CREATE.format(ttl=""), CREATE.format(ttl=" TTL _slice + toIntervalDay(30)")
    wider = kept.replace("Decimal(9, 2)", "Decimal(18, 4)")
    versions = [table(1), table(300, old), table(9, kept), table(5, wider), table(3, wider, name="e.other")]
    gone, type_, ttl = changes_of_pipeline(facts(tables=versions)).changes
    assert [(one.kind, one.place, one.at[11:13]) for one in (gone, type_, ttl)] == [
        ("table", "e.t", "09"),
        ("table", "e.t", "05"),
        ("table", "e.t", "01"),
    ]
    assert (gone.what, gone.lines) == ("the table is not in ClickHouse any more", [])
    assert [line for line in ttl.lines if line[0] in "+-"] == ["+TTL _slice + toIntervalDay(30)"]
    assert [line.strip() for line in type_.lines if line[0] in "+-"] == [
        "-`b` Decimal(9, 2),",
        "+`b` Decimal(18, 4),",
    ]
    (again,) = changes_of_pipeline(facts(tables=[table(5), table(2, old)])).changes
    assert again.what == "the table is there again"


def test_a_type_is_new_where_the_cluster_had_others_before():
    seen = TypesSeen()
    for hour, rows in ((3, {"a": 1, "b": 7}), (1, {"a": 1}), (2, {"a": 2, "b": 5}), (0, {})):
        seen.add(unit(hour), rows)
    seen.add(unit(2, "dc2"), {"c": 1})
    assert seen.new == [NewType(unit(2), "b", 5)]
    (change,) = changes_of_pipeline(facts(types=[NewType(unit(-2), "b\x1b", 5)])).changes
    assert (change.kind, change.place, change.slice) == ("type", "dc1, type b\\x1b", "2026-11-20T08Z")
    assert change.what == "the type is new: 5 rows in its first hour, and none in the days before"


def test_how_long_kafka_keeps_a_topic_is_compared_setting_by_setting():
    old = "dc1/t cleanup.policy=delete retention.ms=604800000\ndc1/u retention.ms=1"
    new = "dc1/t cleanup.policy=delete retention.ms=3600000\ndc1/new retention.ms=2"
    (change,) = changes_of_pipeline(facts(topics=[version(9, old), version(3, new)])).changes
    assert (change.kind, change.place, change.at[11:13]) == ("retention", "dc1/t", "07")
    assert change.what == "retention.ms 604800000 → 3600000"


def test_backfills_and_commands_name_who_started_them():
    nothing = MovedByRun(landed=0, bytes=0, loaded=0, land_seconds=0, load_seconds=0, steps=[])
    edges = {"start": "2026-11-19T10:00:00+00:00", "end": "2026-11-19T12:00:00+00:00", "moved": nothing}
    run = RunRecord(
        dag_id="p_backfill",
        run_id="r",
        kind="backfill",
        state="failed",
        user="ann",
        started="2026-11-20T09:00:00+00:00",
        ended="",
        seconds=None,
        mode="reland",
        tables=["e.t"],
        why="Stopped in plan",
        **edges,
    )
    more = {"dag_id": "", "user": "", "state": "success", "why": "", "started": "2026-11-20T08:00:00+00:00"}
    command = run.model_copy(update={**more, "tables": []})
    found = changes_of_pipeline(facts(runs=[run, command])).changes
    hours = "2026-11-19T10:00Z – 2026-11-19T12:00Z"
    assert [(one.kind, one.place, one.what) for one in found] == [
        ("run", "backfill", f"reland of {hours}, only e.t, started by ann: failed: Stopped in plan"),
        ("run", "sluice run", f"reland of {hours}, started by somebody: success"),
    ]


def test_of_each_table_the_loads_since_the_range_began_and_the_last_one_before(monkeypatch):
    """The table of now is another one; `e.never` was never loaded."""
    spec, lake = pipeline(tables={"click": "e.t", "view": "e.never"}), MemoryLake()
    hours = {"new": 5, "old": 200, "ancient": 3000}
    rules = [(START.subtract(hours=ago), TableRules("e.t", ddl=(name,))) for name, ago in hours.items()]
    monkeypatch.setattr(page_changes, "kept_rules", lambda _: iter(rules))
    monkeypatch.setattr(page_changes, "read_table", lambda *_: SimpleNamespace(ddl=("now",)))
    servers, gone = [SimpleNamespace(client=object())], set[str]()
    clients = SimpleNamespace(servers=lambda _: servers, gone=lambda _: gone)
    memory = SimpleNamespace(clients=clients)
    found = read_tables(spec, lake, memory, WEEK, START.isoformat())
    assert [(one.table, *one.ddl) for one in found] == [("e.t", "new"), ("e.t", "old"), ("e.t", "now")]
    gone.update({"e.t", "e.never"})
    assert read_tables(spec, lake, memory, WEEK, START.isoformat())[-1].ddl == ()
