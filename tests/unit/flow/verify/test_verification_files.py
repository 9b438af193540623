"""Every case of a file that is not as its manifest says, word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.clients.lake.layout import FileName, parse_name
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_files import check_files, dead
from sluice.flow.verify.facts import LakeFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Loss, Traffic
from sluice.slices import Slice, Unit
from sluice.state.unit_state import UnitState
from tests.support.verified import FACTS, FOUND, LAKE, START, TEN, manifest, pipeline

REPAIRS = Repairs("ads")
RUN_TEN = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode {}"
ADVICE = "Sluice did not write it, and does not delete it: move it out of the lake's folder"
HOUR = "type=%3D/date=2026-11-20/hour=10/"
CLEAN_TEN = "sluice verify ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --clean"
CLICKS = "type=click/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-1-0.parquet"
SLICE = {"slice": "2026-11-20T10Z", "cluster": "dc1"}


def files(facts: VerifyFacts) -> list[Anomaly]:
    return list(check_files(facts, REPAIRS))


def lake(**changes: object) -> VerifyFacts:
    return replace(FACTS, lake=replace(LAKE, **changes))


def sizes(**changes: int | None) -> dict[str, int]:
    """Of the sound lake, with `clicks` of the first hour changed; None: it is not there."""
    found = {**LAKE.sizes, CLICKS: changes["clicks"]} if "clicks" in changes else dict(LAKE.sizes)
    return {key: size for key, size in found.items() if size is not None}


def test_a_listed_file_that_is_not_there():
    assert files(lake(sizes=sizes(clicks=None))) == [
        Anomaly(
            AnomalyKind.FILE_MISSING,
            "600 bytes",
            "no file",
            RUN_TEN.format("reland"),
            type="click",
            file=CLICKS,
            **SLICE,
        )
    ]


@pytest.mark.parametrize(("size", "seen"), [(601, "601 bytes"), (0, "0 bytes"), (12_345, "12,345 bytes")])
def test_a_listed_file_of_another_size(size, seen):
    assert files(lake(sizes=sizes(clicks=size))) == [
        Anomaly(
            AnomalyKind.FILE_SIZE,
            "600 bytes",
            seen,
            RUN_TEN.format("reland"),
            type="click",
            file=CLICKS,
            **SLICE,
        )
    ]


def test_a_listed_file_of_another_content():
    assert files(lake(checksums={CLICKS: "y"})) == [
        Anomaly(
            AnomalyKind.FILE_CHECKSUM,
            "SHA-256 x",
            "y",
            RUN_TEN.format("reland"),
            type="click",
            file=CLICKS,
            **SLICE,
        )
    ]
    assert files(lake(checksums={CLICKS: "x"})) == []


@pytest.mark.parametrize("state", list(UnitState))
def test_a_file_that_is_still_in_its_attempt_is_moved_by_a_fill(state):
    facts = lake(sizes=sizes(clicks=None), unmoved=frozenset({CLICKS}))
    [one] = files(replace(facts, statuses=(replace(FOUND[0], state=state), FOUND[1])))
    if state.done:
        assert (one.kind, one.command) == (AnomalyKind.FILE_MISSING, RUN_TEN.format("reland"))
    else:
        expected = Anomaly(
            *(AnomalyKind.FILE_NOT_MOVED, "600 bytes", "it is still at a", RUN_TEN.format("fill")),
            type="click",
            file=CLICKS,
            **SLICE,
        )
        assert one == expected


def test_a_file_without_a_type_and_files_of_counts_are_looked_at_too():
    whole = manifest(TEN, 0)
    overflow = LandedFile("type=_overflow/o", "a", None, "2026-11-20T10", 1, 1_024, "x", {"a": 1})
    counts = LandedFile("_counts/c", "a", "e.traffic", "", 1, 7, "x")
    changed = replace(
        whole, files=(overflow,), rejected=(), traffic=(Traffic("e.traffic", {}, (), {}, (counts,)),)
    )
    facts = replace(lake(sizes={}, named={}), statuses=(replace(FOUND[0], manifest=changed),))
    assert [(a.file, a.type, a.expected) for a in files(facts)] == [
        ("type=_overflow/o", "", "1,024 bytes"),
        ("_counts/c", "e.traffic", "7 bytes"),
    ]


def with_file(key: str, **changes: object) -> VerifyFacts:
    known = {"sizes": {**LAKE.sizes, key: 12_345}, **changes}
    return lake(**known)


def unknown(key: str, command: str, advice: str = "", **place: str) -> Anomaly:
    return Anomaly(AnomalyKind.FILE_UNKNOWN, "no file", "12,345 bytes", command, advice, file=key, **place)


@pytest.mark.parametrize(
    "key",
    [
        "type=click/part-0.parquet",
        "type=click/ads2/type=view/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-0-9.parquet",
        "type=click/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-1-9.parquet.crc",
        "type=click/date=2026-11-20/hour=10/2026-11-20T1015Z-dc1-1-9.parquet",
        "type=click/date=2026-11-20/hour=10/2026-13-20T10Z-dc1-1-9.parquet",
    ],
)
def test_a_file_that_sluice_did_not_write(key):
    assert files(with_file(key)) == [unknown(key, "", ADVICE)]
    assert dead(with_file(key)) == []


def test_a_file_that_may_hold_what_its_hour_lost_is_for_a_person_to_judge():
    key = "type=click/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-1-9.parquet"
    lossy = replace(FOUND[0].manifest, lost=(Loss("bids", 0, 3, 5, exact=True),))
    known = with_file(key, named={**LAKE.named, ("2026-11-20T10Z", "dc1"): lossy})
    advice = "its hour landed with a loss, and the file may hold what was lost: look before you delete it"
    assert [a for a in files(known) if a.file == key] == [unknown(key, "", advice, **SLICE)]


@pytest.mark.parametrize("generation", [1, 2])
def test_a_file_of_a_landed_slice_that_its_manifest_does_not_list(generation):
    key = f"type=click/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-{generation}-9.parquet"
    assert files(with_file(key)) == [unknown(key, CLEAN_TEN, **SLICE)]
    assert dead(with_file(key)) == []


def test_a_file_of_a_generation_that_was_replaced_is_dead():
    keys = [f"type={t}/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-0-9.parquet" for t in ("view", "click")]
    facts = lake(sizes={**LAKE.sizes, **dict.fromkeys(keys, 1)})
    assert dead(facts) == sorted(keys)
    assert files(facts) == []


@pytest.mark.parametrize(
    ("cluster", "command"),
    [("dc1", RUN_TEN.format("fill").replace("T10", "T09").replace("T11", "T10")), ("dc9", "")],
)
def test_a_file_whose_manifest_is_gone_may_be_the_only_copy(cluster, command):
    key = f"type=click/date=2026-11-20/hour=10/2026-11-20T09Z-{cluster}-1-0.parquet"
    clean = CLEAN_TEN.replace("T10", "T09").replace("T11", "T10")
    advice = f"when the hour has landed again, `{clean}` removes what is left"
    place = {"slice": "2026-11-20T09Z", "cluster": cluster, "file": key}
    expected = [
        Anomaly(AnomalyKind.FILE_UNKNOWN, "a manifest that lists it", "none", command, advice, **place)
    ]
    assert files(with_file(key)) == expected
    assert files(with_file(key, named={**LAKE.named, ("2026-11-20T09Z", cluster): None})) == expected


def test_files_of_a_manifest_that_cannot_be_read_are_left_alone():
    key = "type=click/date=2026-11-20/hour=10/2026-11-20T09Z-dc1-1-0.parquet"
    nine = Unit(Slice(START.subtract(hours=1)), "dc1")
    assert files(replace(with_file(key), unreadable={nine: "cut"})) == []
    for other in (replace(nine, cluster="dc2"), TEN):
        assert len(files(replace(with_file(key), unreadable={other: "cut"}))) == 1


def test_files_of_old_attempts():
    facts = lake(attempts=("_attempts/a/1", "_attempts/b/2"))
    advice = "its attempt died a week ago or more, and no manifest names it"
    assert files(facts) == [
        Anomaly(AnomalyKind.ATTEMPT, "no file", "a file", "sluice verify ads --clean", advice, file=key)
        for key in ("_attempts/a/1", "_attempts/b/2")
    ]


def test_unknown_files_are_told_in_the_order_of_their_names():
    keys = ["z/part", "a/part", "m/part"]
    facts = lake(sizes={**LAKE.sizes, **dict.fromkeys(keys, 1)})
    assert [a.file for a in files(facts)] == sorted(keys)


def test_a_file_listed_by_a_manifest_outside_the_range_is_known():
    earlier = Unit(Slice(START.subtract(hours=1)), "dc1")
    other = manifest(earlier, 0)
    listed = {file.key: file.bytes for file in other.all_files}
    facts = lake(sizes={**LAKE.sizes, **listed}, named={**LAKE.named, (earlier.slice.id, "dc1"): other})
    assert files(facts) == []
    assert dead(facts) == []


def test_quarters_of_an_hour_have_names_too():
    quarter = "type=click/date=2026-11-20/hour=10/2026-11-20T1015Z-dc1-1-0.parquet"
    facts = replace(with_file(quarter), pipeline=pipeline(slice="15m"))
    facts = replace(facts, lake=LakeFacts(sizes={quarter: 1}), statuses=())
    [one] = files(facts)
    assert (one.slice, one.command) == (
        "2026-11-20T1015Z",
        "sluice run ads --from 2026-11-20T10:15Z --to 2026-11-20T10:30Z --mode fill",
    )


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("_rejected/2026-11-20T10Z-dc1-1-0.parquet", FileName("2026-11-20T10Z", "dc1", 1)),
        (f"{HOUR}2026-11-20T10Z-d-c_1.x-12-345.parquet", None),
        (f"{HOUR}2026-11-20T10Z-d_c1.x-12-345.parquet", FileName("2026-11-20T10Z", "d_c1.x", 12)),
        ("_counts/e.traffic/2026-11-20T1015Z-dc1-1-0.parquet", FileName("2026-11-20T1015Z", "dc1", 1)),
        ("2026-11-20T10Z-dc1-1-0.parquet", None),
        ("_rejected/2026-11-20T10Z-dc1-1-0.parquet/", None),
        ("_rejected/2026-11-20T10Z-dc1-x-0.parquet", None),
        ("_rejected/x2026-11-20T10Z-dc1-1-0.parquet", None),
        ("_rejected/2026-11-20T10Z-größe-1-0.parquet", None),
        ("_rejected/2026-11-20T10Z-dc1-٢-0.parquet", None),
    ],
)
def test_names(name, parsed):
    assert parse_name(name) == parsed
