from __future__ import annotations

import json
import string
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import manifest
from sluice.errors import SluiceError
from sluice.manifest import (
    KINDS,
    FieldSeen,
    LandedFile,
    Loss,
    Manifest,
    OffsetRange,
    PartitionCount,
    TypeFields,
    read_count,
)
from tests.support.manifests import made_manifest

counts = st.integers(0, 2**62 - 1)
instants = st.datetimes(datetime(2, 1, 1)).map(lambda at: at.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0"))
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
files = st.builds(
    LandedFile, names, names, st.none() | names, names, counts, counts, names, st.dictionaries(names, counts)
)
fields = st.builds(FieldSeen, counts, st.dictionaries(st.sampled_from(KINDS), counts), counts)
type_fields = st.builds(TypeFields, names, counts, st.booleans(), st.dictionaries(names, fields), counts)
manifests = st.builds(
    Manifest,
    pipeline=names,
    slice=names,
    cluster=names,
    generation=counts,
    attempt=names,
    ranges=st.lists(st.builds(OffsetRange, names, names, counts, counts, counts)).map(tuple),
    files=st.lists(files).map(tuple),
    rejected=st.lists(files).map(tuple),
    read=counts,
    rejected_records=st.dictionaries(names, counts),
    gaps=counts,
    lost=st.lists(st.builds(Loss, names, counts, counts, counts, st.booleans())).map(tuple),
    late=counts,
    token=names,
    landed_at=st.just("") | instants,
    counts=st.lists(st.builds(PartitionCount, names, counts, counts, counts)).map(tuple),
    fields=st.lists(type_fields).map(tuple),
)


def landed(type_name: str | None, rows: int, **by_type: int) -> LandedFile:
    return LandedFile("k", "a", type_name, "2026-11-20T10", rows, 100, "sha", by_type)


def example(**changes: object) -> Manifest:
    values: dict[str, object] = {
        "pipeline": "github",
        "slice": "2026-11-20T10Z",
        "cluster": "dc1",
        "generation": 2,
        "attempt": "a7",
        "ranges": (OffsetRange("b", "u1", 0, 10, 60), OffsetRange("a", "u2", 1, 5, 5)),
        "files": (landed("push", 20), landed("pull", 3), landed("push", 10), landed(None, 9, fork=7, push=2)),
        "rejected": (LandedFile("r", "ra", None, "", 8, 50, "sha"),),
        "read": 50,
        "rejected_records": {"not JSON": 5, "no type": 3},
        "gaps": 0,
    }
    return made_manifest(**values | changes)


def test_counts() -> None:
    one = example()
    assert one.parsed == 42
    assert one.rows_by_type() == {"fork": 7, "pull": 3, "push": 32}
    assert list(one.rows_by_type()) == ["fork", "pull", "push"]
    assert [r.offsets for r in one.ranges] == [50, 0]
    assert one.topics == {"a", "b"}
    assert one.id == "2-a7"


def test_an_empty_slice() -> None:
    empty = example(files=(), rejected=(), read=0, rejected_records={}, ranges=())
    assert (empty.parsed, empty.rows_by_type(), empty.topics) == (0, {}, frozenset())
    assert manifest.decode(manifest.encode(empty), "m") == empty


def test_the_text_is_for_people_too() -> None:
    text = manifest.encode(example()).decode()
    content = json.loads(text)
    assert content["ranges"][0] == {"topic": "b", "uuid": "u1", "partition": 0, "start": 10, "until": 60}
    assert content["files"][3]["type"] is None
    assert content["files"][3]["rows_by_type"] == {"fork": 7, "push": 2}
    assert content["rejected_records"] == {"not JSON": 5, "no type": 3}
    assert content["version"] == 1
    assert len(text.splitlines()) > 20


def test_fields_of_a_type_are_found_by_its_name() -> None:
    clicks = TypeFields("click", 9, False, {"url": FieldSeen(8, {"string": 7, "null": 1}, 16)}, 2)
    one = manifest.decode(manifest.encode(example(fields=(clicks, TypeFields("bid", 1, True, {})))), "m")
    assert one.fields_of("click") == clicks
    assert one.fields_of("view") is None
    assert clicks.fields["url"].filled == 7


def test_the_fields_of_a_type_are_one_line_whatever_they_are_called() -> None:
    hostile = {'\n "fields": []': FieldSeen(1, {"null": 1}), '"': FieldSeen(1, {}), "ключ": FieldSeen(1, {})}
    one = example(token='\n "fields": []', fields=(TypeFields('\n "fields": []', 9, False, hostile),) * 2)
    text = manifest.encode(one)
    assert manifest.decode(text, "m") == one
    assert len(text.splitlines()) == len(manifest.encode(replace(one, fields=())).splitlines()) + 3


def test_an_older_manifest_knows_no_fields() -> None:
    content = json.loads(manifest.encode(example()))
    assert content.pop("fields") == []
    assert manifest.decode(json.dumps(content).encode(), "m") == example()


@given(manifests)
def test_round_trip(one: Manifest) -> None:
    assert manifest.decode(manifest.encode(one), "m") == one
    assert manifest.encode(one) == manifest.encode(manifest.decode(manifest.encode(one), "m"))


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b"\xff", b'{"version": 1}', b'{"version": "1"}', b'{"pipeline": "p"}'],
)
def test_not_a_manifest(data: bytes) -> None:
    with pytest.raises(SluiceError, match=r"^_slices/s/c/manifest\.json is not a manifest"):
        manifest.decode(data, "_slices/s/c/manifest.json")


@pytest.mark.parametrize(
    "change",
    [
        {"generation": 2**64 - 2},
        {"generation": -1},
        {"read": 2**63},
        {"landed_at": "yesterday"},
        {"landed_at": "2026-11-31T10:00:00Z"},
        {"forgotten": {"lake": "never"}},
        {"ranges": [{"topic": "a", "uuid": "u", "partition": 0, "start": -5, "until": 2}]},
        {"rejected_records": {"not JSON": -5}},
    ],
)
def test_what_no_landing_writes_is_not_a_manifest(change: dict) -> None:
    content = json.loads(manifest.encode(example())) | change
    with pytest.raises(SluiceError, match=r"^there is not a manifest \(.*\): verify names what to do$"):
        manifest.decode(json.dumps(content).encode(), "there")


@given(st.integers(1, 200))
def test_a_torn_manifest(length: int) -> None:
    whole = manifest.encode(example())
    with pytest.raises(SluiceError, match="is not a manifest"):
        manifest.decode(whole[:-length].rstrip(string.whitespace.encode() + b"}"), "m")


def test_a_newer_format() -> None:
    content = json.loads(manifest.encode(example())) | {"version": 2, "ranges": "in another file"}
    with pytest.raises(SluiceError, match="format 2, newer than this Sluice's 1: upgrade"):
        manifest.decode(json.dumps(content).encode(), "m")


def test_fields_of_a_later_release_are_passed_over() -> None:
    content = json.loads(manifest.encode(example())) | {"colour": "green"}
    assert manifest.decode(json.dumps(content).encode(), "m") == example()


@pytest.mark.parametrize(
    ("sizes", "rows_per_read", "expected"),
    [([], 10, 0), ([0, 0], 10, 0), ([1], 10, 1), ([10, 3], 10, 1), ([11, 3], 10, 2), ([100, 250], 100, 3)],
)
def test_the_largest_partition_says_how_many_reads(sizes, rows_per_read, expected):
    ranges = [OffsetRange("bids", "id", n, 7, 7 + size) for n, size in enumerate(sizes)]
    assert read_count(ranges, rows_per_read) == expected
