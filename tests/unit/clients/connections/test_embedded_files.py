"""Files of the embedded stack that a command meets while the stack is started: absent, not whole, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.clients import connections as connections
from sluice.clients.airflow_rest.session import named_access
from sluice.clients.connections import find
from sluice.errors import WrongUse

PASSWORDS = "airflow/simple_auth_manager_passwords.json.generated"
NOT_WHOLE = [b"", b'{"admin": "secr', b"[]", b'"secret"', b"\xff\xfe"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(connections, "_airflow_lookup", lambda _: None)
    monkeypatch.setattr(connections, "_airflow", lambda: None)
    (tmp_path / "airflow").mkdir()
    return tmp_path


@pytest.mark.parametrize("content", NOT_WHOLE)
def test_the_note_of_what_runs(content: bytes, home: Path):
    environment = {"SLUICE_HOME": str(home)}
    assert find("clickhouse_default", environment).port == 8123
    (home / "stack.json").write_bytes(content)
    with pytest.raises(WrongUse) as refused:
        find("clickhouse_default", environment)
    assert_named(str(refused.value), home / "stack.json")
    assert find("clickhouse_default", {**environment, "SLUICE_CLICKHOUSE_PORT": "81"}).port == 81


@pytest.mark.parametrize("content", NOT_WHOLE)
def test_the_passwords_that_airflow_makes(content: bytes, home: Path):
    environment = {"SLUICE_HOME": str(home), "SLUICE_AIRFLOW_PORT": "8081", "AIRFLOW__API__BASE_URL": ""}
    assert named_access(environment) is None
    (home / PASSWORDS).write_bytes(content)
    with pytest.raises(WrongUse) as refused:
        named_access(environment)
    assert_named(str(refused.value), home / PASSWORDS)
    (home / PASSWORDS).write_bytes(b'{"admin": "secret"}\n')
    access = named_access(environment)
    assert access is not None
    assert (access.url, access.login, access.password) == ("http://127.0.0.1:8081", "admin", "secret")


def assert_named(message: str, path: Path) -> None:
    assert message.startswith(f"{path} is not whole: try again when `make up` has ended")
    assert "secr" not in message
