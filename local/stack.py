"""The embedded stack in the background: `python -m local.stack up|down|status`."""

import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version

from local import airflow_api, lifecycle
from local.clickhouse_config import login_of
from local.environment import HOST, Settings, environment
from local.lifecycle import Part, Stack
from local.progress import run_alive, say
from local.readiness import broker_ready, clickhouse_ready
from local.versions import ROOT


def embedded(environ: Mapping[str, str]) -> Stack:
    settings = Settings.read(environ)
    return Stack(
        settings.home,
        settings.ports,
        ROOT / "local" / "Procfile",
        partial(environment, settings),
        partial(migrate_airflow, settings),
        (
            Part("ClickHouse", partial(clickhouse_ready, settings.clickhouse_port)),
            Part("Kafka", partial(broker_ready, settings.kafka_port)),
            Part("Airflow", partial(airflow_api.healthy, settings.airflow_url)),
        ),
        partial(print_status, settings),
    )


def migrate_airflow(settings: Settings) -> None:
    """Airflow's database, once per version."""
    stamp = settings.home / "airflow" / "migrated-to"
    installed = version("apache-airflow")
    if stamp.exists() and stamp.read_text() == installed:
        return
    say("making Airflow's database")
    run_alive(["airflow", "db", "migrate"], "airflow db migrate", ROOT, environment(settings))
    stamp.write_text(installed)


def print_status(settings: Settings) -> None:
    say(f"Kafka       {HOST}:{settings.kafka_port}  {'up' if broker_ready(settings.kafka_port) else 'down'}")
    answers = clickhouse_ready(settings.clickhouse_port)
    say(f"ClickHouse  {settings.clickhouse_url}  {'up' if answers else 'down'}  ({login_of(settings.home)})")
    healthy = airflow_api.healthy(settings.airflow_url)
    say(f"Airflow     {settings.airflow_url}  {'up' if healthy else 'down'}  ({airflow_api.login(settings)})")
    say(f"data        {settings.home}")


if __name__ == "__main__":
    sys.exit(lifecycle.main(__doc__.splitlines()[0], embedded))
