"""The land step from end to end, with Kafka as lists and Spark's part done in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import Conservation, RecordsExpired, Refused, TopicRecreated
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import GAP, START, World, event, hours, pipeline, rows_in, state_of

BIDS = ("dc1", "bids")


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def landed(lake, slices, spec):
    units = [Unit(piece, cluster) for piece in slices for cluster in spec.clusters]
    return list(read_manifests(lake, units).values())


def test_every_record_is_in_the_folder_of_its_own_hour(lake):
    late = (event("click", 10)[0], event("click", 70)[1])
    log = [event("click", 10), event("bid", 59), event("click", 61), late, (b"oops", event(minute=80)[1])]
    spec, world = pipeline(), World({BIDS: [log, [event("bid", 30)]]})
    world.resolve(spec, lake, hours(3))
    result = world.land(spec, lake, hours(3))

    def row(kind: str, hour: str, partition: int, offset: int) -> tuple:
        payload = world.logs[BIDS][partition][offset][0].decode()
        return (f"type={kind}/date=2026-01-01/hour={hour}", "dc1", "bids", partition, offset, payload, kind)

    expected = [row("click", "00", 0, 0), row("bid", "00", 0, 1), row("click", "01", 0, 2)]
    expected += [row("click", "00", 0, 3), row("bid", "00", 1, 0)]
    manifests = landed(lake, hours(3), spec)
    assert rows_in(lake, manifests) == sorted(expected)
    assert result.summary()["records"] == 6
    assert [(m.slice, m.read, dict(m.rejected_records), m.late) for m in manifests] == [
        ("2026-01-01T00Z", 3, {}, 0),
        ("2026-01-01T01Z", 3, {"not JSON": 1}, 0),
        ("2026-01-01T02Z", 0, {}, 0),
    ]
    assert [m.times for m in manifests] == [  # stamps at minutes 10, 30, 59; 61, 70, 80; none
        (0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1),
        (1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0),
        (),
    ]
    keys = [item.key for item in lake.list("")]
    assert not [key for key in keys if key.startswith("_attempts/")]
    assert [key for key in keys if key.startswith("_rejected/")] == [
        "_rejected/2026-01-01T01Z-dc1-1-0.parquet"
    ]
    assert len([key for key in keys if key.endswith("/_SUCCESS")]) == 3


def test_what_comes_after_the_grace_counts_as_late(lake):
    log = [(event("click", 10)[0], event(minute=minute)[1]) for minute in (20, 70, 130, 190)]
    spec, world = pipeline(), World({BIDS: [log]})
    world.resolve(spec, lake, hours(4))
    world.land(spec, lake, hours(4))
    assert [m.late for m in landed(lake, hours(4), spec)] == [0, 0, 1, 1]


def test_a_repeated_landing_changes_nothing_and_reads_nothing(lake):
    spec, world = pipeline(), World({BIDS: [[event("click", m) for m in range(0, 120, 5)]]})
    world.resolve(spec, lake, hours(2))
    world.land(spec, lake, hours(2), twice=True)
    before, reads = state_of(lake), list(world.reads)
    for mode in ("fill", "reload"):
        assert world.land(spec, lake, hours(2), mode).landed == ()
    assert world.reads == reads
    assert state_of(lake) == before


def test_empty_slices_are_landed_without_reading(lake):
    spec, world = pipeline(), World({BIDS: [[], []]})
    world.resolve(spec, lake, hours(3))
    assert world.land(spec, lake, hours(3)).summary() | {"units": 3} == {
        **dict.fromkeys(("records", "rejected_records", "files", "bytes", "lost", "late"), 0),
        "units": 3,
        "landed": 3,
    }
    assert world.reads == []


def test_consecutive_slices_are_one_read_and_landed_ones_divide_it(lake):
    spec, world = pipeline(), World({BIDS: [[event("click", 30 + 60 * h) for h in range(5)]]})
    world.resolve(spec, lake, hours(5))
    world.land(spec, lake, hours(1, first=2))
    assert world.reads == [("bids", 0, 2, 3)]
    world.land(spec, lake, hours(5))
    assert world.reads[1:] == [("bids", 0, 0, 2), ("bids", 0, 3, 5)]
    assert len(rows_in(lake, landed(lake, hours(5), spec))) == 5


def test_clusters_are_units_of_their_own(lake):
    clusters = [{"cluster": c, "bootstrap": "nowhere:1", "topics": ["bids"]} for c in ("dc1", "dc2")]
    spec = pipeline(kafka=clusters)
    world = World({BIDS: [[event("click", 1)]], ("dc2", "bids"): [[event("click", 1), event("click", 2)]]})
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    assert [(m.cluster, m.read) for m in landed(lake, hours(1), spec)] == [("dc1", 1), ("dc2", 2)]
    assert len(rows_in(lake, landed(lake, hours(1), spec))) == 3


def test_a_reland_replaces_the_slice_once_per_token(lake):
    spec, world = pipeline(), World({BIDS: [[event("click", m) for m in range(0, 60, 5)]]})
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    first = rows_in(lake, landed(lake, hours(1), spec))
    world.land(spec, lake, hours(1), "reland", "one")
    after = state_of(lake)
    world.land(spec, lake, hours(1), "reland", "one")
    assert state_of(lake) == after
    (manifest,) = landed(lake, hours(1), spec)
    assert (manifest.generation, manifest.token) == (2, "one")
    assert rows_in(lake, [manifest]) == first
    visible = [key for key in after if key.endswith(".parquet")]
    assert visible == [file.key for file in manifest.files]
    world.land(spec, lake, hours(1), "reland", "two")
    assert landed(lake, hours(1), spec)[0].generation == 3


def test_unresolved_slices_are_refused(lake):
    with pytest.raises(Refused, match="2026-01-01T00Z.*resolve"):
        World({BIDS: [[]]}).land(pipeline(), lake, hours(1))


def test_a_topic_made_again_is_refused(lake):
    spec, world = pipeline(), World({BIDS: [[event("click", 1)]]})
    world.resolve(spec, lake, hours(1))
    world.kafka.topics[BIDS].uuid = "another"
    with pytest.raises(TopicRecreated):
        world.land(spec, lake, hours(1))


class TestRetention:
    LOG = tuple(event("click", m) for m in range(0, 120, 10))

    def test_lost_offsets_are_named_and_do_not_hold_up_the_hours_after_them(self, lake):
        spec, world = pipeline(), World({BIDS: [list(self.LOG)]})
        world.resolve(spec, lake, hours(2))
        world.expire(*BIDS, 0, 3)
        with pytest.raises(RecordsExpired, match=r"3 offsets \[0, 3\) of dc1/bids/0"):
            world.land(spec, lake, hours(2))
        assert [item.key.split("/")[1] for item in lake.list("_slices/")] == ["2026-01-01T01Z"] * 2
        (second,) = landed(lake, hours(1, first=1), spec)
        assert second.read == 6

    def test_land_rest_records_the_loss(self, lake):
        spec, world = pipeline(on_expired="land_rest"), World({BIDS: [list(self.LOG)]})
        world.resolve(spec, lake, hours(2))
        world.expire(*BIDS, 0, 8)
        world.land(spec, lake, hours(2))
        first, second = landed(lake, hours(2), spec)
        assert [(x.start, x.until, x.exact) for x in (*first.lost, *second.lost)] == [
            (0, 6, True),
            (6, 8, True),
        ]
        assert (first.read, second.read, first.gaps, second.gaps) == (0, 4, 0, 0)
        assert [(r.start, r.until) for r in (*first.ranges, *second.ranges)] == [(0, 6), (6, 12)]

    def test_reland_refuses_what_would_lose_data(self, lake):
        spec, world = pipeline(on_expired="land_rest"), World({BIDS: [list(self.LOG)]})
        world.resolve(spec, lake, hours(1))
        world.land(spec, lake, hours(1))
        before = state_of(lake)
        world.expire(*BIDS, 0, 1)
        with pytest.raises(RecordsExpired):
            world.land(spec, lake, hours(1), "reland", "again")
        assert state_of(lake) == before

    def test_reland_of_what_had_a_loss_already_is_allowed(self, lake):
        spec, world = pipeline(on_expired="land_rest"), World({BIDS: [list(self.LOG)]})
        world.resolve(spec, lake, hours(1))
        world.expire(*BIDS, 0, 2)
        world.land(spec, lake, hours(1))
        world.land(spec, lake, hours(1), "reland", "again")
        (manifest,) = landed(lake, hours(1), spec)
        assert (manifest.generation, manifest.read) == (2, 4)

    def test_expired_before_it_was_resolved(self, lake):
        spec, world = pipeline(), World({BIDS: [list(self.LOG)]})
        world.expire(*BIDS, 0, 4)
        world.resolve(spec, lake, hours(1))
        with pytest.raises(RecordsExpired, match=r"at most 4 offsets"):
            world.land(spec, lake, hours(1))
        rest = pipeline(on_expired="land_rest")
        world.land(rest, lake, hours(1))
        (manifest,) = landed(lake, hours(1), rest)
        assert [(x.start, x.until, x.exact) for x in manifest.lost] == [(0, 4, False)]
        assert (manifest.read, manifest.gaps) == (2, 0)


class TestHoles:
    def test_offsets_without_records_are_gaps(self, lake):
        log = [event("click", m) for m in range(0, 60, 2)]
        for offset in (0, 7, 8, 19, 29):
            log[offset] = (GAP, log[offset][1])
        spec, world = pipeline(), World({BIDS: [log]})
        world.resolve(spec, lake, hours(1))
        world.land(spec, lake, hours(1))
        (manifest,) = landed(lake, hours(1), spec)
        assert (manifest.read, manifest.gaps) == (25, 5)

    @pytest.mark.parametrize("hidden", [0, 14, 29])
    def test_a_record_that_was_not_brought_stops_the_landing(self, lake, hidden):
        spec, world = pipeline(), World({BIDS: [[event("click", m) for m in range(0, 60, 2)]]})
        world.resolve(spec, lake, hours(1))
        with pytest.raises(Conservation, match=rf"\[{hidden}, {hidden + 1}\) of dc1/bids/0"):
            world.land(spec, lake, hours(1), hidden=frozenset({hidden}))
        assert not list(lake.list("_slices/")) and not list(lake.list("_attempts/"))

    def test_a_read_that_brings_nothing_stops_the_landing(self, lake):
        spec, world = pipeline(), World({BIDS: [[event("click", m) for m in range(0, 60, 2)]]})
        world.resolve(spec, lake, hours(1))
        with pytest.raises(Conservation):
            world.land(spec, lake, hours(1), hidden=frozenset(range(30)))


def test_types_beyond_the_limit_share_a_folder_and_configured_ones_never_do(lake):
    kinds = ["click", "z", "y", "x", "w", "v"]
    spec = pipeline(max_types=2)
    world = World(
        {BIDS: [[event(kind, i) for i, kind in enumerate(kinds)], [event("a", 1), event("click", 2)]]}
    )
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    (manifest,) = landed(lake, hours(1), spec)
    assert manifest.rows_by_type() == {"click": 2, "z": 1, "y": 1, "x": 1, "w": 1, "v": 1, "a": 1}
    folders = {row[0].split("/")[0] for row in rows_in(lake, [manifest])}
    # The first task had room for z and y and put x, w, v together; of a, y and z the first two by name stay.
    assert folders == {"type=click", "type=a", "type=y", "type=_overflow"}
    assert sorted(row[-1] for row in rows_in(lake, [manifest]) if "overflow" in row[0]) == [
        "v",
        "w",
        "x",
        "z",
    ]


def test_a_hostile_type_stays_inside_the_lake(lake):
    spec, world = pipeline(), World({BIDS: [[event("../../../x", 1), event(".", 2), event("..", 3)]]})
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    (manifest,) = landed(lake, hours(1), spec)
    assert {f.key.split("/")[0] for f in manifest.files} == {"type=..%2F..%2F..%2Fx", "type=.", "type=.."}
    assert {row[-1] for row in rows_in(lake, [manifest])} == {"../../../x", ".", ".."}
    assert not (lake.root.parent.parent / "x").exists()


def test_old_attempts_that_nobody_names_are_swept(lake, monkeypatch):
    spec, world = pipeline(), World({BIDS: [[event("click", 1)]]})
    world.resolve(spec, lake, hours(1))
    lake.put("_attempts/2026-01-01T00Z/dead/x.parquet", b"left over")
    world.land(spec, lake, hours(1))
    assert [i.key for i in lake.list("_attempts/")] == ["_attempts/2026-01-01T00Z/dead/x.parquet"]
    monkeypatch.setattr("sluice.state.manifests.OLD", START - START)
    world.land(spec, lake, hours(1))
    assert list(lake.list("_attempts/")) == []
