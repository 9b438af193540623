from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from local.runner import NotedManager
from sluice.clients import connections as connections
from sluice.clients.connections import Connection, find, parse
from sluice.errors import WrongUse


@pytest.fixture(autouse=True)
def no_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_airflow_lookup", lambda conn_id: None)


# What airflow.models.connection.Connection(uri=…) of Airflow 3.3.2 made of each.
URIS = [
    (
        "kafka://",
        Connection("c", "kafka"),
    ),
    (
        "clickhouse://default:p%40ss%2Fword@db.example:8443/events?secure=true&timeout=30",
        Connection(
            "c", "clickhouse", "db.example", 8443, "default", "p@ss/word", "events",
            {"secure": True, "timeout": 30},
        ),
    ),
    (
        "google-cloud-platform://?__extra__=%7B%22a%22%3A+%7B%22b%22%3A+1%7D%7D",
        Connection("c", "google_cloud_platform", extra={"a": {"b": 1}}),
    ),
    ("spark://spark%3A%2F%2Fmaster:7077", Connection("c", "spark", "spark://master", 7077)),
    ("http://https://user:pw@host:80/p", Connection("c", "http", "https://host", 80, "user", "pw", "p")),
]  # fmt: skip


@pytest.mark.parametrize(("uri", "expected"), URIS)
def test_uri_form(uri: str, expected: Connection):
    assert parse("c", uri) == expected


@pytest.mark.parametrize("uri", [uri for uri, _ in URIS])
def test_uri_form_agrees_with_airflow(uri: str):
    models = pytest.importorskip("airflow.models.connection")
    theirs = models.Connection(conn_id="c", uri=uri)
    mine = parse("c", uri)
    assert (mine.conn_type, mine.port, mine.extra) == (theirs.conn_type, theirs.port, theirs.extra_dejson)
    for name in ("host", "login", "password", "schema"):
        assert (getattr(mine, name) or None) == (getattr(theirs, name) or None), name


def test_json_form():
    text = json.dumps(
        {"conn_type": "kafka", "port": "9092", "host": "h", "extra": {"bootstrap.servers": "h:1"}}
    )
    expected = Connection("c", "kafka", "h", 9092, extra={"bootstrap.servers": "h:1"})
    assert find("c", {"AIRFLOW_CONN_C": text}) == expected
    as_text = json.dumps({"conn_type": "kafka", "extra": '{"bootstrap.servers": "h:1"}'})
    assert parse("c", as_text).extra == {"bootstrap.servers": "h:1"}


@pytest.mark.parametrize("text", ["", "secret", "{secret", '{"extra": "[1]"}', "a://b://c://d", "x://h:port"])
def test_a_malformed_text_is_refused_without_showing_it(text: str):
    with pytest.raises(WrongUse) as raised:
        parse("main", text)
    assert "AIRFLOW_CONN_MAIN" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("key", ["conn_type", "host", "login", "password", "schema"])
@pytest.mark.parametrize("value", [12345, 0, 1.5, True, ["secret"], {"secret": 1}])
def test_what_is_no_text_is_refused_without_showing_it(key: str, value: object):
    with pytest.raises(WrongUse) as raised:
        parse("main", json.dumps({"conn_type": "http", key: value}))
    assert str(raised.value) == f"connection 'main': its {key} is no text: write it in quotation marks"


@pytest.mark.parametrize("port", ["x", "-1", "65536", -1, 65_536, 80.5, True, [80], float("inf")])
def test_what_is_no_port_is_refused(port: object):
    with pytest.raises(WrongUse, match="^connection 'main': its port is no number up to 65535$"):
        parse("main", json.dumps({"conn_type": "http", "port": port}))


@pytest.mark.parametrize("port", [None, "", 0, False])
def test_no_port(port: object):
    assert parse("main", json.dumps({"conn_type": "http", "port": port})).port is None


def test_numbers_from_a_secrets_back_end_are_refused_as_well(monkeypatch: pytest.MonkeyPatch):
    """Airflow itself takes a number as a host or a login, and hands it on as it is."""
    airflow_lookup = pytest.importorskip("sluice.clients.connections")
    stored = types.SimpleNamespace(
        conn_type="http", host="h", port=80, login=5, password="p", schema=None, extra_dejson={}
    )
    monkeypatch.setattr(airflow_lookup, "_airflow_is_set_up", lambda: True)
    monkeypatch.setattr(airflow_lookup, "airflow_connection", lambda _: stored)
    with pytest.raises(WrongUse, match="^connection 'main': its login is no text"):
        airflow_lookup.lookup("main")


def test_the_repr_keeps_secrets():
    shown = repr(Connection("c", "kafka", login="me", password="hush", extra={"sasl.password": "hush"}))
    assert "me" in shown
    assert "hush" not in shown


def test_the_embedded_stack_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "PROJECT", tmp_path)
    assert find("kafka_default", {}).extra == {"bootstrap.servers": "127.0.0.1:9092"}
    assert find("kafka_default", {"SLUICE_KAFKA_PORT": "19"}).extra == {"bootstrap.servers": "127.0.0.1:19"}
    clickhouse = find("clickhouse_default", {"SLUICE_CLICKHOUSE_PORT": "81"})
    assert (clickhouse.host, clickhouse.port, clickhouse.login) == ("127.0.0.1", 81, "sluice")
    assert find("spark_default", {}).host == "local[*]"
    with pytest.raises(WrongUse, match="SLUICE_KAFKA_PORT"):
        find("kafka_default", {"SLUICE_KAFKA_PORT": "many"})


def test_the_embedded_clickhouse_has_the_password_that_its_stack_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "PROJECT", tmp_path)
    for home, password in (("var", "of var"), ("elsewhere", "of elsewhere")):
        (tmp_path / home).mkdir()
        (tmp_path / home / "clickhouse-password").write_text(password)
    assert find("clickhouse_default", {}).password == "of var"
    elsewhere = {"SLUICE_HOME": str(tmp_path / "elsewhere")}
    assert find("clickhouse_default", elsewhere).password == "of elsewhere"
    given = {**elsewhere, "SLUICE_CLICKHOUSE_PASSWORD": "given"}
    assert find("clickhouse_default", given).password == "given"
    assert find("clickhouse_default", {"SLUICE_HOME": str(tmp_path)}).password == ""


def test_the_ports_of_the_stack_that_runs_are_known_in_every_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The runner notes them, and the command reads them from whatever folder it is called."""
    monkeypatch.setattr(connections, "PROJECT", tmp_path / "checkout")
    home = tmp_path / "checkout" / "var"
    home.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_KAFKA_PORT", "19092")
    monkeypatch.setenv("SLUICE_CLICKHOUSE_PORT", "18123")
    NotedManager(home / "stack.json", [19092, 19093, 18123, 18080], 3, 60)._system_print("")
    (home / "clickhouse-password").write_text("kept")
    assert find("kafka_default", {}).extra == {"bootstrap.servers": "127.0.0.1:19092"}
    clickhouse = find("clickhouse_default", {})
    assert (clickhouse.port, clickhouse.password) == (18123, "kept")
    assert find("clickhouse_default", {"SLUICE_CLICKHOUSE_PORT": "5"}).port == 5
    assert find("clickhouse_default", {"SLUICE_HOME": str(tmp_path)}).port == 8123


def test_an_unknown_connection_says_how_to_make_it():
    with pytest.raises(WrongUse, match=r"'kafka_dc9': make it in Airflow, or set AIRFLOW_CONN_KAFKA_DC9"):
        find("kafka_dc9", {})


def test_airflow_is_asked_before_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    monkeypatch.setattr(connections, "PROJECT", tmp_path)
    stored = Connection("kafka_default", "kafka", "real")
    module = types.SimpleNamespace(lookup={"kafka_default": stored}.get)
    monkeypatch.setitem(sys.modules, "sluice.clients.connections", module)
    assert find("kafka_default", {}) is stored
    assert find("spark_default", {}).host == "local[*]"
    assert find("kafka_default", {"AIRFLOW_CONN_KAFKA_DEFAULT": "kafka://mine"}).host == "mine"


def test_the_embedded_stacks_airflow_is_asked_for_what_the_stack_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its own connections are variables there, which come before its database; AIRFLOW_HOME names another."""
    monkeypatch.undo()
    monkeypatch.setattr(connections, "PROJECT", tmp_path)
    airflow = tmp_path / "var" / "airflow"
    airflow.mkdir(parents=True)
    (airflow / "migrated-to").write_text("3")
    assert connections.embedded_airflow({}) == airflow
    assert connections.embedded_airflow({"AIRFLOW_HOME": "/elsewhere"}) is None
    stored = {name: Connection(name, "http", "stored") for name in ("registry", "kafka_default")}
    module = types.SimpleNamespace(lookup=stored.get)
    monkeypatch.setitem(sys.modules, "sluice.clients.connections", module)
    assert find("registry", {}).host == "stored"
    assert find("kafka_default", {}).extra == {"bootstrap.servers": "127.0.0.1:9092"}
    assert find("kafka_default", {"AIRFLOW_HOME": "/elsewhere"}).host == "stored"
    assert find("kafka_default", {"AIRFLOW_CONN_KAFKA_DEFAULT": "kafka://mine"}).host == "mine"


def test_without_airflow_the_defaults_stand(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "airflow", None)
    monkeypatch.delitem(sys.modules, "sluice.clients.connections", raising=False)
    assert find("spark_default", {}).host == "local[*]"


def test_a_mounted_file_holds_a_connection_and_the_environment_wins(tmp_path: Path):
    mounted = {"SLUICE_CONNECTIONS_DIR": str(tmp_path)}
    (tmp_path / "kafka_dc1").write_text('{"conn_type": "kafka", "password": "pw"}\n')
    (tmp_path / "clickhouse_dc1").write_text("clickhouse://host:8123\n")
    assert find("kafka_dc1", mounted).password == "pw"
    assert find("clickhouse_dc1", mounted).port == 8123
    assert find("kafka_dc1", {**mounted, "AIRFLOW_CONN_KAFKA_DC1": "kafka://h"}).host == "h"
    for unknown in ("kafka_dc2", f"../{tmp_path.name}/kafka_dc1"):
        with pytest.raises(WrongUse, match="no connection"):
            find(unknown, mounted)


@pytest.mark.parametrize("content", [b"{secret", b"secret", b"\xff secret"])
def test_a_mounted_file_that_is_no_connection_is_named_and_not_quoted(content: bytes, tmp_path: Path):
    (tmp_path / "dc1").write_bytes(content)
    with pytest.raises(WrongUse, match=f"{tmp_path / 'dc1'}") as refused:
        find("dc1", {"SLUICE_CONNECTIONS_DIR": str(tmp_path)})
    assert "secret" not in str(refused.value)
