"""Slices that were loaded before a column was added, in `verify --contents`: as they were loaded."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from sluice.clients.clickhouse.shards import ALONE
from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.compare_tables import Comparing, TableContents
from sluice.flow.contents.staged_load import Stage
from sluice.flow.load.work import work_for
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import encode
from sluice.state.manifests import read_manifest
from tests.integration.landed import World, event, land, unit
from tests.integration.load.test_evolve import counted, evolving, make
from tests.integration.load.test_evolve import world as world

pytestmark = pytest.mark.integration


def compared(world: World, pipeline: Pipeline, *hours: int) -> TableContents:
    target = pipeline.targets[0]
    works = []
    for hour in hours:
        manifest = read_manifest(world.lake, unit(hour))
        assert manifest is not None
        works.append(work_for(pipeline, target, unit(hour), manifest, True))
    return Comparing(Stage(world.client, pipeline, target, world.lake, ALONE), Repairs("p")).check(works)


@pytest.mark.long
def test_what_came_before_the_column_is_no_finding_and_is_told(world: World):
    """One row had the field already, with a value that would not fit now: its row is in the table."""
    make(world)
    pipeline = evolving(world, rows=2)
    early = [event(n=1, code="x"), event(n=2)]
    counted(world, unit(), land(world.lake, unit(), early), early)
    world.load(pipeline, unit())
    land(world.lake, unit(1), [event(n=3, code="2026-11-23"), event(n=4, code="2026-11-24")])
    world.load(pipeline, unit(1))
    days = [(3, date(2026, 11, 23)), (4, date(2026, 11, 24))]
    assert world.sql("SELECT n, code FROM {db}.clicks ORDER BY n") == [(1, None), (2, None), *days]
    found = compared(world, pipeline, 0, 1)
    assert (found.anomalies, found.rows) == ([], 4)
    [note] = found.notes
    assert "column code was added later than 1 loaded slice, without their values: 1 rows have" in note
    assert "`sluice run p --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --backfill`" in note
    world.load(pipeline, unit(), mode="reload")
    assert world.sql("SELECT n, code FROM {db}.clicks ORDER BY n") == [(2, None), *days]
    found = compared(world, pipeline, 0, 1)
    assert (found.anomalies, found.rows, found.notes) == ([], 3, [])


@pytest.mark.long
def test_values_of_other_columns_are_compared_all_the_same(world: World):
    make(world)
    pipeline = evolving(world, rows=2)
    land(world.lake, unit(), [event(n=1, code=1)])
    world.load(pipeline, unit())
    land(world.lake, unit(1), [event(n=3, code=3), event(n=4, code=4)])
    world.load(pipeline, unit(1))
    world.sql("ALTER TABLE {db}.clicks UPDATE n = 7 WHERE n = 1 SETTINGS mutations_sync = 2")
    [anomaly] = compared(world, pipeline, 0, 1).anomalies
    assert (anomaly.kind, anomaly.slice) == (AnomalyKind.VALUES, unit().slice.id)
    assert "other values in n" in anomaly.seen


@pytest.mark.long
def test_a_later_column_has_its_default_in_earlier_rows(world: World):
    """No load has given them another value."""
    make(world)
    pipeline = evolving(world, rows=2)
    land(world.lake, unit(), [event(n=1)])
    world.load(pipeline, unit())
    land(world.lake, unit(1), [event(n=3, code=3), event(n=4, code=4)])
    world.load(pipeline, unit(1))
    world.sql("ALTER TABLE {db}.clicks UPDATE code = 7 WHERE n = 1 SETTINGS mutations_sync = 2")
    [anomaly] = compared(world, pipeline, 0, 1).anomalies
    assert (anomaly.kind, anomaly.slice) == (AnomalyKind.VALUES, unit().slice.id)
    world.load(pipeline, unit(), mode="repair")
    assert compared(world, pipeline, 0, 1).anomalies == []
    world.sql("ALTER TABLE {db}.clicks UPDATE code = 7 WHERE n = 3 SETTINGS mutations_sync = 2")
    [anomaly] = compared(world, pipeline, 0, 1).anomalies
    assert (anomaly.kind, anomaly.slice) == (AnomalyKind.VALUES, unit(1).slice.id)


@pytest.mark.long
def test_a_manifest_that_counted_all_and_found_none_gives_no_note(world: World):
    make(world)
    pipeline = evolving(world, rows=2)
    early = [event(n=1)]
    manifest = counted(world, unit(), land(world.lake, unit(), early), early)
    world.load(pipeline, unit())
    land(world.lake, unit(1), [event(n=3, code=3), event(n=4, code=4)])
    world.load(pipeline, unit(1))
    assert compared(world, pipeline, 0, 1).notes == []
    [exact] = manifest.fields
    sampled = replace(manifest, fields=(replace(exact, exact=False),))
    world.lake.put(layout.manifest(unit().slice.id, "dc1"), encode(sampled))
    [note] = compared(world, pipeline, 0, 1).notes
    assert "of 1 its field was not counted in every row" in note
