"""verify beside loads: what is under way is no anomaly, and damage is told all the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from sluice.errors import Busy
from sluice.flow.steps import verify_range
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.audit import AuditScope, audit
from tests.faults.race_world import Scene
from tests.faults.racers import Racer, race
from tests.faults.test_races import clickhouse_at
from tests.integration.landed import client_of
from tests.support.landing_world import START, hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

LOADED = 2  # of three hours
_SECONDS = 600


@pytest.fixture
def scene(clickhouse_server, tmp_path, name: str, monkeypatch) -> Scene:
    environment = clickhouse_at(clickhouse_server)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    made = Scene(f"file://{tmp_path / 'lake'}", name, client_of(clickhouse_server), environment)
    made.make_tables()
    race(made.job(0, 3))
    return made


@contextmanager
def loading(scene: Scene, mode: str) -> Iterator[list[int]]:
    """A process after the other loads the first hours again while the context lasts; how many have."""
    stop, loads, errors = threading.Event(), [], []

    def run() -> None:
        while not stop.is_set():
            published = 0 if mode == "reload" else scene.published
            job = scene.job(0, LOADED, mode=mode, token=f"t{len(loads)}", published=published)
            outcome = Racer(job).outcome()
            if outcome is None or outcome.error:
                errors.append(outcome)
                return
            loads.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield loads
    finally:
        stop.set()
        thread.join()
    assert errors == []


def looked(scene: Scene) -> list[Anomaly] | None:
    """None: everything that looks wrong is being loaded."""
    try:
        return audit(scene.pipeline, hours(3), AuditScope(whole=True)).anomalies
    except Busy:
        return None


def verified(scene: Scene) -> list[Anomaly] | None:
    """As a run does it, which raises Conservation for an anomaly: an hour that has landed again is not loaded
    before its load begins, and only a run knows that one is to come."""
    with suppress(Busy):
        verify_range(scene.pipeline, hours(3))
    return None


@pytest.mark.long
@pytest.mark.parametrize(("mode", "look"), per_commit([("reload", looked), ("reland", verified)]))
def test_looks_beside_loads_find_nothing(scene: Scene, mode: str, look, long_form: bool, fault_log):
    looks = 50 if long_form else 10
    with fault_log.trial("race", f"verify beside {mode}", times=looks), loading(scene, mode) as loads:
        enough, deadline = len(loads) + 2, time.monotonic() + _SECONDS
        while looks > 0 or len(loads) < enough:
            assert look(scene) in ([], None)
            assert time.monotonic() < deadline, f"{len(loads)} loads beside the looks"
            looks -= 1
    assert looked(scene) == []


def test_damage_is_told_beside_loads(scene: Scene, fault_log):
    second = f"toDateTime({int(START.add(hours=LOADED).timestamp())}, 'UTC')"
    with fault_log.trial("race", "damage beside loads"), loading(scene, "reload"):
        scene.sql(f"DELETE FROM {scene.database}.clicks WHERE _slice = {second} AND _partition = 0")
        found = looked(scene)
        assert found is not None
        assert {(a.kind, a.table, a.slice) for a in found} == {
            (AnomalyKind.ROWS_MISSING, f"{scene.database}.clicks", "2026-01-01T02Z")
        }
    anomalies = looked(scene)
    assert anomalies is not None and {a.kind for a in anomalies} == {AnomalyKind.ROWS_MISSING}
