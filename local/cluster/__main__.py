"""The wide stack in the background: `python -m local.cluster up|down|status` (docs/guide/cluster.md)."""

from __future__ import annotations

import json
import shutil
import sys
import urllib.request
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec

from local import airflow_api, lifecycle
from local.cluster import postgres, s3_server, spark_python
from local.cluster.environment import BUCKET, POOLS, environment
from local.cluster.settings import WORKERS, ClusterSettings, address
from local.environment import HOST
from local.lifecycle import CannotStart, Part, Stack
from local.progress import run_alive, say
from local.readiness import broker_ready, clickhouse_ready, listens
from local.versions import ROOT


def wide(environ: Mapping[str, str]) -> Stack:
    settings = ClusterSettings.read(environ)
    port = settings.port
    return Stack(
        settings.home,
        settings.ports,
        ROOT / "local" / "Procfile.cluster",
        partial(environment, settings),
        partial(prepare, settings),
        (
            Part("S3", partial(listens, port("S3")), partial(make_bucket, settings)),
            Part("ClickHouse 1", partial(clickhouse_ready, port("CLICKHOUSE"))),
            Part("ClickHouse 2", partial(clickhouse_ready, port("CLICKHOUSE2"))),
            Part("Kafka", partial(broker_ready, port("KAFKA"))),
            Part("Redis", partial(listens, port("REDIS"))),
            Part("PostgreSQL", partial(listens, port("POSTGRES")), partial(make_database, settings)),
            Part("Spark", partial(spark_ready, port("SPARK_UI"))),
            Part("Airflow", partial(airflow_api.healthy, settings.single.airflow_url)),
        ),
        partial(print_status, settings),
        patience=200,  # Airflow's parts end until their database is there
    )


def prepare(settings: ClusterSettings) -> None:
    if find_spec("celery") is None:
        raise CannotStart("Celery is not installed: run make up-cluster")
    for worker in WORKERS:
        for folder in (f"spark{worker}/tmp", f"airflow-worker{worker}/tmp"):  # noqa: S108 - below its home
            (settings.home / folder).mkdir(parents=True, exist_ok=True)
    recovery = settings.home / "spark" / "recovery"  # for a master that was killed, not for a new stack
    shutil.rmtree(recovery, ignore_errors=True)
    recovery.mkdir(parents=True)
    settings.migrated.unlink(missing_ok=True)
    spark_python.make(settings.worker_python)


def spark_ready(ui_port: int) -> bool:
    """Both workers have registered with the master."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{ui_port}/json/", timeout=5) as response:
            return json.load(response)["aliveworkers"] >= len(WORKERS)
    except (OSError, ValueError):
        return False


def make_bucket(settings: ClusterSettings) -> None:
    s3_server.make_bucket(environment(settings), BUCKET)


def make_database(settings: ClusterSettings) -> None:
    """Airflow's database and pools; then its parts, which wait for it, begin."""
    env = environment(settings)
    postgres.create_database(settings.port("POSTGRES"), env[postgres.PASSWORD])
    say("making Airflow's database")
    run_alive(["airflow", "db", "migrate"], "airflow db migrate", ROOT, env)
    pools = settings.home / "pools.json"
    about = "docs/guide/cluster.md"
    pools.write_text(
        json.dumps({name: {"slots": slots, "description": about} for name, slots in POOLS.items()})
    )
    run_alive(["airflow", "pools", "import", str(pools)], "airflow pools import", ROOT, env)
    settings.migrated.touch()


def print_status(settings: ClusterSettings) -> None:
    single = settings.single
    for name, port in settings.numbers.items():
        service = name.removeprefix("SLUICE_").removesuffix("_PORT").lower()
        say(f"{service:<17} {HOST}:{port:<6} {'up' if listens(port) else 'down'}")
    say(f"Airflow           {single.airflow_url}  ({airflow_api.login(single)})")
    say(f"Spark             {settings.spark_url}, workers on {', '.join(map(address, WORKERS))}")
    say(f"lake              s3://{BUCKET} at {settings.s3_url}")
    say(f"data              {settings.home}")


if __name__ == "__main__":
    sys.exit(lifecycle.main(__doc__.splitlines()[0], wide))
