"""Many processes at the same hours at once: lake, tables, ledger and rejected rows hold each row once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.race_world import Scene
from tests.faults.racers import race
from tests.integration import s3_servers
from tests.integration.landed import client_of
from tests.support.landing_world import hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

RACERS = 16


def clickhouse_at(server) -> dict[str, str]:
    return {"AIRFLOW_CONN_CLICKHOUSE_DEFAULT": server.at.variable}


@pytest.fixture
def scene(clickhouse_server, tmp_path, name: str) -> Scene:
    client, environment = client_of(clickhouse_server), clickhouse_at(clickhouse_server)
    return Scene(f"file://{tmp_path / 'lake'}", name, client, environment).make_tables()


@pytest.fixture(scope="module")
def s3(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The environment that reaches a bucket."""
    with s3_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as settings:
        s3_servers.make_bucket(settings, "races")
        yield {
            "AWS_ENDPOINT_URL_S3": str(settings.endpoint_url),
            "AWS_REGION": str(settings.region),
            "AWS_ACCESS_KEY_ID": str(settings.key),
            "AWS_SECRET_ACCESS_KEY": str(settings.secret),
        }


def same_hour(scene: Scene) -> None:
    outcomes = race(*[scene.job(0, 1, audit=True)] * RACERS)
    # One whose load had to be tried again finds landed what it had landed itself.
    assert sum(outcome.landed for outcome in outcomes) <= 1
    scene.expect_lake(hours(1))
    assert list(scene.lake.list("_attempts/")) == []
    scene.expect_tables(hours(1))
    assert [scene.ledger_rows(table) for table in ("clicks", "other")] == [1, 1]


def test_sixteen_processes_run_the_same_hour(scene: Scene, fault_log):
    with fault_log.trial("race", "16 processes, one hour", times=RACERS):
        same_hour(scene)


@pytest.mark.long
def test_sixteen_processes_run_the_same_hour_in_s3(scene: Scene, s3, monkeypatch, fault_log):
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    there = scene.named(
        scene.database, lake_root="s3://races/prefix", environment={**scene.environment, **s3}
    )
    with fault_log.trial("race", "16 processes, one hour, S3", times=RACERS):
        same_hour(there)


# (first hour, hours, mode) of each process.
BACKFILLS = {
    "overlapping backfills": [
        (0, 3, "fill"),
        (1, 3, "fill"),
        (2, 3, "fill"),
        (0, 6, "fill"),
        (3, 3, "fill"),
        (5, 1, "fill"),
    ],
    "reload beside the hourly run": [(0, 5, "reload"), (0, 6, "fill"), (1, 4, "reload"), (0, 6, "fill")],
    "reland beside fill and reload": [
        (0, 3, "reland"),
        (0, 6, "fill"),
        (1, 4, "reland"),
        (1, 5, "reload"),
        (2, 4, "fill"),
    ],
}


@pytest.mark.parametrize("point", per_commit(BACKFILLS))
def test_backfills_at_once(scene: Scene, point: str, fault_log):
    jobs = BACKFILLS[point]
    if "beside" in point:
        race(scene.job(0, 5))
    with fault_log.trial("race", point, times=len(jobs)):
        race(
            *(
                scene.job(first, count, mode=mode, token=f"token {number}")
                for number, (first, count, mode) in enumerate(jobs)
            )
        )
        scene.expect_lake(hours(6))
        assert list(scene.lake.list("_attempts/")) == []
        scene.expect_tables(hours(6))
