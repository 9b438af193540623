"""A statement that misses a table of its own attempt was fenced off; any other refusal is the server's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sluice.clients.clickhouse.errors import UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.sql import render
from sluice.errors import Fenced
from sluice.flow.load.fencing import LoadAttempt
from sluice.flow.load.writer import Writer
from sluice.slices import Unit

ATTEMPT = LoadAttempt("shop.clicks", 2, 1)


def writer(missing: str) -> Writer:
    def refuse(*_: object) -> None:
        reason = f"Unknown table expression identifier 'sluice.{missing}' in scope SELECT 1"
        raise ServerError("server:8123", UNKNOWN_TABLE, "UNKNOWN_TABLE", "SELECT 1", reason)

    client = SimpleNamespace(run=refuse, rows=refuse)
    return Writer(client, ATTEMPT, lambda: None, Unit, frozenset())


@pytest.mark.parametrize("missing", [ATTEMPT.fence_name, ATTEMPT.staging_name])
@pytest.mark.parametrize("call", ["rows", "counts"])
def test_a_successor_has_removed_the_tables(missing, call):
    with pytest.raises(Fenced, match="shop.clicks: a successor has removed"):
        getattr(writer(missing), call)(render("load/newest_generation"))


def test_a_statement_that_writes():
    with pytest.raises(Fenced):
        writer(ATTEMPT.staging_name).run("move", render("load/newest_generation"))


@pytest.mark.parametrize("missing", ["clicks", "tmp_0123456789ab_2_1"])
def test_a_table_of_others(missing):
    with pytest.raises(ServerError, match="UNKNOWN_TABLE"):
        writer(missing).rows(render("load/newest_generation"))
