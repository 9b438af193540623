"""Traffic counts and rollups in the whole job: a broker, Spark, the `sluice` command."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta

import pytest

from tests.integration import foreign_events
from tests.integration.land.test_main_job import HOURS, RANGE, START, SYSTEM_COLUMNS, User, create_tables

pytestmark = pytest.mark.integration

FIELDS = {"login": "actor.login", "repo": "repo.name"}
# Who pushed in an hour, and the median of their commits: of each slice that brought some.
ROLLUP = """SELECT toStartOfHour(created_at) AS hour, uniqExact(login) AS people,
    quantileExact(0.5)(commits) AS median
FROM {source}
GROUP BY hour"""


@pytest.fixture
def user(name, tmp_path, stack_env, clickhouse_server) -> User:
    made = User(name, tmp_path, stack_env, clickhouse_server)
    create_tables(made)
    for ddl in (
        "traffic (hour DateTime('UTC'), type String, login Nullable(String), repo Nullable(String), "
        f"count UInt64, {SYSTEM_COLUMNS}) ENGINE = MergeTree ORDER BY hour",
        f"people (hour DateTime('UTC'), people UInt64, median UInt8, {SYSTEM_COLUMNS}) "
        "ENGINE = MergeTree ORDER BY hour",
    ):
        made.client.command(f"CREATE TABLE {name}.{ddl}")
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "people.sql").write_text(ROLLUP)
    columns = {"login": "actor.login", "commits": "payload.size"}
    made.write(
        tables={"PushEvent": {"table": f"{name}.pushes", "columns": columns}, "*": f"{name}.other"},
        counts=[{"table": f"{name}.traffic", "by": FIELDS}],
        rollups={
            f"{name}.people": {
                "from": f"{name}.pushes",
                "sql": "sql/people.sql",
            }
        },
    )
    return made


def hour_of(event: dict) -> str:
    return event["created_at"][:13].replace("T", " ") + ":00:00"


def hour_after(event: dict) -> str:
    """Returns the slice of an event that was published an hour late."""
    return str(datetime.fromisoformat(hour_of(event)) + timedelta(hours=1))


def middle(numbers: list[int]) -> int:
    return sorted(numbers)[len(numbers) // 2]


@pytest.mark.long
def test_counts_and_rollups_of_a_whole_run(user: User):
    events = foreign_events.make(START, HOURS, 1_500, seed=11)
    events[700]["payload"]["pad"] = "x" * 70_000  # its slice is read once more, and counted once
    late = [{**event, "id": f"9{event['id']}"} for event in events[:300]]
    user.do("publish", str(foreign_events.write(events, user.folder / "events.ndjson")))
    user.do("publish", str(foreign_events.write(late, user.folder / "late.ndjson")), "--lag", "1h")
    user.do("run", *RANGE)

    published = [*events, *late]
    expected = Counter((hour_of(e), e["type"], e["actor"]["login"], e["repo"]["name"]) for e in published)
    select = "SELECT toString(hour), type, ifNull(login, '-'), ifNull(repo, '-'), sum(count)"
    rows = user.rows(select + " FROM DB.traffic GROUP BY ALL")
    assert {tuple(row[:-1]): row[-1] for row in rows} == expected
    by_hour = defaultdict(list)
    for slice_of, some in ((hour_of, events), (hour_after, late)):
        for event in some:
            if event["type"] == "PushEvent":
                by_hour[slice_of(event), hour_of(event)].append(event)
    people = [
        (
            *hours,
            len({e["actor"]["login"] for e in some}),
            sorted(e["payload"]["size"] for e in some)[len(some) // 2],
        )
        for hours, some in by_hour.items()
    ]
    select = "SELECT toString(_slice), toString(hour), people, median FROM DB.people"
    assert sorted(user.rows(select)) == sorted(people)

    assert json.loads(user.do("verify", *RANGE, "--json"))["anomalies"] == []
    found = json.loads(user.do("traffic", "--json"))[f"{user.name}.traffic"]
    assert sum(row["seen"] or 0 for row in found) == len(published)
