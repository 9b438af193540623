"""`sluice conformance` is green on the embedded server, and red for each server that lies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice import __version__
from sluice.cli.commands import commands
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.engine import Family
from sluice.clients.connections import Connection
from sluice.conformance import scratch
from sluice.conformance.cases import Verdict, cases
from sluice.conformance.report import Tried, try_all
from sluice.conformance.scratch import DATABASE
from sluice.errors import WrongUse
from tests.integration.landed import client_of
from tests.integration.load.test_replicated import Told
from tests.integration.load.test_rights import EXACT, granted, user
from tests.integration.load.test_shared import SharedClient
from tests.support import lying_clickhouse as liars
from tests.support.clickhouse_at import at
from tests.support.long_form import per_commit
from tests.support.lying_clickhouse import Lie, lying

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[3] / "docs/guide/seen-to-hold.md"
ALL = 60.0
DATABASES = "SELECT name FROM system.databases WHERE name = {name:String}"
KILLED = "cut off and killed: "
LATE = "asleep and overtaken: "


@pytest.fixture
def server(clickhouse_server) -> Iterator[Any]:
    yield clickhouse_server
    client_of(clickhouse_server).run(f"DROP DATABASE IF EXISTS {DATABASE} SYNC")


def connection(server: Any, port: int | None = None) -> Connection:
    place = at(server.port).place
    return Connection("clickhouse_test", **{**place, "port": port or place["port"]})


def tried(server: Any, lie: Lie, *names: str) -> dict[str, Verdict]:
    with lying(server.port, lie) as port:
        found: list[Tried] = []
        try:
            try_all(connection(server, port), ALL, found.append, only=names)
        except Exception:  # a liar may refuse to be cleaned up
            if not found:
                raise
        return {one.case: one.verdict for one in found}


def left(server: Any) -> list:
    return client_of(server).rows(DATABASES, {"name": DATABASE})


def test_the_embedded_server_keeps_all_of_it(server, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_HERE", at(server.port).variable)
    path = tmp_path / "report.json"
    result = CliRunner().invoke(commands, ["conformance", "here", "--json", str(path)])
    report = json.loads(path.read_text())
    named = [case.name for case in cases(Family.PLAIN)]
    assert [case["case"] for case in report["cases"]] == named
    assert {case["verdict"] for case in report["cases"]} == {"holds"}
    assert (result.exit_code, report["holds"], report["sluice"]) == (0, True, __version__)
    assert report["engine"] == "MergeTree"
    assert report["server"] == client_of(server).rows("SELECT version()")[0][0]
    lines = result.output.splitlines()
    assert len(lines) == len(named) + 1 and all(line.startswith("holds  ") for line in lines[:-1])
    assert left(server) == []
    held = f"{len(named)} of {len(named)}"
    row = f"| ClickHouse {report['server']}, embedded | MergeTree | {held} | {__version__} |"
    assert row in PAGE.read_text()


def test_a_refused_trial_leaves_no_report(tmp_path):
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("{}")
    for path in (new, old):
        result = CliRunner().invoke(commands, ["conformance", "nowhere", "--json", str(path)])
        assert result.exit_code != 0 and isinstance(result.exception, Exception)
    assert (new.exists(), old.read_text()) == (False, "{}")


@pytest.mark.long
def test_through_an_honest_proxy_nothing_changes(server):
    names = ("a load", "reads", "equal", "counts", "a dropped", f"{KILLED}insert", f"{LATE}delete")
    found = tried(server, liars.honest, *names)
    assert len(found) >= len(names)
    assert set(found.values()) == {Verdict.HOLDS}


LIES: dict[str, tuple[Callable[[], Lie], str]] = {
    "delays deletes": (lambda: liars.delays_deletes, "reads after writes"),
    "ignores KILL": (lambda: liars.ignores_kill, f"{KILLED}insert"),
    "ignores KILL, commit": (lambda: liars.ignores_kill, f"{KILLED}commit"),
    "ignores KILL, revoke": (lambda: liars.ignores_kill, f"{KILLED}revoke"),
    "ignores KILL, reject": (lambda: liars.ignores_kill, f"{KILLED}reject"),
    "ignores KILL, delete": (lambda: liars.ignores_each_kill, f"{KILLED}delete"),
    "ignores KILL, rejected rows": (lambda: liars.ignores_each_kill, f"{KILLED}delete rejected"),
    "removes equal inserts": (liars.deduplicates, "equal inserts"),
    "reads stale": (liars.reads_stale, "reads after writes"),
    "answers before it's done": (lambda: liars.answers_before_it_is_done, "reads after writes"),
    "drops late": (lambda: liars.drops_late, "a dropped table is gone"),
    "drops late, overtaken": (lambda: liars.drops_late, f"{LATE}insert"),
    "drops nothing": (lambda: liars.drops_nothing, "a dropped table is gone"),
    "drops nothing, overtaken": (lambda: liars.drops_nothing, f"{LATE}commit"),
    "loses rows of an insert": (lambda: liars.loses_rows, "an insert is whole"),
    "counts wrong": (lambda: liars.counts_wrong, "counts are those of the contents"),
    "runs a killed statement": (lambda: liars.runs_a_killed_statement_to_its_end, f"{KILLED}insert"),
    "deletes without a fence": (lambda: liars.deletes_whatever_is_missing, "deletes whose fence is missing"),
    "does what comes late": (lambda: liars.does_what_comes_late, f"{LATE}insert"),
    "keeps a right back": (lambda: liars.keeps_a_right_back, "right: ALTER DELETE ON sluice."),
}


@pytest.mark.parametrize("lie", per_commit([*LIES], 5))
def test_a_server_that_lies_is_found_out(server, lie: str):
    made, name = LIES[lie]
    found = tried(server, made(), name)
    assert found and found[min(found)] is Verdict.FAILS


def test_shared_tables_are_tried_by_their_own_statements(server, monkeypatch):
    """On a server that stands for all of a service: what it is told, and that this works."""
    told = Told(family="Shared")

    def open_shared(*arguments: Any, **options: Any) -> SharedClient:
        return SharedClient(open_client(*arguments, **options)._driver, "service", told)

    monkeypatch.setattr(scratch, "open_client", open_shared)
    report = try_all(
        connection(server), ALL, only=("right: R", "kill on", "a load", f"{LATE}del", f"{KILLED}ins")
    )
    assert report.engine == "SharedMergeTree"
    assert {one.verdict for one in report.cases} == {Verdict.HOLDS}
    assert {one.case for one in report.cases} >= {"right: REMOTE ON *.*", "kill on all servers"}
    deletions = [sql for sql, _ in told.writes if sql.startswith("DELETE FROM")]
    assert deletions and all("notEmpty('fence_" in sql for sql in deletions)
    assert left(server) == []


@pytest.mark.long
def test_the_rights_that_the_page_lists_are_enough(start_clickhouse_server):
    rights = [*EXACT, *granted(PAGE.read_text())]
    profiles = "<profiles><default/></profiles>"
    users = f"<clickhouse>{profiles}<users>{user('default', [])}{user('loader', rights)}</users></clickhouse>"
    engines = "<table_engines_require_grant>false</table_engines_require_grant>"
    config = f"<access_control_improvements>{engines}</access_control_improvements>"
    place = start_clickhouse_server(
        users=users.replace("<grants></grants>", ""), config=f"<clickhouse>{config}</clickhouse>"
    )
    login = Connection("x", host=place.host, port=place.port, login="loader")
    report = try_all(login, ALL)
    assert [one for one in report.cases if one.verdict is not Verdict.HOLDS] == []


def test_a_case_that_has_no_time_is_not_tried_and_the_answer_is_no(server):
    report = try_all(connection(server), -1, only=("counts", "equal"))
    assert {(one.verdict, one.why) for one in report.cases} == {(Verdict.UNTRIED, "the time was over")}
    assert not report.holds
    assert left(server) == []


def test_a_database_with_something_in_it_is_left_alone(server):
    client = client_of(server)
    client.run(f"CREATE DATABASE {DATABASE}")
    client.run(f"CREATE TABLE {DATABASE}.mine (n UInt8) ENGINE = MergeTree ORDER BY n")
    client.run(f"INSERT INTO {DATABASE}.mine VALUES (7)")
    with pytest.raises(WrongUse, match=f"database {DATABASE} of .* isn't empty"):
        try_all(connection(server), ALL)
    assert client.rows(f"SELECT n FROM {DATABASE}.mine") == [(7,)]


@pytest.mark.parametrize("number", per_commit([signal.SIGINT, signal.SIGTERM]))
def test_an_interrupted_run_leaves_nothing(server, number: int):
    environment = {**os.environ, "AIRFLOW_CONN_HERE": at(server.port).variable}
    command = [str(Path(sys.executable).parent / "sluice"), "conformance", "here"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "asleep and overtaken" in line:
            process.send_signal(number)
            break
    process.stdout.read()
    assert process.wait(30) == 130
    assert left(server) == []
    running = "SELECT count() FROM system.processes WHERE startsWith(query_id, 'sluice-')"
    deadline = time.monotonic() + 10
    while client_of(server).rows(running) != [(0,)]:
        assert time.monotonic() < deadline
