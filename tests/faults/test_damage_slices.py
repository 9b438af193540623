"""Damage to whole slices and partitions: a move that was undone, a partition that falls silent."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from sluice.clients.lake import layout
from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import World, event
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

STALLED_AFTER = 3


@pytest.fixture
def damaged(clickhouse_server, name, tmp_path, monkeypatch, capsys) -> Damaged:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Damaged(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys)


@pytest.mark.long
def test_files_that_were_not_moved(damaged: Damaged):
    """As a landing leaves them that was killed after its manifest."""
    damaged.make()
    [click] = [file for file in damaged.manifest(1).files if file.type == "click"]
    place, attempt = damaged.root / click.key, damaged.root / click.attempt_key
    attempt.parent.mkdir(parents=True)
    place.rename(attempt)
    Path(damaged.root / layout.slice_success(damaged.slice_id(1), "dc1")).unlink()
    damaged.sql("ALTER TABLE sluice.ledger DELETE WHERE target = '{db}.clicks' SETTINGS mutations_sync = 1")
    anomalies = [a for a in damaged.verify() if a["kind"] == "file not moved"]
    assert [(a["slice"], a["type"], a["file"]) for a in anomalies] == [("2026-01-01T01Z", "click", click.key)]
    assert click.attempt_key in anomalies[0]["seen"]
    damaged.repair(damaged.verify())
    assert damaged.verify() == []
    assert place.exists() and not attempt.exists()


def silent_after(hours: int, silent: int) -> World:
    """Three partitions with a click an hour; the last one has none from hour `silent` on."""
    clicks = [[event("click", 60 * h + 10, n=str(h)) for h in range(hours)] for _ in range(3)]
    clicks[2] = clicks[2][:silent]
    return World({("dc1", "bids"): clicks}, plain=True)


@pytest.mark.parametrize(("silent", "stalled"), per_commit([(1, True), (2, False)]))
@pytest.mark.long
def test_a_partition_that_falls_silent(damaged: Damaged, silent: int, stalled: bool):
    """Over exactly `stalled_after` slices, and over one less."""
    damaged.world = silent_after(hours=4, silent=silent)
    damaged.options = {"stalled_after": STALLED_AFTER}
    damaged.make_landed(4)
    anomalies = damaged.verify()
    wanted = [("stalled partition", "bids", 2, [silent, silent])] if stalled else []
    assert [(a["kind"], a["topic"], a["partition"], a["offsets"]) for a in anomalies] == wanted
    # Nothing can bring back what nobody has sent: a person has to look, and no command is printed.
    assert all(a["command"] == "" and "partitioner" in a["advice"] for a in anomalies)
    words = ["sluice", "verify", "ads", "--config", str(damaged.config), "--from", "2026-01-01T00:00Z"]
    assert damaged.command(shlex.join([*words, "--to", "2026-01-01T01:00Z"]))[0] == 0
