"""Shards come and go around hours whose files the lake has forgotten: nothing can move their rows.

So they stay as they were placed, and what can be moved is placed anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pendulum
import pytest
import yaml

from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.flow import steps
from sluice.flow.forget import due_windows, forget_due
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.audit import AuditScope, audit
from sluice.slices import SliceRange
from sluice.state.survey import survey
from tests.support.landing_world import World, event, hours
from tests.support.shards_world import Shards, connection, made, shards

pytestmark = pytest.mark.integration

NOW = pendulum.now("UTC").start_of("hour")
OLD, ALL = hours(2), hours(3)
COLUMNS = (
    "label String, _slice DateTime('UTC'), _cluster String, _topic String, _partition Int32, _offset Int64"
)


@dataclass
class Place:
    folder: Path
    two: Shards
    world: World

    def pipeline(self, clickhouse: dict[str, Any], **more: Any) -> Pipeline:
        spec = {
            "kafka": [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{self.folder / 'lake'}",
            "tables": {"click": f"{self.two.world.database}.clicks"},
            "clickhouse": {"lease": "1s", **clickhouse},
            **more,
        }
        file = self.folder / "p.yaml"
        file.write_text(yaml.safe_dump(spec))
        return read(file)

    def run(self, pipeline: Pipeline, slices: SliceRange) -> None:
        """All steps of `sluice run`."""
        lake = open_lake(pipeline)
        self.world.resolve(pipeline, lake, slices)
        self.world.land(pipeline, lake, slices)
        for target in pipeline.targets:
            steps.load_table(pipeline, target.table, slices, "fill", "t", lambda _: None)
        steps.verify_range(pipeline, slices)

    def forgotten(self, clickhouse: dict[str, Any]) -> None:
        """Lands and loads the two old hours, and forgets their files."""
        self.run(self.pipeline(clickhouse), OLD)
        keeping = self.pipeline(clickhouse, keep={"lake": "30d"})
        lake = open_lake(keeping)
        done = forget_due(keeping, lake, due_windows(keeping, lake, NOW), NOW, lambda _: None)
        assert [str(unit) for unit in done.units] == ["2026-01-01T00Z/dc1", "2026-01-01T01Z/dc1"]

    def held(self) -> list[list[tuple[int, int]]]:
        """(partition, offset) of the rows of each server."""
        return self.two.everywhere("SELECT _partition, _offset FROM {db}.clicks ORDER BY 1, 2")


@pytest.fixture
def place(clickhouse_servers, tmp_path, name: str, monkeypatch) -> Place:
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    two.everywhere(f"CREATE TABLE {{db}}.clicks ({COLUMNS}) ENGINE = MergeTree ORDER BY _slice")
    log = [event("click", minute) for minute in (5, 15, 65, 75, 125, 135)]
    return Place(tmp_path, two, World({("dc1", "bids"): [log, log]}))


def broken(pipeline: Pipeline, slices: SliceRange = ALL) -> list[Anomaly]:
    return list(audit(pipeline, slices, AuditScope(True, True)).anomalies)


def seen(pipeline: Pipeline) -> list[str]:
    return [status.seen for status in survey(pipeline, ALL)]


ALONE = {"connection": connection("s1")}
GONE = f"complete; files forgotten on {pendulum.now('UTC'):%Y-%m-%d}"


@pytest.mark.long
def test_forgotten_hours_of_one_server_stay_there_when_a_shard_comes(place: Place):
    place.forgotten(ALONE)
    both = place.pipeline(shards("s1", "s2"))
    place.run(both, ALL)
    first = [(p, offset) for p in (0, 1) for offset in range(4)]
    assert place.held() == [sorted([*first, (0, 4), (0, 5)]), [(1, 4), (1, 5)]]
    assert seen(both) == [GONE, GONE, "complete"]
    assert broken(both) == []
    # Their rows are still compared with what was landed, and with what each server committed.
    place.two.on(0, "DELETE FROM {db}.clicks WHERE _partition = 0 AND _offset = 1")
    lost = {(one.kind, one.shard, one.slice) for one in broken(both)}
    assert lost == {
        (AnomalyKind.ROWS_MISSING, "", "2026-01-01T00Z"),
        (AnomalyKind.ROWS_MISSING, "s1", "2026-01-01T00Z"),
    }


@pytest.mark.long
def test_what_can_be_moved_is_placed_anew(place: Place):
    place.forgotten(ALONE)
    place.run(place.pipeline(ALONE), ALL)
    both = place.pipeline(shards("s1", "s2"))
    assert seen(both) == [GONE, GONE, "stale"]
    place.run(both, ALL)
    assert [len(rows) for rows in place.held()] == [10, 2]
    third = place.pipeline(shards("s2", "s1"))
    place.run(third, ALL)
    assert place.held()[1] == [(0, 4), (0, 5)]
    assert (seen(third), broken(third)) == ([GONE, GONE, "complete"], [])


@pytest.mark.long
def test_a_shard_that_holds_forgotten_hours_has_to_stay_in_the_file(place: Place):
    place.forgotten(shards("s1", "s2"))
    for clickhouse in (shards("s1"), ALONE):
        last = place.pipeline(clickhouse)
        assert seen(last)[:2] == [f"{GONE}, in part on shard s2, which left"] * 2
        found = broken(last, OLD)
        left = [one for one in found if one.kind is AnomalyKind.LEFT]
        assert [(one.shard, one.seen) for one in left] == [("s2", "4 rows")]
        assert not [one for one in found if "DROP" in one.advice or one.command]
        assert "list shard s2 again" in left[0].advice
    again = place.pipeline(shards("s1", "s2"))
    assert broken(again, OLD) == []
    assert [len(rows) for rows in place.held()] == [4, 4]
