"""`make demo-wide`: two Kafka clusters and two ClickHouse shards, and one of the clusters goes away.

Its servers run only while it does, beside the stack of `make up` or without it.
"""

import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import clickhouse_connect
from clickhouse_connect.driver import Client

from local.demo_run import DemoFailed
from local.environment import Settings
from local.progress import say
from local.sample_events import HOUR, on_time
from local.services import ClickHouseServer
from local.versions import ROOT
from local.wide import PIPELINE, Wide, running

TABLES = ROOT / "include" / "sql" / "demo"
SQL = ROOT / "include" / "sql" / "demo_wide"
HOURS = 3
PER_HOUR = {"east": 6_000, "west": 4_000}
WAITS = 3  # the exit code when a cluster is unavailable
Counts = dict[tuple[str, str], int]


def complete_hours(now: datetime) -> list[datetime]:
    last_end = now.replace(minute=0, second=0, microsecond=0)
    return [last_end - number * HOUR for number in range(HOURS, 0, -1)]


def sluice(wide: Wide, command: str, *arguments: str, expected: int = 0) -> None:
    """Runs the command as a user would. Raises DemoFailed when its exit code is another one."""
    program = str(Path(sys.executable).with_name("sluice"))
    words = [program, command, "adx_wide", *arguments, "--config", str(PIPELINE)]
    say(f"$ sluice {command} adx_wide {' '.join(arguments)}")
    code = subprocess.run(words, env=wide.environment()).returncode
    if code != expected:
        raise DemoFailed(f"sluice {command} ended with {code}, not {expected}")


def publish(wide: Wide, hours: list[datetime]) -> None:
    """An hour is a file, and a file that was shipped by an earlier demo is not shipped twice."""
    for cluster, count in PER_HOUR.items():
        folder = wide.home / "events" / cluster
        folder.mkdir(parents=True, exist_ok=True)
        for hour in hours:
            lines = "".join(line + "\n" for line in on_time(hour, count))
            (folder / f"{hour:%Y-%m-%dT%HZ}.ndjson").write_text(lines)
        sluice(wide, "publish", str(folder), "--topic", f"{cluster}/adx")


def client_of(server: ClickHouseServer) -> Client:
    return clickhouse_connect.get_client(**server.at.login)


def create_tables(wide: Wide) -> None:
    for server in wide.shards.values():
        run_files(client_of(server), [TABLES / "database.sql", *sorted(TABLES.glob("create_*.sql"))])
    run_files(client_of(wide.front), [TABLES / "database.sql", *sorted(SQL.glob("read_*.sql"))])


def run_files(client: Client, files: list[Path]) -> None:
    for file in files:
        client.command(file.read_text())


def counts(server: ClickHouseServer) -> Counts:
    """Rows by hour and cluster, in all tables."""
    rows = client_of(server).query((SQL / "counts.sql").read_text()).result_rows
    return {(hour, cluster): count for hour, cluster, count in rows}


def print_counts(wide: Wide) -> Counts:
    """Rows on each shard, and as the Distributed tables show them. Raises DemoFailed when they differ."""
    shards: Mapping[str, Counts] = {name: counts(server) for name, server in wide.shards.items()}
    distributed = counts(wide.front)
    print(f"\n{'hour (UTC)':<18}{'cluster':<10}" + "".join(f"{n:>8}" for n in (*shards, "all")))
    for key in sorted(distributed.keys() | set().union(*shards.values())):
        held = [shard.get(key, 0) for shard in shards.values()]
        print(f"{key[0]:<18}{key[1]:<10}" + "".join(f"{n:>8,}" for n in (*held, distributed.get(key, 0))))
        if sum(held) != distributed.get(key, 0):
            raise DemoFailed(
                f"the shards hold {sum(held):,} rows of {key}, the Distributed tables show others"
            )
    print(flush=True)
    return distributed


def check(counted: Counts, hours: list[datetime], clusters: list[str]) -> None:
    """Each hour of each cluster has rows: all but those whose price is no number (see sample_events)."""
    expected = {key_of(hour, cluster) for hour in hours for cluster in clusters}
    if missing := expected - counted.keys():
        raise DemoFailed(f"no rows of {sorted(missing)}")


def key_of(hour: datetime, cluster: str) -> tuple[str, str]:
    """As counts.sql names them."""
    return f"{hour:%Y-%m-%d %H:%M}", cluster


def demo(wide: Wide) -> None:
    hours = complete_hours(datetime.now(UTC))
    create_tables(wide)
    publish(wide, hours)
    sluice(wide, "run", *span(hours[:-1]))
    counted = print_counts(wide)
    check(counted, hours[:-1], ["east", "west"])
    if key_of(hours[-1], "west") in counted:
        say("the last hour is loaded already, by an earlier demo: a cluster goes away again in the next one")
    else:
        lose_a_cluster(wide, hours)
    sluice(wide, "verify", *span(hours))
    say(f"every count adds up. The lake: {wide.home / 'lake' / 'adx_wide'}; the pipeline: {PIPELINE}")


def lose_a_cluster(wide: Wide, hours: list[datetime]) -> None:
    """Stops a cluster while its last hour is to be landed, and starts it again."""
    last_hour = span(hours[-1:])
    say("cluster west is stopped: its hour waits, the other's goes on")
    wide.brokers["west"].stop()
    sluice(wide, "run", *last_hour, expected=WAITS)
    check(print_counts(wide), hours, ["east"])
    say("cluster west is back: the same command catches up")
    wide.brokers["west"].start()
    sluice(wide, "run", *last_hour)
    check(print_counts(wide), hours, ["east", "west"])


def span(hours: list[datetime]) -> list[str]:
    return ["--from", f"{hours[0]:%Y-%m-%dT%HZ}", "--to", f"{hours[-1] + HOUR:%Y-%m-%dT%HZ}"]


def wide_demo(settings: Settings) -> None:
    with running(settings.home / "wide") as wide:
        demo(wide)
