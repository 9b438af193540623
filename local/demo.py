"""`make demo`: sample events into Kafka, the hourly DAG over them, and what came out.

Airflow's own schedule does the work: unpaused, the DAG runs for the last complete hour, and `lookback: 24h`
in include/pipelines/adx.yaml makes that run take the hours before it as well.
"""

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import clickhouse_connect
from clickhouse_connect.driver import Client
from clickhouse_connect.driver.exceptions import ClickHouseError
from kafka.errors import KafkaError

from local.airflow_api import Airflow, AirflowRefused, login
from local.clickhouse_config import login_of
from local.demo_events import publish_missing
from local.demo_run import DAG, DemoFailed, newest_hour_run, retry_failed, wait_for_dag, wait_for_run
from local.demo_wide import wide_demo
from local.environment import Settings, WrongSetting, environment
from local.fetched import NotAsPinned
from local.java import JavaMissing
from local.progress import CommandFailed, say
from local.readiness import NotReady
from local.sample_events import HOUR
from local.secret_file import PRIVATE
from local.services import DiedWhileStarting
from local.versions import ROOT

SQL = ROOT / "include" / "sql" / "demo"
HOURS = 4
FAILURES = (
    DemoFailed,
    AirflowRefused,
    NotReady,
    DiedWhileStarting,
    CommandFailed,
    WrongSetting,
    JavaMissing,
    NotAsPinned,
    OSError,
)


def complete_hours(now: datetime) -> list[datetime]:
    last_end = now.replace(minute=0, second=0, microsecond=0)
    return [last_end - number * HOUR for number in range(HOURS, 0, -1)]


def create_tables(client: Client) -> None:
    for file in [SQL / "database.sql", *sorted(SQL.glob("create_*.sql"))]:
        client.command(file.read_text())


def print_counts(client: Client) -> None:
    rows = client.query((SQL / "counts.sql").read_text()).result_rows
    print(f"\n{'hour (UTC)':<18}{'type':<14}{'table':<18}{'rows':>8}")
    for hour, kind, table, count in rows:
        print(f"{hour:<18}{kind:<14}{table:<18}{count:>8,}")
    print(f"{'':<50}{sum(row[3] for row in rows):>8,}\n", flush=True)


def span_of(hours: list[datetime]) -> list[str]:
    return ["--from", f"{hours[0]:%Y-%m-%dT%HZ}", "--to", f"{hours[-1] + HOUR:%Y-%m-%dT%HZ}"]


def print_status(env: dict[str, str], hours: list[datetime]) -> None:
    program = str(Path(sys.executable).with_name("sluice"))
    subprocess.run([program, "status", DAG, *span_of(hours)], env=env)


def print_traffic(env: dict[str, str]) -> None:
    """What came by hour and country, and what is expected tomorrow."""
    program = str(Path(sys.executable).with_name("sluice"))
    subprocess.run([program, "traffic", DAG], env=env)


def print_next(settings: Settings, hours: list[datetime]) -> None:
    span = " ".join(span_of(hours))
    print(f"""
Airflow     {settings.airflow_url}/dags/{DAG}   ({login(settings)})
the page    {settings.airflow_url}/plugin/sluice   (every hour, in Airflow's navigation under Sluice)
ClickHouse  {settings.clickhouse_url}/play   ({login_of(settings.home)})
the lake    {settings.home / "lake" / DAG}

Next, for example:
  .venv/bin/sluice verify {DAG} {span}    every count, once more
  .venv/bin/sluice plan {DAG} {span}      what a backfill would do: nothing
  .venv/bin/sluice backfill {DAG} {span} --mode reload --wait
  make shell   a shell in which airflow and sluice are commands of this stack
  make down    stop it all; the data stays
""")


def demo(settings: Settings, env: dict[str, str]) -> None:
    hours = complete_hours(datetime.now(UTC))
    airflow = Airflow(settings)
    client = clickhouse_connect.get_client(**settings.clickhouse_login)
    create_tables(client)
    wait_for_dag(airflow)
    # An hour the DAG has taken up has its boundaries: events published now would count in a later one.
    done_until = newest_hour_run(airflow)
    publish_missing(
        [hour for hour in hours if done_until is None or hour >= done_until],
        settings.bootstrap,
        settings.home / "demo",
        env,
    )
    retry_failed(airflow, hours[-1] + HOUR)
    airflow.unpause(DAG)
    airflow.unpause(f"{DAG}_watch")
    say(f"the hourly DAG {DAG} is on; its run of {hours[-1]:%H:%M} UTC takes the hours before as well")
    wait_for_run(airflow, hours[-1] + HOUR)
    print_counts(client)
    print_status(env, hours)
    print_traffic(env)
    print_next(settings, hours)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wide", action="store_true", help="two Kafka clusters and two ClickHouse shards")
    options = parser.parse_args()
    os.umask(PRIVATE)
    try:
        settings = Settings.read(os.environ)
        if options.wide:
            wide_demo(settings)
        else:
            demo(settings, environment(settings))
    except FAILURES as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 3
    except (ClickHouseError, KafkaError) as error:
        print(f"sluice: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
