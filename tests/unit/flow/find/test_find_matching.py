"""Records by key or field: which match, out of which hours, whatever they hold."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import WrongUse
from sluice.flow.find import find
from sluice.flow.find.find import RecordFinder
from sluice.flow.find.search_files import RowMatch, read_match
from tests.support.landing_world import World, event, hours, pipeline

TOPIC = ("dc1", "bids")
DEEP = b'{"type":"x","at":"2026-01-01T00:00:00Z","a":' + b"[" * 800 + b"]" * 800 + b"}"


def payload(**fields: object) -> bytes:
    return json.dumps({"type": "click", "at": "2026-01-01T00:05:00Z", **fields}).encode()


# By hand: the value, and whether user.id=7 is in it.
EVENTS = [
    (payload(user={"id": 7}), True),
    (payload(user={"id": "7"}), True),
    (payload(user={"id": 7.0}), False),
    (payload(user={"id": 17}), False),
    (payload(user={"id": [7]}), True),
    (payload(user=[{"id": 8}, {"id": 7}]), True),
    (payload(user=[7]), False),
    (payload(**{"user.id": 7}), True),
    (payload(**{"user.id": 8, "user": {"id": 7}}), True),
    (payload(user=7, id=7), False),
    (payload(other={"user": {"id": 7}}), False),
    (b'{"type":"click","at":"2026-01-01T00:05:00Z","\\u0075ser":{"id":"\\u0037"}}', True),
    (b'{"type":"click","at":"2026-01-01T00:05:00Z","user":{"id":7,"id":5}}', True),
    (b'{"type":"click","at":"2026-01-01T00:05:00Z","user":{"id":5},"us\\u0065r":{"id":7}}', True),
    (b'{"type":"click","at":"2026-01-01T00:05:00Z","user":{"id":5,"id":9}}', False),
    (b'{"type":"","at":"2026-01-01T00:05:00Z","user":{"id":7}}', True),  # rejected: no type
    (b'{"user":{"id":7', False),  # rejected: no JSON
    (b"\xff user.id 7", False),
    (DEEP, False),
]


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def landed(lake: FolderLake, log: list, count: int = 1) -> RecordFinder:
    spec, world = pipeline(tables={}), World({TOPIC: [log]})
    world.resolve(spec, lake, hours(count))
    world.land(spec, lake, hours(count))
    return RecordFinder(spec, lake, world.topics_of)


def offsets(
    finder: RecordFinder, match: RowMatch, count: int = 1, first: int = 0, most: int = 100
) -> list[int]:
    found = finder.matching(hours(count, first), match, most, lambda line: None)
    return [facts.place.offset for facts in found]


def test_a_field(lake):
    finder = landed(lake, [(value, event()[1]) for value, _ in EVENTS])
    wanted = [offset for offset, (_, matches) in enumerate(EVENTS) if matches]
    assert offsets(finder, read_match(None, "user.id=7")) == wanted
    assert offsets(finder, read_match(None, "user.id=6")) == []


@pytest.mark.parametrize(
    ("given", "value"),
    [("a=true", True), ("a=false", False), ("a=x=y", "x=y"), ("a=", ""), ("a=1e3", "1e3"), ("a=é", "é")],
)
def test_values_as_they_are_typed(lake, given: str, value: object):
    others = [None, [], {}, "X", 0]
    finder = landed(lake, [(payload(a=one), event()[1]) for one in (*others, value)])
    assert offsets(finder, read_match(None, given)) == [len(others)]


def test_numbers_as_they_are_written():
    rows = pa.table({"_payload": [b'{"a":1.50}', b'{"a":1.5}', b'{"a":"1.50"}', None]})
    assert RowMatch(path=("a",), value="1.50").positions(rows).tolist() == [0, 2]


def test_a_key(lake):
    keys = [b"k1", None, b"\xff", b"k1", b"k", "é".encode()]
    log = [(payload(n=n) if n % 3 else b"no JSON", event()[1], None, key) for n, key in enumerate(keys)]
    finder = landed(lake, log)
    assert offsets(finder, read_match("k1", None)) == [0, 3]
    assert offsets(finder, read_match("é", None)) == [5]
    assert offsets(finder, read_match(b"\xff".decode(errors="surrogateescape"), None)) == [2]
    assert offsets(finder, read_match("", None)) == []


def test_only_the_hours_that_are_asked_for(lake):
    finder = landed(lake, [(payload(n=1), event("x", 60 * hour + 5)[1]) for hour in range(4)], 4)
    match = read_match(None, "n=1")
    assert offsets(finder, match, 4) == [0, 1, 2, 3]
    assert offsets(finder, match, 2, first=1) == [1, 2]
    assert offsets(finder, match, 4, most=3) == [0, 1, 2]


def test_more_rows_than_are_held(lake, monkeypatch):
    monkeypatch.setattr(find, "_MOST_ROWS", 3)
    finder = landed(lake, [(payload(n=1), event()[1])] * 5)
    said: list[str] = []
    assert len(list(finder.matching(hours(1), read_match(None, "n=1"), 100, said.append))) == 3
    assert said[-1] == "slice 2026-01-01T00Z/dc1: more than 3 rows match; the others are not shown"


@pytest.mark.parametrize(
    ("key", "field", "why"),
    [
        (None, None, "name one of"),
        ("k", "a=1", "name one of"),
        (None, "a", "expected PATH=VALUE"),
        (None, "=1", "expected PATH=VALUE"),
        (None, "a..b=1", "expected PATH=VALUE"),
        (None, ".".join("a" * 30) + "=1", "a path has at most 8 names"),
        (None, "a=\udcff", "not UTF-8"),
    ],
)
def test_what_is_no_question(key, field, why):
    with pytest.raises(WrongUse, match=why):
        read_match(key, field)
