"""Lands one hour in a process of its own, and says what memory that took."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sluice.clients.lake.folder import FolderLake
from sluice.slices import Slice, Unit, to_ms
from sluice.state.manifests import read_manifests
from tests.support.landing_world import START, World, event, hours, pipeline

_MOST = 64 << 20
_STAMP = to_ms(START.add(minutes=5))
_FIRST = b'{"type":"click","at":"2026-01-01T00:05:00Z","x":'
_BY_TOPIC = {"type": {"topic": True}, "time": {"record": True}}

Hour = tuple[dict[str, Any], list[tuple[bytes, int]]]


def repeated(part: bytes, size: int) -> bytes:
    return b",".join([part] * (size // (len(part) + 1)))


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def _ordinary(_: Path) -> Hour:
    """120 MB, as 60,000 events."""
    return {}, [event(minute=n % 60, n=n, text="x" * 2_000) for n in range(60_000)]


def _json(value: bytes) -> Callable[[Path], Hour]:
    return lambda _: ({}, [(_FIRST + value + b"}", _STAMP)])


def _array(part: bytes) -> Callable[[Path], Hour]:
    value = b"[" + repeated(part, _MOST - 2) + b"]"
    return lambda _: ({"event": {**_BY_TOPIC, "rows": "array"}}, [(value, _STAMP)])


def _avro(items: object, part: bytes, count: int) -> Callable[[Path], Hour]:
    def hour(folder: Path) -> Hour:
        kind = {"type": "array", "items": items}
        schema = {"type": "record", "name": "E", "fields": [{"name": "a", "type": kind}]}
        (folder / "e.avsc").write_text(json.dumps(schema))
        form = {**_BY_TOPIC, "format": {"avro": str(folder / "e.avsc")}}
        return {"event": form}, [(varint(2 * count) + part * count + b"\0", _STAMP)]

    return hour


def _proto(text: str, part: bytes, count: int) -> Callable[[Path], Hour]:
    def hour(folder: Path) -> Hour:
        (folder / "e.proto").write_text(f'syntax = "proto3"; {text}')
        form = {"protobuf": {"file": str(folder / "e.proto"), "message": "E"}}
        return {"event": {**_BY_TOPIC, "format": form}}, [(part * count, _STAMP)]

    return hour


def _record(**fields: object) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": k, "type": v} for k, v in fields.items()]}


_NULLS = _record(k="int", **dict.fromkeys((f"f{n}" for n in range(2**15)), "null"))
_INSTANT = {"type": "long", "logicalType": "timestamp-micros"}
_FIELDS = "".join(f"int64 field_{n} = {n + 1};" for n in range(8_000))
_SUB = f"message S {{ {_FIELDS} }} message E {{ repeated S s = 1; }}"
_KEYS = b",".join(b'"k%d":0' % n for n in range(990_000))

CASES: dict[str, Callable[[Path], Hour]] = {
    "ordinary": _ordinary,
    "json of empty arrays": _json(b"[" + repeated(b"[]", _MOST - 100) + b"]"),
    "json of many fields": _json(b"{" + _KEYS + b"}"),
    "json of one wide letter": _json('"\U0001f600'.encode() + b"a" * (_MOST - 100) + b'"'),
    "json of escapes": _json(b'"' + rb"\u0001" * (_MOST // 6 - 20) + b'"'),
    "json of a million values": _json(b"[" + b",".join([b'"%s"' % (b"x" * 60)] * 990_000) + b"]"),
    "array of numbers": _array(b"0"),
    "array of a million": _array(b'{"a":"' + b"x" * 57 + b'"}'),
    "avro of nulls": _avro(_NULLS, b"\0", 30),
    "avro of more nulls": _avro(_NULLS, b"\0", 102),
    "avro of names": _avro(_record(**{"n" * 120: "int"}), b"\0", 215_000),
    "avro of instants": _avro(_INSTANT, b"\0", 690_000),
    "avro of escapes": _avro("string", varint(2 * 5_500_000) + b"\1" * 5_500_000, 1),
    "avro of one wide letter": _avro(
        "string", varint(_MOST - 392) + "\U0001f600".encode() + b"a" * (_MOST // 2 - 200), 1
    ),
    "protobuf of sub-messages": _proto(_SUB, b"\x0a\0", 124),
    "protobuf of more sub-messages": _proto(_SUB, b"\x0a\0", 1_000),
    "protobuf of texts": _proto("message E { repeated string s = 1; }", b"\x0a\0", 999_000),
}


def main(case: str) -> None:
    folder = Path(tempfile.mkdtemp())
    changes, log = CASES[case](folder)
    spec, lake = pipeline(**changes), FolderLake(folder / "demo")
    world = World({("dc1", "bids"): [log]})
    world.resolve(spec, lake, hours(1))
    before = memory_of_process("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest begins anew
    world.land(spec, lake, hours(1), rows_per_read=32_768)
    [manifest] = read_manifests(lake, [Unit(Slice(START, spec.slice), "dc1")]).values()
    memory, landed = memory_of_process("VmHWM") - before, sum(file.rows for file in manifest.files)
    print(json.dumps({"memory": memory, "landed": landed}))


def memory_of_process(name: str) -> int:
    """Returns the process's memory in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) // 1_000


if __name__ == "__main__":
    main(sys.argv[1])
