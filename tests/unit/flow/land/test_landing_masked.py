"""What a mask hides never becomes bytes of the lake, and a unit that is made again is not masked twice."""

from __future__ import annotations

import hmac
import json
import re
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.manifest import Manifest
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import World, event, hours, pipeline
from tests.support.long_form import per_commit
from tests.unit.flow.land import test_remake as remaking

KEY, NEW = "the first key of 2026", "the second key of 2026"
SECRET = "alice@example.com"
HASH = {"hash": KEY}
MASK: dict[str, Any] = {"email": HASH, "ip": "drop", "user.name": "keep_first"}
SLICES = hours(1)


def token(text: str, key: str = KEY) -> str:
    name = hmac.new(key.encode(), b"\0id", "sha256").hexdigest()[:8]
    return f"hmac256:{name}:{hmac.new(key.encode(), text.encode(), 'sha256').hexdigest()}"


def value(number: int, **more: Any) -> bytes:
    own = {"email": SECRET, "ip": [SECRET], "user": {"name": SECRET, "n": number}, **more}
    plain = json.loads(event("click" if number % 3 else "bid", number % 50)[0])
    return json.dumps({**plain, **own}).encode()


def records() -> list[tuple]:
    """Of every kind, each with the secret in it, and in key or headers of some."""
    kinds: list[Any] = [
        value(1),
        value(3),
        value(4).replace(b'"email"', b'"em\\u0061il"'),
        value(5).replace(b"{", b'{"email":"' + SECRET.encode() + b'",', 1),  # twice
        value(6, at="no time at all"),
        value(7).replace(b'"type"', b'"typ"'),
        b"[" + value(8) + b"]",
        b'"' + SECRET.encode() + b'"',
        b"no json, " + SECRET.encode(),
        value(9).replace(b"bid", b"b\xffd"),
        b"\xef\xbb\xbf" + value(10),
        value(11, n=0).replace(b'"n": 0', b'"n": NaN'),
        b'{"email":' + b"[" * 1000 + b'"' + SECRET.encode() + b'"' + b"]" * 1000 + b"}",
        value(12, email=token("somebody else")),
        value(13, email=[SECRET, None, 7]),
        None,
    ]
    headers = [("who", SECRET.encode()), ("kept", None)]
    found = []
    for number, kind in enumerate(kinds):
        stamp = event("x", number % 50)[1]
        found.append((kind, stamp, headers if number % 2 else None, SECRET.encode() if number % 4 else None))
    return found


def spec(mask: dict[str, Any] | None = None, **more: Any) -> Pipeline:
    return pipeline(**{"mask": MASK if mask is None else mask, **more})


def landed(of: Pipeline, log: list[tuple] | None = None) -> tuple[World, MemoryLake]:
    world, lake = World({("dc1", "bids"): [records() if log is None else log]}), MemoryLake()
    world.resolve(of, lake, SLICES)
    world.land(of, lake, SLICES)
    return world, lake


def manifest_of(lake: MemoryLake) -> Manifest:
    [found] = read_manifests(lake, remaking.units(spec())[:1]).values()
    return found


def rows(lake: MemoryLake, rejected: bool = False) -> list[dict[str, Any]]:
    manifest = manifest_of(lake)
    found: list[dict[str, Any]] = []
    for file in manifest.rejected if rejected else manifest.files:
        with lake.local(file.key) as path:
            found += pq.read_table(path).to_pylist()
    return sorted(found, key=lambda row: row["_offset"])


def everything(lake: MemoryLake) -> bytes:
    """All bytes of all objects, and of what Parquet has compressed."""
    parts = []
    for item in lake.list(""):
        stored = lake.read(item.key)
        assert stored is not None
        parts.append(stored.data)
        if item.key.endswith(".parquet"):
            with lake.local(item.key) as path:
                parts.append(repr(pq.read_table(path).to_pylist()).encode())
    return b"\n".join(parts)


@pytest.mark.parametrize(
    "more", [{}, {"event": {**remaking.BY_FIELD, "rows": "array"}}], ids=["one", "array"]
)
def test_nothing_that_is_masked_is_in_the_lake(more: dict[str, Any]):
    _, lake = landed(spec(counts=[{"table": "db.traffic", "by": ["email"]}], **more))
    assert SECRET.encode() in everything(landed(spec({}, **more))[1])
    assert SECRET.encode() not in everything(lake)
    assert token(SECRET).encode() in everything(lake)


def test_rows_hold_what_the_rules_say():
    _, lake = landed(spec())
    plain = {row["_offset"]: json.loads(row["_payload"]) for row in rows(landed(spec({}))[1])}
    for row in rows(lake):
        source, found = plain.pop(row["_offset"]), json.loads(row["_payload"])
        email = source["email"]
        if isinstance(email, list):
            number = found["email"].pop()
            assert re.fullmatch("hmac256:[0-9a-f]{8}:[0-9a-f]{64}", number)
            email = email[:2]
            expected: Any = [token(email[0]), None]
        else:
            expected = token(email)  # also of a text that looks like a hash: a producer has sent it
        assert found.pop("email") == expected
        assert found["user"].pop("name") == "a***"
        assert "ip" not in found
        assert found == {k: v for k, v in source.items() if k not in ("email", "ip", "user")} | {
            "user": {"n": source["user"]["n"]}
        }
    assert not plain


def test_keys_headers_and_bytes_that_are_no_event():
    _, lake = landed(spec())
    for row in (*rows(lake), *rows(lake, rejected=True)):
        assert row["_key"] in (None, token(SECRET).encode())
        assert row["_headers"] in (
            None,
            [{"key": "who", "value": token(SECRET).encode()}, {"key": "kept", "value": None}],
        )
    by_offset = {number: one[0] for number, one in enumerate(records())}
    rejected = {row["_offset"]: row for row in rows(lake, rejected=True)}
    assert {row["_reason"] for row in rejected.values()} >= {
        "not UTF-8",
        "not JSON",
        "nested too deep",
        "no time",
    } - {"no time"}
    hashed = [6 + 1, 8, 9, 10, 11, 12]
    for offset in hashed:
        whole = by_offset[offset]
        own = hmac.new(KEY.encode(), whole, "sha256").hexdigest()
        assert rejected[offset]["_payload"] == b'"' + token("")[:17].encode() + own.encode() + b'"'
    assert json.loads(rejected[6]["_payload"])[0]["email"] == token(SECRET)  # an array of events
    assert json.loads(rejected[4]["_payload"])["user"]["name"] == "a***"
    assert rejected[15]["_payload"] is None


@pytest.mark.parametrize(
    ("rejected_records", "expected"), [("keep", b"no json, alice@example.com"), ("drop", b'"dropped"')]
)
def test_the_file_says_what_is_kept_of_such_bytes(rejected_records: str, expected: bytes):
    _, lake = landed(spec({**MASK, "_rejected": rejected_records, "_key": "keep", "_headers": "drop"}))
    rejected = {row["_offset"]: row for row in rows(lake, rejected=True)}
    assert rejected[8]["_payload"] == expected
    assert {row["_key"] for row in rows(lake)} == {None, SECRET.encode()}
    assert {h["value"] for row in rows(lake) for h in row["_headers"] or ()} == {None}
    assert b'"ip"' not in rejected[4]["_payload"]  # an object is masked all the same


def test_without_a_key_the_rest_is_dropped():
    _, lake = landed(spec({"email": "drop", "ip": "drop", "user.name": "keep_first"}))
    assert SECRET.encode() not in everything(lake)
    assert {row["_key"] for row in rows(lake)} == {None}
    assert [row["_payload"] for row in rows(lake, rejected=True) if row["_offset"] == 8] == [b'"dropped"']


def test_types_are_masked_each_by_its_rules():
    _, lake = landed(
        spec({"email": {"hash": KEY, "types": ["bid"]}, "ip": {"drop": True, "types": ["click"]}})
    )
    for row in rows(lake):
        found = json.loads(row["_payload"])
        assert ("ip" in found) == (row["_type"] == "bid")
        assert ("hmac" in str(found["email"])) or row["_type"] == "click"


def test_a_header_that_says_the_type_stays():
    log = [(value(1), event("x", 1)[1], [("t", b"click"), ("who", SECRET.encode())])]
    _, lake = landed(spec(event={**remaking.BY_FIELD, "type": {"header": "t"}}), log)
    [row] = rows(lake)
    assert [h["value"] for h in row["_headers"]] == [b"click", token(SECRET).encode()]


def again(world: World, lake: MemoryLake, of: Pipeline, token: str = "again") -> dict:
    """All contents after a remake without Kafka."""
    remaking_units = remaking.units(of)[:1]
    world.kafka.silent = frozenset(of.clusters)
    world.land(of, lake, SLICES, "remake", token)
    return {
        unit: (own, replace(manifest, long_numbers=True))
        for unit, (own, manifest) in contents(lake, remaking_units).items()
    }


ROTATED = {"email": {"hash": [NEW, KEY]}, "ip": "drop", "user.name": "keep_first"}


@pytest.mark.parametrize("rows_are", ["one", "array"])
@pytest.mark.parametrize("rejected_records", [HASH, "drop", "keep"])
@pytest.mark.parametrize("after", [None, ROTATED], ids=["the same", "another key"])
def test_what_is_masked_is_not_masked_again(rows_are: str, rejected_records: Any, after: dict | None):
    form = {"event": {**remaking.BY_FIELD, "rows": rows_are}}
    own = spec({**MASK, "_rejected": rejected_records}, **form)
    world, lake = landed(own)
    before = again(world, lake, own, "first")
    first = {unit: sorted(map(str, found)) for unit, (found, _) in before.items()}
    assert {u: sorted(map(str, f)) for u, (f, _) in _contents_at_first(own).items()} == first
    changed = spec({**(after or MASK), "_rejected": rejected_records}, **form)
    found = again(world, lake, changed, "second")
    assert {unit: sorted(map(str, own)) for unit, (own, _) in found.items()} == first
    assert SECRET.encode() not in everything(lake) or rejected_records == "keep"


def _contents_at_first(of: Pipeline) -> dict:
    return contents(landed(of)[1], remaking.units(of)[:1])


def test_a_mask_that_was_taken_away_and_comes_back():
    world, lake = landed(spec())
    kept = rows(lake), rows(lake, rejected=True)
    for number, mask in enumerate([{}, MASK, {"phone": HASH}, MASK]):
        again(world, lake, spec(mask), f"t{number}")
        assert (rows(lake), rows(lake, rejected=True)) == kept
        masked = manifest_of(lake).masked
        assert masked is not None
        assert set(masked.hashed) >= {"email", "_rejected", "_key", "_headers"}
        assert masked.keys == (token("")[8:16],)


def test_what_landed_without_a_mask_gets_it_by_a_remake():
    world, lake = landed(spec({}))
    assert manifest_of(lake).masked is None
    found = again(world, lake, spec())
    fresh = contents(landed(spec())[1], remaking.units(spec())[:1])
    for unit, (own, manifest) in found.items():
        assert own == fresh[unit][0]
        assert manifest == replace(fresh[unit][1], long_numbers=True)
    assert SECRET.encode() not in everything(lake)


# With it a first landing keeps a message as it is whose elements are masked in the lake.
CHANGES = {name: both for name, both in remaking.CHANGES.items() if name != "no arrays from now on"}


@pytest.mark.parametrize("change", per_commit(CHANGES, 5))
def test_with_every_change_it_is_what_a_first_landing_gives(change: str):
    """As long as headers, and bytes that are no event, are kept: else they cannot come back."""
    mask = {"country": HASH, "user": "drop", "_rejected": "keep", "_headers": "keep"}
    before, after = ({**one, "mask": mask} for one in CHANGES[change])
    found = remaking.compare(remaking.spec(**before), remaking.spec(**after), remaking.worlds(), most_rows=7)
    assert all(manifest.masked is not None for manifest in found)


@pytest.mark.parametrize("change", ["nothing", "arrays from now on", "type by another field"])
def test_a_mask_that_comes_with_another_change(change: str):
    before, after = CHANGES[change]
    after = {**after, "mask": {"country": HASH}}
    remaking.compare(remaking.spec(**before), remaking.spec(**after), remaking.worlds())


def test_a_key_that_is_missing_is_refused_before_anything_is_read(monkeypatch):
    own = spec({"email": {"hash": {"connection": "mask_key"}}})
    world, lake = World({("dc1", "bids"): [records()]}), MemoryLake()
    world.resolve(own, lake, SLICES)
    with pytest.raises(WrongUse, match="no connection 'mask_key'"):
        world.land(own, lake, SLICES)
    monkeypatch.setenv("AIRFLOW_CONN_MASK_KEY", '{"password": "short"}')
    with pytest.raises(WrongUse, match=r"mask\.email: connection 'mask_key' has no password of at least 16"):
        world.land(own, lake, SLICES)
    assert world.reads == []
    monkeypatch.setenv("AIRFLOW_CONN_MASK_KEY", json.dumps({"password": KEY}))
    world.land(own, lake, SLICES)
    assert token(SECRET).encode() in everything(lake)
