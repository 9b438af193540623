"""The machine of these tests: servers, a stock Airflow, and who follows the guide there."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi

from local import services
from local.services import ClickHouseServer, KafkaBroker
from sluice.clients.clickhouse.client import Client
from tests.integration.landed import client_of
from tests.stock import wheels
from tests.stock.events import HOURS, Sent, first_hour, made, publish
from tests.stock.guide import Reader, unknown_places
from tests.stock.platform import USER, StockAirflow, postgres


@dataclass
class World:
    folder: Path
    broker: KafkaBroker
    clickhouse: ClickHouseServer
    airflow: StockAirflow
    reader: Reader
    wheels: dict[str, Path]
    version: str
    start: datetime
    sent: list[Sent]
    minutes: dict[str, float] = field(default_factory=dict)

    @property
    def pipelines(self) -> Path:
        return self.reader.folder / "dags" / "pipelines"

    def note(self, what: str, began: float) -> None:
        """How many minutes after `began`, in seconds of time.monotonic()."""
        self.minutes[what] = (time.monotonic() - began) / 60

    @property
    def client(self) -> Client:
        return client_of(self.clickhouse)

    @property
    def lake(self) -> Path:
        return self.folder / "lake" / "ads"

    @property
    def span(self) -> str:
        """As options of a command."""
        return f"--from {iso(self.start)} --to {iso(self.start + timedelta(hours=HOURS))}"

    def rows(self, table: str) -> list[tuple]:
        if table == "other":  # of types without a table: there are none
            return self.client.rows("SELECT * FROM ads.other")
        sql = (
            "SELECT id, toInt64(toUnixTimestamp64Milli(timestamp)), toDecimal64(price, 2), "
            f"toString(user.country), toString(tags), toUInt32(_slice) FROM ads.{table} ORDER BY id"
        )
        return [tuple(row) for row in self.client.rows(sql)]

    def check(self) -> None:
        """Every event is in its table exactly once, with its values."""
        for table in ("bids", "clicks", "other"):
            expected = [event.row for event in self.sent if event.table == table]
            found = self.rows(table)
            wrong = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
            assert (table, len(found), wrong[:3]) == (table, len(expected), [])

    def reland(self) -> Future[str]:
        """A backfill that lands all hours again, in a shell of its own."""
        text = f"sluice backfill ads {self.span} --mode reland --wait"
        return ThreadPoolExecutor(1).submit(self.reader.type, text)


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """All that stands before somebody has heard of Sluice, and their events in Kafka."""
    now = datetime.now(UTC)
    start, password = first_hour(now), secrets.token_urlsafe(24)
    home = folder / "airflow"
    home.mkdir()
    with ThreadPoolExecutor() as pool:
        version = wheels.version_of(wheels.ROOT)
        built = {
            one: pool.submit(wheels.wheel, folder / "dist", one) for one in (version, wheels.later(version))
        }
        # A server ends with the thread that started it: that is this one.
        broker = services.kafka_broker(folder / "kafka")
        at = services.clickhouse_server(folder / "clickhouse", reads=[folder])
        database = postgres(folder / "postgres", password)
        found = {one: job.result() for one, job in built.items()}
        constraints = found[version].with_name(f"sluice-{version}-constraints.txt")
        installed = pool.submit(wheels.stock_airflow, folder / "venv", wheels.tried(constraints), constraints)
        events = made(start)
        publish(broker.bootstrap, events)
        installed.result()
    airflow = StockAirflow(home, folder / "venv", database.port, password)
    for name in (found[version].name, constraints.name, found[wheels.later(version)].name):
        shutil.copy(folder / "dist" / name, home)
    own = places(version, broker, at, airflow, start) | {"file:///srv/lake": f"file://{folder / 'lake'}"}
    assert unknown_places(own) == []
    reader = Reader(home, airflow.settings(), own, client_of(at).run)
    reader.type("airflow db migrate")
    try:
        yield World(folder, broker, at, airflow, reader, found, version, start, events)
    finally:
        airflow.stop()
        for server in (broker, at):
            server.kill()
        database.stop()


def places(
    version: str, broker: KafkaBroker, at: ClickHouseServer, airflow: StockAirflow, start: datetime
) -> dict[str, str]:
    """What the page's addresses, passwords and times are here; who logs in to Airflow gets a password."""
    login = secrets.token_urlsafe(12)
    (airflow.home / "passwords.json").write_text(json.dumps({USER: login}))
    return {
        "VERSION": version,
        "kafka.dc1:9092": broker.bootstrap,
        "clickhouse.dc1": at.host,
        '"port": 8123': f'"port": {at.port}',
        '"login": "sluice", "password": "…"': f'"login": "{at.at.user}", "password": "{at.password}"',
        "https://airflow.example.com/base": airflow.url,
        '"login": "ann", "password": "…"': f'"login": "{USER}", "password": "{login}"',
        "/etc/ssl/own-ca.pem": certifi.where(),
        "2026-11-20T08:00Z": iso(start),
        "2026-11-20T11:00Z": iso(start + timedelta(hours=HOURS)),
    }


def iso(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%MZ}"
