"""The worst that a record of each format becomes: found by a search, and landed within an ordinary hour's
memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sluice.flow.land.expansion import BOUND
from sluice.flow.land.formats import avro, proto_source, protobuf
from sluice.flow.land.reject_reasons import BadSchema, Rejected
from tests.faults.expanding import CASES, memory_of_process, varint
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

_RATIO = 1.5
_MOST_MB = 600  # more than an ordinary hour's, 400
_FEW = ("avro of more nulls", "protobuf of sub-messages")


def landed(case: str) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.faults.expanding", case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def ordinary() -> int:
    return landed("ordinary")["memory"]


@pytest.mark.long
@pytest.mark.parametrize("case", per_commit([*_FEW, *sorted({*CASES} - {*_FEW, "ordinary"})], len(_FEW)))
def test_the_worst_records_take_no_more_than_an_ordinary_hour(ordinary: int, case: str):
    """At most 1.5 times as much, measured in the same run; what is just within the bounds lands."""
    found = landed(case)
    print(f"{case}: {found['memory']} MB, an ordinary hour {ordinary} MB")
    assert found["memory"] <= _RATIO * ordinary
    beyond = case.startswith("array") or "more" in case or case == "json of empty arrays"
    assert found["landed"] == (0 if beyond else 1)


Genome = dict[str, int]
Decode = Callable[[bytes], bytes]
_SIZES = (1, 2, 8, 30, 300, 3_000, 30_000)
_PARTS = ("null", "int", "double", "string", "symbol", "fixed", "union", "map", "array", "instant", "deep")


def of_avro(genome: Genome, _: Path) -> tuple[Decode, Callable[[int], bytes]]:
    """An array of records of one byte and more, whose other fields take none or one each."""
    names = "n" * genome["name"]
    symbols = {"type": "enum", "name": "Symbol", "symbols": ["s" * genome["text"]]}
    nulls = {f"{names}{n}": "null" for n in range(min(genome["fields"], 90_000))}
    kinds: dict[str, tuple[object, bytes]] = {
        "null": ("null", b""),
        "int": ("int", b"\1"),
        "double": ("double", b"\x01\0\0\0\0\0\x10\x80"),
        "string": ("string", varint(2 * 40) + b"\1" * 40),
        "symbol": (symbols, b"\0"),
        "fixed": ({"type": "fixed", "name": "Fixed", "size": 9}, b"x" * 9),
        "union": (["null", symbols], b"\2\0"),
        "map": ({"type": "map", "values": symbols}, b"\2\2k\0\0"),
        "array": ({"type": "array", "items": symbols}, b"\2\0\0"),
        "instant": ({"type": "long", "logicalType": "timestamp-micros"}, b"\1"),
        "deep": (["null", "Item"], b"\0"),
    }
    kind, content = kinds[_PARTS[genome["part"]]]
    item = _record("Item", first="int", **nulls, **{names: kind})
    event = avro.schema_of(
        json.dumps(_record("E", a={"type": "array", "items": item})), reader=_reader(genome)
    )
    part = b"\1" + content
    return lambda m: avro.decoded(m, event), lambda count: varint(2 * count) + part * count + b"\0"


def _record(name: str, **fields: object) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": k, "type": v} for k, v in fields.items()]}


def _reader(genome: Genome) -> avro.Schema | None:
    if not genome["read"]:
        return None
    item = _record("Item", first="double")
    item["fields"].append({"name": "more", "type": "string", "default": "\1" * genome["text"]})
    return avro.schema_of(json.dumps(_record("E", a={"type": "array", "items": item})))


_PROTO = ("repeated S s", "map<int32, S> s", "repeated int32 s", "repeated K s", "repeated string s")


def of_protobuf(genome: Genome, folder: Path) -> tuple[Decode, Callable[[int], bytes]]:
    """Sub-messages, entries of maps, numbers, symbols or texts, each as short as it may be."""
    kind = ("int64", "bool", "string", "repeated int32", "optional int64")[genome["part"] % 5]
    names = "n" * min(genome["name"], 1_500)
    fields = "".join(f"{kind} {names}{n} = {n + 1};" for n in range(min(genome["fields"], 8_000)))
    which = genome["read"] * 2 + genome["part"] % 3
    symbols = f"enum K {{ {'k' * genome['text']} = 0; }}"
    text = f"{symbols} message S {{ {fields} }} message E {{ {_PROTO[which]} = 1; }}"
    (folder / "e.proto").write_text(f'syntax = "proto3"; {text}')
    event = protobuf.message_type(proto_source.compiled(folder / "e.proto"), "E")
    part = b"\x0a\1\1" if which in (2, 3) else b"\x0a\0"
    return protobuf.MessageDecoder(event), lambda count: part * count


_FIRST = {"name": 30, "text": 30, "fields": 300, "part": 0, "read": 0}
_FORMATS = {"avro": of_avro, "protobuf": of_protobuf}


@pytest.mark.parametrize(
    ("name", "rounds"), per_commit([("avro", 4), ("protobuf", 8), ("avro", 300), ("protobuf", 200)])
)
def test_a_search_for_the_largest_expansion_finds_none_above_the_bound(
    tmp_path: Path, name: str, rounds: int, seed: int
):
    """Climbs from schema to schema: what becomes most for each byte is changed next. Of each, messages grow
    until they are rejected."""
    chance, best, genome = random.Random(seed), 0.0, _FIRST
    for number in range(rounds):
        ratio = 0.0
        tried = _genome(chance) if number % 5 == 4 else _changed(genome, chance) if number else genome
        with suppress(BadSchema):  # the library takes no message type of more than 64 KiB
            ratio = max(_climbed(_FORMATS[name](tried, tmp_path)), default=0.0)
        if ratio > best:
            best, genome = ratio, tried
    print(f"{name}: a byte becomes at most {best:,.0f} by {genome}, --seed {seed}")
    assert best > 100


def _climbed(made: tuple[Decode, Callable[[int], bytes]]) -> Iterator[float]:
    """Yields what a byte becomes, of messages that grow until one is rejected. Each is within the bound, and
    within the memory."""
    decode, message_of = made
    count = 1
    while count <= 4_000_000:
        message = message_of(count)
        before, reason, text = memory_of_process("VmRSS"), None, b""
        Path("/proc/self/clear_refs").write_text("5")
        try:
            text = decode(message)
        except Rejected as verdict:
            reason = verdict.reason
        assert memory_of_process("VmHWM") - before < _MOST_MB
        if reason is not None:
            assert reason in ("too many values", "too large when decoded")
            return
        assert len(text) <= BOUND.text
        assert text.count(b",") <= BOUND.values  # in names and texts there is none
        yield len(text) / len(message)
        count *= 3
    raise AssertionError("a message of millions of parts lands")


def _genome(chance: random.Random) -> Genome:
    sizes = {key: chance.choice(_SIZES) for key in ("name", "text", "fields")}
    return {**sizes, "part": chance.randrange(len(_PARTS)), "read": chance.randrange(2)}


def _changed(genome: Genome, chance: random.Random) -> Genome:
    key = chance.choice(["name", "text", "fields", "part", "read"])
    if key in ("part", "read"):
        return {**genome, key: _genome(chance)[key]}
    return {**genome, key: max(1, min(int(genome[key] * chance.choice([0.2, 0.5, 2, 5])), 60_000))}
