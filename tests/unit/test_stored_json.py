"""A damaged object of the lake is an error that names the object and a remedy, whatever the damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date

import msgspec
import pytest

from sluice import manifest
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.config.clickhouse import ClickHouse
from sluice.errors import SluiceError
from sluice.flow.verify import verdict
from sluice.ship.publish import RegisterEntry
from sluice.state import additions, erasures, lease, months, notes, shard_ledgers
from sluice.state.boundaries import log as encoding
from sluice.stored_json import readable_lines
from sluice.watch import expected, problems
from tests.support.fakes import MemoryLake

DEEP = b"[" * 100_000 + b"]" * 100_000
Read = Callable[[Lake], object]
BY_KEY: list[tuple[str, Read, bytes, str]] = [
    (layout.ADDITIONS, additions.read_additions, b'[{"table": "\xff"}]', "move it away"),
    (layout.SHARDS, lambda lake: shard_ledgers.left(lake, ClickHouse()), b'{"\xff": []}', "delete it"),
    (layout.SERVERS, lambda lake: shard_ledgers.servers_of(lake, "c"), b'{"\xff": []}', "delete it"),
    (notes.FILE, notes.read_versions, b'[{"at": "\xff"}]', "delete it"),
    (
        f"{erasures.folder_of(3)}found.json",
        lambda lake: erasures.read_progress(lake, 3),
        b'{"clean": {"\xff": ""}}',
        "remove it",
    ),
    (
        f"{erasures.folder_of(3)}found.json",
        lambda lake: erasures.note_progress(lake, 3, erasures.ErasureProgress()),
        b'{"clean": {"\xff": ""}}',
        "remove it",
    ),
]
AT, NO_DATE = "2026-11-20T10:00:00+00:00", "2026-11-31T10:00:00+00:00"


def verdict_of(**changed: str) -> bytes:
    """One with an anomaly and its verification."""
    spans = {"at": AT, "start": AT, "until": AT, "found_at": AT, **changed}
    counts = {"units": 1, "records": 1, "found": 1}
    verification = {name: spans[name] for name in ("at", "start", "until")} | counts
    names = "kind place message command advice cluster topic type table shard later cause"
    texts = dict.fromkeys(names.split(), "")
    anomaly = {**texts, "slices": [], **{name: spans[name] for name in ("start", "until", "found_at")}}
    return json.dumps({"anomalies": [anomaly], "verifications": [verification]}).encode()


@pytest.mark.parametrize("name", ["at", "start", "until", "found_at"])
@pytest.mark.parametrize("text", [NO_DATE, "", "soon", "0001-01-01T00:00:00+14:00"])
def test_a_verdict_whose_instant_is_no_date(name: str, text: str):
    assert verdict.decode(verdict_of(), "the verdict").anomalies[0].start == AT
    with pytest.raises(SluiceError, match="^the verdict holds no verdict .*: delete it, the next verify"):
        verdict.decode(verdict_of(**{name: text}), "the verdict")


def test_other_instants_that_are_no_date():
    lake = MemoryLake()
    lake.put(notes.FILE, json.dumps([{"at": NO_DATE, "hash": "", "sluice": "", "text": ""}]).encode())
    with pytest.raises(SluiceError, match="delete it"):
        notes.read_versions(lake)
    timing = {"step": "land", "start": AT, "until": AT, "seconds": 1, "units": 1, "rows": 1}
    lines = [json.dumps({**timing, "started": started}) for started in (AT, NO_DATE)]
    lake.put("_timings/2026-11-20.ndjson", "\n".join(lines).encode())
    assert [one.started for one in notes.of_day(lake, date(2026, 11, 20))] == [AT]


BY_PLACE: list[tuple[Callable[[bytes, str], object], bytes, str]] = [
    (manifest.decode, b'{"version": 1, "pipeline": "\xff"}', "verify"),
    (encoding.decode_entry, b'{"version": 1, "length": 1, "writer": "\xff"}', "restore it"),
    (encoding.decode_checkpoint, b'{"version": 1, "length": 1, "writer": "\xff"}', "restore it"),
    (RegisterEntry.decode, b'{"batch": "\xff"}', "restore it"),
    (lease.decode, b'{"holder": "\xff"}', "remove it"),
    (erasures.decode, b'{"version": 1, "salt": "\xff"}', "restore it"),
    (months.SUMMARIES.decode, b'{"\xff": {}}', "delete it"),
    (notes.LAG.decode, b'{"\xff": []}', "delete it"),
    (notes.FRESH.decode, b'{"\xff": {}}', "delete it"),
    (verdict.decode, b'{"verifications": [{"at": "\xff"}]}', "delete it"),
    (expected.ROWS.decode, b'{"\xff": []}', "delete it"),
    (problems.decode, b'{"alarms": {"\xff": {}}}', "delete it"),
]


def damaged(text: bytes) -> list[bytes]:
    return [
        text,
        b"<html>",
        text[: len(text) // 2],
        text.replace(b'"\xff"', b"7"),
        b"7",
        b'{"version": 1, "a": ' + DEEP + b"}",
        b"[" + DEEP + b"]",
    ]


@pytest.mark.parametrize(("key", "read", "text", "remedy"), BY_KEY, ids=range(len(BY_KEY)))
@pytest.mark.parametrize("damage", range(7))
def test_an_object_of_one_key(key: str, read: Read, text: bytes, remedy: str, damage: int):
    lake = MemoryLake()
    lake.put(key, damaged(text)[damage])
    with pytest.raises(SluiceError, match=f"^memory://demo/{key} .*{remedy}"):
        read(lake)


@pytest.mark.parametrize(("decode", "text", "remedy"), BY_PLACE, ids=range(len(BY_PLACE)))
@pytest.mark.parametrize("damage", range(7))
def test_an_object_of_many_keys(
    decode: Callable[[bytes, str], object], text: bytes, remedy: str, damage: int
):
    with pytest.raises(SluiceError, match=f"^there .*{remedy}"):
        decode(damaged(text)[damage], "there")


NUMBERS: list[tuple[Callable[[bytes, str], object], object]] = [
    (notes.FRESH.decode, {"s": {"c": [[10**400], {}]}}),
    (notes.FRESH.decode, {"s": {"c": [[0], {"t": 2**64}]}}),
    (notes.FRESH.decode, {"s": {"c": [[0], {"t": -1}]}}),
    (months.SUMMARIES.decode, {"s": {"c": ["", "seal"]}}),
    (months.SUMMARIES.decode, {"s": {"c": ["complete", "seal", "", 2**63]}}),
    (months.SUMMARIES.decode, {"s": {"c": ["complete", "seal", "", -1]}}),
    (notes.LAG.decode, {"s": [2**64, 0, 0, None]}),
    (expected.ROWS.decode, {"s": [-1, {}]}),
    (expected.ROWS.decode, {"s": [1, {"t": 10**400}]}),
]


@pytest.mark.parametrize(("decode", "stored"), NUMBERS, ids=range(len(NUMBERS)))
def test_numbers_and_states_that_nobody_writes(decode: Callable[[bytes, str], object], stored: object):
    with pytest.raises(SluiceError, match="^there .*delete it"):
        decode(json.dumps(stored).encode(), "there")


def test_a_timing_that_nobody_writes():
    lake = MemoryLake()
    timing = {"step": "land", "start": AT, "until": AT, "started": AT, "seconds": 1, "units": 1, "rows": 1}
    wrong = [{"rows": 10**400}, {"seconds": -1}, {"seconds": 1e300}, {"bytes": 2**63}, {}]
    lake.put("_timings/2026-11-20.ndjson", b"\n".join(json.dumps(timing | one).encode() for one in wrong))
    assert len(notes.of_day(lake, date(2026, 11, 20))) == 1


VALUE = {"path": ["uid"], "digest": "a" * 32, "bytes": 2, "probe": 7}
ENTRY = dict.fromkeys(("type", "start", "until", "asked_until", "reason", "at", "by"), "")


@pytest.mark.parametrize(
    ("salt", "value"),
    [
        ("", VALUE),  # nobody can tell any more whom it names: they would land again
        ("zz" * 32, VALUE),
        ("ab", VALUE),
        ("a" * 64, VALUE | {"path": []}),
        ("a" * 64, VALUE | {"path": ["a"] * 30}),
        ("a" * 64, VALUE | {"digest": "a"}),
        ("a" * 64, VALUE | {"bytes": -1}),
        ("a" * 64, VALUE | {"probe": 1 << 16}),
    ],
)
def test_an_erasure_list_that_names_nobody(salt: str, value: dict):
    def stored(salt: str, value: dict) -> bytes:
        entries = [ENTRY | {"values": [value]}]
        return json.dumps({"version": 1, "salt": salt, "entries": entries}).encode()

    assert len(erasures.decode(stored("a" * 64, VALUE), "there").entries) == 1
    with pytest.raises(SluiceError, match="^there is no erasure list .*nothing lands before that"):
        erasures.decode(stored(salt, value), "there")


def test_lines_that_cannot_be_read_are_left_out():
    decoder = msgspec.json.Decoder(dict[str, int])
    lines = [b'{"a": 1}', b"{", b'{"\xff": 1}', DEEP, b"[]", b"", b'{"b": 2}']
    assert list(readable_lines(decoder, b"\n".join(lines))) == [{"a": 1}, {"b": 2}]
