"""Tables that `sluice init` proposes of one half of some public events take every event of the other half."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from sluice.cli.commands import commands
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.flow import steps
from sluice.flow.contents.compare import auditor
from sluice.flow.verify.audit import AuditScope, audit
from sluice.slices import to_ms
from tests.integration.landed import client_of
from tests.support.landing_world import START, World, hours
from tests.support.long_form import per_commit
from tests.support.public_events import SHAPES, make

pytestmark = pytest.mark.integration

HOURS, COUNT = 3, 6_000
# Of each shape the type of table that is compared value by value: expressions, and the same of an event.
COMPARED = {
    "github": (
        ["id", "toString(actor.id)", "toString(actor.login)", "toString(repo.name)", "toString(created_at)"],
        lambda e: (
            e["id"],
            str(e["actor"]["id"]),
            e["actor"]["login"],
            e["repo"]["name"],
            e["created_at"].replace("T", " ").replace("Z", ".000"),
        ),
    ),
    "cloudevents": (
        ["id", "source", "toString(specversion)", "ifNull(subject, '')", "ifNull(sequence, 0)"],
        lambda e: (e["id"], e["source"], e["specversion"], e.get("subject", ""), e.get("sequence", 0)),
    ),
    "segment": (
        ["messageId", "toString(anonymousId)", "ifNull(userId, '')", "toString(version)"],
        lambda e: (e["messageId"], e["anonymousId"], e.get("userId") or "", str(e["version"])),
    ),
}


@pytest.fixture
def made(name, tmp_path, clickhouse_server, monkeypatch):
    """Runs `sluice init` over events, and gives the pipeline."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)

    def make_pipeline(events: list[dict]):
        sample = tmp_path / "sample.ndjson"
        sample.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
        place = ["--into", str(tmp_path), "--lake", f"file://{tmp_path}/lake"]
        options = ["--file", str(sample), "--yes", "--apply", *place]
        assert not commands(args=["init", name, *options], standalone_mode=False)
        return read(tmp_path / f"{name}.yaml")

    return make_pipeline


def world_of(events: list[tuple], topic: str) -> World:
    """The events in three partitions, at the time that they say."""
    logs = [[(json.dumps(e).encode(), to_ms(at)) for at, e in events[part::3]] for part in range(3)]
    return World({("local", topic): logs})


@pytest.mark.long
@pytest.mark.parametrize("shape", per_commit(SHAPES))
def test_the_other_half_loads_without_a_rejected_row(
    shape: str, made, name: str, tmp_path: Path, clickhouse_server
):
    events = make(shape, START, HOURS, COUNT, seed=7)
    pipeline = made([event for _, event in events[::2]])
    second = events[1::2]
    world, lake, slices = world_of(second, name), open_lake(pipeline), hours(HOURS)
    world.resolve(pipeline, lake, slices)
    landed = world.land(pipeline, lake, slices, rows_per_read=500)
    assert landed.failed == {}
    rejected = Counter()
    for target in pipeline.targets:
        told = steps.load_table(pipeline, target.table, slices, "fill", "t", lambda line: None)
        rejected[target.table] = told["rejected_rows"]
    assert rejected.total() == 0

    client = client_of(clickhouse_server)
    expressions, of_event = COMPARED[shape]
    own = {kind: target.table for kind, target in pipeline.tables.items() if kind != "*"}
    for kind, table in own.items():
        found = client.rows(f"SELECT {', '.join(expressions)} FROM {table}")
        wanted = Counter(of_event(event) for _, event in second if event["type"] == kind)
        assert Counter(map(tuple, found)) == wanted
    payloads = [text for (text,) in client.rows(f"SELECT _payload FROM {pipeline.tables['*'].table}")]
    others = [json.dumps(event) for _, event in second if event["type"] not in own]
    assert sorted(payloads) == sorted(others)

    units, counted, *_ = audit(pipeline, slices, AuditScope(True, whole=True))
    assert [*counted, *auditor(pipeline, known=counted).whole(units).anomalies] == []


@pytest.mark.long
def test_messages_that_are_arrays(made, name: str, tmp_path: Path, clickhouse_server):
    """A sample of arrays makes a pipeline of arrays, and each element is a row."""
    events = [
        {"kind": "hit", "at": START.add(seconds=n).isoformat(), "n": n, "who": {"name": f"u{n}"}}
        for n in range(600)
    ]
    arrays = [events[start : start + 1 + start // 4 % 4] for start in range(0, 600, 4)]
    pipeline = made(arrays)
    assert pipeline.event.arrays
    times = [START.add(seconds=30 * place) for place in range(len(arrays))]
    world, lake, slices = world_of(list(zip(times, arrays, strict=True)), name), open_lake(pipeline), hours(3)
    world.resolve(pipeline, lake, slices)
    assert world.land(pipeline, lake, slices).failed == {}
    for target in pipeline.targets:
        assert (
            steps.load_table(pipeline, target.table, slices, "fill", "t", lambda line: None)["rejected_rows"]
            == 0
        )
    table = pipeline.tables["hit"].table
    found = client_of(clickhouse_server).rows(f"SELECT n, who.name, _row FROM {table} ORDER BY n")
    wanted = [(e["n"], e["who"]["name"], row) for array in arrays for row, e in enumerate(array)]
    assert found == sorted(wanted) and {row for *_, row in found} == {0, 1, 2, 3}
    units, counted, *_ = audit(pipeline, slices, AuditScope(True, whole=True))
    assert [*counted, *auditor(pipeline, known=counted).whole(units).anomalies] == []


def test_keys_with_a_dot_beside_an_object(made, name: str, tmp_path: Path, clickhouse_server):
    """Both have a column, and a key that is literally `a.b` comes before the object's `b`."""
    events = [
        {"kind": "hit", "at": START.add(seconds=n).isoformat(), "n": n, "a": {"b": n}, "a.b": 1_000 + n}
        for n in range(300)
    ]
    pipeline = made(events)
    assert "-- field 'a.b' has the column a_b: its own name" in (tmp_path / f"{name}.sql").read_text()
    times = [START.add(seconds=n) for n in range(300)]
    world, lake, slices = world_of(list(zip(times, events, strict=True)), name), open_lake(pipeline), hours(3)
    world.resolve(pipeline, lake, slices)
    assert world.land(pipeline, lake, slices).failed == {}
    for target in pipeline.targets:
        told = steps.load_table(pipeline, target.table, slices, "fill", "t", lambda line: None)
        assert told["rejected_rows"] == 0
    table = pipeline.tables["hit"].table
    found = client_of(clickhouse_server).rows(f"SELECT n, a_b FROM {table} ORDER BY n")
    assert found == [(n, 1_000 + n) for n in range(300)]
    units, counted, *_ = audit(pipeline, slices, AuditScope(True, whole=True))
    assert [*counted, *auditor(pipeline, known=counted).whole(units).anomalies] == []
