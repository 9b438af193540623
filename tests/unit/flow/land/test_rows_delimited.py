"""Several Protobuf messages in one value, each with its length in front. The bytes are encoded here."""

from __future__ import annotations

import gzip
from pathlib import Path

import pendulum
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.config.event import Event
from sluice.config.pipeline import Pipeline
from sluice.errors import MessagesGone
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.flow.land.amend.retry_unit import UnitRetry
from sluice.flow.land.expansion import Size
from sluice.flow.land.formats.decoders import DecodedEvent
from sluice.flow.land.formats.framing import messages_of
from sluice.flow.land.reject_reasons import Rejected
from sluice.flow.land.task import opened as module
from sluice.flow.land.task.opened import delimited
from sluice.flow.land.task.records import CARRIED, REASON
from sluice.flow.rejected.rejections import remedy_of
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.erased import ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline, record_table
from tests.unit.flow.land.test_landing_erased import check

BIDS, STAMP = ("dc1", "bids"), event("click", 1)[1]
HOUR = [Unit(piece, "dc1") for piece in hours(1)]
PROTO = 'syntax = "proto3"; package shop; message Click { string type = 1; string at = 2; string grade = 3; }'
BY_FIELD = {"type": {"field": "type"}, "time": {"field": "at"}}
AT = "2026-01-01T00:01:00Z"


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def text(field: int, value: str) -> bytes:
    return bytes([field << 3 | 2]) + varint(len(value)) + value.encode()


def click(grade: str, kind: str = "click", at: str = AT) -> bytes:
    return text(1, kind) + text(2, at) + text(3, grade)


def value(*messages: bytes) -> bytes:
    return b"".join(varint(len(message)) + message for message in messages)


LONG = click("k" * 300)
BAD = b"\x0a\x05abc"  # a text of five letters, of which three are there
VALUES: list[bytes | None] = [
    value(click("k1"), click("k0", "bid"), LONG),
    value(),
    value(click("k0"), BAD, b"", click("k2")),
    value(click("k1"))[:-1],
    value(click("k0")) + b"\x80" * 10 + click("k1"),
    None,
    value(click("k1")),
    value(BAD),
]
LANDED = {(0, 0, "k1"), (0, 1, "k0"), (0, 2, "k" * 300), (2, 0, "k0"), (2, 3, "k2"), (6, 0, "k1")}
REJECTED = {
    (2, 1, "not Protobuf of its message", BAD),
    (2, 2, "no type", b""),
    (3, None, "message 0 is shorter than its length", VALUES[3]),
    (4, None, "the length before message 1 is broken", VALUES[4]),
    (5, None, "no value", None),
    (7, 0, "not Protobuf of its message", BAD),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "click.proto").write_text(PROTO)
    return tmp_path


def spec(folder: Path, file: str = "click.proto", **more: object) -> Pipeline:
    form = {"protobuf": {"file": file, "message": "shop.Click"}}
    said = {**BY_FIELD, "format": form, "rows": "delimited", **more}
    return pipeline().model_copy(update={"event": Event.model_validate(said, context={"folder": folder})})


def landed(of: Pipeline, values: list[bytes | None] = VALUES) -> tuple[World, MemoryLake]:
    world, lake = World({BIDS: [[(one, STAMP) for one in values]]}), MemoryLake()
    world.resolve(of, lake, hours(1))
    world.land(of, lake, hours(1))
    return world, lake


def rows(lake: MemoryLake, rejected: bool = False) -> list[dict]:
    [manifest] = read_manifests(lake, HOUR).values()
    found: list[dict] = []
    for file in manifest.rejected if rejected else manifest.files:
        with lake.local(file.key) as path:
            found += pq.read_table(path).to_pylist()
    return sorted(found, key=lambda row: (row["_offset"], row.get("_row") or 0))


def grades(lake: MemoryLake) -> set[tuple]:
    return {(row["_offset"], row["_row"], row["_payload"].split('"grade":"')[1][:-2]) for row in rows(lake)}


def refused(lake: MemoryLake) -> set[tuple]:
    return {(r["_offset"], r.get("_row"), r["_reason"], r["_payload"]) for r in rows(lake, rejected=True)}


def manifest_of(lake: MemoryLake) -> Manifest:
    return read_manifests(lake, HOUR)[HOUR[0]]


def counts(manifest: Manifest) -> tuple:
    return manifest.read, manifest.rows, manifest.empty, manifest.landed, manifest.kept_by_reason()


@pytest.mark.parametrize("then", ["", "remake", "reland"])
@pytest.mark.parametrize("packed", [False, True])
def test_each_message_is_a_row_and_keeps_its_bytes(folder: Path, then: str, packed: bool) -> None:
    values = [one if one is None or not packed else gzip.compress(one) for one in VALUES]
    of = spec(folder, unpack="gzip") if packed else spec(folder)
    world, lake = landed(of, values)
    if then:
        world.land(of, lake, hours(1), then, "again")
    assert grades(lake) == LANDED
    assert refused(lake) == REJECTED
    raw = {(row["_offset"], row["_row"]): row["_raw"] for row in rows(lake)}
    assert raw[0, 1] == click("k0", "bid") and raw[2, 3] == click("k2") and raw[0, 2] == LONG
    reasons = {"not Protobuf of its message": 2, "no type": 1}
    reasons |= {"message 0 is shorter than its length": 1, "the length before message 1 is broken": 1}
    assert counts(manifest_of(lake)) == (8, 9, 1, 6, {**reasons, "no value": 1})
    check(lake, [manifest_of(lake)])


def test_a_remake_by_another_form_is_refused_and_by_another_file_decodes_anew(folder: Path) -> None:
    world, lake = landed(spec(folder))
    before = manifest_of(lake)
    for other in ({"rows": "one"}, {"rows": "lines", "format": "json"}, {"format": "json", "rows": "array"}):
        with pytest.raises(MessagesGone, match="another `event.rows`"):
            world.land(spec(folder, **other), lake, hours(1), "remake", "other")
    assert manifest_of(lake) == before
    (folder / "renamed.proto").write_text(PROTO.replace("grade = 3", "class = 3"))
    world.land(spec(folder, "renamed.proto"), lake, hours(1), "remake", "renamed")
    assert {row["_payload"].split('"')[-4] for row in rows(lake)} == {"class"} and refused(lake) == REJECTED


@pytest.mark.parametrize("how", ["fill", "erase", "reland", "remake", "by another file"])
def test_messages_keep_their_numbers_where_others_are_erased(folder: Path, how: str) -> None:
    """Also where the file no longer names the field: the person was found in the row that the lake has."""
    of = spec(folder)
    world, lake = landed(of, []) if how == "fill" else landed(of)
    if how == "fill":
        world, lake = World({BIDS: [[(one, STAMP) for one in VALUES]]}), MemoryLake()
        world.resolve(of, lake, hours(1))
    ask(lake, entry("grade=k1"))
    if how == "erase":
        erase_owed(lake, HOUR)
    elif how == "by another file":
        (folder / "less.proto").write_text(PROTO.replace("string grade = 3;", ""))
        world.land(spec(folder, "less.proto"), lake, hours(1), "remake", how)
        assert [(row["_offset"], row["_row"]) for row in rows(lake)] == [(0, 1), (0, 2), (2, 0), (2, 3)]
        return
    else:
        world.land(of, lake, hours(1), how, how)
    assert grades(lake) == {row for row in LANDED if row[2] != "k1"}
    manifest = manifest_of(lake)
    assert (manifest.rows_erased, manifest.erased) == (2, 1)
    check(lake, [manifest])


def test_a_retry_brings_in_messages_and_records(folder: Path) -> None:
    """The file had another number for the type; and whole records had been taken for one message."""
    (folder / "wrong.proto").write_text(PROTO.replace("type = 1", "type = 9"))
    _, lake = landed(spec(folder, "wrong.proto"))
    assert grades(lake) == set() and manifest_of(lake).kept_by_reason()["no type"] == 7
    now = pendulum.datetime(2026, 2, 2)
    tried = UnitRetry(spec(folder), lake).retry(HOUR[0], manifest_of(lake), now)
    assert tried.came_in == 6 and grades(lake) == LANDED and refused(lake) == REJECTED
    check(lake, [manifest_of(lake)])

    _, lake = landed(spec(folder, rows="one"))
    UnitRetry(spec(folder), lake).retry(HOUR[0], manifest_of(lake), now)
    assert grades(lake) == LANDED and refused(lake) == REJECTED


def test_elements_of_arrays_are_not_tried_as_messages(folder: Path) -> None:
    arrays = pipeline(event={**BY_FIELD, "rows": "array"})
    _, lake = landed(arrays, [b'[7,{"type":"x"}]'])
    before = refused(lake)
    UnitRetry(spec(folder), lake).retry(HOUR[0], manifest_of(lake), pendulum.datetime(2026, 2, 2))
    assert refused(lake) == before and len(before) == 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x05abc", "message 0 is shorter than its length"),
        (b"\x01a\x01b\x02c", "message 2 is shorter than its length"),
        (b"\x01a\x80", "the length before message 1 is broken"),
        (b"\xff" * 10 + b"\x01", "the length before message 0 is broken"),
        (b"\xff" * 9 + b"\x7f", "message 0 is shorter than its length"),
        (b"\x00" * 19 + b"\x02a", "message 19 is shorter than its length"),
        (b"\x00" * 20 + b"\x02a", "a message after 19 is shorter than its length"),
        (b"\x00" * 500 + b"\x80", "the length before a message after 19 is broken"),
    ],
)
def test_a_broken_length_is_named_by_its_place(content: bytes, told: str) -> None:
    with pytest.raises(Rejected) as caught:
        messages_of(content)
    assert caught.value.reason == told
    assert remedy_of(told, unfit=False).startswith("correct the producer, or let `event.rows`")


def test_lengths_as_java_writes_and_reads_them() -> None:
    """A length may have more bytes than it needs."""
    assert messages_of(b"") == [] and messages_of(b"\0\0") == [b"", b""]
    assert messages_of(b"\x81\x00a\x80\x80\x00") == [b"a", b""]
    assert messages_of(varint(300) + b"x" * 300 + b"\x01y") == [b"x" * 300, b"y"]


def upper(message: bytes, _: bytes | None) -> DecodedEvent:
    if message == b"bad":
        raise Rejected("told")
    return DecodedEvent(message.upper() * 3, "name")


def bare_records(values: list[bytes]) -> pa.Table:
    """Without what each row would repeat."""
    records = record_table(values, [[]] * len(values), range(len(values)))
    carried = pa.array([0] * len(values), pa.int64())
    return records.set_column(records.column_names.index(CARRIED), CARRIED, carried)


def test_pieces_are_bounded_and_so_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    values = [value(*[b"a"] * 20, b"bad"), value(*[b"b"] * 3), value(*[b"c"] * 40), value(*[b"d"] * 30)]
    records = bare_records(values)
    found = list(delimited(records, upper, Size(35, 90)))
    assert max(piece.events.num_rows for piece in found) <= 7
    kept = [(r["_offset"], r["_row"], r["_payload"]) for p in found for r in p.events.to_pylist()]
    wanted = [(0, n, b"AAA") for n in range(20)] + [(1, n, b"BBB") for n in range(3)]
    assert sorted(kept) == sorted([*wanted, *((3, n, b"DDD") for n in range(30))])
    reasons = [r for p in found if p.rejected is not None for r in p.rejected.to_pylist()]
    assert {(r["_offset"], r.get("_row"), r[REASON]) for r in reasons} == {
        (0, 20, "told"),
        (2, None, "too many values"),
    }
    [only] = delimited(bare_records([value(*[b"d"] * 31)]), upper, Size(35, 90))
    assert only.rejected is not None and only.rejected[REASON].to_pylist() == ["too large when decoded"]
