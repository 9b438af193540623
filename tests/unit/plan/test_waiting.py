"""What is missing from which cluster, and what the commands say and do about it."""

from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest

from sluice.cli.status import Behind, shown
from sluice.errors import ClusterRefused, KafkaUnavailable, UnknownTopic
from sluice.manifest import OffsetRange
from sluice.page.models import missing_from
from sluice.plan.backlog import Backlog
from sluice.plan.plan import action, has_work, missing_lines, waiting, work_of
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.status import UnitStatus, complete_slices
from sluice.state.unit_state import UnitState
from tests.support.landing_world import pipeline
from tests.support.manifests import made_manifest

DAY = pendulum.datetime(2026, 11, 20)
CLUSTERS = [{"cluster": c, "bootstrap": "nowhere:1", "topics": ["bids"]} for c in ("dc1", "dc2")]
BOTH, ALONE = pipeline(kafka=CLUSTERS), pipeline(kafka=CLUSTERS[:1])
SILENT = KafkaUnavailable("dc2", "nowhere:1", "no answer")


def status(
    hour: int, cluster: str, state: UnitState, token: str = "", resolved: bool = True, **more: bool
) -> UnitStatus:
    unit = Unit(Slice(DAY.add(hours=hour)), cluster)
    ranges = (OffsetRange("bids", "id", 0, 0, 10),)
    manifest = None
    if state in (UnitState.LANDED, UnitState.STALE) or state.done:
        manifest = made_manifest("p", unit.slice.id, cluster, 1, "a", ranges, (), (), 10, {}, 0, token=token)
    return UnitStatus(unit, state, ranges if resolved else None, (), manifest, {}, (), 1, **more)


FOUND = [
    status(0, "dc1", UnitState.COMPLETE),
    status(0, "dc2", UnitState.COMPLETE_WITH_LOSS),
    status(1, "dc1", UnitState.COMPLETE),
    status(1, "dc2", UnitState.MISSING),
    status(2, "dc1", UnitState.LANDED),
    status(2, "dc2", UnitState.MISSING, resolved=False),
    status(3, "dc1", UnitState.COMPLETE),
    status(3, "dc2", UnitState.EXPIRED),
    status(4, "dc1", UnitState.NOT_OVER),
    status(4, "dc2", UnitState.NOT_OVER),
]


def test_what_is_not_landed_waits_for_its_cluster():
    (left,) = waiting(BOTH, FOUND)
    assert str(left) == "dc2: 2 not landed (2026-11-20T01Z … 2026-11-20T02Z)"
    assert missing_lines(BOTH, FOUND) == [
        "complete from every cluster: 1 of 4 slices",
        "missing from dc2: 2 not landed (2026-11-20T01Z … 2026-11-20T02Z)",
    ]
    assert left.slices == SliceRange(DAY.add(hours=1), DAY.add(hours=3), timedelta(hours=1))
    assert complete_slices(FOUND) == [Slice(DAY)]


def test_from_the_first_hour_that_waits_to_the_last():
    more = [status(hour, "dc2", UnitState.MISSING) for hour in (5, 9)]
    done = [status(6, cluster, UnitState.COMPLETE) for cluster in ("dc1", "dc2")]
    (left,) = waiting(BOTH, [*FOUND, *more, *done])
    assert str(left) == "dc2: 4 not landed (2026-11-20T01Z … 2026-11-20T09Z)"
    assert left.slices.words[-1] == "2026-11-20T10:00Z"
    assert "(2026-11-20T01Z … 2026-11-20T09Z)" in str(left.error(BOTH, None))
    assert missing_lines(BOTH, [*FOUND, *more, *done])[0] == "complete from every cluster: 2 of 7 slices"
    (one,) = waiting(BOTH, FOUND[:4])
    assert str(one) == "dc2: 1 not landed (2026-11-20T01Z)"


def test_status_shows_it_and_the_lag_is_that_of_whole_hours():
    behind = Behind(FOUND, Backlog())
    texts = [part.text for part in shown(BOTH, FOUND, "demo", behind) if not hasattr(part, "columns")]
    assert texts[-4:-2] == missing_lines(BOTH, FOUND)
    since = (pendulum.now("UTC") - DAY.add(hours=1)).total_seconds()
    assert behind.seconds is not None and abs(behind.seconds - since) < 60


def test_with_one_cluster_nobody_notices():
    own = [one for one in FOUND if one.unit.cluster == "dc1"]
    missing = [*own, status(5, "dc1", UnitState.MISSING)]
    assert (waiting(ALONE, missing), missing_lines(ALONE, missing)) == ([], [])


def test_a_reland_waits_for_manifests_of_its_own_token():
    found = [status(0, c, UnitState.COMPLETE, token) for c, token in (("dc1", "new"), ("dc2", "old"))]
    assert [part.cluster for part in waiting(BOTH, found, "reland", "new")] == ["dc2"]
    assert waiting(BOTH, found, "reload", "new") == []
    assert waiting(BOTH, [status(0, c, UnitState.COMPLETE) for c in ("dc1", "dc2")], "reland") == []


def test_the_error_names_cluster_hours_reason_and_command():
    (left,) = waiting(BOTH, FOUND)
    error = left.error(BOTH, SILENT)
    assert (error.exit_code, error.retryable) == (3, True)
    assert str(error) == (
        "2 hours have not landed from Kafka cluster 'dc2' (2026-11-20T01Z … 2026-11-20T02Z): "
        f"{SILENT}. The other clusters are done. The next hourly run catches up; to do it now: "
        "`sluice run demo --from 2026-11-20T01:00Z --to 2026-11-20T03:00Z`"
    )
    unknown = left.error(BOTH, UnknownTopic("dc2", "bids"), "reland")
    assert isinstance(unknown, ClusterRefused)
    assert (unknown.exit_code, unknown.retryable) == (3, False)
    assert "--to 2026-11-20T03:00Z --mode reland" in str(unknown)
    assert "T02Z): it answers again. The other" in str(left.error(BOTH, None))


def test_an_hour_without_boundaries_is_no_work_yet():
    unresolved = FOUND[5]
    assert not has_work(unresolved, "fill")
    assert action(unresolved, "fill") == "wait for the cluster"
    assert [batch.start.hour for batch in work_of(FOUND[:2] + FOUND[4:6], "fill").batches] == [2]


@pytest.mark.parametrize(
    ("state", "mode", "does"),
    [
        (UnitState.COMPLETE, "fill", "nothing"),
        (UnitState.LANDED, "fill", "load"),
        (UnitState.COMPLETE, "reload", "load again"),
        (UnitState.COMPLETE, "reland", "nothing"),
        (UnitState.STALE, "reland", "load"),
    ],
)
def test_a_cluster_that_was_taken_away_is_loaded_from_the_lake_and_read_no_more(state, mode, does):
    gone = status(0, "dc2", state, gone=True)
    assert action(gone, mode) == does
    assert has_work(gone, mode) == (does != "nothing")
    assert waiting(pipeline(kafka=[CLUSTERS[0], {**CLUSTERS[1], "cluster": "dc3"}]), [gone]) == []
    assert sum(units for units, _ in work_of([gone], mode).land) == 0


def test_a_cell_names_the_cluster_that_others_wait_for():
    states = [("dc1", UnitState.COMPLETE), ("dc2", UnitState.MISSING)]
    assert missing_from(states) == ("dc2",)
    assert missing_from(states[:1]) == missing_from(states[1:]) == ()
    assert missing_from([("dc1", UnitState.MISSING), ("dc2", UnitState.EXPIRED)]) == ()
