"""Which clusters a slice waits for, when clusters come and go, and which topics its units have."""

from __future__ import annotations

from array import array
from dataclasses import replace
from datetime import datetime, timedelta

import pendulum
import pytest

from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.flow.resolve.resolve import resolve
from sluice.manifest import Forgotten, OffsetRange
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.boundary import CODE, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.ledger import LedgerRow
from sluice.state.status import statuses
from sluice.state.units import all_topics, known_topics, spans, topics_of, unit_ranges, units_of
from sluice.topic_patterns import TopicPatterns
from tests.support.fakes import FakeKafka, FakeTopic, MemoryLake
from tests.support.landing_world import NOW, START, hours
from tests.support.landing_world import pipeline as make
from tests.support.manifests import made_manifest


def pipeline(*names: str, **starts: datetime) -> Pipeline:
    own = [{"cluster": c, "bootstrap": "nowhere:1", "topics": ["bids"]} for c in names]
    return make(kafka=[{**c, "start": starts.get(c["cluster"])} for c in own])


class There:
    """A lake whose boundaries several runs resolve."""

    def __init__(self) -> None:
        self.lake = MemoryLake()
        self.kafka = FakeKafka({(c, "bids"): FakeTopic(f"id-{c}", {0: []}) for c in ("dc1", "dc2", "dc3")})

    def resolve(self, spec: Pipeline, slices: SliceRange, *silent: str) -> set[str]:
        """The clusters that did not answer."""
        self.kafka.silent = set(silent)
        return set(resolve(spec, self.lake, list(slices), NOW, self.kafka.topics_of).unreachable)

    def units(self, spec: Pipeline, slices: SliceRange) -> list[str]:
        """Hour and cluster."""
        found = units_of(spec, slices, BoundaryLog(self.lake).read())
        return [f"{unit.slice.start.hour}/{unit.cluster}" for unit in found]


def test_one_cluster_counts_everywhere():
    it, spec = There(), pipeline("dc1")
    assert it.units(spec, hours(2)) == ["0/dc1", "1/dc1"]
    it.resolve(spec, hours(1, first=2))
    assert it.units(spec, hours(3)) == ["0/dc1", "1/dc1", "2/dc1"]


def test_clusters_of_the_first_day_count_everywhere():
    it, spec = There(), pipeline("dc1", "dc2")
    assert it.units(spec, hours(1)) == ["0/dc1", "0/dc2"]
    it.resolve(spec, hours(1, first=1))
    assert it.units(spec, hours(2)) == ["0/dc1", "0/dc2", "1/dc1", "1/dc2"]


def test_a_cluster_that_was_down_on_the_first_day_is_waited_for_all_the_same():
    it, spec = There(), pipeline("dc1", "dc2")
    assert it.resolve(spec, hours(2), "dc2") == {"dc2"}
    assert it.units(spec, hours(2)) == ["0/dc1", "0/dc2", "1/dc1", "1/dc2"]
    it.resolve(spec, hours(1, first=2))  # it is back, and nobody has asked it for the hours before again
    assert it.units(spec, hours(3))[:4] == ["0/dc1", "0/dc2", "1/dc1", "1/dc2"]


def test_a_cluster_that_was_added_later_begins_where_it_was_first_asked_for():
    it = There()
    it.resolve(pipeline("dc1"), hours(4))
    both = pipeline("dc1", "dc2")
    assert it.units(both, hours(4)) == ["0/dc1", "1/dc1", "2/dc1", "3/dc1"]
    it.resolve(both, hours(2, first=3))
    assert it.units(both, hours(5)) == ["0/dc1", "1/dc1", "2/dc1", "3/dc1", "3/dc2", "4/dc1", "4/dc2"]
    cluster_spans, pieces = spans(both, BoundaryLog(it.lake).read()), list(hours(5))
    awaited = [[unit.cluster for unit in cluster_spans.awaited(piece)] for piece in pieces]
    assert awaited == [["dc1"]] * 3 + [["dc1", "dc2"]] * 2
    it.resolve(both, hours(3, first=1))  # somebody fills older hours
    assert it.units(both, hours(3)) == ["0/dc1", "1/dc1", "1/dc2", "2/dc1", "2/dc2"]


def test_hours_that_were_asked_for_wait_although_the_cluster_did_not_answer():
    it = There()
    it.resolve(pipeline("dc1"), hours(2, first=2))
    both = pipeline("dc1", "dc2")
    it.resolve(both, hours(1, first=3), "dc2")
    it.resolve(both, hours(2), "dc2")
    entries = BoundaryLog(it.lake).read().entries
    assert it.units(both, hours(3)) == ["0/dc1", "0/dc2", "1/dc1", "1/dc2", "2/dc1", "2/dc2"]
    it.resolve(both, hours(2), "dc2")
    assert BoundaryLog(it.lake).read().entries == entries  # once is enough


def test_a_start_of_its_own_is_kept_whatever_is_asked_for():
    it = There()
    spec = pipeline("dc1", "dc2", dc2=START.add(hours=2))
    it.resolve(spec, hours(4))
    assert it.units(spec, hours(3)) == ["0/dc1", "1/dc1", "2/dc1", "2/dc2"]
    known = BoundaryLog(it.lake).read().stored("dc2", "bids")
    assert known.instants[0] == START.add(hours=2).int_timestamp


def test_what_has_landed_stays_when_its_cluster_begins_later_by_now():
    it, both = There(), pipeline("dc1", "dc2")
    it.resolve(both, hours(3))
    later = pipeline("dc1", "dc2", dc2=START.add(hours=1))
    assert it.units(later, hours(2)) == ["0/dc1", "0/dc2", "1/dc1", "1/dc2"]
    known = BoundaryLog(it.lake).read()
    assert [unit.cluster for unit in spans(later, known).awaited(next(iter(hours(1))))] == ["dc1"]
    first = Unit(next(iter(hours(1))), "dc2")
    manifest = made_manifest("ads", first.slice.id, "dc2", 1, "a", (), (), (), 0, {}, 0)
    assert statuses(later, [first], known, {}, {}, NOW) == []
    [status] = statuses(later, [first], known, {first: manifest}, {}, NOW)
    assert (status.gone, status.lacking) == (True, ())


def test_a_cluster_that_was_taken_away_may_have_landed_as_far_as_it_is_resolved():
    it = There()
    it.resolve(pipeline("dc1", "dc2"), hours(2))
    alone = pipeline("dc1")
    it.resolve(alone, hours(3))
    assert it.units(alone, hours(3)) == ["0/dc1", "0/dc2", "1/dc1", "1/dc2", "2/dc1"]
    awaited = spans(alone, BoundaryLog(it.lake).read()).awaited(next(iter(hours(1))))
    assert [unit.cluster for unit in awaited] == ["dc1"]


def test_one_cluster_in_the_place_of_another_is_not_asked_for_the_hours_before():
    it = There()
    it.resolve(pipeline("dc1"), hours(2))
    new = pipeline("dc3")
    it.resolve(new, hours(1, first=2))
    assert it.units(new, hours(3)) == ["0/dc1", "1/dc1", "2/dc3"]


def test_what_was_asked_for_outlives_the_checkpoint():
    it, both = There(), pipeline("dc1", "dc2")
    for hour in range(33):
        it.resolve(both, SliceRange(START.add(hours=hour), START.add(hours=hour + 1)), "dc2")
    stored = it.lake.read("_boundaries/checkpoint.json")
    assert stored is not None
    state = BoundaryLog(it.lake).read()
    assert state.begin("dc2") == START
    assert state.clusters == {"dc1", "dc2"}


def test_nothing_is_noted_when_no_cluster_answers():
    it, both = There(), pipeline("dc1", "dc2")
    assert it.resolve(both, hours(1), "dc1", "dc2") == {"dc1", "dc2"}
    assert list(it.lake.list("")) == []


@pytest.mark.parametrize("start", [pendulum.datetime(2026, 1, 1, 0, 30), "2026-01-01T00:00:01Z"])
def test_a_start_between_edges_is_refused(start):
    with pytest.raises(ValueError, match=r"kafka\.1\.start: expected an instant on a slice's edge"):
        pipeline("dc1", "dc2", dc2=start)


def test_a_table_that_lost_what_the_lake_has_forgotten():
    """It had the unit by then; one that was named later needs none."""
    it, spec = There(), make(tables={"click": "db.clicks", "*": "db.later"})
    unit = Unit(next(iter(hours(1))), "dc1")
    gone = Forgotten(lake="2028-01-01T00:00:00Z", tables=("db.clicks", "db.departed"), removed=True)
    manifest = made_manifest("ads", unit.slice.id, "dc1", 1, "a", (), (), (), 0, {}, 0, forgotten=gone)
    row = LedgerRow(unit, manifest.id, ("click",), 1, 1, 0, "", 1)

    def taken(*rows: LedgerRow) -> tuple[str, ...]:
        boundaries = BoundaryLog(it.lake).read()
        ledgers = {"db.clicks": {one.unit: one for one in rows}}
        [status] = statuses(spec, [unit], boundaries, {unit: manifest}, ledgers, NOW)
        return status.lost_in

    assert taken(row) == ()
    assert taken() == taken(replace(row, manifest="1-other")) == ("db.clicks",)
    assert taken(replace(row, manifest="", shares=(("s1", row), ("s2", None)))) == ()


@pytest.mark.parametrize(
    ("first", "asked", "said"),
    [
        (60, 15, "`slice` is 15m, but its first boundary fixed the length at 1h: put `slice: 1h` back"),
        (90, 1440, "`slice` is 24h, but its first boundary fixed the length at 90m: put `slice: 90m` back"),
        (180, 120, "`slice` is 2h, but its first boundary fixed the length at 3h: put `slice: 3h` back"),
    ],
)
def test_slices_of_another_length_are_refused(first, asked, said):
    lengths = (timedelta(minutes=first), timedelta(minutes=asked))
    known = Boundaries().with_entry(LogEntry(lengths[0], ()))
    with pytest.raises(WrongUse) as refused:
        spans(make(slice=lengths[1]), known)
    assert str(refused.value) == f"pipeline demo: {said}, or make a new pipeline"
    assert spans(make(slice=lengths[0]), known).known == {}


# ---- Which topics a unit is of.


def offsets_of(topic: str, *offsets: int) -> TopicBoundaries:
    found = array("b", [CODE[FoundBy.RECORD]] * len(offsets))
    column = PartitionColumn(0, *(array("q", offsets) for _ in range(3)), found)
    instants = array("q", [START.add(hours=n).int_timestamp for n in range(len(offsets))])
    return TopicBoundaries("dc1", topic, f"id-{topic}", instants, {0: column})


def matching(*topics: str, since: datetime | None = None) -> Pipeline:
    return make(kafka=[{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": list(topics), "start": since}])


FIRST, SECOND, THIRD = (Unit(piece, "dc1") for piece in hours(3))
# By the pattern the first two hours were resolved; `bids.b` was there in the first alone.
KNOWN = Boundaries().with_entry(
    LogEntry(
        timedelta(hours=1),
        (offsets_of("bids.a", 0, 5, 9, 9), offsets_of("bids.b", 0, 2), offsets_of("wins", 0, 1, 3, 6)),
        listed={
            "dc1": {
                TopicPatterns(("bids.*",), ()): frozenset(START.add(hours=n).int_timestamp for n in (0, 1))
            }
        },
    )
)


def test_a_unit_has_the_topics_that_matched_and_those_that_are_named():
    spec = matching("bids.*", "wins")
    found = [topics_of(spec, unit, None, KNOWN) for unit in (FIRST, SECOND, THIRD)]
    assert found == [("wins", "bids.a", "bids.b"), ("wins", "bids.a"), ("wins", "bids.a")]
    named = matching("wins", "clicks")
    assert topics_of(named, FIRST, None, KNOWN) == ("wins", "clicks")
    landed = made_manifest(
        "demo", FIRST.slice.id, "dc1", 1, "a",
        tuple(OffsetRange(t, "id", 0, 0, 1) for t in ("old", "wins", "ads")), (), (), 0, {}, 0,
    )  # fmt: skip
    assert topics_of(named, FIRST, landed, KNOWN) == ("wins", "clicks", "ads", "old")
    # Of what the file no longer asks for, it has what it has landed.
    later = matching("wins", since=START.add(hours=1))
    assert topics_of(later, FIRST, landed, KNOWN) == ("ads", "old", "wins")
    assert topics_of(later, FIRST, None, KNOWN) == ()
    assert topics_of(matching("wins"), Unit(FIRST.slice, "dc9"), landed, KNOWN) == ("ads", "old", "wins")


def test_a_unit_of_a_pattern_is_resolved_once_kafka_was_asked_what_matches():
    spec = matching("bids.*", "wins")
    found = [unit_ranges(spec, unit, ["wins"], KNOWN) for unit in (FIRST, SECOND, THIRD)]
    wins = [(OffsetRange("wins", "id-wins", 0, start, until),) for start, until in ((0, 1), (1, 3), (3, 6))]
    assert found == [*wins[:2], None]
    assert unit_ranges(matching("wins"), THIRD, ["wins"], KNOWN) == wins[2]
    gone = matching("bids.*", since=START.add(hours=9))
    assert unit_ranges(gone, THIRD, ["wins"], KNOWN) == wins[2]


def test_the_topics_of_a_cluster():
    [cluster] = matching("bids.*", "wins").kafka
    assert known_topics(cluster, KNOWN) == ("wins", "bids.a")
    assert all_topics(cluster, KNOWN) == ("wins", "bids.a", "bids.b")
    assert known_topics(cluster, Boundaries()) == all_topics(cluster, Boundaries()) == ("wins",)
    [named] = matching("wins", "clicks").kafka
    assert known_topics(named, KNOWN) == all_topics(named, KNOWN) == ("wins", "clicks")
