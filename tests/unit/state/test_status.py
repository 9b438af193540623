"""From boundaries, manifests and the ledger to the status of each unit."""

from __future__ import annotations

from array import array
from dataclasses import replace
from datetime import timedelta

import pendulum
import pytest

from sluice.config.pipeline import Pipeline
from sluice.manifest import Forgotten, LandedFile, Loss, Manifest, OffsetRange, Traffic
from sluice.slices import Slice, Unit
from sluice.state.additions import Addition
from sluice.state.boundaries.boundary import CODE, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.ledger import LedgerRow
from sluice.state.status import LackingTopic, UnitStatus, complete_slices, statuses
from sluice.state.unit_state import DONE, UnitState
from sluice.topic_patterns import TopicPatterns
from tests.support.manifests import made_manifest

HOUR = timedelta(hours=1)
START = pendulum.datetime(2026, 11, 20, 10)
NOW = START.add(hours=2)
PIECES = [Slice(START.add(hours=n)) for n in range(3)]
TEN, ELEVEN, TWELVE = (Unit(piece, "dc1") for piece in PIECES)


def pipeline(*topics: str, **changes: object) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "ads",
            "kafka": [{"cluster": "dc1", "bootstrap": "h:1", "topics": list(topics) or ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "ts"}},
            "lake": "file://lake",
            "tables": {"click": "e.clicks", "*": "e.other"},
            "rows_per_read": 10,
            **changes,
        }
    )


def block(
    topic: str, offsets: list[int], floors: list[int] | None = None, cluster: str = "dc1"
) -> TopicBoundaries:
    rows = len(offsets)
    found = array("b", [CODE[FoundBy.RECORD]] * rows)
    column = PartitionColumn(
        0, array("q", offsets), array("q", floors or offsets), array("q", [0] * rows), found
    )
    instants = array("q", [START.add(hours=n).int_timestamp for n in range(rows)])
    return TopicBoundaries(cluster, topic, f"id-{topic}", instants, {0: column})


def log(*blocks: TopicBoundaries) -> Boundaries:
    return Boundaries().with_entry(LogEntry(HOUR, blocks))


def manifest(unit: Unit, *topics: str, **changes: object) -> Manifest:
    ranges = tuple(OffsetRange(t, f"id-{t}", 0, 0, 25) for t in topics or ("bids",))
    files = (
        LandedFile("c", "a", "click", "2026-11-20T10", 6, 600, "x"),
        LandedFile("v", "a", "view", "2026-11-20T10", 3, 300, "x"),
    )
    known = made_manifest("ads", unit.slice.id, unit.cluster, 1, "a", ranges, files, (), 9, {}, 0)
    return replace(known, **changes)


def row(unit: Unit, *types: str, rows: int = 5, rejected_rows: int = 1, **changes: object) -> LedgerRow:
    return replace(
        LedgerRow(unit, "1-a", types, rows + rejected_rows, rows, rejected_rows, "t", 1), **changes
    )


BOUNDARIES = log(block("bids", [0, 25, 30, 30]))
LEDGERS = {"e.clicks": {TEN: row(TEN, "click")}, "e.other": {TEN: row(TEN, "view", rows=3, rejected_rows=0)}}


def status_of(
    unit: Unit = TEN,
    spec: Pipeline | None = None,
    boundaries: Boundaries = BOUNDARIES,
    landed: Manifest | None = None,
    ledgers: dict = LEDGERS,
    expired: dict | None = None,
) -> UnitStatus:
    manifests = {} if landed is None else {unit: landed}
    [found] = statuses(spec or pipeline(), [unit], boundaries, manifests, ledgers, NOW, expired)
    return found


def test_everything_about_a_complete_unit():
    landed = manifest(TEN)
    assert status_of(landed=landed) == UnitStatus(
        unit=TEN,
        state=UnitState.COMPLETE,
        ranges=(OffsetRange("bids", "id-bids", 0, 0, 25),),
        losses=(),
        manifest=landed,
        tables={"e.clicks": row(TEN, "click"), "e.other": row(TEN, "view", rows=3, rejected_rows=0)},
        lacking=(),
        reads=3,
        gone=False,
        uncounted=(),
        derived=frozenset(),
    )


def test_everything_about_a_unit_that_is_not_resolved():
    assert status_of(Unit(Slice(START.add(hours=-1)), "dc1")) == UnitStatus(
        unit=Unit(Slice(START.add(hours=-1)), "dc1"),
        state=UnitState.MISSING,
        ranges=None,
        losses=(),
        manifest=None,
        tables={},
        lacking=(),
        reads=0,
    )


@pytest.mark.parametrize(("unit", "state"), [(ELEVEN, UnitState.MISSING), (TWELVE, UnitState.NOT_OVER)])
def test_a_slice_is_over_at_its_end(unit, state):
    assert status_of(unit).state is state


@pytest.mark.parametrize(
    ("ledgers", "state"),
    [
        ({}, UnitState.LANDED),
        ({"e.clicks": {}, "e.other": LEDGERS["e.other"]}, UnitState.LANDED),
        ({**LEDGERS, "e.clicks": {TEN: row(TEN, "click", manifest="0-z")}}, UnitState.STALE),
        ({**LEDGERS, "e.clicks": {TEN: row(TEN, "click", "view")}}, UnitState.STALE),
        ({**LEDGERS, "e.clicks": {TEN: row(TEN, "click", sharding="s1 by partition")}}, UnitState.STALE),
        ({**LEDGERS, "e.clicks": {TEN: row(TEN, "click", shares=(("s1", None),))}}, UnitState.LANDED),
        ({**LEDGERS, "e.old": {TEN: row(TEN, "click", manifest="0-z")}}, UnitState.COMPLETE),
    ],
)
def test_the_ledger_of_every_table_decides(ledgers, state):
    assert status_of(landed=manifest(TEN), ledgers=ledgers).state is state


def test_losses_of_the_boundaries_and_of_kafka_now():
    boundaries = log(block("bids", [5, 25, 30], floors=[2, 25, 30]))
    now = {TEN: (Loss("bids", 0, 5, 8, exact=True),)}
    both = (Loss("bids", 0, 2, 5, exact=False), Loss("bids", 0, 5, 8, exact=True))
    missing = status_of(boundaries=boundaries, expired=now)
    assert (missing.state, missing.losses) == (UnitState.EXPIRED, both)
    assert status_of(ELEVEN, boundaries=boundaries, expired=now).losses == ()
    assert status_of(boundaries=boundaries).losses == both[:1]
    lossy = status_of(landed=manifest(TEN, lost=both), boundaries=boundaries)
    assert lossy.state is UnitState.COMPLETE_WITH_LOSS


def test_nothing_is_lost_of_what_is_not_resolved():
    boundaries = log(block("bids", [5, 25], floors=[2, 25]))
    assert status_of(spec=pipeline("bids", "wins"), boundaries=boundaries).losses == ()


def test_a_topic_that_came_later_is_lacking():
    boundaries = log(block("bids", [0, 25]), block("wins", [0, 11]), block("views", [0, 1]))
    spec = pipeline("bids", "wins", "views")
    found = status_of(spec=spec, boundaries=boundaries, landed=manifest(TEN))
    assert (list(map(str, found.lacking)), found.state) == (
        ["views (1 offset)", "wins (11 offsets)"],
        UnitState.COMPLETE,
    )
    assert (found.offsets, found.reads) == (37, 3)
    assert status_of(spec=spec, boundaries=boundaries).lacking == ()
    assert status_of(landed=manifest(TEN, "bids", "old")).lacking == ()


def test_a_topic_that_left_stays_part_of_what_landed():
    boundaries = log(block("bids", [0, 25]), block("wins", [0, 11]))
    found = status_of(boundaries=boundaries, landed=manifest(TEN, "bids", "wins"))
    assert [r.topic for r in found.ranges or ()] == ["bids", "wins"]
    assert (found.offsets, found.lacking, found.state) == (36, (), UnitState.COMPLETE)


def test_a_topic_without_offsets_in_the_hour_is_not_lacking():
    boundaries = log(block("bids", [0, 25]), block("wins", [7, 7]))
    assert status_of(spec=pipeline("bids", "wins"), boundaries=boundaries, landed=manifest(TEN)).lacking == ()


def test_a_cluster_that_is_gone_is_a_unit_where_it_landed():
    units = [TEN, replace(TEN, cluster="dc9"), replace(ELEVEN, cluster="dc9")]
    landed = manifest(units[1], "views", "acts")
    boundaries = log(
        block("bids", [0, 25]), block("views", [0, 4], cluster="dc9"), block("acts", [0, 7], cluster="dc9")
    )
    spec = pipeline(counts=[{"table": "e.traffic"}])
    found = statuses(spec, units, boundaries, {units[1]: landed}, {}, NOW)
    assert [one.unit for one in found] == units[:2]
    assert [one.gone for one in found] == [False, True]
    assert [r.topic for r in found[1].ranges] == ["acts", "views"]
    assert (found[1].lacking, found[1].uncounted) == ((), ())


def test_what_was_not_counted_as_the_file_says():
    spec = pipeline(counts=[{"table": "e.traffic", "by": ["country"]}])
    assert status_of(spec=spec, landed=manifest(TEN)).uncounted == ("e.traffic",)
    counted = Traffic("e.traffic", {"country": "country"}, (), {}, ())
    assert status_of(spec=spec, landed=manifest(TEN, traffic=(counted,))).uncounted == ()
    assert status_of(spec=spec).uncounted == ()


def test_counts_and_rollups_are_derived_and_no_events(tmp_path):
    (tmp_path / "r.sql").write_text("SELECT count() AS n FROM {source}")
    spec = Pipeline.model_validate(
        pipeline().model_dump(exclude_defaults=True, by_alias=True)
        | {"counts": [{"table": "e.traffic"}], "rollups": {"e.sums": {"from": "e.clicks", "sql": "r.sql"}}},
        context={"folder": tmp_path},
    )
    ledgers = LEDGERS | {t: {TEN: row(TEN, rows=70, rejected_rows=9)} for t in ("e.traffic", "e.sums")}
    found = status_of(spec=spec, landed=manifest(TEN), ledgers=ledgers)
    assert found.derived == {"e.traffic", "e.sums"}
    assert found.loaded == (8, 1)
    # Neither is of the source's commit, so the unit is not complete.
    assert found.state is UnitState.STALE


def test_the_shards_that_lack_a_unit():
    shares = (("s1", row(TEN, "click")), ("s2", None), ("s3", None))
    tables = {
        "e.clicks": row(TEN, "click", shares=shares),
        "e.other": row(TEN, "view", shares=(("s1", None), ("s2", None))),
    }
    found = replace(status_of(landed=manifest(TEN)), tables=tables)
    assert found.lacking_shards == ("s2", "s3", "s1")
    assert found.seen == "complete, not on shard s2, s3, s1"
    assert status_of(landed=manifest(TEN)).seen == "complete"


def test_a_unit_is_complete_when_it_was_spread_by_todays_rule():
    shards = {"shards": [{"name": n, "connection": n} for n in ("s1", "s2")], "shard_by": {"e.clicks": "n"}}
    stamps = {"e.clicks": "s1, s2 by n", "e.other": "s1, s2 by partition"}
    right = {t: {TEN: replace(LEDGERS[t][TEN], sharding=stamp)} for t, stamp in stamps.items()}
    spec = pipeline(clickhouse=shards)
    assert status_of(spec=spec, landed=manifest(TEN), ledgers=right).state is UnitState.COMPLETE
    turned = {t: {TEN: replace(right[t][TEN], sharding=stamps["e.other"])} for t in right}
    assert status_of(spec=spec, landed=manifest(TEN), ledgers=turned).state is UnitState.STALE


def test_offsets_of_a_unit_without_boundaries():
    assert replace(status_of(), ranges=None).offsets == 0
    assert status_of().offsets == 25


def test_an_hour_is_complete_when_all_its_units_are():
    done, open_ = UnitState.COMPLETE_WITH_LOSS, UnitState.LANDED
    states = [(2, done), (0, done), (0, done), (1, done), (1, open_), (1, done), (2, done)]
    found = [replace(status_of(), unit=Unit(PIECES[n], f"dc{i}"), state=s) for i, (n, s) in enumerate(states)]
    assert complete_slices(found) == [PIECES[0], PIECES[2]]
    assert complete_slices([]) == []


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        (UnitState.COMPLETE, "broken: wrong rows, table e.clicks; wrong files, cluster dc1"),
        (
            UnitState.COMPLETE_WITH_LOSS,
            "broken: wrong rows, table e.clicks; wrong files, cluster dc1; with loss",
        ),
        (UnitState.STALE, "stale, broken: wrong rows, table e.clicks; wrong files, cluster dc1"),
    ],
)
def test_what_is_known_to_be_broken_is_not_called_complete(state: UnitState, seen: str):
    broken = ("wrong rows, table e.clicks", "wrong files, cluster dc1")
    assert replace(status_of(landed=manifest(TEN)), state=state, broken=broken).seen == seen


def test_the_words_of_states_in_which_all_tables_have_the_unit():
    assert sorted(DONE) == ["complete", "complete with loss", "forgotten"]


FORGOTTEN = Forgotten(lake="2026-11-21T03:00:00Z", tables=("e.clicks", "e.other", "e.old"))


@pytest.mark.parametrize(
    ("forgotten", "tables", "lost_in", "seen"),
    [
        (FORGOTTEN, LEDGERS, (), "complete; files forgotten on 2026-11-21"),
        (
            FORGOTTEN,
            {"e.other": LEDGERS["e.other"]},
            ("e.clicks",),
            "files forgotten on 2026-11-21; not in e.clicks any more",
        ),
        (
            FORGOTTEN,
            {"e.clicks": {TEN: row(TEN, "click", manifest="0-z")}},
            ("e.clicks", "e.other"),
            "files forgotten on 2026-11-21; not in e.clicks, e.other any more",
        ),
        # A table that had not committed it then has lost nothing.
        (replace(FORGOTTEN, tables=("e.clicks",)), LEDGERS, (), "complete; files forgotten on 2026-11-21"),
        # Of the events all is there: only bytes of rejected records are forgotten.
        (Forgotten(rejected=FORGOTTEN.lake, tables=FORGOTTEN.tables), {}, (), "landed"),
        (None, {}, (), "landed"),
    ],
)
def test_a_unit_whose_files_are_forgotten(forgotten, tables, lost_in, seen):
    found = status_of(landed=manifest(TEN, forgotten=forgotten), ledgers=tables)
    assert (found.lost_in, found.seen) == (lost_in, seen)


def test_a_part_on_a_shard_is_not_lost():
    for change in ({"shares": (("s1", None),)}, {"left": ("s3",)}):
        ledgers = {"e.clicks": {TEN: row(TEN, "click", manifest="0-z", **change)}}
        found = status_of(landed=manifest(TEN, forgotten=FORGOTTEN), ledgers=ledgers)
        assert found.lost_in == ("e.other",)


def test_what_is_forgotten_and_broken():
    found = status_of(landed=manifest(TEN, forgotten=FORGOTTEN))
    assert replace(found, broken=("wrong rows",)).seen == "broken: wrong rows; files forgotten on 2026-11-21"


def test_shards_that_left_matter_where_nothing_can_be_loaded_again():
    tables = {t: {TEN: replace(LEDGERS[t][TEN], left=("s3", "s4"))} for t in LEDGERS}
    held = status_of(landed=manifest(TEN), ledgers=tables)
    assert (held.left_shards, held.seen) == ((), "complete")
    forgotten = status_of(landed=manifest(TEN, forgotten=FORGOTTEN), ledgers=tables)
    assert forgotten.left_shards == ("s3", "s4")
    assert forgotten.seen == "complete; files forgotten on 2026-11-21, in part on shard s3, s4, which left"


def test_what_nobody_has_found_wrong_is_not_called_so():
    found = status_of(landed=manifest(TEN))
    assert (found.mostly_rejected, found.broken) == (False, ())
    assert replace(found, mostly_rejected=True).seen == "complete, mostly rejected"


def test_rollups_that_are_frozen():
    """Only a table of derived rows is frozen, whatever another's manifest is called."""
    frozen = {t: row(TEN, manifest="1-a frozen for 2-b") for t in ("e.clicks", "e.sums", "e.days")}
    found = replace(
        status_of(landed=manifest(TEN)),
        tables={**frozen, "e.hours": row(TEN)},
        derived=frozenset({"e.sums", "e.days", "e.hours"}),
    )
    assert found.frozen == ("e.sums", "e.days")
    assert found.seen == "complete; frozen: e.sums, e.days"
    assert found.planned == "complete; frozen: e.sums, e.days"
    assert (status_of().seen, status_of().planned) == ("missing", "missing")


def test_columns_that_were_added_since_it_was_loaded():
    added = Addition("e.clicks", "lang", "String", PIECES[1].id, 1, 2, "t", "me", shards={"": 2})

    def later(landed: Manifest | None, ledgers: dict = LEDGERS) -> object:
        manifests = {} if landed is None else {TEN: landed}
        [found] = statuses(pipeline(), [TEN], BOUNDARIES, manifests, ledgers, NOW, None, [added])
        return found.later

    # How many of its rows have the field, the manifest has not counted.
    assert later(manifest(TEN)) == {"e.clicks": {"lang": None}}
    assert later(manifest(TEN), {"e.clicks": {TEN: row(TEN, "click", generation=2)}}) == {}
    assert later(manifest(TEN, forgotten=FORGOTTEN)) == {}
    assert later(None) == {}


def test_a_topic_that_no_reland_brings():
    boundaries = log(block("bids", [0, 25]), block("acts", [0, 25]), block("wins", [0, 11]))
    spec = pipeline("bids", "acts", "wins")
    gone = tuple(OffsetRange(topic, "before", 0, 0, 25) for topic in ("bids", "acts"))
    assert status_of(spec=spec, boundaries=boundaries, landed=manifest(TEN, "bids", "acts")).lacking == (
        LackingTopic("wins", 11, ""),
    )
    assert LackingTopic("wins", 11).barred == ""
    found = status_of(spec=spec, boundaries=boundaries, landed=manifest(TEN, ranges=gone))
    assert found.lacking == (LackingTopic("wins", 11, "acts"),)
    empty = tuple(replace(part, until=0) for part in gone)
    found = status_of(spec=spec, boundaries=boundaries, landed=manifest(TEN, ranges=empty))
    assert found.lacking == (LackingTopic("wins", 11, ""),)


def test_a_unit_whose_topics_match_a_pattern():
    """It has those that matched when it was resolved: `bids.b` came later."""
    listed = {"dc1": {TopicPatterns(("bids.*",), ()): frozenset({START.int_timestamp})}}
    blocks = (block("bids.a", [0, 25]), replace(block("bids.b", [0, 0]), instants=array("q", [5, 6])))
    boundaries = Boundaries().with_entry(LogEntry(HOUR, blocks, listed=listed))
    found = status_of(spec=pipeline("bids.*"), boundaries=boundaries)
    assert [(r.topic, r.start, r.until) for r in found.ranges or ()] == [("bids.a", 0, 25)]
