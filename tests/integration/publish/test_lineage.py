"""What a lineage server gets of `sluice run`, over a real broker, Spark and ClickHouse."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration import foreign_events
from tests.integration.land.test_main_job import END, HOURS, RANGE, START, User, create_tables, write_foreign
from tests.support.lineage_server import Event, LineageServer, check_event, lineage_server

pytestmark = pytest.mark.integration

KEY = "key-of-the-lineage-server"
EVENTS = 200


@pytest.fixture
def user(name, tmp_path, stack_env, clickhouse_server) -> User:
    return User(name, tmp_path, stack_env, clickhouse_server)


@pytest.fixture
def server() -> Iterator[LineageServer]:
    with lineage_server() as found:
        yield found


def reports(user: User, server: LineageServer, **more: str) -> None:
    user.env = {**user.env, "OPENLINEAGE_URL": server.url, "OPENLINEAGE_API_KEY": KEY, **more}


def published(user: User) -> list[dict[str, Any]]:
    events = foreign_events.make(START, HOURS, EVENTS, seed=11)
    create_tables(user)
    write_foreign(user)
    user.do("publish", str(foreign_events.write(events, user.folder / "events.ndjson")))
    return events


def named(datasets: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["namespace"], one["name"]): one for one in datasets}


def ends(server: LineageServer, job: str) -> tuple[Event, Event]:
    start, end = server.of_job(job)
    assert (start["eventType"], start["run"]["runId"]) == ("START", end["run"]["runId"])
    assert start["eventTime"] <= end["eventTime"]
    return start, end


@pytest.mark.long
def test_every_step_of_a_run_is_reported(user, server, kafka_broker, clickhouse_server):
    events = published(user)
    reports(user, server, OPENLINEAGE_NAMESPACE="ads", OPENLINEAGE_PARENT_ID=f"cron/nightly/{'0' * 31}1")
    user.do("run", *RANGE)
    for event in server.events:
        check_event(event)
    assert KEY not in json.dumps(server.events) and server.keys == {f"Bearer {KEY}"}
    assert {event["job"]["namespace"] for event in server.events} == {"ads"}

    name = f"sluice.{user.name}"
    tables = [f"{user.name}.{table}" for table in ("pushes", "forks", "other")]
    steps = [
        f"{name}.{step}" for step in ("resolve", "land", *(f"load.{t}" for t in tables), "verify", "publish")
    ]
    assert sorted(server.jobs()) == sorted((job, s) for job in (name, *steps) for s in ("START", "COMPLETE"))
    check_parents(server, name, steps)

    topic = (f"kafka://{kafka_broker}", user.name)
    lake = ("file", str(user.lake))
    places = [(f"clickhouse://{clickhouse_server.host}:{clickhouse_server.port}", table) for table in tables]
    both = {
        step: tuple(map(named, (ends(server, step)[1].get(k, []) for k in ("inputs", "outputs"))))
        for step in steps
    }
    assert [(set(inputs), set(outputs)) for inputs, outputs in both.values()] == [
        ({topic}, set()),
        ({topic}, {lake}),
        *(({lake}, {place}) for place in places),
        ({topic, lake, *places}, set()),
        ({lake, *places}, set()),
    ]
    for step in (f"{name}.resolve", f"{name}.land", f"{name}.verify"):
        check_offsets(both[step][0][topic], len(events))
    check_landing(user, both[f"{name}.land"][0][topic], both[f"{name}.land"][1][lake], len(events))
    for table, place in zip(tables, places, strict=True):
        check_load(user, table, both[f"{name}.load.{table}"][1][place])
    assert fields(both[f"{name}.load.{tables[0]}"][1][places[0]]) == {
        "id": (*lake, "id"),
        "login": (*lake, "actor.login"),
        "commits": (*lake, "payload.size"),
        "score": (*lake, "score"),
        "public": (*lake, "public"),
        "created_at": (*lake, "created_at"),
        "_cluster": (*lake, "_cluster"),
        "_partition": (*lake, "_partition"),
        "_offset": (*lake, "_offset"),
    }


def check_parents(server: LineageServer, name: str, steps: list[str]) -> None:
    """Every step is a child of the run, and the run of what called it."""
    run = ends(server, name)[1]["run"]
    outer = {
        "run": {"runId": "00000000-0000-0000-0000-000000000001"},
        "job": {"namespace": "cron", "name": "nightly"},
    }
    assert below(run) == (outer, outer)
    parent = {"run": {"runId": run["runId"]}, "job": {"namespace": "ads", "name": name}}
    for event in (event for step in steps for event in ends(server, step)):
        assert below(event["run"]) == (parent, outer)
        times = event["run"]["facets"]["nominalTime"]
        assert (at(times["nominalStartTime"]), at(times["nominalEndTime"])) == (START, END)


def check_offsets(topic: dict[str, Any], records: int) -> None:
    offsets = topic["inputFacets"]["sluice_offsets"]["partitions"]
    assert sum(part["until"] - part["from"] for part in offsets) == records
    assert [part["partition"] for part in offsets] == list(range(len(offsets)))


def check_landing(user: User, topic: dict[str, Any], lake: dict[str, Any], records: int) -> None:
    """The counts are those of the lake's files as they are."""
    assert topic["inputFacets"]["inputStatistics"]["rowCount"] == records
    sizes = [file.stat().st_size for file in user.lake.glob("type=*/**/*.parquet")]
    counts = lake["outputFacets"]["outputStatistics"]
    assert (counts["rowCount"], counts["fileCount"], counts["size"]) == (records, len(sizes), sum(sizes))


def check_load(user: User, table: str, output: dict[str, Any]) -> None:
    """Rows and columns are those of the table as ClickHouse describes it."""
    [(rows,)] = user.client.query(f"SELECT count() FROM {table}").result_rows
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == rows > 0
    columns = [(one["name"], one["type"]) for one in output["facets"]["schema"]["fields"]]
    assert columns == [tuple(row[:2]) for row in user.client.query(f"DESCRIBE {table}").result_rows]


def below(run: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parent and the root of a run."""
    facet = run["facets"]["parent"]
    parent, root = (
        {key: {k: v for k, v in one[key].items() if k != "facets"} for key in ("run", "job")}
        for one in (facet, facet["root"])
    )
    return parent, root


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def fields(output: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """What fills each column: (namespace, name, field)."""
    found = {}
    for column, value in output["facets"]["columnLineage"]["fields"].items():
        [one] = value["inputFields"]
        found[column] = (one["namespace"], one["name"], one["field"])
    return found


def test_a_run_that_fails_says_its_line_and_no_secret(user, server):
    user.write()
    reports(user, server)
    done = user.type("run", *RANGE)
    assert done.returncode == 3
    [said] = [
        line.removeprefix("sluice: ") for line in done.stderr.splitlines() if line.startswith("sluice:")
    ]
    name = f"sluice.{user.name}"
    assert server.jobs() == [
        (name, "START"),
        (f"{name}.resolve", "START"),
        (f"{name}.resolve", "FAIL"),
        (name, "FAIL"),
    ]
    for event in server.events:
        check_event(event)
    for event in server.events[2:]:
        message = event["run"]["facets"]["errorMessage"]
        assert (message["message"], "stackTrace" in message) == (said, False)


@pytest.mark.long
def test_a_server_that_never_answers_costs_five_seconds_and_one_line(user):
    """At the end of the command, whatever it did."""
    user.write()
    began = time.monotonic()
    plain = user.type("run", *RANGE)
    usual = time.monotonic() - began
    with lineage_server(silent=True) as server:
        reports(user, server, OPENLINEAGE_URL=server.url.replace("//", "//user:in-the-url@"))
        began = time.monotonic()
        done = user.type("run", *RANGE)
    assert time.monotonic() - began < usual + 5 + 3
    assert done.returncode == plain.returncode == 3
    more = [line for line in done.stderr.splitlines() if line not in plain.stderr.splitlines()]
    [line] = more
    assert "4 of 4 events were not delivered" in line
    assert KEY not in done.stderr + done.stdout and "in-the-url" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "setting",
    [
        {"OPENLINEAGE_URL": "no address"},
        {"OPENLINEAGE_URL": "http://user:in-the-url@127.0.0.1:1"},
        {
            "OPENLINEAGE__TRANSPORT__TYPE": "nothing known",
            "OPENLINEAGE__TRANSPORT__AUTH": '{"apiKey: in-the-url',
        },
    ],
    ids=["no-url", "refused", "unknown-transport"],
)
@pytest.mark.long
def test_a_wrong_setting_is_one_line(user, setting):
    user.write()
    plain = user.type("run", *RANGE)
    user.env = {**user.env, **setting}
    done = user.type("run", *RANGE)
    assert done.returncode == plain.returncode
    more = [line for line in done.stderr.splitlines() if line not in plain.stderr.splitlines()]
    assert len(more) == 1, more
    [line] = more
    assert line.startswith("lineage: ") and "in-the-url" not in done.stderr
