"""`sluice rejected --retry` killed at its points: the same command, typed again, brings everything in once.

The lake's content is compared with that of a pipeline that has read Kafka with the right file in the first
place, the table's rows with the events.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from local.versions import ROOT
from sluice.crash_points import Land, Publish, TableLoad
from sluice.slices import SliceRange, utc
from tests.faults.kills_points import ENVIRONMENT, SITE, Order, give, name_of, obeyed
from tests.integration.land.test_main_job import User
from tests.integration.load import test_rejected as rejected

pytestmark = pytest.mark.faults

HOURS = 6
SLICES = SliceRange(utc(rejected.START), utc(rejected.START + timedelta(hours=HOURS)))
SPAN = ("--from", str(SLICES.start), "--to", str(SLICES.end))
AGAIN = 6  # statements of a command that was killed may still be at work
# The second pass of a retry is that of rejected rows: of the protocol's steps the second occurrence is its.
ORDERS = [
    Order(name_of(TableLoad.DELETED)),
    *(Order(name_of(p)) for p in (Land.FILE_HANDED_OVER, Land.TASK_DONE, Land.OLD_COPIED, Land.COMMITTED)),
    Order(name_of(Land.COMMITTED), 2),
    *(Order(name_of(p)) for p in (Land.FILE_MOVED, Land.OLD_REMOVED, Land.MARKED, Land.SWEPT)),
    *(Order(name_of(p)) for p in (TableLoad.REVOKED, TableLoad.MOVED, TableLoad.COMMITTED)),
    *(Order(name_of(p), 2) for p in (TableLoad.REVOKED, TableLoad.DELETED, TableLoad.REJECTED)),
    *(Order(name_of(p), 2) for p in (TableLoad.MOVED, TableLoad.COMMITTED, TableLoad.RELEASED)),
    Order(name_of(Publish.HOUR_MARKED)),
]


@dataclass
class Retries:
    """One pipeline, whose hours are made wrong again before each trial; `mended` is what has to be there."""

    user: User
    orders: Path
    sent: list[tuple[int, dict]]
    mended: dict = field(default_factory=dict)

    def spoil(self) -> None:
        rejected.write(self.user, rejected.WRONG, kafka=False)
        self.user.client.command(f"ALTER TABLE {self.user.name}.clicks MODIFY COLUMN small UInt8")
        self.user.do("run", *SPAN, "--mode", "remake", "--yes")
        rejected.write(self.user, rejected.RIGHT, kafka=False)
        self.user.client.command(f"ALTER TABLE {self.user.name}.clicks MODIFY COLUMN small UInt16")

    def retry(self) -> int:
        done = self.user.type("rejected", *SPAN, "--retry", "--yes")
        self.said = f"{done.stdout}\n{done.stderr}"[-3000:]
        return done.returncode

    def check(self) -> None:
        assert rejected.holds(self.user) == {(n, e["small"]) for n, (_, e) in enumerate(self.sent)}
        assert rejected.lake_contents(self.user, SLICES) == self.mended
        self.user.do("verify", *SPAN)


@pytest.fixture(scope="module")
def retries(tmp_path_factory, kafka_broker, stack_env, clickhouse_server) -> Iterator[Retries]:
    folder = tmp_path_factory.mktemp("kills_rejected")
    orders = folder / "orders"
    orders.mkdir()
    path = os.pathsep.join(map(str, (SITE, ROOT / "plugins", ROOT)))
    environment = {**stack_env, ENVIRONMENT: str(orders), "PYTHONPATH": path}
    user = User("kills_rejected", folder, environment, clickhouse_server)
    sent = rejected.events(HOURS)
    rejected.send(user, kafka_broker, sent)
    rejected.create_tables(user)
    oracle = {"lake": f"file://{folder}/oracle", "tables": {"click": f"{user.name}.oracle"}}
    rejected.write(user, rejected.RIGHT, **oracle)
    user.do("run", *SPAN)
    made = Retries(user, orders, sent, rejected.lake_contents(user, SLICES))
    rejected.write(user, rejected.WRONG)
    user.do("run", *SPAN)
    yield made
    user.client.command(f"DROP DATABASE {user.name}")


def named(order: Order) -> str:
    return f"{order.point}-{order.nth}"


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS, ids=named)
def test_killed_at_a_point(retries: Retries, fault_log, order: Order):
    with fault_log.trial("kill", order.point, victim="sluice rejected --retry"):
        retries.spoil()
        give(retries.orders, order)
        assert retries.retry() != 0, retries.said
        assert obeyed(retries.orders), f"{order} was not obeyed: {retries.said}"
        codes = []
        while not codes or (codes[-1] != 0 and len(codes) < AGAIN):
            codes.append(retries.retry())
        assert codes[-1] == 0, f"{codes}: {retries.said}"
        retries.check()
        assert json.loads(retries.user.do("rejected", *SPAN, "--json")) == []
