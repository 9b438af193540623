"""`sluice rejected` as a user types it: hours of rejected records come in after a fix, with Kafka off.

What is rejected and what has to be there afterwards is computed from the events; the lake's content is
compared with that of a pipeline that has read Kafka with the right file in the first place.
"""

from __future__ import annotations

import getpass
import json
import re
import shlex
import subprocess
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.slices import SliceRange, Unit, to_ms, utc
from sluice.state.manifests import read_manifests
from sluice.state.notes import COMMAND, TOPICS, newest, read_versions
from tests.integration.land.test_main_job import User
from tests.support.landed_contents import contents
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

START = (datetime.now(UTC) - timedelta(days=20)).replace(minute=0, second=0, microsecond=0)
PER_HOUR, LARGE_FROM = 34, 3  # the last hours have no rejected record, and values of two bytes
WRONG = {"type": {"field": "type"}, "time": {"field": "ts", "format": "epoch_ms"}}
RIGHT = {"type": {"field": "type"}, "time": {"field": "at"}}
COLUMNS = "n UInt64, small UInt8, _slice DateTime('UTC'), _cluster LowCardinality(String)"


@pytest.fixture
def user(name, tmp_path, stack_env, clickhouse_server) -> User:
    return User(name, tmp_path, stack_env, clickhouse_server)


def events(hours: int) -> list[tuple[int, dict]]:
    """(hour, event): in each hour one of 34 has a text where the others have milliseconds."""
    found = []
    for n in range(hours * PER_HOUR):
        hour, place = divmod(n, PER_HOUR)
        at = START + timedelta(hours=hour, seconds=60 + place)
        late = hour >= hours - LARGE_FROM
        ts = at.isoformat() if place == 7 and not late else to_ms(at)
        small = 300 if place == 9 and late else n % 200
        found.append((hour, {"type": "click", "n": n, "at": at.isoformat(), "ts": ts, "small": small}))
    return found


def send(user: User, bootstrap: str, sent: list[tuple[int, dict]]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(user.name, 1, 1, topic_configs={"retention.ms": "-1"})])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _, event in sent:
        stamp = to_ms(datetime.fromisoformat(event["at"]))
        producer.send(user.name, json.dumps(event).encode(), partition=0, timestamp_ms=stamp)
    producer.close()


def create_tables(user: User) -> None:
    for table in ("clicks", "oracle"):
        user.client.command(
            f"CREATE TABLE {user.name}.{table} ({COLUMNS}) ENGINE = MergeTree ORDER BY _slice"
        )


def write(user: User, event: dict, kafka: bool = True, **changes) -> None:
    place = {"connection": "kafka_default"} if kafka else {"bootstrap": "127.0.0.1:1"}
    tables = {"click": f"{user.name}.clicks"}
    user.write(
        **{
            "kafka": [{"cluster": "feed", "topics": [user.name], **place}],
            "event": event,
            "tables": tables,
            **changes,
        }
    )


def lake_contents(user: User, slices: SliceRange) -> dict:
    """Without the rules: hours of which nothing was rejected are not remade, and keep those before."""
    found = contents(open_lake(read(user.path)), [Unit(slice_, "feed") for slice_ in slices])
    return {
        unit: (rows, replace(manifest, rules="", amends=(), retried=()))
        for unit, (rows, manifest) in found.items()
    }


@pytest.mark.parametrize("hours", per_commit([12, 24 * 15]))
@pytest.mark.long
def test_what_was_rejected_comes_in_by_one_command(user, kafka_broker, hours: int):
    sent = events(hours)
    send(user, kafka_broker, sent)
    create_tables(user)
    write(user, WRONG)
    slices = SliceRange(utc(START), utc(START + timedelta(hours=hours)))
    span = ("--from", str(slices.start), "--to", str(slices.end))
    user.do("run", *span)
    # The lake was nobody's when the command began: its end alone is noted.
    (done,) = [one for one in newest(open_lake(read(user.path)), datetime.now(UTC)) if one.step == COMMAND]
    assert (done.state, done.user, done.units) == ("success", getpass.getuser(), hours)
    (noted,) = read_versions(open_lake(read(user.path)), TOPICS)
    assert noted.text == f"feed/{user.name} cleanup.policy=delete retention.bytes=-1 retention.ms=-1"
    wrong = {n for n, (_, event) in enumerate(sent) if isinstance(event["ts"], str)}
    large = {n for n, (_, event) in enumerate(sent) if event["small"] == 300}
    assert holds(user) == {(n, e["small"]) for n, (_, e) in enumerate(sent) if n not in wrong | large}

    write(user, WRONG, kafka=False)
    seen = json.loads(user.do("rejected", *span, "--sample", "2", "--json"))
    found = {(g["where"], g["column"], g["reason"]): (g["records"], g["slices"], g["since"]) for g in seen}
    assert found == {
        ("parse", "", "time not understood"): counted(sent, wrong, slices),
        ("table", "small", "does not fit UInt8"): counted(sent, large, slices),
    }
    assert [len(group["samples"]) for group in seen] == [1, 1]

    before = ids(user, slices), user.tables()
    done = user.type("rejected", *span, "--retry", "--yes")
    assert done.returncode == 1, done.stderr
    assert "landed by the rules that the file has now" in done.stdout
    assert "none of 3 rows that were tried would fit: give the column a type that takes it" in done.stdout
    assert (ids(user, slices), user.tables()) == before

    write(user, RIGHT, kafka=False)
    (ready,) = [group["alter"] for group in seen if group["alter"]]
    assert ready.replace("`", "") == f"ALTER TABLE {user.name}.clicks MODIFY COLUMN small Int64"
    user.client.command(ready)
    told = json.loads(user.do("rejected", *span, "--retry", "--yes", "--json"))
    assert (told["came_in"], told["left"]) == (len(wrong) + len(large), 0)
    assert len(told["brought_in"]) == hours - LARGE_FROM
    assert {table: len(units) for table, units in told["reloaded"].items()} == {
        f"{user.name}.clicks": LARGE_FROM
    }
    assert holds(user) == {(n, e["small"]) for n, (_, e) in enumerate(sent)}
    assert user.do("rejected", *span, "--retry", "--yes") == "no rejected record matches\n"

    mended = lake_contents(user, slices)
    write(user, RIGHT, lake=f"file://{user.folder}/oracle", tables={"click": f"{user.name}.oracle"})
    user.do("run", *span)
    assert lake_contents(user, slices) == mended


@pytest.mark.long
def test_a_retry_leaves_to_a_fill_what_the_file_has_changed(user, kafka_broker):
    """An erasure has made the hours anew, and then the file routes a type elsewhere, too."""
    sent = [
        (0, {"type": "click", "n": n, "at": START.isoformat(), "small": 300 if n < 2 else n})
        for n in range(9)
    ]
    sent += [(0, {"type": "view", "n": 9, "at": START.isoformat(), "small": 9})]
    send(user, kafka_broker, sent)
    create_tables(user)
    clicks, oracle = f"{user.name}.clicks", f"{user.name}.oracle"
    write(user, RIGHT, tables={"click": clicks, "view": oracle})
    span = ("--from", f"{START:%Y-%m-%dT%H:%MZ}", "--to", f"{START + timedelta(hours=1):%Y-%m-%dT%H:%MZ}")
    user.do("run", *span)
    user.do("erase", "--where", "n=5", "--reason", "asked", "--yes")
    write(user, RIGHT, kafka=False, tables={"view": clicks, "click": oracle})
    user.client.command(f"ALTER TABLE {clicks} MODIFY COLUMN small UInt16")

    done = user.type("rejected", *span, "--retry", "--yes", "--table", clicks)
    assert done.returncode == 0, done.stderr
    assert "left half done" not in done.stdout and "came in" in done.stdout
    assert "1 slice was not complete before, and a fill still has to follow the pipeline file" in done.stdout
    of_clicks = {(e["n"], e["small"]) for _, e in sent if e["type"] == "click" and e["n"] != 5}
    assert holds(user) == of_clicks
    assert set(user.rows("SELECT n, small FROM DB.oracle")) == {(9, 9)}
    fill = re.search(r"`sluice (run .* --mode fill[^`]*)`", done.stdout)
    assert fill is not None
    user.client.command(f"ALTER TABLE {oracle} MODIFY COLUMN small UInt16")
    printed = [user.program, *shlex.split(fill[1])]
    assert subprocess.run(printed, env=user.env, capture_output=True, timeout=300).returncode == 0
    assert holds(user) == {(9, 9)}
    assert set(user.rows("SELECT n, small FROM DB.oracle")) == of_clicks


@pytest.mark.long
def test_a_row_that_lacked_a_value_comes_in_when_the_file_no_longer_requires_it(user, kafka_broker):
    """By their own rules in all else: what the file requires by now takes no row away."""
    sent = [
        (0, {"type": "click", "at": START.isoformat(), "small": n} | ({"n": n} if n > 2 else {}))
        for n in range(6)
    ]
    send(user, kafka_broker, sent)
    create_tables(user)
    clicks = {"table": f"{user.name}.clicks", "missing": {"n": "reject"}}
    write(user, RIGHT, tables={"click": clicks})
    span = ("--from", f"{START:%Y-%m-%dT%H:%MZ}", "--to", f"{START + timedelta(hours=1):%Y-%m-%dT%H:%MZ}")
    user.do("run", *span)
    before = user.tables()
    assert holds(user) == {(3, 3), (4, 4), (5, 5)}
    write(user, RIGHT, kafka=False, tables={"click": clicks | {"missing": {"small": "reject"}}})
    told = user.do("status", *span)
    assert f"1 unit has another `missing of {user.name}.clicks` than the pipeline file" in told
    write(user, RIGHT, kafka=False, tables={"click": clicks})
    done = user.type("rejected", *span, "--retry", "--yes")
    assert done.returncode == 1, done.stderr
    assert (
        "none of 3 rows that were tried would fit: let `missing` of the table take a default" in done.stdout
    )
    assert user.tables() == before
    write(user, RIGHT, kafka=False, tables={"click": clicks | {"missing": {"small": "reject"}}})
    user.do("rejected", *span, "--retry", "--yes")
    assert holds(user) == {(0, 0), (0, 1), (0, 2), (3, 3), (4, 4), (5, 5)}
    assert user.do("rejected", *span, "--retry", "--yes") == "no rejected record matches\n"
    user.do("verify", *span, "--contents")


def holds(user: User) -> set[tuple[int, int]]:
    rows = user.rows("SELECT n, small FROM DB.clicks")
    assert len(set(rows)) == len(rows)
    return set(rows)


def counted(sent: list[tuple[int, dict]], numbers: set[int], slices: SliceRange) -> tuple[int, int, str]:
    hours = Counter(sent[n][0] for n in numbers)
    return len(numbers), len(hours), list(slices)[min(hours)].id


def ids(user: User, slices: SliceRange) -> list[str]:
    lake = open_lake(read(user.path))
    return [m.id for m in read_manifests(lake, [Unit(slice_, "feed") for slice_ in slices]).values()]
