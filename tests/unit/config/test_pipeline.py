from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.config.pipeline import Pipeline


def content(**changes: Any) -> dict[str, Any]:
    return {
        "name": "github",
        "kafka": [{"cluster": "dc1", "bootstrap": "127.0.0.1:9092", "topics": ["events"]}],
        "event": {"type": {"field": "type"}, "time": {"field": "created_at"}},
        "lake": "file://lake",
        "tables": {
            "click": "events.clicks",
            "tap": "events.clicks",
            "view": {"table": "events.views", "columns": {"country": "geo.country"}},
            "*": "events.other",
        },
    } | changes


def pipeline(**changes: Any) -> Pipeline:
    return Pipeline.model_validate(content(**changes))


def refused(**changes: Any) -> tuple[str, str]:
    with pytest.raises(ValidationError) as raised:
        pipeline(**changes)
    first = raised.value.errors()[0]
    return ".".join(map(str, first["loc"])), first["msg"]


def cluster(**changes: Any) -> dict[str, Any]:
    return {"cluster": "dc1", "bootstrap": "b:1", "topics": ["t"]} | changes


class TestDefaults:
    def test_of_the_contract(self) -> None:
        one = pipeline()
        assert one.slice == one.success_grace == timedelta(hours=1)
        assert one.settle == timedelta(minutes=2)
        assert one.lookback == timedelta(hours=24)
        assert one.on_expired == "fail"
        assert (one.max_early, one.max_late) == (timedelta(hours=1), None)
        assert (one.rows_per_read, one.max_types, one.max_record) == (500_000, 1000, 67_108_864)
        assert one.kafka[0].isolation == "read_committed"
        assert one.clickhouse.connection == "clickhouse_default"
        assert one.lake_connection is None

    def test_grace_follows_the_slice(self) -> None:
        assert pipeline(slice="15m").success_grace == timedelta(minutes=15)
        assert pipeline(slice="15m", grace="3h").success_grace == timedelta(hours=3)
        assert pipeline(grace="0s").success_grace == timedelta(0)

    def test_it_is_frozen(self) -> None:
        with pytest.raises(ValidationError):
            pipeline().lake = "file://other"


class TestMistakes:
    @pytest.mark.parametrize(
        ("changes", "place", "text"),
        [
            ({"kafka": []}, "kafka", "at least 1"),
            ({"kafka": [cluster(topics=[])]}, "kafka.0.topics", "at least 1"),
            ({"kafka": [cluster(topics=["t", "t"])]}, "kafka.0", "listed twice"),
            ({"kafka": [cluster(bootstrap=None)]}, "kafka.0", "exactly one of `bootstrap` and `connection`"),
            ({"kafka": [cluster(connection="c")]}, "kafka.0", "exactly one of `bootstrap` and `connection`"),
            ({"kafka": [cluster(cluster="dc-1")]}, "kafka.0.cluster", "letters, digits"),
            ({"kafka": [cluster(cluster="../x")]}, "kafka.0.cluster", "letters, digits"),
            ({"kafka": [cluster(cluster="x" * 64)]}, "kafka.0.cluster", "at most 63"),
            ({"kafka": [cluster(), cluster()]}, "", "a cluster's name is used twice"),
            ({"kafka": [cluster(isolation="none")]}, "kafka.0.isolation", "read_committed"),
            ({"event": {"type": {}, "time": {"record": True}}}, "event.type", "exactly one of"),
            (
                {"event": {"type": {"field": "a", "topic": True}, "time": {"record": True}}},
                "event.type",
                "exactly one of",
            ),
            ({"event": {"type": {"topic": True}, "time": {}}}, "event.time", "exactly one of"),
            (
                {"event": {"type": {"topic": True}, "time": {"field": "t", "record": True}}},
                "event.time",
                "exactly one of",
            ),
            (
                {"event": {"type": {"topic": True}, "time": {"field": "t", "format": "rfc822"}}},
                "event.time.format",
                "iso8601",
            ),
            ({"lake": "/data"}, "lake", "expected file://… or s3://bucket/prefix, not '/data'"),
            ({"lake": "hdfs://x"}, "lake", "expected file://"),
            ({"lake": "file://"}, "lake", "expected file://"),
            ({"lake": "file:///"}, "lake", "expected file://"),
            ({"lake": "s3://"}, "lake", "expected file://"),
            ({"lake": "s3:///prefix"}, "lake", "expected file://"),
            ({"tables": ["events.clicks"]}, "tables", "mapping of type to table"),
            ({"tables": {"click": "clicks"}}, "tables.click.table", "expected database.table, not 'clicks'"),
            ({"tables": {"click": "a."}}, "tables.click.table", "expected database.table"),
            ({"tables": {"click": "`a`.`b`"}}, "tables.click.table", "names have no quotes of SQL"),
            ({"tables": {"click": "a." + "/" * 67}}, "tables.click.table", "at most 200 bytes"),
            ({"tables": {"click": ".b"}}, "tables.click.table", "expected database.table"),
            ({"tables": {"c": "sluice.ledger"}}, "tables.c.table", "no table can be in the database sluice"),
            ({"tables": {"c": "system.tables"}}, "tables.c.table", "it is ClickHouse's own"),
            ({"tables": {"c": "INFORMATION_SCHEMA.t"}}, "tables.c.table", "it is ClickHouse's own"),
            ({"counts": [{"table": "Sluice.t"}]}, "counts.0.table", "no table can be in the database Sluice"),
            (
                {"tables": {"c": {"table": "d.t", "columns": {"x": "a.b.c.d.e.f.g.h.i"}}}},
                "tables.c.columns.x",
                "8 names",
            ),
            (
                {"event": {"type": {"field": "a.b.c.d.e.f.g.h.i"}, "time": {"record": True}}},
                "event.type.field",
                "8 names",
            ),
            ({"mask": {"a.b.c.d.e.f.g.h.i": "drop"}}, "", "8 names"),
            ({"tables": {"click": None}}, "tables.click", "valid dictionary"),
            (
                {"tables": {"click": {"table": "a.b", "types": ["x"]}}},
                "tables",
                "click: expected only `table`",
            ),
            ({"tables": {"click": {"table": "a.b", "catch_all": True}}}, "tables", "click: expected only"),
            (
                {"tables": {"a": "d.t", "b": {"table": "d.t", "columns": {"x": "y"}}}},
                "",
                "d.t has two different `columns`",
            ),
            ({"slice": "10m"}, "slice", "15m … 1d"),
            ({"slice": "0s"}, "slice", "15m … 1d"),
            ({"slice": "2d"}, "slice", "15m … 1d"),
            ({"slice": "75m"}, "slice", "divides the day"),
            ({"slice": "16m"}, "slice", "multiple of 15m"),
            ({"slice": "hourly"}, "slice", "expected a duration"),
            ({"start": "2026-01-01T00:30Z"}, "", "start: expected an instant on a slice's edge"),
            ({"start": "soon"}, "start", "datetime"),
            ({"rows_per_read": 0}, "rows_per_read", "greater than or equal to 1"),
            ({"max_types": 0}, "max_types", "greater than or equal to 1"),
            ({"max_record": "900KiB"}, "max_record", "greater than or equal to 1048576"),
            ({"max_record": "1 MB"}, "max_record", "expected a size such as 900KiB, 64MiB or 1GiB"),
            ({"max_record": True}, "max_record", "expected a size such as 900KiB, 64MiB or 1GiB"),
            ({"max_record": "9" * 5000 + "KiB"}, "max_record", "expected a size"),
            ({"on_expired": "ignore"}, "on_expired", "fail"),
            ({"tabels": {}}, "tabels", "Extra inputs are not permitted"),
            ({"name": "my pipeline"}, "name", "letters, digits"),
        ],
    )
    def test_are_named(self, changes: Mapping[str, Any], place: str, text: str) -> None:
        where, message = refused(**changes)
        assert where == place
        assert text in message

    @pytest.mark.parametrize("missing", ["kafka", "event", "lake"])
    def test_what_is_missing(self, missing: str) -> None:
        with pytest.raises(ValidationError, match="Field required") as raised:
            Pipeline.model_validate({k: v for k, v in content().items() if k != missing})
        assert raised.value.errors()[0]["loc"] == (missing,)


class TestValues:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("file:///data/lake/", "file:///data/lake"),
            ("file://lake", "file://lake"),
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://bucket/a/b//", "s3://bucket/a/b"),
        ],
    )
    def test_lakes(self, text: str, expected: str) -> None:
        assert pipeline(lake=text).lake == expected

    @pytest.mark.parametrize(
        "start", ["2026-01-01T02:00+02:00", "2026-01-01T00:00Z", "2026-01-01T00:00", "2026-01-01"]
    )
    def test_start_is_utc(self, start: str) -> None:
        assert pipeline(start=start).start == datetime(2026, 1, 1, tzinfo=UTC)

    @pytest.mark.parametrize("minutes", [15, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440])
    def test_slice_lengths(self, minutes: int) -> None:
        assert pipeline(slice=f"{minutes}m").slice == timedelta(minutes=minutes)

    def test_clusters(self) -> None:
        one = pipeline(kafka=[cluster(), cluster(cluster="dc2", topics=["a", "b"])])
        assert one.clusters == ("dc1", "dc2")
        assert one.cluster("dc2").topics == ["a", "b"]


class TestRouting:
    def test_targets(self) -> None:
        found = {t.table: (t.types, t.catch_all, dict(t.columns)) for t in pipeline().targets}
        assert found == {
            "events.clicks": (("click", "tap"), False, {}),
            "events.views": (("view",), False, {"country": "geo.country"}),
            "events.other": ((), True, {}),
        }
        assert (pipeline().targets[0].database, pipeline().targets[0].name) == ("events", "clicks")

    def test_types_with_a_table(self) -> None:
        assert pipeline().types == ("click", "tap", "view")

    def test_a_table_that_is_also_the_catch_all(self) -> None:
        one = pipeline(tables={"*": "events.all", "click": "events.all", "view": "events.views"})
        everything = next(t for t in one.targets if t.table == "events.all")
        assert (everything.types, everything.catch_all) == (("click",), True)
        assert one.routed(everything, ["view", "click", "new"]) == ("click", "new")

    @pytest.mark.parametrize(
        ("table", "expected"),
        [
            ("events.clicks", ("click", "tap")),
            ("events.views", ("view",)),
            ("events.other", ("*", "install", "Click")),
        ],
    )
    def test_routed(self, table: str, expected: tuple[str, ...]) -> None:
        one = pipeline()
        target = next(t for t in one.targets if t.table == table)
        assert one.routed(target, {"click", "tap", "view", "install", "Click", "*"}) == tuple(
            sorted(expected)
        )

    def test_without_a_catch_all_others_stay_in_the_lake(self) -> None:
        one = pipeline(tables={"click": "events.clicks"})
        [target] = one.targets
        assert one.routed(target, ["install"]) == ()
        assert pipeline(tables={}).targets == ()

    @given(
        st.dictionaries(st.sampled_from("abcdef*"), st.sampled_from(["d.x", "d.y", "d.z"])),
        st.sets(st.sampled_from("abcdefgh")),
    )
    def test_a_type_goes_to_one_table(self, tables: dict[str, str], types: set[str]) -> None:
        one = pipeline(tables=tables)
        routed = [(t, target.table) for target in one.targets for t in one.routed(target, types)]
        fallback = {"*": tables["*"]} if "*" in tables else {}
        expected = {t: tables.get(t, fallback.get("*")) for t in types if t in tables or fallback}
        assert sorted(routed) == sorted(expected.items())


class TestEvolve:
    def test_it_is_off_unless_asked_for(self) -> None:
        one = pipeline()
        assert not any(target.evolves for target in one.targets) and one.evolving_types == frozenset()
        tables = {"click": {"table": "e.c", "evolve": False}, "view": {"table": "e.v", "evolve": "add"}}
        found = pipeline(tables=tables)
        assert [(t.table, t.evolve, t.evolve_rows) for t in found.targets] == [
            ("e.c", "off", 10),
            ("e.v", "add", 10),
        ]
        assert found.evolving_types == {"view"}

    def test_a_table_has_one_answer(self) -> None:
        tables = {"click": {"table": "e.c", "evolve": "add"}, "tap": "e.c"}
        assert "e.c has two different `evolve`" in refused(tables=tables)[1]
        tables = {kind: {"table": "e.c", "evolve": "add", "evolve_rows": n} for n, kind in enumerate("ab", 1)}
        assert "e.c has two different `evolve_rows`" in refused(tables=tables)[1]

    def test_the_catch_all_may_evolve(self) -> None:
        tables = {"a": "e.a", "*": {"table": "e.other", "evolve": "add"}}
        assert pipeline(tables=tables).evolving_types == {"*"}

    def test_other_words_and_counts_are_refused(self) -> None:
        assert "evolve" in refused(tables={"a": {"table": "e.x", "evolve": "widen"}})[0]
        assert "evolve_rows" in refused(tables={"a": {"table": "e.x", "evolve_rows": 0}})[0]
