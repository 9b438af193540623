"""Which units are read, what of them Kafka still has, and in which runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.errors import RecordsExpired, WrongUse
from sluice.flow.land.read_plan import (
    MAX_ROWS,
    MAX_SLICES,
    MIN_ROWS_PER_PARTITION,
    ReadGroup,
    UnitRead,
    described,
    runs,
    together,
    unit_read,
)
from sluice.manifest import Forgotten, Loss, Manifest, OffsetRange
from sluice.plan.modes import MODES, needs_landing
from sluice.slices import Slice, Unit
from tests.support.landing_world import START, hours, pipeline
from tests.support.manifests import made_manifest

UNIT = Unit(Slice(START), "dc1")
RANGES = (OffsetRange("bids", "id", 0, 10, 20), OffsetRange("wins", "w", 1, 0, 5))
STARTS = {("bids", 0): 0, ("wins", 1): 0}


def manifest(*ranges: OffsetRange, lost: tuple[Loss, ...] = (), token: str = "") -> Manifest:
    return made_manifest(
        "demo", UNIT.slice.id, "dc1", 1, "a", ranges, (), (), 0, {}, 0, lost=lost, token=token
    )


def says_lake(error: RecordsExpired) -> bool:
    return "nothing of it goes" in error.remedy


@pytest.mark.parametrize(
    ("found", "mode", "token", "needed"),
    [
        (None, "fill", "t", True),
        (None, "reload", "t", True),
        (None, "reland", "t", True),
        (manifest(), "fill", "t", False),
        (manifest(), "reload", "t", False),
        (manifest(token="old"), "reland", "t", True),
        (manifest(token="t"), "reland", "t", False),
        (None, "remake", "t", True),
        (manifest(token="old"), "remake", "t", True),
        (manifest(token="t"), "remake", "t", False),
    ],
)
def test_what_has_to_be_landed(found, mode, token, needed):
    assert needs_landing(found, mode, token) is needed


def test_a_mode_that_is_none():
    assert MODES == ("fill", "repair", "reload", "remake", "reland")
    with pytest.raises(WrongUse, match="^mode 'all': expected one of fill, repair, reload, remake, reland$"):
        needs_landing(None, "all", "")


def loss(start: int, until: int, exact: bool = True, topic: str = "bids", partition: int = 0) -> Loss:
    return Loss(topic, partition, start, until, exact)


def read(
    starts: dict, on_expired: str = "fail", old: Manifest | None = None, expired: tuple[Loss, ...] = ()
) -> UnitRead:
    spec = pipeline().model_copy(update={"on_expired": on_expired})
    return unit_read(spec, UNIT, RANGES, expired, {**STARTS, **starts}, old)


def test_all_of_it_is_there():
    assert read({("bids", 0): 10}) == UnitRead(UNIT, RANGES, RANGES, ())
    assert read({}).offsets == 15


def test_what_is_left_is_read_where_the_file_says_so():
    known = loss(2, 10, exact=False)
    found = read({("bids", 0): 13}, "land_rest", expired=(known,))
    assert found.left == (replace(RANGES[0], start=13), RANGES[1])
    assert found.lost == (loss(10, 13), known)
    assert (found.ranges, found.offsets) == (RANGES, 12)


@pytest.mark.parametrize(
    ("starts", "expired", "told"),
    [
        ({("bids", 0): 13}, (), ("bids", 0, 10, 13, True)),
        ({("wins", 1): 2}, (), ("wins", 1, 0, 2, True)),
        ({}, (loss(2, 10, exact=False),), ("bids", 0, 2, 10, False)),
    ],
)
def test_what_expired_is_refused_with_its_offsets(starts, expired, told):
    with pytest.raises(RecordsExpired) as raised:
        read(starts, expired=expired)
    error = raised.value
    assert (error.topic, error.partition, error.lost_from, error.lost_until, error.exact) == told
    assert (error.cluster, error.slice_id, "nothing of it goes" in error.remedy) == (
        "dc1",
        "2026-01-01T00Z",
        False,
    )


@pytest.mark.parametrize("on_expired", ["fail", "land_rest"])
def test_what_has_landed_must_be_readable_again(on_expired):
    with pytest.raises(RecordsExpired) as raised:
        read({("bids", 0): 13}, on_expired, manifest(*RANGES))
    assert (raised.value.lost_from, raised.value.lost_until, "nothing of it goes" in raised.value.remedy) == (
        10,
        13,
        True,
    )


WORDS = "demo --from 2026-01-01T00:00Z --to 2026-01-01T01:00Z --mode"
LOST = "slice 2026-01-01T00Z: Kafka no longer has 3 offsets [10, 13) of dc1/bids/0"


@pytest.mark.parametrize(
    ("old", "gone", "said"),
    [
        (
            None,
            (),
            f"{LOST} (retention): set `on_expired: land_rest` to land what is left and record the loss, or "
            "begin later",
        ),
        (
            None,
            ("bids",),
            f"{LOST} (the topic is gone): set `on_expired: land_rest` to land what is left and record the "
            "loss, or begin later",
        ),
        (
            manifest(*RANGES),
            ("wins",),
            f"{LOST} (retention): it is not landed again, so that nothing of it goes; `sluice run {WORDS} "
            f"reload` loads it from the lake's files, and `sluice run {WORDS} remake` parses them again",
        ),
        (
            replace(manifest(*RANGES), forgotten=Forgotten(lake="2026-02-01T00:00:00Z")),
            ("bids",),
            f"{LOST} (the topic is gone): the lake forgot its files on 2026-02-01T00:00:00Z, so nothing "
            "brings them back, and it is not landed again: the tables keep what they have",
        ),
    ],
)
def test_what_is_said_of_records_that_expired(old, gone, said):
    with pytest.raises(RecordsExpired) as raised:
        unit_read(pipeline(), UNIT, RANGES, (), {**STARTS, ("bids", 0): 13}, old, gone)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("old", "starts"),
    [
        # What was lost before it landed the first time is no new loss.
        (manifest(*RANGES, lost=(loss(10, 13),)), {("bids", 0): 13}),
        (manifest(*RANGES, lost=(loss(10, 14),)), {("bids", 0): 13}),
        # An hour that is not known exactly may be named behind it, or before.
        (manifest(*RANGES, lost=(loss(10, 13), loss(2, 10, exact=False))), {("bids", 0): 13}),
        (manifest(*RANGES, lost=(loss(2, 10, exact=False), loss(10, 13))), {("bids", 0): 13}),
        # And none of a topic that is read now.
        (manifest(RANGES[1]), {}),
    ],
)
def test_nothing_of_what_landed_is_missing(old, starts):
    assert read(starts, "fail", old).ranges == RANGES


@pytest.mark.parametrize(
    ("old", "starts", "told"),
    [
        # More than was lost then.
        (manifest(*RANGES, lost=(loss(10, 13),)), {("bids", 0): 15}, ("bids", 0, 13, 15, True, True)),
        # All of a topic that left the pipeline file, and Kafka.
        (manifest(*RANGES, OffsetRange("old", "o", 0, 0, 9)), {}, ("old", 0, 0, 9, True, True)),
        # All of a topic that was recreated.
        (manifest(OffsetRange("bids", "before", 0, 30, 40)), {}, ("bids", 0, 30, 40, True, True)),
        (manifest(OffsetRange("bids", "before", 3, 0, 40)), {}, ("bids", 3, 0, 40, True, True)),
        # A loss that the manifest does not know of a topic that it does not have.
        (manifest(RANGES[0]), {("wins", 1): 1}, ("wins", 1, 0, 1, True, False)),
        (manifest(RANGES[0], lost=(loss(10, 12),)), {("wins", 1): 1}, ("wins", 1, 0, 1, True, False)),
    ],
)
def test_what_is_lost_since_it_landed_is_refused(old, starts, told):
    with pytest.raises(RecordsExpired) as raised:
        read(starts, "fail", old)
    error = raised.value
    place = (error.topic, error.partition)
    assert (
        *place,
        error.lost_from,
        error.lost_until,
        error.exact,
        "nothing of it goes" in error.remedy,
    ) == told


def test_an_empty_range_of_a_topic_that_was_made_again_is_no_loss():
    assert read({}, "fail", manifest(OffsetRange("bids", "before", 0, 30, 30))).ranges == RANGES


def unit(hour: int, *edges: tuple[int, int], cluster: str = "dc1", uuid: str = "id") -> UnitRead:
    found = tuple(OffsetRange("bids", uuid, number, *edge) for number, edge in enumerate(edges))
    return UnitRead(Unit(Slice(START.add(hours=hour)), cluster), found, found, ())


def hours_of(found: list[ReadGroup]) -> list[tuple[str, list[int]]]:
    return [(run.cluster, [u.unit.slice.start.hour for u in run.units]) for run in found]


def test_runs_are_maximal_and_of_one_cluster():
    found = runs(
        [
            unit(1, (5, 9)),
            unit(0, (0, 5)),
            unit(2, (9, 9)),
            unit(1, (2, 3), cluster="dc2"),
            unit(0, (0, 2), cluster="dc2"),
        ]
    )
    assert hours_of(found) == [("dc1", [0, 1, 2]), ("dc2", [0, 1])]
    assert [run.offsets for run in found] == [9, 3]
    assert [run.together for run in found] == [False, False]


@pytest.mark.parametrize(
    ("after", "continues"),
    [
        (unit(1, (5, 9), (7, 8)), True),
        (unit(1, (5, 9), (7, 8), (0, 1)), True),
        (unit(2, (5, 9), (7, 8)), False),
        (unit(1, (6, 9), (7, 8)), False),
        (unit(1, (5, 9), (8, 8)), False),
        (unit(1, (5, 9)), False),
        (unit(1, (5, 9), (7, 8), uuid="new"), False),
        (unit(1, (5, 9), (7, 8), cluster="dc2"), False),
    ],
)
def test_a_run_goes_on_where_the_last_hour_ended(after, continues):
    assert len(runs([unit(0, (0, 5), (7, 7)), after])) == (1 if continues else 2)


def test_units_without_offsets_are_read_only_within_a_run():
    assert runs([unit(0, (5, 5))]) == []
    assert hours_of(runs([unit(0, (5, 5)), unit(1, (5, 6)), unit(3, (6, 6))])) == [("dc1", [0, 1])]


def test_the_edges_of_a_run():
    [run] = runs([unit(0, (0, 5)), unit(1, (5, 9), (3, 4)), unit(2, (9, 9), (4, 6))])
    edges = run.edges()
    assert {place: found.tolist() for place, found in edges.items()} == {
        ("bids", 0): [0, 5, 9, 9],
        ("bids", 1): [3, 3, 4, 6],
    }
    assert {str(found.dtype) for found in edges.values()} == {"int64"}


def test_what_is_about_to_be_read_in_the_order_of_partitions():
    units = [unit(0, *[(0, 1)] * 66)]
    assert described(units[:1], most=66)[-1] == "dc1/bids/65: offsets [0, 1) of 2026-01-01T00Z"
    assert described(units)[-1] == "and 2 more partitions"
    assert described(units, most=65)[-2:] == [
        "dc1/bids/64: offsets [0, 1) of 2026-01-01T00Z",
        "and 1 more partitions",
    ]
    assert described([unit(0, *[(0, 1)] * 1_064)])[-1] == "and 1,000 more partitions"
    turned = replace(units[0], left=tuple(reversed(units[0].left[:2])))
    assert [line[:10] for line in described([turned])] == ["dc1/bids/0", "dc1/bids/1"]


def run_of(rows: list[int], partitions: int = 1) -> ReadGroup:
    units, start = [], 0
    for number, count in enumerate(rows):
        edges = [(start, start + count), *[(number, number + 1)] * (partitions - 1)]
        units.append(unit(number, *edges))
        start += count
    return ReadGroup("dc1", tuple(units))


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        ([100, 100], [(1, False), (1, False)]),
        ([50, 50, 1], [(2, True), (1, False)]),
        ([101, 101], [(2, False)]),
        ([101, 100], [(1, False), (1, False)]),
        ([100, 101], [(1, False), (1, False)]),
        ([1, 101, 102, 1, 1], [(1, False), (2, False), (2, True)]),
        ([0, 0, 100], [(3, True)]),
    ],
)
def test_a_part_holds_at_most_its_rows(rows, shape):
    found = together(run_of(rows), max_rows=100, max_slices=100, min_rows=0)
    assert [(len(run.units), run.together) for run in found] == shape
    assert {run.cluster for run in found} == {"dc1"}


@pytest.mark.parametrize(
    ("min_rows", "sizes"), [(0, [3, 3, 1]), (1, [3, 3, 1]), (2, [4, 3]), (3, [6, 1]), (4, [7])]
)
def test_parts_are_cut_by_slices_once_they_are_worth_it(min_rows, sizes):
    """Hours of two rows in one of two partitions that hold any; the third is empty."""
    units = [unit(n, (2 * n, 2 * n + 1), (2 * n, 2 * n + 1), (4, 4)) for n in range(7)]
    found = together(ReadGroup("dc1", tuple(units)), max_rows=1_000, max_slices=3, min_rows=2 * min_rows)
    assert [len(run.units) for run in found] == sizes


def test_a_task_takes_two_hundred_thousand_rows_and_a_partition_is_worth_two_hundred():
    assert (MAX_ROWS, MAX_SLICES, MIN_ROWS_PER_PARTITION) == (200_000, 500, 200)
    assert [len(r.units) for r in together(run_of([100_000, 100_000, 1]))] == [2, 1]
    assert [len(r.units) for r in together(run_of([1] * 501))] == [500, 1]
    few = ReadGroup("dc1", tuple(unit(n, *[(n, n + 1)] * 3) for n in range(1_000)))
    assert [len(r.units) for r in together(few)] == [500, 500]


# ---- What the landing's log says before it reads.


def unit_reads(*edges: tuple[int, ...], skip: int | None = None) -> list[UnitRead]:
    """A unit per hour between the edges of each partition; `skip` leaves one hour out."""
    found = []
    for number, piece in enumerate(hours(len(edges[0]) - 1)):
        ranges = tuple(OffsetRange("bids", "id", p, e[number], e[number + 1]) for p, e in enumerate(edges))
        if number != skip:
            found.append(UnitRead(Unit(piece, "dc1"), ranges, ranges, ()))
    return found


def test_consecutive_hours_are_one_line_a_partition():
    assert described(unit_reads((0, 5, 9), (7, 7, 8), (3, 3, 3))) == [
        "dc1/bids/0: offsets [0, 9) of 2026-01-01T00Z … 2026-01-01T01Z",
        "dc1/bids/1: offsets [7, 8) of 2026-01-01T00Z … 2026-01-01T01Z",
    ]


def test_an_hour_that_has_landed_divides_them():
    assert described(unit_reads((0, 5, 9, 12), skip=1)) == [
        "dc1/bids/0: offsets [0, 5) of 2026-01-01T00Z",
        "dc1/bids/0: offsets [9, 12) of 2026-01-01T02Z",
    ]


def test_of_many_only_the_number_is_said():
    edges = [(0, 1)] * 70
    assert described(unit_reads(*edges), most=64)[63:] == [
        "dc1/bids/63: offsets [0, 1) of 2026-01-01T00Z",
        "and 6 more partitions",
    ]
