"""Which records of a unit come out of its files, and which are counted alone: by hand, and at random."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import Conservation
from sluice.flow.land.commit import Landed, draft_manifest
from sluice.flow.land.conservation import check_rows
from sluice.flow.land.read_plan import UnitRead
from sluice.flow.land.remake import account
from sluice.flow.land.task.reports import SeenOffsets, WrittenFile
from sluice.flow.verify.check_files import check_conservation
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Forgotten, ForgottenRecords, LandedFile, Manifest, OffsetRange, PartitionCount
from sluice.slices import Slice, Unit
from tests.support.manifests import made_manifest
from tests.support.verified import FACTS, FOUND

UNIT = Unit(Slice(pendulum.datetime(2026, 1, 1)), "dc1")
JSON, TYPE, TIME = "not JSON", "no type", "no time"
ON, LATER = "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"
BAD = LandedFile("_rejected/x", "a", None, "", 0, 1, "0")


def ranges(*offsets: int) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange("bids", "u", n, 0, count) for n, count in enumerate(offsets))


def part(partition: int, records: int, rows: int | None = None, **more) -> SeenOffsets:
    place = (UNIT.cluster, UNIT.slice.id, "bids", partition)
    return SeenOffsets(*place, first=0, last=records - 1, records=records, rows=rows, **more)


def remade(old: Manifest, seen: list[SeenOffsets], arrays: bool) -> Manifest:
    """As the landing makes it; the files hold what the tasks parsed and refused."""
    found = account(UNIT, old, seen, arrays)
    refused = sum(sum(one.rejected_records.values()) + sum(one.rejected_elements.values()) for one in seen)
    held = sum(one.records if one.rows is None else one.rows for one in seen)
    lost = sum(sum((one.rejected_elements if arrays else one.rejected_records).values()) for one in seen)
    files = [
        WrittenFile("dc1", UNIT.slice.id, "click", "2026-01-01T00", "a", held - lost, 1, "0"),
        WrittenFile("dc1", UNIT.slice.id, None, "", "b", refused, 1, "0"),
    ]
    files = [file for file in files if file.rows]
    check_rows(UNIT, found.seen, files)
    read = UnitRead(UNIT, old.ranges, old.ranges, ())
    landed = Landed(read, "x", tuple(files), found.seen, found.gaps, "", "read_committed")
    made = draft_manifest("p", landed, timedelta(), "t", pendulum.datetime(2026, 5, 1), old.generation + 1)
    return replace(made, without_bytes=old.forgotten_records)


def anomalies(manifest: Manifest) -> list[str]:
    facts = replace(FACTS, statuses=(replace(FOUND[0], manifest=manifest),))
    return [str(one) for one in check_conservation(facts, Repairs("p"))]


def mixed() -> Manifest:
    """Of 30 and 20 records 5 and 3 were forgotten before, and 2 and 1 of its own rejected ones since; 4 and 0
    are erased, 1 and 2 are empty arrays."""
    counts = (
        PartitionCount("bids", 0, 30, 7, rows=40, erased=4, without_bytes=5),
        PartitionCount("bids", 1, 20, 4, rows=15, without_bytes=3),
    )
    before = (ForgottenRecords(ON, {JSON: 2, TYPE: 6}),)
    made = made_manifest(
        "p", UNIT.slice.id, "dc1", 2, "a", ranges(31, 20), (), (BAD,), 50, {JSON: 4, TYPE: 7}, 1
    )
    gone = Forgotten(rejected=LATER)
    return replace(made, counts=counts, rows=55, empty=3, erased=4, without_bytes=before, forgotten=gone)


def test_by_hand():
    old = mixed()
    assert (old.refused, old.kept_by_reason(), old.held_by_reason()) == (11, {JSON: 2, TYPE: 1}, {})
    seen = [part(0, 18, 40, rejected_records={TIME: 3}), part(1, 14, 15, rejected_elements={TIME: 2})]
    new = remade(old, seen, arrays=True)
    assert anomalies(new) == []
    assert (new.read, new.erased, new.empty, new.gaps, new.rows) == (50, 4, 3, 1, 55)
    assert new.rejected_records == {JSON: 4, TIME: 3, TYPE: 7}
    assert new.counts == (
        PartitionCount("bids", 0, 30, 10, rows=40, erased=4, without_bytes=7),
        PartitionCount("bids", 1, 20, 4, rows=15, rejected_elements=2, without_bytes=4),
    )
    assert new.without_bytes == (
        ForgottenRecords(ON, {JSON: 2, TYPE: 6}),
        ForgottenRecords(LATER, {JSON: 2, TYPE: 1}),
    )
    assert (new.held_by_reason(), new.forgotten_by_reason()) == ({TIME: 5}, {JSON: 4, TYPE: 7})
    assert sum(file.rows for file in new.rejected) == new.kept == 5


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (
            17,
            14,
            "15 records of bids/1, and the manifest counts 16",
        ),  # of four that are missing three are empty
        (19, 14, "33 records that are no empty array, and the manifest counts 32"),
        (20, 13, "20 records of bids/0, and the manifest counts 19"),
        (18, 17, "35 records that are no empty array, and the manifest counts 32"),
    ],
)
def test_a_record_too_few_or_too_many_is_refused(first: int, second: int, why: str):
    with pytest.raises(Conservation, match=why):
        account(UNIT, mixed(), [part(0, first, 40), part(1, second, 15)])


def test_sums_that_differ_are_refused():
    first, second = mixed().counts
    wrong = replace(mixed(), counts=(replace(first, rejected_records=8, read=31), second))
    with pytest.raises(Conservation, match="of 11 records are forgotten, and by its partitions of 12"):
        account(UNIT, wrong, [part(0, 18, 40), part(1, 14, 15)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"without_bytes": (ForgottenRecords(ON, {JSON: 5, TYPE: 3}),)}, "at most 4 without bytes, not JSON"),
        ({"without_bytes": (ForgottenRecords(ON, {JSON: 1, TYPE: 6}),)}, "8 without bytes, by partition"),
    ],
)
def test_verify_compares_them(changes: dict, message: str):
    own = replace(BAD, rows=3)
    assert not any("without bytes" in one for one in anomalies(replace(mixed(), rejected=(own,))))
    assert any(message in one for one in anomalies(replace(mixed(), rejected=(own,), **changes)))
    [first, second] = mixed().counts
    more = replace(mixed(), counts=(replace(first, without_bytes=8), replace(second, without_bytes=0)))
    assert any("7 rejected" in one for one in anomalies(more))


@dataclass(frozen=True)
class Drawn:
    """Of a partition: records in files, of these newly rejected; erased; forgotten before, and since."""

    parsed: int
    rejected: int
    erased: int
    before: int
    since: int


DRAWN = st.builds(Drawn, *[st.integers(0, 9)] * 5)
REASONS = st.lists(st.sampled_from([JSON, TYPE, TIME]), min_size=9 * 5, max_size=9 * 5)


@given(st.lists(DRAWN, min_size=1, max_size=5), REASONS, REASONS)
def test_the_equation_holds_of_each_partition(parts: list[Drawn], first: list[str], second: list[str]):
    before = dict(Counter(first[: sum(one.before for one in parts)]))
    since = dict(Counter(second[: sum(one.since for one in parts)]))
    counts = tuple(
        PartitionCount(
            "bids", n, p.parsed + p.rejected + p.erased + p.before + p.since, p.before + p.since,
            erased=p.erased, without_bytes=p.before,
        )
        for n, p in enumerate(parts)
    )  # fmt: skip
    old = made_manifest(
        "p", UNIT.slice.id, "dc1", 3, "a", ranges(*(c.read for c in counts)), (),
        (BAD,) if since else (), sum(c.read for c in counts), dict(Counter(before) + Counter(since)), 0,
        counts=counts, erased=sum(p.erased for p in parts),
        without_bytes=(ForgottenRecords(ON, before),) if before else (), forgotten=Forgotten(rejected=LATER),
    )  # fmt: skip
    seen = [
        part(n, p.parsed + p.rejected, rejected_records={TIME: p.rejected} if p.rejected else {})
        for n, p in enumerate(parts)
        if p.parsed + p.rejected
    ]
    new = remade(old, seen, arrays=False)
    assert anomalies(new) == []
    found = {count.partition: count for count in new.counts}
    for n, p in enumerate(parts):
        own = found.get(n, PartitionCount("bids", n, 0, 0))
        assert own.read == counts[n].read
        assert own.read - own.rejected_records - own.erased == p.parsed
        assert (own.rejected_records, own.without_bytes) == (
            p.rejected + p.before + p.since,
            p.before + p.since,
        )
    assert new.held_by_reason() == dict(+Counter({TIME: sum(p.rejected for p in parts)}))
    assert new.forgotten_by_reason() == dict(Counter(before) + Counter(since))
    if sum(p.parsed + p.rejected for p in parts):
        short = [replace(seen[0], records=seen[0].records + 1), *seen[1:]]
        with pytest.raises(Conservation):
            account(UNIT, old, short, arrays=False)
