from __future__ import annotations

import json
from array import array
from dataclasses import replace
from datetime import timedelta

import pendulum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import SluiceError
from sluice.flow.resolve.clamp import Answers, PartitionAnswers, boundaries_to_store
from sluice.manifest import Loss, OffsetRange
from sluice.slices import Slice
from sluice.state.boundaries.boundary import CODE, UNKNOWN, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.log import (
    CHECKPOINT,
    CHECKPOINT_EVERY,
    BoundaryLog,
    decode_checkpoint,
    decode_entry,
    encode_checkpoint,
    encode_entry,
)
from sluice.state.boundaries.model import Boundaries, Era, LogEntry
from sluice.topic_patterns import TopicPatterns
from tests.support.fakes import MemoryLake

HOUR = timedelta(hours=1)
START = pendulum.datetime(2026, 11, 20, 10)
NOW = pendulum.datetime(2026, 11, 21)


def at(hour: int) -> int:
    return int(START.timestamp()) + hour * 3600


def slice_of(hour: int) -> Slice:
    return Slice(START.add(hours=hour))


def entry_of(
    state: Boundaries, hours: dict[int, dict[int, int]], starts: dict[int, int] | None = None
) -> LogEntry:
    """`hours`: hour to partition to offset; every hour names the same partitions."""
    partitions = {
        p: PartitionAnswers(
            (starts or {}).get(p, 0),
            (starts or {}).get(p, 0),
            [hours[hour][p] for hour in hours],
            [FoundBy.RECORD] * len(hours),
        )
        for p in next(iter(hours.values()))
    }
    answers = Answers("dc1", "bids", "id", [at(hour) for hour in hours], partitions)
    return LogEntry(HOUR, (boundaries_to_store(state.stored("dc1", "bids"), answers),))


def append(log: BoundaryLog, *args) -> Boundaries:
    state = log.read()
    new = log.append(state, entry_of(state, *args), NOW)
    assert new is not None
    return new


def test_what_is_written_is_read():
    lake = MemoryLake()
    append(BoundaryLog(lake), {0: {0: 5, 1: 50}, 1: {0: 5, 1: 90}, 2: {0: 70, 1: 91}}, {1: 50})
    append(BoundaryLog(lake), {-1: {0: 1, 1: 50, 2: 0}, 5: {0: 80, 1: 91, 2: 4}}, {1: 50})
    found = BoundaryLog(lake).read()
    assert found.entries == 2
    assert found.length == HOUR
    assert found.span() == (START.subtract(hours=1), START.add(hours=5))
    assert found.ranges(slice_of(0), "dc1", ["bids"]) == (
        OffsetRange("bids", "id", 0, 5, 5),
        OffsetRange("bids", "id", 1, 50, 90),
    )
    assert found.expired(slice_of(0), "dc1", ["bids"]) == (Loss("bids", 1, 0, 50, exact=False),)
    assert found.ranges(slice_of(2), "dc1", ["bids"]) is None
    boundary = found.offsets("dc1", "bids", START)
    assert boundary is not None
    assert {p: (b.offset, b.found_by, b.log_start) for p, b in boundary.partitions.items()} == {
        0: (5, FoundBy.RECORD, 0),
        1: (50, FoundBy.LOG_START, 50),
        2: (0, FoundBy.NEW, 0),
    }


def test_the_loser_of_a_race_gets_none_and_the_entry_stays():
    lake = MemoryLake()
    first, second = BoundaryLog(lake), BoundaryLog(lake)
    state = first.read()
    assert first.append(state, entry_of(state, {0: {0: 5}}), NOW) is not None
    before = dict(lake.objects)
    assert second.append(state, entry_of(state, {0: {0: 6}}), NOW) is None
    assert lake.objects == before


def test_a_won_race_whose_answer_is_lost_is_won():
    lake = MemoryLake()
    log = BoundaryLog(lake)
    state = log.read()
    entry = entry_of(state, {0: {0: 5}})
    assert log.append(state, entry, NOW) is not None
    assert log.append(state, entry, NOW) is not None


def test_two_writers_of_the_same_boundaries_differ_in_their_bytes():
    entry = entry_of(Boundaries(), {0: {0: 5}})
    written = []
    for _ in range(2):
        lake = MemoryLake()
        BoundaryLog(lake).append(Boundaries(), entry, NOW)
        written.append(lake.read("_boundaries/0000000000.json").data)
    assert written[0] != written[1]


def test_a_checkpoint_makes_reading_short_and_changes_nothing():
    lake = MemoryLake()
    for hour in range(CHECKPOINT_EVERY + 2):
        starts = {0: max(0, hour - 3), 1: 7}
        append(BoundaryLog(lake), {hour: {0: hour * 10, 1: 7 + hour}}, starts)
    assert CHECKPOINT in lake.objects
    slices = [slice_of(hour) for hour in range(-1, CHECKPOINT_EVERY + 2)]
    short = BoundaryLog(lake).read()
    read = [key for key in lake.objects if key != CHECKPOINT]
    del lake.objects[CHECKPOINT]
    long = BoundaryLog(lake).read()
    assert len(read) == short.entries == long.entries
    for piece in slices:
        assert short.ranges(piece, "dc1", ["bids"]) == long.ranges(piece, "dc1", ["bids"])
        assert short.expired(piece, "dc1", ["bids"]) == long.expired(piece, "dc1", ["bids"])
        assert short.offsets("dc1", "bids", piece.start) == long.offsets("dc1", "bids", piece.start)


def test_an_old_checkpoint_costs_only_reads():
    lake = MemoryLake()
    for hour in range(CHECKPOINT_EVERY):
        append(BoundaryLog(lake), {hour: {0: hour}})
    old = lake.objects[CHECKPOINT]
    for hour in range(CHECKPOINT_EVERY, 2 * CHECKPOINT_EVERY):
        append(BoundaryLog(lake), {hour: {0: hour}})
    lake.objects[CHECKPOINT] = old
    assert BoundaryLog(lake).read().entries == 2 * CHECKPOINT_EVERY


def test_a_year_of_hours_in_64_partitions_is_one_modest_object():
    hours = {hour: {p: hour * 1000 + p for p in range(64)} for hour in range(8761)}
    lake = MemoryLake()
    append(BoundaryLog(lake), hours)
    (stored,) = lake.objects.values()
    assert len(stored[0]) < 4_000_000
    found = BoundaryLog(lake).read().ranges(slice_of(8759), "dc1", ["bids"])
    assert found is not None
    assert {r.offsets for r in found} == {1000}


@pytest.mark.parametrize(
    ("change", "message"),
    [({"version": 2}, "upgrade"), ({"topics": 5}, "is not an entry"), ({"length": None}, "is not an entry")],
)
def test_what_is_no_entry_is_refused_with_its_place(change: dict, message: str):
    lake = MemoryLake()
    append(BoundaryLog(lake), {0: {0: 5}})
    (key,) = lake.objects
    content = json.loads(lake.objects[key][0]) | change
    lake.objects[key] = (json.dumps(content).encode(), 1)
    with pytest.raises(SluiceError, match=rf"_boundaries/0000000000\.json .*{message}"):
        BoundaryLog(lake).read()


def test_a_topic_id_that_nobody_accepted_is_refused():
    state = Boundaries().with_entry(entry_of(Boundaries(), {0: {0: 5}}))
    other = Answers("dc1", "bids", "other", [at(1)], {0: PartitionAnswers(0, 0, [0], [FoundBy.END])})
    with pytest.raises(SluiceError, match="never accepted"):
        state.with_entry(LogEntry(HOUR, (boundaries_to_store(None, other),)))


def test_an_accepted_topic_id_begins_a_new_era():
    lake = MemoryLake()
    append(BoundaryLog(lake), {0: {0: 5}, 1: {0: 50}, 2: {0: 70}})
    log = BoundaryLog(lake)
    state = log.read()
    other = Answers("dc1", "bids", "other", [at(2)], {0: PartitionAnswers(0, 0, [0], [FoundBy.LOG_START])})
    log.append(
        state,
        LogEntry(HOUR, (boundaries_to_store(None, other),), {("dc1", "bids"): Era("other", at(2))}),
        NOW,
    )
    later = Answers("dc1", "bids", "other", [at(3)], {0: PartitionAnswers(0, 0, [8], [FoundBy.RECORD])})
    state = log.read()
    log.append(state, LogEntry(HOUR, (boundaries_to_store(state.stored("dc1", "bids"), later),)), NOW)
    found = BoundaryLog(lake).read()
    assert found.uuid("dc1", "bids") == "other"
    assert found.ranges(slice_of(1), "dc1", ["bids"]) == (OffsetRange("bids", "id", 0, 50, 70),)
    assert found.ranges(slice_of(2), "dc1", ["bids"]) == (OffsetRange("bids", "other", 0, 0, 8),)
    # The old id cannot be asked any more: it stands still where it was first seen.
    assert found.missing([slice_of(-3)], "dc1", "bids") == []
    assert found.ranges(slice_of(-3), "dc1", ["bids"]) == (OffsetRange("bids", "id", 0, 5, 5),)
    assert found.missing([slice_of(3)], "dc1", "bids") == [at(4)]


def test_the_instants_of_an_entry_may_have_gaps():
    lake = MemoryLake()
    append(BoundaryLog(lake), {0: {0: 1}, 1: {0: 2}, 9: {0: 3}})
    found = BoundaryLog(lake).read().stored("dc1", "bids")
    assert found is not None
    assert found.instants == array("q", [at(0), at(1), at(9)])


# ---- The boundary log's objects as they lie in the lake: byte for byte what earlier and later versions
# read.

TEN = 1_795_168_800  # 2026-11-20T10:00:00Z


def column(
    first: int, offsets: list[int], floors: list[int], starts: list[int], found: list[FoundBy]
) -> PartitionColumn:
    codes = array("b", [CODE[one] for one in found])
    return PartitionColumn(first, array("q", offsets), array("q", floors), array("q", starts), codes)


def block(instants: list[int], columns: dict[int, PartitionColumn], uuid: str = "id-1") -> TopicBoundaries:
    return TopicBoundaries("dc1", "bids", uuid, array("q", instants), columns)


EXPIRED = column(
    5,
    [5, 5, 9, 20],
    [0, 5, 9, 20],
    [5, 5, 5, 7],
    [FoundBy.LOG_START, FoundBy.CLAMPED, FoundBy.RECORD, FoundBy.END],
)
LATER = column(
    3,
    [UNKNOWN, UNKNOWN, 3, 4],
    [3, 3, 3, 4],
    [3, 3, 3, 3],
    [FoundBy.NEW, FoundBy.NEW, FoundBy.SCAN, FoundBy.SCAN],
)
BLOCK = block([TEN, TEN + 3600, TEN + 7200, TEN + 5 * 3600], {0: EXPIRED, 7: LATER})
TOPIC = {
    "cluster": "dc1",
    "topic": "bids",
    "uuid": "id-1",
    "instants": [["2026-11-20T10:00:00Z", 3], ["2026-11-20T15:00:00Z", 1]],
    "partitions": [
        {
            "partition": 0,
            "first_start": 5,
            "offsets": [5, 0, 4, 11],
            "floors": [[0, 1], [-1, 3]],
            "log_starts": [[5, 3], [7, 1]],
            "found": [["log_start", 1], ["clamped", 1], ["record", 1], ["end", 1]],
        },
        {
            "partition": 7,
            "first_start": 3,
            "offsets": [-1, 0, 4, 1],
            "floors": [[-1, 4]],
            "log_starts": [[3, 4]],
            "found": [["new", 2], ["scan", 2]],
        },
    ],
}
ENTRY = LogEntry(
    HOUR,
    (BLOCK,),
    {("dc1", "bids"): Era("id-2", TEN + 3600), ("dc1", "wins"): Era("id-9")},
    {"dc2": TEN - 3600},
)
STORED_ENTRY = {
    "version": 1,
    "length": 3600,
    "writer": "w",
    "written_at": "2026-11-21T00:00:00Z",
    "topics": [TOPIC],
    "accepted": [
        {"cluster": "dc1", "topic": "bids", "uuid": "id-2", "since": "2026-11-20T11:00:00Z"},
        {"cluster": "dc1", "topic": "wins", "uuid": "id-9", "since": None},
    ],
    "entries": 0,
    "asked": {"dc2": "2026-11-20T09:00:00Z"},
}
ERAS = {("dc1", "bids"): (Era("id-1"), Era("id-2", TEN + 3600)), ("dc2", "bids"): (Era("id-3"),)}
STATE = Boundaries(32, HOUR, {BLOCK.key: BLOCK}, ERAS, {"dc2": TEN})
STORED_STATE = STORED_ENTRY | {
    "accepted": [
        {"cluster": "dc1", "topic": "bids", "uuid": "id-1", "since": None},
        {"cluster": "dc1", "topic": "bids", "uuid": "id-2", "since": "2026-11-20T11:00:00Z"},
        {"cluster": "dc2", "topic": "bids", "uuid": "id-3", "since": None},
    ],
    "entries": 32,
    "asked": {"dc2": "2026-11-20T10:00:00Z"},
}


def test_an_entry_as_it_is_stored():
    assert json.loads(encode_entry(ENTRY, "w", NOW)) == STORED_ENTRY
    assert decode_entry(json.dumps(STORED_ENTRY).encode(), "there") == ENTRY


def test_a_checkpoint_as_it_is_stored():
    assert json.loads(encode_checkpoint(STATE, HOUR, "w", NOW)) == STORED_STATE
    assert decode_checkpoint(json.dumps(STORED_STATE).encode(), "there") == STATE


LISTED = {
    "dc1": {TopicPatterns(("bids.*",), ("bids.test",)): frozenset({TEN, TEN + 3600, TEN + 5 * 3600})},
    "dc2": {TopicPatterns(("wins.*",), ()): frozenset({TEN})},
}
STORED_LISTED = [
    {
        "cluster": "dc1",
        "include": ["bids.*"],
        "exclude": ["bids.test"],
        "slices": [["2026-11-20T10:00:00Z", 2], ["2026-11-20T15:00:00Z", 1]],
    },
    {"cluster": "dc2", "include": ["wins.*"], "exclude": [], "slices": [["2026-11-20T10:00:00Z", 1]]},
]


def test_slices_whose_topics_are_listed_by_patterns_as_they_are_stored():
    entry, stored = replace(ENTRY, listed=LISTED), STORED_ENTRY | {"listed": STORED_LISTED}
    assert json.loads(encode_entry(entry, "w", NOW)) == stored
    assert decode_entry(json.dumps(stored).encode(), "there") == entry
    state, stored = replace(STATE, listed=LISTED), STORED_STATE | {"listed": STORED_LISTED}
    assert json.loads(encode_checkpoint(state, HOUR, "w", NOW)) == stored
    assert decode_checkpoint(json.dumps(stored).encode(), "there") == state


def test_how_offsets_were_found_as_it_is_stored():
    assert [found.value for found in FoundBy] == [
        "record",
        "end",
        "log_start",
        "scan",
        "clamped",
        "new",
        "group",
    ]


def test_quarters_of_an_hour():
    quarters = block([TEN, TEN + 900, TEN + 1800, TEN + 3600], {})
    written = encode_entry(LogEntry(timedelta(minutes=15), (quarters,)), "w", NOW)
    assert json.loads(written)["length"] == 900
    assert json.loads(written)["topics"][0]["instants"] == [
        ["2026-11-20T10:00:00Z", 3],
        ["2026-11-20T11:00:00Z", 1],
    ]
    assert decode_entry(written, "there").blocks == (quarters,)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"version": 7, "topics": 3}', "^there has format 7, newer than this Sluice's 1: upgrade$"),
        (b"{", "^there is not an entry of the boundary log (.*): restore it from a copy$"),
        (b"{}", "^there is not an entry of the boundary log (.*): restore it from a copy$"),
    ],
)
@pytest.mark.parametrize("decode", [decode_entry, decode_checkpoint])
def test_what_cannot_be_read_is_told_with_its_place(decode, data, message):
    with pytest.raises(SluiceError, match=message):
        decode(data, "there")


@pytest.mark.parametrize("instant", ["soon", "P1D", "2026-11-20/2026-11-21", "P1D/T21"])
@pytest.mark.parametrize("decode", [decode_entry, decode_checkpoint])
@pytest.mark.parametrize(
    "part", ["asked", "accepted", "topics"], ids=["of a cluster", "of a topic id", "of boundaries"]
)
def test_an_instant_that_is_none_is_told_with_its_place(part, decode, instant):
    said = {
        "asked": {"dc1": instant},
        "accepted": [{"cluster": "dc1", "topic": "wins", "uuid": "id-9", "since": instant}],
        "topics": [STORED_ENTRY["topics"][0] | {"instants": [[instant, 1]]}],
    }
    data = json.dumps(STORED_ENTRY | {part: said[part]}).encode()
    with pytest.raises(SluiceError, match="^there is not an entry of the boundary log (.*): restore it from"):
        decode(data, "there")


@pytest.mark.parametrize("decode", [decode_entry, decode_checkpoint])
@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("first_start", 2**63),
        ("offsets", [5, 2**63, 4, 11]),
        ("floors", [[-(2**64), 4]]),
        ("log_starts", [[2**64, 4]]),
        ("log_starts", [[5, 2**64]]),
        ("offsets", [5, 0, 4]),
        ("floors", [[-1, 1]]),
        ("log_starts", [[5, 5]]),
        ("log_starts", [[5, 10**12]]),
        ("floors", [[-1, 10**12]]),
        ("found", [["end", 10**12]]),
        ("log_starts", [[5, 5], [5, -1]]),
        ("found", []),
        ("found", [["guessed", 4]]),
    ],
)
def test_a_partition_without_a_value_for_each_instant_is_told_with_its_place(decode, part, values):
    partition = TOPIC["partitions"][0] | {part: values}
    data = json.dumps(STORED_ENTRY | {"topics": [TOPIC | {"partitions": [partition]}]}).encode()
    with pytest.raises(SluiceError, match="^there is not an entry of the boundary log (.*): restore it from"):
        decode(data, "there")


def of_one_topic(runs: list) -> dict:
    return {"topics": [TOPIC | {"instants": runs, "partitions": []}]}


def of_one_pattern(runs: list) -> dict:
    return {"listed": [STORED_LISTED[0] | {"slices": runs}]}


@pytest.mark.parametrize("decode", [decode_entry, decode_checkpoint])
@pytest.mark.parametrize(
    ("part", "count", "said"),
    [
        (of_one_topic, 10**12, "it has more than 50,000,000 instants"),
        (of_one_topic, 0, "a run has 0 values"),
        (of_one_topic, -4, "a run has -4 values"),
        (of_one_pattern, 10**12, "it lists more than 50,000,000 slices"),
        (of_one_pattern, 0, "a run has 0 values"),
    ],
)
def test_endless_instants_are_told_with_their_place(decode, part, count, said):
    data = json.dumps(
        STORED_ENTRY | part([["2026-11-20T10:00:00Z", 1], ["2026-11-20T15:00:00Z", count]])
    ).encode()
    message = rf"^there is not an entry of the boundary log \({said}\): restore it from a copy$"
    with pytest.raises(SluiceError, match=message):
        decode(data, "there")


@pytest.mark.parametrize("part", [of_one_topic, of_one_pattern])
def test_as_many_instants_as_a_log_holds(part, monkeypatch):
    monkeypatch.setattr("sluice.state.boundaries.log._MOST_INSTANTS", 4)  # fifty million take a while
    runs = [["2026-11-20T10:00:00Z", 3], ["2026-11-20T15:00:00Z", 1]]
    decode_entry(json.dumps(STORED_ENTRY | part(runs)).encode(), "there")
    runs[1][1] = 2
    with pytest.raises(SluiceError, match="more than 4 "):
        decode_entry(json.dumps(STORED_ENTRY | part(runs)).encode(), "there")


@pytest.mark.parametrize(
    ("first", "count", "length", "ends"),
    [
        ("9999-12-31T23:59:58Z", 1, 1, True),
        ("9999-12-31T23:59:58Z", 2, 1, False),
        ("9999-12-31T22:00:00Z", 1, 3600, True),
        ("9999-12-31T23:00:00Z", 1, 3600, False),
    ],
)
def test_instants_end_with_the_year_9999(first, count, length, ends):
    data = json.dumps(STORED_ENTRY | of_one_topic([[first, count]]) | {"length": length}).encode()
    if ends:
        assert len(decode_entry(data, "there").blocks[0].instants) == count
        return
    with pytest.raises(SluiceError, match=rf"\({count} instants from {first} on end after the year 9999\)"):
        decode_entry(data, "there")


@pytest.mark.parametrize("values", [3, 5])
def test_a_partition_with_too_few_or_too_many_offsets_is_named(values):
    partition = TOPIC["partitions"][0] | {"offsets": [1] * values}
    data = json.dumps(STORED_ENTRY | {"topics": [TOPIC | {"partitions": [partition]}]}).encode()
    with pytest.raises(SluiceError, match="partition 0 does not have a value for each of 4 instants"):
        decode_entry(data, "there")


@pytest.mark.parametrize("decode", [decode_entry, decode_checkpoint])
def test_a_length_that_no_clock_has_is_told_with_its_place(decode):
    with pytest.raises(SluiceError, match="^there is not an entry of the boundary log (.*): restore it from"):
        decode(json.dumps(STORED_ENTRY | {"length": 2**64}).encode(), "there")


@st.composite
def blocks(draw: st.DrawFn) -> TopicBoundaries:
    instants = sorted(draw(st.sets(st.integers(-50, 50).map(lambda n: TEN + 3600 * n), max_size=9)))
    rows = len(instants)
    columns = {}
    for partition in draw(st.sets(st.integers(0, 3))):
        first = draw(st.integers(0, 9))
        offsets = [draw(st.just(UNKNOWN) | st.integers(0, 2**62)) for _ in range(rows)]
        known = [first if offset == UNKNOWN else offset for offset in offsets]
        floors = [
            o if offset == UNKNOWN else draw(st.integers(0, o))
            for o, offset in zip(known, offsets, strict=True)
        ]
        starts = draw(st.lists(st.integers(0, 2**62), min_size=rows, max_size=rows))
        found = draw(st.lists(st.sampled_from(list(FoundBy)), min_size=rows, max_size=rows))
        columns[partition] = column(first, offsets, floors, starts, found)
    return block(instants, columns)


@given(st.lists(blocks(), max_size=2))
@settings(deadline=None)
def test_whatever_is_written_is_read(found):
    entry = LogEntry(HOUR, tuple(found))
    assert decode_entry(encode_entry(entry, "w", NOW), "there") == entry
