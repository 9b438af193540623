"""From a file of events to both texts, as a person would have written them; without a server."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pendulum
import pytest
import yaml

from sluice.clients.kafka.topics import SampledRecord
from sluice.config.event import Event
from sluice.config.files import read
from sluice.doctor.events import EventSample, parse
from sluice.doctor.proposed_tables import columns_of
from sluice.errors import ClickHouseUnavailable, WrongPipeline, WrongUse
from sluice.infer.types import Rules
from sluice.init import init as room
from sluice.init.init import Made, Report, commands, init, span, statements_in, waiting_line
from sluice.init.propose import MOST_TABLES, named_tables, paths_into, plan_tables
from sluice.init.questions import LAKE, SCHEMA, InitRequest, MessageForm, guess
from sluice.init.sample import Sample, chosen_lines, expected_messages
from sluice.ship.lines import Chunk
from tests.support.hostile_texts import TEXTS

NOW = pendulum.datetime(2026, 11, 20, 12, 30)
ORDER = {"type": "order", "at": "2026-11-20T10:15:00Z", "id": 1, "total": 1.5, "_type": "x"}
VIEW = {"type": "Page View", "at": "2026-11-20T09:59:59Z", "path": "/"}
RARE = {"type": "rare", "at": "2026-11-20T10:00:00Z"}
EVENT = {"type": {"field": "type"}, "time": {"field": "at", "format": "iso8601"}}
EVENTS = [*[ORDER] * 150, *[VIEW] * 150, RARE]


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    for name in ("clickhouse_default", "ch1"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", "http://127.0.0.1:1")


def written(folder: Path, events: list, name: str = "shop.ndjson") -> str:
    path = folder / name
    path.write_text("".join((e if isinstance(e, str) else json.dumps(e)) + "\n" for e in events))
    return str(path)


def request(folder: Path, **given) -> InitRequest:
    first = {"name": None, "topic": None, "file": None, "bootstrap": None, "connection": "kafka_default"}
    return InitRequest(**{**first, "clickhouse": "clickhouse_default", "folder": folder / "p", **given})


def made(folder: Path, events: list, answers: dict | None = None, **given) -> Report:
    asked = request(folder, file=written(folder, events), **given)
    return init(asked, lambda one: (answers or {}).get(one.key, ""), NOW)


@pytest.mark.parametrize(
    ("editor_schema", "first"), [("", "# Made by"), ("s.json", "# yaml-language-server: $schema=s.json\n")]
)
def test_an_editor_finds_the_schema_that_is_there(tmp_path: Path, editor_schema: str, first: str):
    made(tmp_path, EVENTS, editor_schema=editor_schema)
    assert (tmp_path / "p" / "shop.yaml").read_text().startswith(first)


def test_both_files(tmp_path: Path):
    report = made(tmp_path, EVENTS)
    pipeline, statements = (tmp_path / "p" / f"shop.{ending}" for ending in ("yaml", "sql"))
    assert report.files == (pipeline, statements)
    assert yaml.safe_load(pipeline.read_text()) == {
        "kafka": [{"cluster": "local", "connection": "kafka_default", "topics": ["shop"]}],
        "event": EVENT,
        "lake": LAKE,
        "tables": {
            "Page View": "shop.page_view",
            "order": {"table": "shop.order", "columns": {"_type_2": "_type"}},
            "*": "shop.other",
        },
    }
    database, views, orders, others = statements_in(statements.read_text())
    assert database == "CREATE DATABASE IF NOT EXISTS `shop`"
    assert views.startswith(
        "CREATE TABLE IF NOT EXISTS `shop`.`page_view`\n(\n    `type` LowCardinality(String) COMMENT "
    )
    assert "`at` DateTime64(3, 'UTC') COMMENT" in orders
    assert (
        "`total` Nullable(Decimal(18, 2)) COMMENT 'in all 150 events; numbers with at most 2 digits" in orders
    )
    assert others.startswith(
        "CREATE TABLE IF NOT EXISTS `shop`.`other`\n(\n    `_payload` String,\n    `_slice`"
    )
    told = statements.read_text()
    assert "-- shop.other: 1 events of the sample, every other type" in told
    assert "Page View -> shop.page_view: 150 events; 3 columns" in report.lines
    assert any(line.startswith("ClickHouse was not asked") for line in report.lines)


@pytest.mark.parametrize(
    ("not_null", "total", "note"),
    [
        ("-", "Nullable(Decimal(18, 2))", "LowCardinality(Nullable(String))"),
        ("total", "Decimal(18, 2)", "LowCardinality(Nullable(String))"),
        ("total,note", "Decimal(18, 2)", "LowCardinality(Nullable(String))"),
        ("*", "Decimal(18, 2)", "LowCardinality(Nullable(String))"),
    ],
)
def test_what_no_event_lacks_is_asked(tmp_path: Path, not_null: str, total: str, note: str):
    """A field that a sampled event lacks stays Nullable, whatever is said."""
    events = [*[{**ORDER, "note": "a"}] * 150, ORDER]
    made(tmp_path, events, {"not_null": not_null})
    statements = (tmp_path / "p" / "shop.sql").read_text()
    assert f"`total` {total} COMMENT" in statements and f"`note` {note} COMMENT" in statements


def test_the_next_three_commands(tmp_path: Path):
    report = made(tmp_path, EVENTS)
    folder, file = tmp_path / "p", tmp_path / "shop.ndjson"
    assert report.commands == (
        f"sluice init shop --into {folder} --apply",
        f"sluice publish shop {file} --config {folder}/shop.yaml",
        f"sluice run shop --config {folder}/shop.yaml --from 2026-11-20T09:00Z --to 2026-11-20T11:00Z",
    )


def milliseconds(texts: list[str]) -> list[int]:
    return [int(pendulum.parse(text).timestamp() * 1000) for text in texts]


@pytest.mark.parametrize(
    ("given", "stamps", "expected"),
    [
        (Made("a", None, None, None, True), ["2026-11-20T10:00Z", "2026-11-20T10:59:59Z"],
         ["plan a --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z",
          "run a --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z", "verify a --contents"]),
        (Made("a", None, None, None, True), ["2026-11-20T10:00Z", "2026-11-20T12:10Z"],
         ["plan a --from 2026-11-20T10:00Z --to now", "run a --from 2026-11-20T10:00Z --to now",
          "verify a --contents"]),
        (Made("a", None, None, None, False), ["2026-11-20T03:00Z", "2026-11-20T03:59:59.999Z"],
         ["init a --apply", "run a --from 2026-11-20T03:00Z --to 2026-11-20T04:00Z", "verify a --contents"]),
        (Made("a", None, None, "x y.ndjson", True), [],
         ["publish a 'x y.ndjson'", "run a --from 2026-11-20T12:00Z --to now", "verify a --contents"]),
        (Made("a", None, None, "-", False), ["2026-11-20T12:00Z"],
         ["init a --apply", "publish a -", "run a --from 2026-11-20T12:00Z --to now"]),
    ],
)  # fmt: skip
def test_commands_for_every_case(given: Made, stamps: list[str], expected: list[str]):
    assert commands(given, milliseconds(stamps), NOW) == [f"sluice {one}" for one in expected]


def test_the_range_has_room_only_behind_a_file_that_was_not_read_to_its_end():
    stamps = milliseconds(["2026-11-18T00:00Z", "2026-11-18T23:59:59.999Z"])
    assert span(stamps, NOW) == ("2026-11-18T00:00Z", "2026-11-19T00:00Z")
    assert span(stamps, NOW, cut=True) == ("2026-11-18T00:00Z", "2026-11-19T03:00Z")


HOUR_OPEN = "the hour of these events is not over"
STAMPED_LATER = "each record gets the time at which it is published, and an hour is landed when it is over"


@pytest.mark.parametrize(
    ("now", "stamps", "why", "end", "left"),
    [
        ("12:30", ["2026-11-20T12:00Z", "2026-11-20T12:20Z"], HOUR_OPEN, "13:00Z", "30 min 0 s"),
        ("12:30", ["2026-11-20T14:10Z"], HOUR_OPEN, "15:00Z", "2 h 30 min"),
        ("12:59:30", [], STAMPED_LATER, "13:00Z", "30 s"),
        ("12:00", [], STAMPED_LATER, "13:00Z", "1 h 0 min"),
    ],
)
def test_it_says_when_the_printed_run_has_something_to_do(
    now: str, stamps: list[str], why: str, end: str, left: str
):
    line = waiting_line(milliseconds(stamps), pendulum.parse(f"2026-11-20T{now}Z"))
    assert line == f"{why}: a run has nothing to do before 2026-11-20T{end}, in {left}"


def test_of_an_hour_that_is_over_it_says_nothing():
    assert waiting_line(milliseconds(["2026-11-20T11:59:59.999Z", "2026-11-20T12:20Z"]), NOW) == ""


def test_a_sample_without_a_time_says_when_its_run_has_something_to_do(tmp_path: Path):
    report = made(tmp_path, ['{"type": "order", "id": 1}'] * 9)
    assert report.commands[-1].endswith("--from 2026-11-20T12:00Z --to now")
    assert "nothing to do before 2026-11-20T13:00Z" in report.wait
    (past := tmp_path / "past").mkdir()
    assert made(past, EVENTS).wait == ""


def test_answers_and_options_are_in_the_file(tmp_path: Path):
    event = {"kind": "a", "ts": 1_763_632_800_123, "v": 1}
    answers = {"name": "web", "database": "db", "lake": "s3://b/p", "time": "ts"}
    made(
        tmp_path,
        [json.dumps([event, event])] * 9,
        answers,
        bootstrap="k.x:9092",
        clickhouse="ch1",
        topic="t-1",
    )
    pipeline = read(tmp_path / "p" / "web.yaml")
    assert (pipeline.kafka[0].cluster, pipeline.kafka[0].bootstrap) == ("kafka", "k.x:9092")
    assert pipeline.kafka[0].topics == ["t-1"] and pipeline.clickhouse.connection == "ch1"
    assert (pipeline.event.time.field, pipeline.event.time.format) == ("ts", "epoch_ms")
    assert pipeline.event.rows == "array" and pipeline.lake == "s3://b/p"
    assert {kind: target.table for kind, target in pipeline.tables.items()} == {"a": "db.a", "*": "db.other"}


def test_no_fields_of_type_and_time(tmp_path: Path):
    made(tmp_path, [{"v": n} for n in range(9)])
    pipeline = read(tmp_path / "p" / "shop.yaml")
    assert pipeline.event.type.topic and pipeline.event.time.record
    assert list(pipeline.tables) == ["shop", "*"]


@pytest.mark.parametrize(
    ("events", "given", "error", "why"),
    [
        ([], {}, WrongUse, "has no lines"),
        (["x", "3"], {}, WrongUse, "expected events in JSON"),
        ([{"type": "a", "at": 3}], {"type": "no.such"}, WrongUse, r"no type \(1\): name `--type`"),
        ([ORDER], {"time": "id"}, WrongUse, "'id' does not hold a time"),
        ([ORDER], {"lake": "/data"}, WrongPipeline, r"shop.yaml:\d+:1: lake: expected file://"),
        (
            [ORDER],
            {"lake": "${SLUICE_VAR_NO_SUCH}"},
            WrongPipeline,
            "the environment has no SLUICE_VAR_NO_SUCH",
        ),
        ([ORDER], {"database": "a.b"}, WrongUse, "database 'a.b': expected a name without a dot"),
        ([ORDER], {"database": "sluice"}, WrongPipeline, "no table can be in the database sluice"),
        ([ORDER], {"name": "a/b"}, WrongUse, "name 'a/b': expected letters"),
        ([ORDER], {"topic": "a b"}, WrongPipeline, "Kafka has no topic"),
        ([ORDER], {"not_null": "id,idd"}, WrongUse, "`--not-null idd`: no sampled event has such a field"),
        ([ORDER], {"bootstrap": 'x"\n}'}, None, ""),
        ([ORDER], {"apply": True}, ClickHouseUnavailable, "127.0.0.1:1"),
    ],
)
def test_what_refuses_leaves_nothing(tmp_path: Path, events, given, error, why):
    if error is None:
        made(tmp_path, events, **given)
        assert read(tmp_path / "p" / "shop.yaml").kafka[0].bootstrap == given["bootstrap"]
        return
    with pytest.raises(error, match=why):
        made(tmp_path, events, **given)
    assert not list(tmp_path.glob("p/*")) and not list(tmp_path.glob("p/.*"))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_python_alone_takes_are_no_json_as_in_a_landing(tmp_path: Path, constant: str):
    line = json.dumps({**ORDER, "load": 0}).replace('"load": 0', f'"load": {constant}')
    report = made(tmp_path, [*EVENTS, line])
    landed = parse(Event.model_validate(EVENT), [SampledRecord("", 0, 0, 0, line.encode(), ())])
    assert landed == EventSample((), {"not JSON": 1})
    assert "order -> shop.order: 150 events; 5 columns" in report.lines
    assert "`load`" not in (tmp_path / "p" / "shop.sql").read_text()


def test_a_file_that_is_there_is_refused_before_anything_is_read(tmp_path: Path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "shop.yaml").write_text("mine")
    with pytest.raises(WrongUse, match="there already"):
        init(request(tmp_path, name="shop", file="no-such-file"), lambda _: "", NOW)
    with pytest.raises(WrongUse, match="there already"):
        made(tmp_path, EVENTS)
    made(tmp_path, EVENTS, force=True)
    assert read(tmp_path / "p" / "shop.yaml").tables["order"].table == "shop.order"


def test_compressed_files(tmp_path: Path):
    path = tmp_path / "shop.ndjson.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(ORDER).encode() + b"\n\n"))
    report = init(request(tmp_path, file=str(path)), lambda _: "", NOW)
    assert report.lines[0] == f"sampled 1 lines of {path}: 1 events of 1 types"


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ({}, {"*": "d.other"}),
        ({"a": 99, "b": 1}, {"a": "d.a", "b": "d.b", "*": "d.other"}),
        ({"a": 100, "b": 1}, {"a": "d.a", "*": "d.other"}),
        (
            {"A B": 2, "a-b": 1, "other": 1},
            {"A B": "d.a_b", "a-b": "d.a_b_2", "other": "d.other", "*": "d.other_2"},
        ),
        ({"日本": 1, "!": 1}, {"!": "d.events", "日本": "d.日本", "*": "d.other"}),
        ({"*": 1, "a": 1}, {"a": "d.a", "*": "d.other"}),
        (
            {"PushEvent": 2, "HTTPCall": 1},
            {"PushEvent": "d.push_event", "HTTPCall": "d.httpcall", "*": "d.other"},
        ),
    ],
)
def test_a_table_for_each_frequent_type(types: dict, expected: dict):
    assert named_tables(types, "d") == expected


def test_tables_have_a_bound():
    found = named_tables({f"t{n:03}": 10 for n in range(60)}, "d")
    assert len(found) == MOST_TABLES + 1 and list(found)[:2] == ["t000", "t001"] and "*" in found


def test_tables_that_are_there_stay_as_they_are():
    events = [{"user": {"name": "a", "id": 1}, "user_id": 2, "a.b": {"c": 1}}]
    assert paths_into(["user_name", "user_id", "a.b_c", "_slice"], events) == {"user_name": "user.name"}
    found = list(plan_tables({"u": events}, {"u": "d.u", "*": "d.other"}, {"d.u": ["user_name"]}, Rules()))
    assert [(one.table, one.existing, one.entry) for one in found] == [
        ("d.u", True, "  u: {table: d.u, columns: {user_name: user.name}}"),
        ("d.other", False, "  '*': d.other"),
    ]


def test_tables_that_are_there_are_not_made(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(room, "_connect", lambda request, stack: (object(), ""))
    monkeypatch.setattr(room, "existing_columns", lambda client, tables: {"shop.order": ("id",)})
    report = made(tmp_path, EVENTS)
    text = (tmp_path / "p" / "shop.sql").read_text()
    assert len(statements_in(text)) == 3 and "`shop`.`order`" not in text
    assert "order -> shop.order: 150 events; there already" in report.lines
    added = "ADD COLUMN `_slice` DateTime('UTC'), ADD COLUMN `_cluster` LowCardinality(String)"
    lacks = f"it has no column _slice and _cluster; ALTER TABLE `shop`.`order` {added}"
    assert f"shop.order: {lacks}" in report.lines
    whole = {"shop.order": ("id", "_slice", "_cluster"), "shop.other": ("_cluster",)}
    monkeypatch.setattr(room, "existing_columns", lambda client, tables: whole)
    (again,) = [line for line in made(tmp_path, EVENTS, force=True).lines if "ALTER TABLE" in line]
    assert again == (
        "shop.other: it has no column _slice; ALTER TABLE `shop`.`other` ADD COLUMN `_slice` DateTime('UTC')"
    )


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_types_and_fields(text: str, tmp_path: Path):
    """The file says the type as it is; each statement is one."""
    kind = text[:60] or "x"
    events = [{"type": kind, text: text, "in": {text: 1}, "at": "2026-11-20T10:00:00Z"}] * 20
    made(tmp_path, events)
    pipeline = read(tmp_path / "p" / "shop.yaml")
    tables = list(pipeline.tables)
    assert tables == (["*"] if kind == "*" else [kind, "*"])
    found = statements_in((tmp_path / "p" / "shop.sql").read_text())
    assert [statement.split("`")[0] for statement in found[:1]] == ["CREATE DATABASE IF NOT EXISTS "]
    assert all(statement.startswith("CREATE TABLE IF NOT EXISTS `shop`.`") for statement in found[1:])
    assert len(found) == len(tables) + 1


def test_a_thousand_fields_and_more(tmp_path: Path):
    columns = columns_of([{f"f{n}": n for n in range(1_500)}], Rules())
    assert len(columns.columns) == 1_000
    assert columns.notes() == ["500 more fields have no column: they stay in the lake"]


def test_a_key_with_a_dot_beside_an_object_has_a_column_of_another_name():
    """`a.b` is an element of the Tuple `a` for ClickHouse; `c.d` is but a name beside the number `c`."""
    event = {"a": {"b": 1}, "a.b": 2, "a_b": 3, "c": 4, "c.d": 5, "x.y.z": 6, "x.y": {"z": 7}}
    found = columns_of([event] * 200, Rules())
    assert list(found.columns) == ["a", "a_b", "c", "c.d", "x.y", "a_b_2", "x_y_z"]
    assert dict(found.paths) == {"a_b_2": "a.b", "x_y_z": "x.y.z"}
    assert found.notes() == [
        "field 'a.b' has the column a_b_2: its own name is that of an element of another column",
        "field 'x.y.z' has the column x_y_z: its own name is that of an element of another column",
    ]


def test_headers_have_columns_but_for_those_of_machinery():
    headers = {"source": "app", "id": "7", "bad": "\ufffd", "traceparent": "00-1", "__TypeId__": "a.B"}
    event = {"id": 1, **{f"header:{name}": value for name, value in headers.items()}}
    found = columns_of([event] * 3, Rules())
    assert dict(found.paths) == {"source": "header:source", "id_2": "header:id"}
    assert found.unusable == ("header:bad",)


@pytest.mark.parametrize(
    ("before", "after", "columns", "paths"),
    [
        ({"customer": 1}, {"rider": 2}, ["rider"], {"rider": ("rider", "customer")}),
        ({"customer": 1}, {"rider": "x"}, ["customer", "rider"], {}),
        ({"a": 1, "b": 2}, {"c": 3, "d": 4}, ["a", "b", "c", "d"], {}),
        ({"a": 1}, {"a": 1, "b": 2}, ["a", "b"], {}),
        ({"a": 1, "b": None}, {"a": None, "b": 2}, ["b"], {"b": ("b", "a")}),
    ],
)
def test_a_field_that_got_another_name_has_one_column(before: dict, after: dict, columns: list, paths: dict):
    found = columns_of([before] * 10 + [after] * 10, Rules())
    assert (sorted(found.columns), dict(found.paths)) == (columns, paths)


def test_fields_of_which_each_event_has_one_are_two_columns_where_they_take_turns():
    assert columns_of([{"a": 1}, {"b": 2}] * 10, Rules()).paths == {}
    assert columns_of([{"a": 1}] * 3 + [{"b": 2}] * 3, Rules()).paths == {}


def test_what_the_file_has_to_say_of_times(tmp_path: Path):
    """A column of times near 1970 has no size that says the unit; one without an offset is UTC, until
    somebody says another zone."""
    order = {"type": "a", "seen": "2026-11-20T10:00:00", "day": "2026-11-20", "sent": 1_795_168_800_000}
    events = [{**order, "created_at": at} for at in (1_795_168_800, 0, -86_400, 1_795_168_801, 1_795_168_802)]
    made(tmp_path, events, time="-", name="shop")
    spec = read(tmp_path / "p" / "shop.yaml")
    assert {name: (one.format, one.zone) for name, one in spec.tables["a"].times.items()} == {
        "seen": (None, "UTC"),
        "created_at": ("epoch_s", None),
    }
    assert "`created_at` Nullable(DateTime64(3, 'UTC'))" in (tmp_path / "p" / "shop.sql").read_text()


@pytest.mark.parametrize(("lines", "count"), [(0, 3), (1, 3), (3, 3), (4, 3), (1_000, 3), (6_000, 5_000)])
def test_any_lines_of_a_file(lines: int, count: int):
    chunk = Chunk.of([b"%d" % number for number in range(1, lines + 1)], 0)
    held, read_lines, cut = chosen_lines([chunk], count, 1 << 20)
    numbers = [number for number, _ in held]
    assert (len(held), read_lines, cut) == (min(lines, count), lines, False)
    assert not lines or {numbers[0], numbers[-1]} == {1, lines}
    assert numbers == sorted(set(numbers)) and set(numbers) <= set(range(1, lines + 1))
    assert [line for _, line in held] == [b"%d" % number for number in numbers]
    assert chosen_lines([chunk], count, 1 << 20)[0] == held


@pytest.mark.parametrize("turns", [2, 3, 4, 5, 7, 8])
def test_producers_that_take_turns_are_all_sampled(turns: int):
    """Of each producer as many as chance gives: five standard deviations of a binomial distribution."""
    chunk = Chunk.of([b"%d" % (number % turns) for number in range(8_000)], 0)
    held, _, _ = chosen_lines([chunk], 2_000, 1 << 20)
    counted = Counter(line for _, line in held)
    share, spread = 2_000 / turns, 5 * (2_000 / turns * (1 - 1 / turns)) ** 0.5
    assert len(counted) == turns and all(abs(n - share) < spread for n in counted.values())


def test_a_long_file_is_read_up_to_a_bound():
    endless = (Chunk.of([b"x" * 100], number) for number in range(1 << 40))
    held, read_lines, cut = chosen_lines(endless, 10, 10_000)
    assert read_lines == 100 and len(held) <= 10 and cut


@pytest.mark.parametrize(
    ("form", "file", "why"),
    [
        (MessageForm(schema=Path("a.avsc")), None, "`--schema` is for messages in Avro or Protobuf"),
        (MessageForm(message="M"), None, "`--message` is for"),
        (MessageForm(registry="r"), "f", "sample messages behind schema ids from `--topic`"),
        (MessageForm("avro"), None, "`--format avro` needs `--schema FILE` or `--registry CONNECTION`"),
        (MessageForm("avro", registry="r"), "f", "a file is read line by line, as JSON"),
        (MessageForm("protobuf", Path("a.proto")), None, "`--message` names the message of a .proto file"),
        (MessageForm("protobuf", message="M", registry="r"), None, "`--message` names the message"),
        (MessageForm("avro", Path("a.avsc"), "M"), None, "`--message` names the message"),
        (MessageForm("avro", Path("none.avsc")), None, "there is no schema file .*none.avsc"),
    ],
)
def test_options_of_formats_that_do_not_go_together(tmp_path: Path, monkeypatch, form, file, why: str):
    monkeypatch.setattr(room, "sample_topic", lambda *_: Sample((), "nothing"))
    with pytest.raises(WrongUse, match=why):
        init(request(tmp_path, topic=None if file else "t", file=file, form=form), lambda _: "", NOW)
    assert not (tmp_path / "p").exists()


def test_types_and_names_with_line_breaks_are_one_line_of_the_file(tmp_path: Path):
    events = [{**ORDER, "type": kind} for kind in ("a", "nor\nmal: x", "\u2028", "\x07") * 30]
    made(tmp_path, events, name="shop")
    spec = read(tmp_path / "p" / "shop.yaml")
    assert set(spec.tables) == {"a", "nor\nmal: x", "\u2028", "\x07", "*"}


@pytest.mark.parametrize(
    "record",
    [
        SampledRecord("t", 0, 0, 0, b"\0\0\0\0\x14\x02", ()),
        SampledRecord("t", 0, 0, 0, b"\x02", (("__value_schema_id", b"\1" + b"g" * 16),)),
    ],
)
def test_messages_that_name_a_schema_and_are_no_json_need_their_registry(record):
    told = expected_messages(Sample((record,), "a record"))
    assert "name `--format avro` or `--format protobuf` and `--registry CONNECTION`" in told


def test_several_schemas_can_be_the_types():
    events = [{"id": 1}, {"why": "bad"}]
    assert guess(events, schemas=2).types == (SCHEMA,)
    assert guess(events, schemas=1).types == ()
    assert guess([{"type": "a"}, {"type": "b"}], schemas=2).types == ("type", SCHEMA)
