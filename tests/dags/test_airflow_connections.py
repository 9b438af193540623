from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.clients.connections import Connection, as_environment, lookup, parse
from sluice.errors import WrongUse

GIVEN = {
    "conn_type": "aws",
    "host": "store.example.org",
    "port": 7070,
    "login": "key",
    "password": "s3cret",
    "extra": {"region_name": "eu-west-1"},
}


@pytest.fixture
def lake_store(monkeypatch: pytest.MonkeyPatch) -> Connection:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_STORE", json.dumps(GIVEN))
    return Connection(
        "lake_store",
        "aws",
        host="store.example.org",
        port=7070,
        login="key",
        password="s3cret",
        extra={"region_name": "eu-west-1"},
    )


def test_a_connection_as_airflow_knows_it(lake_store: Connection):
    import airflow  # noqa: F401  it is set up in this process

    assert lookup("lake_store") == lake_store
    assert lookup("nobody_knows_it") is None


def test_a_subprocess_is_given_what_airflow_has(lake_store: Connection):
    given = as_environment(["lake_store"])
    assert set(given) == {"AIRFLOW_CONN_LAKE_STORE"}
    assert parse("lake_store", given["AIRFLOW_CONN_LAKE_STORE"]) == lake_store


def test_a_subprocess_is_given_the_embedded_stacks_defaults(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    monkeypatch.setenv("SLUICE_KAFKA_PORT", "19092")
    given = json.loads(as_environment(["kafka_default"])["AIRFLOW_CONN_KAFKA_DEFAULT"])
    assert given["extra"] == {"bootstrap.servers": "127.0.0.1:19092"}


def test_a_connection_that_nobody_knows_is_named():
    with pytest.raises(WrongUse, match="nobody_knows_it"):
        as_environment(["nobody_knows_it"])


def test_where_airflow_is_not_set_up_it_is_not_imported(tmp_path: Path):
    look = "from sluice.clients.connections import lookup, sys; "
    look += "print(lookup('a'), 'airflow' in sys.modules)"
    home = tmp_path / "none"
    ran = subprocess.run(
        [sys.executable, "-c", look],
        env={**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": "plugins"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["None", "False"]
    assert not home.exists()
