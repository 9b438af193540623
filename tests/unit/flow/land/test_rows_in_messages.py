"""A message that is compressed, is lines, or has its rows in a field."""

from __future__ import annotations

import gzip
import json
from functools import partial

import pyarrow as pa
import pytest
from pydantic import ValidationError

from sluice.config.event import Codec, Event, RowsSource
from sluice.config.pipeline import Pipeline
from sluice.errors import MessagesGone
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.flow.land.expansion import Room, Size
from sluice.flow.land.reject_reasons import Rejected
from sluice.flow.land.task import decode
from sluice.flow.land.task.decode import elements_in, lines_of, opener, unpack
from sluice.flow.land.task.records import REASON
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from sluice.state.rules import LandingRules, RulesReader, differs
from tests.support.erased import ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline, record_table, rows_in
from tests.unit.flow.land.test_landing_erased import whole

BIDS = ("dc1", "bids")
BY_FIELD = {"type": {"field": "type"}, "time": {"field": "at"}}
BOUND = Size(1_000, 10_000)


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def refused(call) -> str:
    with pytest.raises(Rejected) as verdict:
        call()
    return verdict.value.reason


@pytest.mark.parametrize(("codec", "packed"), [("gzip", gzip.compress), ("zstd", zstd)])
def test_a_value_is_unpacked_and_bounded(codec: Codec, packed):
    assert unpack(packed(b"x" * 1_000), codec, 1_000) == b"x" * 1_000
    assert unpack(packed(b"ab") + packed(b"cd"), codec, 1_000) == b"abcd"
    assert unpack(b'{"a": 1}', codec, 3) == b'{"a": 1}'
    assert unpack(None, codec, 3) is None
    assert refused(lambda: unpack(packed(b"x" * 1_001), codec, 1_000)) == "too large when decoded"
    assert refused(lambda: unpack(packed(b"x" * (1 << 28)), codec, 1 << 20)) == "too large when decoded"
    assert refused(lambda: unpack(packed(b"abc")[:-2], codec, 1_000)) == "cannot be unpacked"
    assert refused(lambda: unpack(packed(b"abc") + b"tail", codec, 1_000)) == "cannot be unpacked"


@pytest.mark.parametrize("padding", [1, 3, 512, 100_000])
def test_zeros_that_pad_a_gzip_are_ignored(padding: int):
    """As gzip does: a tape's blocks have them. Its own end may be zeros, too."""
    for text in (b"", b"ab", b"x" * 70_000):
        packed = gzip.compress(text) + bytes(padding)
        assert unpack(packed, "gzip", 70_000) == text
        assert unpack(packed + gzip.compress(b"cd"), "gzip", 70_002) == text + b"cd"
    assert refused(lambda: unpack(gzip.compress(b"x" * 70_000) + bytes(padding), "gzip", 69_999)) == (
        "too large when decoded"
    )
    for broken in (gzip.compress(b"abc")[:-5], gzip.compress(b"abc")[:-8] + bytes(4), b"\x1f\x8b"):
        assert (
            refused(lambda broken=broken: unpack(broken + bytes(padding), "gzip", 9)) == "cannot be unpacked"
        )


@pytest.mark.parametrize("number", [0x50, 0x57, 0x5F])
def test_a_zstd_may_begin_with_a_frame_that_is_skipped(number: int):
    """RFC 8878, 3.1.2: pzstd writes one in front."""
    skipped = bytes([number]) + b"\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert unpack(skipped + zstd(b"ab") + skipped + zstd(b"cd"), "zstd", 4) == b"abcd"
    assert refused(lambda: unpack(skipped[:-1], "zstd", 4)) == "cannot be unpacked"


def test_many_bombs_are_not_held_at_once(monkeypatch):
    monkeypatch.setattr(decode, "BYTES_AT_ONCE", 2_500)
    of = Event.model_validate({**BY_FIELD, "unpack": "gzip"})
    values = [gzip.compress(b"%d" % n * 1_000) for n in range(10)] + [b"\x1f\x8b", b"{}"]
    pieces = list(opener(of, None)(record_table(values)))
    assert max(piece.events.num_rows for piece in pieces) == 3
    found = [payload for piece in pieces for payload in piece.events["_payload"].to_pylist()]
    assert found == [*(b"%d" % n * 1_000 for n in range(10)), b"{}"]
    [rejected] = [piece.rejected for piece in pieces if piece.rejected is not None]
    assert rejected[REASON].to_pylist() == ["cannot be unpacked"]
    assert rejected["_payload"].to_pylist() == [b"\x1f\x8b"]


def test_lines():
    take = partial(lines_of, room=Room(BOUND))
    assert take(b"1\n\r\n 2 \r\n\n{") == [b"1", b"2", b"{"]
    assert take(b"") == take(b"\n \n") == []
    assert refused(lambda: lines_of(b"\n" * 1_001, Room(BOUND))) == "too many values"
    assert refused(lambda: lines_of(None, Room(BOUND))) == "no value"


FIELD = RowsSource(field="a.rows")
ELEMENTS = [
    (b'{"a":{"rows":[{"x":1},2,{}],"b":1},"c":"d"}', [{"x": 1}, 2, {}], {"a": {"b": 1}, "c": "d"}),
    (b'{"a.rows":[{"x":1}],"a":{"rows":7}}', [{"x": 1}], {"a": {"rows": 7}}),
    (b'{"a.rows":null,"a":{"rows":[{"x":1}]}}', [{"x": 1}], {"a.rows": None, "a": {}}),
    (b' { "a" : { "rows" : [ { "x" : 1.50 } ] } }', [{"x": 1.5}], {"a": {}}),
]


@pytest.mark.parametrize(("text", "rows", "rest"), ELEMENTS)
def test_elements_have_the_rest_of_the_message(text, rows, rest):
    found = [json.loads(row) for row in elements_in(text, Room(BOUND), FIELD)]
    assert found == [{"envelope": rest, **row} if isinstance(row, dict) else row for row in rows]


def test_numbers_of_elements_and_of_the_rest_stay_as_they_are_written():
    text = b'{"a":{"rows":[{"x":1.50e400}]},"n":12345678901234567890123.10}'
    [row] = elements_in(text, Room(BOUND), FIELD)
    assert row == b'{"envelope":{"a":{},"n":12345678901234567890123.10},"x":1.50e400}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "no value"),
        (b"[]", "not an object"),
        (b'{"a":', "not JSON"),
        (b'{"b":"\xff"}', "not UTF-8"),
        (b'{"a":[]}', "no field with rows"),
        (b'{"a":{"rows":{}}}', "not an array"),
        (b'{"a":{"rows":[],"rows":[1]}}', "a field is there twice"),
        (b'{"a":{"rows":[]},"b":1,"b":2}', "a field is there twice"),
        (b'{"a":{"rows":[]},"b":1,"\\u0062":"\\u003a"}', "a field is there twice"),
        (b'{"a":{"rows":[{"envelope":1}]}}', "a field is there twice"),
        (b'{"a":{"rows":[{"\\u0065nvelope":1}]}}', "a field is there twice"),
        (b'{"a":' * 1_000 + b"1" + b"}" * 1_000, "nested too deep"),
        (b'{"a":{"rows":[%b]},"b":"%b"}' % (b",".join([b"{}"] * 20), b"b" * 600), "too large when decoded"),
    ],
)
def test_what_is_no_such_message(text, reason):
    assert refused(lambda: elements_in(text, Room(BOUND), FIELD)) == reason


def test_what_cannot_be_is_refused():
    for wrong in ({"rows": {"field": "header:x"}}, {"rows": {"field": "a..b"}}, {"unpack": "zip"}):
        with pytest.raises(ValidationError):
            Event.model_validate({**BY_FIELD, **wrong})


def test_rules_keep_it():
    of = pipeline(event={**BY_FIELD, "rows": {"field": "Records"}, "unpack": "zstd"})
    rules = LandingRules.of(of, None)
    assert rules.apply(pipeline()).event == of.event


def landed_rows(lake: MemoryLake, hour: list[Unit]) -> tuple[list[tuple], list[Manifest]]:
    manifests = list(read_manifests(lake, hour).values())
    return rows_in(lake, manifests), manifests


def one(kind: str = "click") -> bytes:
    return event(kind, 1, grade="k")[0]


SHAPES = {
    "lines": ({"rows": "lines"}, [one() + b"\n{\n" + one("bid") + b"\r\n", b"\n", one(), b"["]),
    "field": (
        {"rows": {"field": "R"}},
        [
            b'{"R":[%b,7,%b],"o":1}' % (one(), one("bid")),
            b'{"R":[],"o":1}',
            b'{"o":1}',
            b'{"R":[%b]}' % one(),
        ],
    ),
    "gzip": ({"unpack": "gzip"}, [gzip.compress(one()), one("bid"), gzip.compress(one())[:-1]]),
    "gzip of lines": ({"unpack": "gzip", "rows": "lines"}, [gzip.compress(one() + b"\nx\n" + one("bid"))]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", ["remake", "reland"])
def test_a_remake_gives_the_same_rows(shape: str, how: str):
    keys, values = SHAPES[shape]
    of, hour = pipeline(event={**BY_FIELD, **keys}), [Unit(piece, "dc1") for piece in hours(1)]
    world, lake = World({BIDS: [[(value, event("click", 1)[1]) for value in values]]}), MemoryLake()
    world.resolve(of, lake, hours(1))
    world.land(of, lake, hours(1))
    before, [old] = landed_rows(lake, hour)
    assert before
    world.land(of, lake, hours(1), how, "again")
    after, [new] = landed_rows(lake, hour)
    assert after == before
    assert new.generation == old.generation + 1
    assert (new.kept_by_reason(), new.read, new.rows, new.empty) == (
        old.kept_by_reason(),
        old.read,
        old.rows,
        old.empty,
    )


FORMS: dict[str, dict] = {
    "one": {},
    "array": {"rows": "array"},
    "lines": {"rows": "lines"},
    "field": {"rows": {"field": "R"}},
    "envelope": {"rows": {"field": "R", "envelope": "e"}},
    "gzip": {"unpack": "gzip"},
    "debezium": {"change": "debezium"},
}
MESSAGES = {
    "lines": one() + b"\n" + one("bid"),
    "field": b'{"R":[%b]}' % one(),
    "array": b"[%b,%b]" % (one(), one("bid")),
    "gzip": gzip.compress(one()),
    "debezium": b'{"op":"c","after":%b,"source":{}}' % one(),
    "one": one(),
}


@pytest.mark.parametrize(
    ("then", "now", "rule"),
    [
        ("lines", "one", "rows"),
        ("lines", "field", "rows"),
        ("field", "one", "rows"),
        ("field", "envelope", "rows"),
        ("array", "lines", "rows"),
        ("gzip", "one", "unpack"),
        ("debezium", "one", "change"),
        ("array", "one", ""),
        ("one", "lines", ""),
        ("one", "gzip", ""),
    ],
)
def test_what_the_lake_has_no_messages_of_is_never_remade_by_another_form(then: str, now: str, rule: str):
    hour = [Unit(piece, "dc1") for piece in hours(1)]
    of, other = (pipeline(event={**BY_FIELD, **FORMS[form]}) for form in (then, now))
    world, lake = World({BIDS: [[(MESSAGES[then], event("click", 1)[1])]]}), MemoryLake()
    world.resolve(of, lake, hours(1))
    world.land(of, lake, hours(1))
    before, [manifest] = landed_rows(lake, hour)
    assert before
    found = differs(other, manifest, {}, LandingRules.of(other, None), RulesReader(lake), lambda *_: {})
    assert {one.mode for one in found} == ({""} if rule else {"remake"})
    if not rule:
        return
    with pytest.raises(MessagesGone, match=f"another `event.{rule}`.*what has landed keeps its own$"):
        world.land(other, lake, hours(1), "remake", "again")
    assert landed_rows(lake, hour) == (before, [manifest])


# The fields of a message are not where those of its rows are: `email` of a row is `R[].email` of a message.
BY_PATH = {"rows": {"field": "R"}, "type": {"topic": True}, "time": {"record": True}}
PERSON = "alice@example.com"
OF_PERSON = [
    b'{"R":null,"user":{"email":"alice@example.com"}}',
    b'{"R":{"email":"alice@example.com"}}',
    b'{"R":[{"email":"alice@example.com"}],"R":[]}',
    b'{"R":[{"email":"alice@example.com","envelope":1}],"o":1}',
    b'{"R":[],"user":{"email":"alice@example.com"}}',
    b'{"R":[{"email":"alice@example.com"}]}',
    b'{"R":[{"a":1}],"user":{"email":"alice@example.com"}}',
    b'{"R":[{"email":"alice@example.com","email":1}]}',
    b'{"R":["alice@example.com"]}',
]
OF_ANOTHER = [b'{"R":[{"email":"bob@example.com"}]}', b'{"R":null,"user":{"email":"bob@example.com"}}']


def person_world(**options) -> tuple[Pipeline, World, MemoryLake]:
    of = pipeline(event=BY_PATH, **options)
    records = [(value, event("click", 1)[1]) for value in (*OF_PERSON, *OF_ANOTHER)]
    world, lake = World({BIDS: [records]}), MemoryLake()
    world.resolve(of, lake, hours(1))
    return of, world, lake


@pytest.mark.parametrize("mode", ["fill", "remake"])
def test_a_mask_hides_messages_of_which_no_row_was_made(mode: str):
    mask = {"email": {"hash": "the first key of 2026"}, "envelope.user.email": "drop"}
    of, world, lake = person_world(mask=mask)
    world.land(of, lake, hours(1))
    if mode != "fill":
        world.land(of, lake, hours(1), mode, "again")
    assert b"example.com" not in whole(lake)
    [manifest] = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(1)]).values()
    assert sum(manifest.kept_by_reason().values()) == 6


@pytest.mark.parametrize("how", ["fill", "remake", "erase"])
def test_an_erased_value_is_found_in_messages_of_which_no_row_was_made(how: str):
    of, world, lake = person_world()
    asked = [entry(f"email={PERSON}"), entry(f"envelope.user.email={PERSON}")]
    [unit] = (Unit(piece, "dc1") for piece in hours(1))
    if how == "fill":
        ask(lake, *asked)
        world.land(of, lake, hours(1))
    else:
        world.land(of, lake, hours(1))
        ask(lake, *asked)
        if how == "erase":
            erase_owed(lake, [unit])
        else:
            world.land(of, lake, hours(1), "remake", "again")
    assert PERSON.encode() not in whole(lake)
    assert whole(lake).count(b"bob@example.com") == 2
