"""A change of a row becomes an event: with messages of Debezium 3.6, and from end to end."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice.config.event import ChangeForm
from sluice.errors import CannotRemake, MessagesGone
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.flow.land.amend.retry_unit import UnitRetry
from sluice.flow.land.task.change_events import MOST_SCHEMAS, ChangeEvents
from sluice.flow.land.task.records import REASON
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.erased import ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import START, World, hours, kafka_batch, pipeline, record_table
from tests.unit.flow.land.test_landing_erased import whole

DATE = {"type": "int32", "optional": False, "name": "io.debezium.time.Date", "version": 1}
PRICE = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
}
FIELDS = [{"type": "int32", "field": "a"}, {**DATE, "field": "d"}, {**PRICE, "field": "amount"}]
ROW = {"type": "struct", "fields": FIELDS, "optional": True, "name": "pg.shop.full.Value"}
SCHEMA = {
    "type": "struct",
    "fields": [{**ROW, "field": "before"}, {**ROW, "field": "after"}, {"type": "string", "field": "op"}],
    "name": "pg.shop.full.Envelope",
}
SOURCE = {"table": "full", "lsn": 22267032, "snapshot": "false"}
OLD, NEW = {"a": 1, "d": 20777, "amount": "AOE="}, {"a": 1, "d": 20778, "amount": "AJY="}
KEY = {
    "schema": {"type": "struct", "fields": [FIELDS[0], FIELDS[1]], "name": "pg.shop.full.Key"},
    "payload": {"a": 1, "d": 20777},
}


def change(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 5, **more}


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def with_schema(payload: Any, schema: Any = SCHEMA) -> bytes:
    return compact({"schema": schema, "payload": payload})


META = {"__ts_ms": 5, "__source": SOURCE}
CREATED = {"__op": "c", "__deleted": False, **META}
DELETED = {"__op": "d", "__deleted": True, **META}
SHOWN_OLD = {"a": 1, "d": "2026-11-20", "amount": "2.25"}
SHOWN_NEW = {"a": 1, "d": "2026-11-21", "amount": "1.50"}

EVENTS = [
    (with_schema(change("c", None, NEW)), {**SHOWN_NEW, **CREATED}),
    (with_schema(change("r", None, NEW)), {**SHOWN_NEW, **CREATED, "__op": "r"}),
    (with_schema(change("u", OLD, NEW)), {**SHOWN_NEW, **CREATED, "__op": "u"}),
    (with_schema(change("d", OLD)), {**SHOWN_OLD, **DELETED}),
    # No schema: nothing says what a number is.
    (compact(change("d", OLD)), {**OLD, **DELETED}),
    (compact({"payload": change("c", None, NEW)}), {**NEW, **CREATED}),
    (compact({"schema": None, "payload": change("c", None, NEW)}), {**NEW, **CREATED}),
    # Written otherwise, and with what other transformations add.
    (json.dumps(change("c", None, NEW, more=[1]), indent=1).encode(), {**NEW, **CREATED}),
    (compact(change("c", None, {**NEW, "é": 1})), {**NEW, "é": 1, **CREATED}),
    (
        compact(change("c", None, NEW, transaction={"id": "7"})),
        {**NEW, **CREATED, "__transaction": {"id": "7"}},
    ),
    # Columns that are named like what is added.
    (compact(change("c", None, {"__op": "x", "op": 1, "payload": 2})), {**CREATED, "op": 1, "payload": 2}),
    # MongoDB's rows are JSON in a text.
    (compact(change("c", None, '{"_id": {"$oid": "5"}}')), {"_id": {"$oid": "5"}, **CREATED}),
    # A delete of which the key alone is known.
    (with_schema(change("d")), {"a": 1, "d": "2026-11-20", **DELETED}),
    (compact({"op": "d", "ts_ms": 5, "source": SOURCE}), {"a": 1, "d": "2026-11-20", **DELETED}),
]

REJECTED = [
    (with_schema(change("t")), "truncate of a whole table"),
    (compact({"op": "m", "message": {"prefix": "p", "content": "aGVsbG8="}}), "not a change of a row"),
    (with_schema({"ts_ms": 1795836099934}), "not a change of a row"),  # a heartbeat
    (compact({"status": "BEGIN", "id": "739:22266424", "event_count": None}), "not a change of a row"),
    (compact({"source": SOURCE, "ddl": "ALTER TABLE t", "tableChanges": []}), "not a change of a row"),
    (compact({"a": 1}), "not a change of a row"),
    (compact({"schema": None, "payload": None}), "not a change of a row"),
    (compact(change("x", OLD, NEW)), "not a change of a row"),
    (compact(change("c", OLD, None)), "change without its row"),
    (compact(change("c", None, [1])), "change without its row"),
    (compact(change("c", None, "no object")), "change without its row"),
    (b'{"op":"c","after":{"a":1},"after":{"a":2}}', "a field is there twice"),
    (b'{"op":"c","after":{"a":1, "a":2}}', "a field is there twice"),
    (b'{"op":"c","after":{"\\u0061":1,"a":2}}', "a field is there twice"),
]
# The parser says what is wrong with them.
UNCHANGED: list[bytes | None] = [
    None,
    b"no json",
    b"[]",
    b'"{}"',
    b'{"op":"c"',
    b"[" * 5_000,
    b'{"a":' * 5_000,
]


def made(text: bytes | None, key: Any = KEY, form: Any = "debezium") -> Any:
    """The event; the reason of a message that changes no row."""
    raw = key if key is None or isinstance(key, bytes) else compact(key)
    batch = kafka_batch(0, [(0, text, 0, None, raw)])
    records = record_table([text]).set_column(6, "_key", batch["key"])
    assert records.column_names[6] == "_key"
    kept, rejected = ChangeEvents(ChangeForm.model_validate(form)).split(records)
    [payload] = kept["_payload"].to_pylist() or rejected[REASON].to_pylist()
    return payload


@pytest.mark.parametrize(("message", "event"), EVENTS)
def test_a_change_is_an_event(message, event):
    assert json.loads(made(message)) == event


@pytest.mark.parametrize(("message", "reason"), REJECTED)
def test_what_changes_no_row_is_rejected(message, reason):
    assert made(message) == reason


@pytest.mark.parametrize("message", UNCHANGED)
def test_what_is_no_object_goes_on(message):
    assert made(message) == message


def test_what_is_not_utf8_is_left_to_the_parser():
    assert made(b'{"op": "c", "after": {"n": "\xff"}}').startswith(b'{"n":"\xff","__op"')


def test_numbers_keep_all_digits():
    message = b'{"op":"c","after":{"n":12345678901234567890123,"f":1.50,"e":1E5}}'
    assert made(message).startswith(b'{"n":12345678901234567890123,"f":1.50,"e":1E5,"__op"')


@pytest.mark.parametrize("key", [None, b"", b"7", b"\xff", b"[1]", b"\0\0\0\0\7\2"])
def test_a_delete_of_nothing_known_is_rejected(key):
    assert made(compact(change("d")), key) == "delete without a key that names its row"


COMPACTED = [
    (b'{"name":"x"}', b'{"id":1}', {"id": 1, "name": "x", "__deleted": False}),
    (b'{"id":2,"name":"x"}', b'{"id":1}', {"id": 2, "name": "x", "__deleted": False}),
    (None, b'{"id":1,"day":"2026-11-20"}', {"id": 1, "day": "2026-11-20", "__deleted": True}),
    (None, compact(KEY), {"a": 1, "d": "2026-11-20", "__deleted": True}),
    (with_schema(NEW, ROW), None, {**SHOWN_NEW, "__deleted": False}),
    (b'{"name":"x"}', None, {"name": "x", "__deleted": False}),
    (None, b"u-1", "delete without a key that names its row"),
    (None, None, None),
    (b"no json", b'{"id":1}', b"no json"),
]
BY_TEXT = [
    (b'{"name":"x"}', b"u-1", {"user": "u-1", "name": "x", "__deleted": False}),
    (None, b"u-1", {"user": "u-1", "__deleted": True}),
    (None, b'"u-1"', {"user": "u-1", "__deleted": True}),
    (None, b"007", {"user": "007", "__deleted": True}),
    (None, b'{"user":5}', {"user": 5, "__deleted": True}),
    (None, b'{"schema":{"type":"string"},"payload":"u-1"}', {"user": "u-1", "__deleted": True}),
    (None, compact({"schema": DATE, "payload": 20777}), {"user": "2026-11-20", "__deleted": True}),
    (None, b"\xff", "delete without a key that names its row"),
]


@pytest.mark.parametrize(
    ("message", "key", "event", "form"),
    [*((*case, "compacted") for case in COMPACTED), *((*case, {"compacted": "user"}) for case in BY_TEXT)],
)
def test_null_deletes_what_the_key_names(message, key, event, form):
    found = made(message, key, form)
    assert (json.loads(found) if isinstance(event, dict) else found) == event


def test_schemas_are_read_once_each_and_some_are_kept():
    events = ChangeEvents(ChangeForm.model_validate("debezium"))
    schemas = [{**SCHEMA, "version": number} for number in range(2 * MOST_SCHEMAS)]
    messages = [with_schema(change("c", None, NEW), schema) for schema in schemas for _ in range(2)]
    kept, rejected = events.split(record_table(messages))
    assert rejected is None
    assert {json.loads(payload)["d"] for payload in kept["_payload"].to_pylist()} == {"2026-11-21"}
    assert len(events._schemas._rules) == MOST_SCHEMAS


# From end to end.
AT = int(START.timestamp() * 1000) + 60_000
BY_SOURCE = {"type": {"field": "__source.table"}, "time": {"field": "__source.at", "format": "epoch_ms"}}
BY_RECORD = {"type": {"topic": True}, "time": {"record": True}}
UNWRAPPED = {**BY_SOURCE, "change": "debezium"}


def message(number: int, op: str = "c", **more: Any) -> bytes:
    row = {"a": number, "email": f"{number}@example.com", **more}
    sides = {"before": row} if op == "d" else {"after": row}
    return compact(change(op, **sides) | {"source": {"table": "full", "at": AT + number}})


def log() -> list[tuple]:
    late = compact(change("c", None, {"a": 5}) | {"source": {"table": "full"}})
    values = [
        message(0),
        message(1, "d"),
        None,
        compact({"ts_ms": 1, "row": {"email": "3@example.com"}}),
        late,
    ]
    return [(value, AT) for value in values]


def landed(spec: Any) -> tuple[World, MemoryLake]:
    world, lake = World({("dc1", "bids"): [log()]}), MemoryLake()
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    return world, lake


def unit_of(spec: Any) -> Unit:
    [unit] = [Unit(piece, "dc1") for piece in hours(1)]
    return unit


def manifest_of(lake: MemoryLake, spec: Any) -> Manifest:
    return read_manifests(lake, [unit_of(spec)])[unit_of(spec)]


def files(lake: MemoryLake, some: Any) -> list[dict]:
    found: list[dict] = []
    for file in some:
        with lake.local(file.key) as path:
            found += pq.read_table(path).to_pylist()
    return sorted(found, key=lambda row: row["_offset"])


def test_a_change_lands_as_its_event():
    spec = pipeline(event=UNWRAPPED)
    _, lake = landed(spec)
    manifest = manifest_of(lake, spec)
    rows = files(lake, manifest.files)
    assert [(r["_offset"], r["_type"], r["_change"], json.loads(r["_payload"])["a"]) for r in rows] == [
        (0, "full", "debezium", 0),
        (1, "full", "debezium", 1),
    ]
    rejected = [(r["_offset"], r["_reason"], r["_change"]) for r in files(lake, manifest.rejected)]
    assert rejected == [(2, "no value", None), (3, "not a change of a row", None), (4, "no time", "debezium")]


@pytest.mark.parametrize("before", [BY_RECORD, BY_SOURCE, UNWRAPPED])
def test_a_unit_is_remade_as_it_lands(before):
    """Also where the messages themselves had landed, or were rejected because they are no events."""
    spec = pipeline(event=before)
    world, lake = landed(spec)
    after = pipeline(event=UNWRAPPED)
    _, expected = landed(after)
    world.kafka.silent = frozenset({"dc1"})
    world.land(after, lake, hours(1), "remake", "again")
    assert contents(lake, [unit_of(after)]) == contents(expected, [unit_of(after)])


def test_messages_that_became_events_do_not_come_back():
    spec = pipeline(event=UNWRAPPED)
    world, lake = landed(spec)
    before = manifest_of(lake, spec)
    with pytest.raises(MessagesGone, match="another `event.change`"):
        world.land(pipeline(event=BY_SOURCE), lake, hours(1), "remake", "again")
    lake.delete([key for key in lake.objects if key.startswith("_rules/")])  # then the rows say it
    with pytest.raises(CannotRemake, match=re.escape("landed by `change: debezium`, and its message is not")):
        world.land(pipeline(event=BY_SOURCE), lake, hours(1), "remake", "again")
    assert manifest_of(lake, spec) == before


def test_rejected_changes_come_in():
    spec = pipeline(event=UNWRAPPED)
    _, lake = landed(spec)
    now = pipeline(event={**UNWRAPPED, "time": {"record": True}})
    UnitRetry(now, lake).retry(unit_of(spec), manifest_of(lake, spec), START)
    rows = files(lake, manifest_of(lake, spec).files)
    assert [(r["_offset"], json.loads(r["_payload"])["a"]) for r in rows] == [(0, 0), (1, 1), (4, 5)]


def test_a_mask_sees_the_event_and_hides_what_is_none():
    spec = pipeline(event=UNWRAPPED, mask={"email": {"hash": "the first key of 2026"}})
    world, lake = landed(spec)
    for mode in ("", "remake"):
        if mode:
            world.land(spec, lake, hours(1), mode, "again")
        manifest = manifest_of(lake, spec)
        rows = files(lake, manifest.files)
        assert all(json.loads(r["_payload"])["email"].startswith("hmac256:") for r in rows)
        assert b"example.com" not in b"".join(
            lake.objects[f.key][0] for f in (*manifest.files, *manifest.rejected)
        )
        rejected = [(r["_offset"], r["_reason"]) for r in files(lake, manifest.rejected)]
        assert rejected == [(2, "no value"), (3, "not a change of a row"), (4, "no time")]


PERSON, OTHER = entry("email=1@example.com"), entry("email=3@example.com")


@pytest.mark.parametrize("how", ["fill", "remake", "erase"])
def test_an_erased_value_is_looked_for_in_the_event_and_anywhere_in_what_is_none(how):
    spec = pipeline(event=UNWRAPPED)
    if how == "remake":
        world, lake = landed(spec)
        ask(lake, PERSON, OTHER)
        world.land(spec, lake, hours(1), "remake", "again")
    elif how == "erase":
        _, lake = landed(spec)
        ask(lake, PERSON, OTHER)
        erase_owed(lake, [unit_of(spec)])
    else:
        world, lake = World({("dc1", "bids"): [log()]}), MemoryLake()
        world.resolve(spec, lake, hours(1))
        ask(lake, PERSON, OTHER)
        world.land(spec, lake, hours(1))
    manifest = manifest_of(lake, spec)
    assert [row["_offset"] for row in files(lake, manifest.files)] == [0]
    assert [row["_offset"] for row in files(lake, manifest.rejected)] == [2, 4]
    assert manifest.erased == 2
    assert b"1@example.com" not in whole(lake)
    assert b"3@example.com" not in whole(lake)
