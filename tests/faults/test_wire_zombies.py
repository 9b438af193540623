"""The client gives up, and its statement goes on in the server: the retry ends it, or cleans up after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.readiness import wait_until
from local.services import ClickHouseServer
from sluice.clients.clickhouse import connect
from sluice.errors import ClickHouseUnavailable
from tests.faults.fault_log import FaultLog
from tests.faults.inserver_load import NEW, UNITS, Commit, Trials, expected
from tests.faults.wire import Fault, Wire
from tests.faults.wire_clickhouse import pattern, reached
from tests.integration.landed import World, client_of
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

HASTY_SECONDS = 3
ROW_SECONDS = 0.3
SLEEPING_VIEWS = 3
ZOMBIE_SECONDS = 120


@pytest.fixture
def server(start_clickhouse_server: Callable[..., ClickHouseServer]) -> ClickHouseServer:
    return start_clickhouse_server()


@pytest.fixture
def trials(server: ClickHouseServer, tmp_path: Path) -> Trials:
    return Trials(World(tmp_path / "lake", client_of(server), "zombies"), Commit.VIEW)


@pytest.fixture
def wire(server: ClickHouseServer) -> Iterator[Wire]:
    with Wire(server.port) as made:
        yield made


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, trials: Trials, wire: Wire) -> Iterator[World]:
    """A client that waits a few seconds only. A statement of the load takes a tenth of that."""
    with monkeypatch.context() as patched:
        patched.setattr(connect, "_ANSWER_SECONDS", HASTY_SECONDS)
        world = reached(trials, wire)
    yield world
    world.client.close()


def sleeping(trials: Trials, table: str) -> None:
    """Views that let the staging of rows last for several seconds. What they write goes nowhere."""
    for number in range(SLEEPING_VIEWS):
        trials.world.sql(f"CREATE TABLE {{db}}.nowhere{number} (n UInt16) ENGINE = Null")
        trials.world.sql(
            f"CREATE MATERIALIZED VIEW {{db}}.sleeps{number} TO {{db}}.nowhere{number} AS "
            f"SELECT n FROM {{db}}.{table} WHERE sleepEachRow({ROW_SECONDS}) = 0"
        )


def running(trials: Trials) -> list[str]:
    sql = "SELECT query_id FROM system.processes WHERE startsWith(query_id, 'sluice-')"
    return [query_id for (query_id,) in trials.world.sql(sql)]


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param(False, id="killed by the retry"),
        pytest.param(True, id="ended by itself", marks=pytest.mark.long),  # it waits for half a minute
    ],
)
def test_an_insert_that_goes_on_without_its_client(
    trials: Trials, hasty: World, waits: bool, fault_log: FaultLog
) -> None:
    table, pipeline, manifests = trials.prepare()
    sleeping(trials, table)
    how = "ends by itself" if waits else "is killed"
    told = f"staging goes on without its client and {how}"
    with fault_log.trial("fault", told, victim="line to ClickHouse"):
        with pytest.raises(ClickHouseUnavailable):
            hasty.load(pipeline, *UNITS)
        assert any("-stage-" in query_id for query_id in running(trials))
        if waits:
            wait_until(lambda: not running(trials), "the zombie's end", ZOMBIE_SECONDS)
        else:
            for number in range(SLEEPING_VIEWS):
                trials.world.sql(f"DROP VIEW {{db}}.sleeps{number}")
        trials.world.load(pipeline, *UNITS)
        assert running(trials) == []
        assert trials.differences(table, expected(NEW, manifests, trials.commit)) == []


@pytest.mark.parametrize("step", per_commit(["move", "commit"]))
def test_silence_after_a_statement_was_done(
    trials: Trials, wire: Wire, hasty: World, step: str, fault_log: FaultLog
) -> None:
    table, pipeline, manifests = trials.prepare()
    with fault_log.trial("fault", f"{step}: {Fault.STALL}", victim="line to ClickHouse"):
        wire.strike(pattern(step), Fault.STALL)
        with pytest.raises(ClickHouseUnavailable):
            hasty.load(pipeline, *UNITS)
        assert wire.struck == 1
        loaded = trials.world.load(pipeline, *UNITS).loaded
        assert len(loaded) == (0 if step == "commit" else 2)
        assert trials.differences(table, expected(NEW, manifests, trials.commit)) == []
