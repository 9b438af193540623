"""A damaged object of the lake is an error that names the object and a remedy, whatever the damage."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from sluice import manifest
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.config.clickhouse import ClickHouse
from sluice.errors import SluiceError
from sluice.flow.verify import verdict
from sluice.ship.batch_register import RegisterEntry
from sluice.state import (
    additions,
    driver_record,
    file_versions,
    freshness,
    known_shards,
    lag_history,
    lease_record,
    months,
)
from sluice.state.boundaries import encoding
from sluice.state.erasures import erasure_list, erasure_progress
from sluice.stored_json import readable_lines
from sluice.watch import problems, row_history
from tests.support.fakes import MemoryLake

DEEP = b"[" * 100_000 + b"]" * 100_000
Read = Callable[[Lake], object]
BY_KEY: list[tuple[str, Read, bytes, str]] = [
    (layout.ADDITIONS, additions.read_additions, b'[{"table": "\xff"}]', "move it away"),
    (layout.SHARDS, lambda lake: known_shards.left(lake, ClickHouse()), b'{"\xff": []}', "delete it"),
    (file_versions.KEY, file_versions.read_versions, b'[{"at": "\xff"}]', "delete it"),
    (lag_history.KEY, lag_history.read_lag, b'[["\xff"]]', "delete it"),
    (
        f"{erasure_progress.folder_of(3)}found.json",
        lambda lake: erasure_progress.read_progress(lake, 3),
        b'{"clean": {"\xff": ""}}',
        "remove it",
    ),
    (
        f"{erasure_progress.folder_of(3)}found.json",
        lambda lake: erasure_progress.note_progress(lake, 3, erasure_progress.ErasureProgress()),
        b'{"clean": {"\xff": ""}}',
        "remove it",
    ),
]
BY_PLACE: list[tuple[Callable[[bytes, str], object], bytes, str]] = [
    (manifest.decode, b'{"version": 1, "pipeline": "\xff"}', "verify"),
    (encoding.decode_entry, b'{"version": 1, "length": 1, "writer": "\xff"}', "restore it"),
    (encoding.decode_checkpoint, b'{"version": 1, "length": 1, "writer": "\xff"}', "restore it"),
    (RegisterEntry.decode, b'{"batch": "\xff"}', "restore it"),
    (lease_record.decode, b'{"holder": "\xff"}', "remove it"),
    (driver_record.decode, b'{"id": "\xff"}', "remove it"),
    (erasure_list.decode, b'{"version": 1, "salt": "\xff"}', "restore it"),
    (months.decode, b'{"\xff": {}}', "delete it"),
    (freshness.decode, b'{"\xff": {}}', "delete it"),
    (verdict.decode, b'{"verifications": [{"at": "\xff"}]}', "delete it"),
    (row_history.decode, b'{"\xff": []}', "delete it"),
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


@pytest.mark.parametrize(("decode", "text", "remedy"), BY_PLACE, ids=[one[0].__module__ for one in BY_PLACE])
@pytest.mark.parametrize("damage", range(7))
def test_an_object_of_many_keys(
    decode: Callable[[bytes, str], object], text: bytes, remedy: str, damage: int
):
    with pytest.raises(SluiceError, match=f"^there .*{remedy}"):
        decode(damaged(text)[damage], "there")


def test_lines_that_cannot_be_read_are_left_out():
    decoder = msgspec.json.Decoder(dict[str, int])
    lines = [b'{"a": 1}', b"{", b'{"\xff": 1}', DEEP, b"[]", b"", b'{"b": 2}']
    assert list(readable_lines(decoder, b"\n".join(lines))) == [{"a": 1}, {"b": 2}]
