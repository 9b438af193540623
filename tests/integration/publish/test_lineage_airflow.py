"""In Airflow each step is a child of its task's run, which Airflow's own provider reports."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.integration.airflow.test_airflow import END, EVENTS, Stack, expected_rows, stack
from tests.support.lineage_server import Event, check_event, lineage_server

pytestmark = [pytest.mark.integration, pytest.mark.long]
assert stack


def of_sluice(event: Event) -> bool:
    return event["producer"].startswith("urn:sluice:")


def test_steps_are_children_of_their_tasks_and_none_is_doubled(stack: Stack):
    with lineage_server() as server:
        transport = json.dumps({"type": "http", "url": server.url})
        done, said = stack.run(stack.name, END.isoformat(), AIRFLOW__OPENLINEAGE__TRANSPORT=transport)
    assert done, said
    assert stack.rows() == expected_rows()
    own = [event for event in server.events if of_sluice(event)]
    tasks = {event["run"]["runId"]: event["job"]["name"] for event in server.events if not of_sluice(event)}
    for event in own:
        check_event(event)
    name = stack.name
    parents = {
        f"sluice.{name}.resolve": {f"{name}.resolve"},
        f"sluice.{name}.land": {f"{name}.batch.land"},
        f"sluice.{name}.load.{name}.clicks": {f"{name}.batch.load.{name}.clicks"},
        f"sluice.{name}.load.{name}.other": {f"{name}.batch.load.{name}.other"},
        f"sluice.{name}.verify": {f"{name}.batch.verify", f"{name}.verify_all"},
        f"sluice.{name}.publish": {f"{name}.batch.publish"},
    }
    found: dict[str, set[str]] = {}
    for event in own:
        parent = event["run"]["facets"]["parent"]["run"]["runId"]
        found.setdefault(event["job"]["name"], set()).add(tasks[parent])
    assert found == parents
    ends = Counter((event["job"]["name"], event["eventType"]) for event in own)
    assert ends == {(job, state): len(of) for job, of in parents.items() for state in ("START", "COMPLETE")}
    [landed] = [e for e in own if e["job"]["name"].endswith(".land") and e["eventType"] == "COMPLETE"]
    assert landed["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == len(EVENTS)
