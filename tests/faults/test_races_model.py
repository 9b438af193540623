"""The models against the code, and their long form: three attempts in every mixture, three that reland."""

from __future__ import annotations

from itertools import product

import pytest

from sluice import crash_points
from sluice.clients.clickhouse.client import Client
from sluice.crash_points import TableLoad
from tests.integration.landed import World, client_of, event, land, unit
from tests.models.landing_model import Model as Landing
from tests.models.landing_model import alarmed, lost, mixed, start
from tests.models.lease_model import COMMITTED, EMPTY, Model, wrong
from tests.models.lease_program import program
from tests.support.exhaustive import search

pytestmark = pytest.mark.faults


def test_the_model_sends_the_statements_of_a_real_load(clickhouse_server, tmp_path, name: str, monkeypatch):
    """By step: what a reload of rows and a rejected row sends, in the order in which it begins to."""
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db}")
    for table in ("t", "fed"):
        world.sql(
            f"CREATE TABLE {{db}}.{table} (n UInt16, _slice DateTime('UTC'), "
            "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY n"
        )
    world.sql("CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS SELECT * FROM {db}.t")
    land(world.lake, unit(0), [event(n=1), event(n="x")])
    pipeline = world.pipeline({"click": "t"})
    world.load(pipeline, unit(0))
    sent: list[tuple[TableLoad, str]] = []
    finished = [-1]
    real = Client.run

    def run(self, sql, parameters=None, settings=None, body=None):
        if query := (settings or {}).get("query_id"):
            sent.append((list(TableLoad)[finished[0] + 1], query.split("-")[4]))
        return real(self, sql, parameters, settings, body)

    def reached(point: crash_points.Point) -> None:
        if isinstance(point, TableLoad):
            finished[0] = list(TableLoad).index(point)

    monkeypatch.setattr(Client, "run", run)
    monkeypatch.setattr(crash_points, "reached", reached)
    world.load(pipeline, unit(0), mode="reload")
    modelled = [(act.step, act.label) for act in program(frozenset()) if not act.local]
    modelled = [act for act in modelled if act[0] is not TableLoad.FENCED_OFF]
    # Rejected rows go to a table of the attempt's own, as `stage` does: nobody else sees it. A rehearsal
    # attaches nothing.
    staged = modelled.index((TableLoad.STAGED, "stage")) + 1
    modelled[staged:staged] = [(TableLoad.REVIEWED, "rejected_rows"), (TableLoad.REHEARSED, "rehearse")]
    assert list(dict.fromkeys(sent)) == list(dict.fromkeys(modelled))
    rows = [act for act in modelled if act[0] in (TableLoad.DELETED, TableLoad.MOVED)]
    assert [act for act in sent if act in rows] == rows


@pytest.mark.long  # a minute each
@pytest.mark.parametrize("begin", [EMPTY, COMMITTED], ids=["empty", "committed"])
@pytest.mark.parametrize("modes", list(product(("fill", "reload"), repeat=3)))
def test_three_attempts_never_reach_a_wrong_state(begin, modes: tuple[str, ...]):
    found = search([begin], Model(modes).moves, wrong)
    print(f"{modes}: {found}")
    assert found.trace == ()
    # A `fill` of what is committed ends at once: three of them have 3,616 states.
    assert found.states > (3_000 if begin is COMMITTED else 100_000)


@pytest.mark.long
@pytest.mark.parametrize("modes", list(product(("fill", "reland"), repeat=3)))
@pytest.mark.parametrize("slow_copies", [False, True])
def test_three_landers_never_lose_a_file(modes: tuple[str, ...], slow_copies: bool):
    harm = (lost, alarmed) if slow_copies else (lost, alarmed, mixed)
    model = Landing(modes, slow_copies=slow_copies)
    found = search([start(3)], model.moves, lambda state: any(is_so(state) for is_so in harm))
    print(f"{modes}, {slow_copies}: {found}")
    assert found.trace == ()
