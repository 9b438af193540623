"""A long backfill that is stopped at any moment goes on where it was, and says how far it has come."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime, timedelta

import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.state.notes import newest
from tests.integration.land.test_main_job import SYSTEM_COLUMNS, User

pytestmark = pytest.mark.integration

HOURS, TYPES = 150, ("click", "bid", "view")
END = (datetime.now(UTC) - timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
START = END - timedelta(hours=HOURS)
RANGE = ("--from", START.isoformat(), "--to", END.isoformat())


@pytest.fixture
def user(name, tmp_path, stack_env, clickhouse_server) -> User:
    user = User(name, tmp_path, stack_env, clickhouse_server)
    user.client.command(
        f"CREATE TABLE {name}.other (n UInt32, _type String, {SYSTEM_COLUMNS}) "
        "ENGINE = MergeTree PARTITION BY toDate(_slice) ORDER BY _slice"
    )
    user.write(clickhouse={"connection": "clickhouse_default", "lease": "2s"})
    events = user.folder / "events.ndjson"
    with events.open("w") as lines:
        for number in range(HOURS * len(TYPES)):
            at = START + timedelta(hours=number // len(TYPES), minutes=number % len(TYPES))
            lines.write(f'{{"type":"{TYPES[number % 3]}","n":{number},"created_at":"{at.isoformat()}"}}\n')
    user.do("publish", str(events))
    return user


def stop_when(user: User, said: str, with_signal: int) -> list[str]:
    """Runs until a line of its progress holds `said`, then stops it; what it said until its end."""
    process = user.start("run", *RANGE)
    watchdog = threading.Timer(240, process.kill)
    watchdog.start()
    lines = []
    try:
        for line in process.stderr:
            lines.append(line)
            if said in line:
                process.send_signal(with_signal)
                said = "\0"
    finally:
        process.stdout.close()
        process.wait()
        watchdog.cancel()
    assert said == "\0", lines
    assert process.returncode in (130, -signal.SIGKILL), lines
    return lines


@pytest.mark.long
def test_stopped_while_landing_and_while_loading_it_goes_on(user: User):
    interrupted = stop_when(user, "to land,", signal.SIGTERM)
    assert "what is done stays done" in interrupted[-1]
    stop_when(user, "load ", signal.SIGKILL)
    done = user.type("run", *RANGE)
    assert done.returncode == 0, done.stderr
    assert f"{HOURS} of {HOURS} units and {HOURS * 3} of {HOURS * 3} rows done" in done.stderr
    found = user.rows("SELECT n, _type, toUnixTimestamp(_slice) FROM DB.other ORDER BY n")
    first = int(START.timestamp())
    assert found == [(n, TYPES[n % 3], first + n // 3 * 3600) for n in range(HOURS * 3)]

    files = [item.key for item in FolderLake(user.lake).list("type=") if item.key.endswith(".parquet")]
    assert len(files) == HOURS * 3
    assert {t.step for t in newest(FolderLake(user.lake), datetime.now(UTC))} == {
        "command",
        "resolve",
        "land",
        "load",
        "verify",
        "publish",
    }
    plan = user.do("plan", *RANGE, "--mode", "reland")
    assert f"records to load: {HOURS * 3}" in plan and "time: about " in plan
