"""The few calls of Airflow's REST API that the embedded stack and its demo make."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from local.environment import Settings

USER = "admin"
TIMEOUT_SECONDS = 20
PARTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")


class AirflowRefused(Exception):
    """Airflow answered with an error."""


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=TIMEOUT_SECONDS) as response:
            health = json.load(response)
    except (urllib.error.URLError, OSError, ValueError):
        return False
    return all((health.get(part) or {}).get("status") == "healthy" for part in PARTS)


def password_file(settings: Settings) -> Path:
    return settings.home / "airflow" / "simple_auth_manager_passwords.json.generated"


def password(settings: Settings) -> str | None:
    try:
        return json.loads(password_file(settings).read_text())[USER]
    except (OSError, ValueError, KeyError):
        return None


def login(settings: Settings) -> str:
    stored = password(settings)
    return f"user {USER}, password {stored}" if stored else "its login is made at the first start"


class Airflow:
    def __init__(self, settings: Settings):
        self.url = settings.airflow_url
        credentials = {"username": USER, "password": password(settings)}
        self.token = self._call("POST", "/auth/token", credentials)["access_token"]

    def _call(self, method: str, path: str, body: dict | None = None) -> Any:
        headers = {"Content-Type": "application/json"}
        if token := getattr(self, "token", None):
            headers["Authorization"] = f"Bearer {token}"
        content = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.url}{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            detail = error.read().decode(errors="replace")[:300]
            raise AirflowRefused(f"Airflow answered {error.code} to {method} {path}: {detail}") from error

    def has_dag(self, dag: str) -> bool:
        answer = self._call("GET", f"/api/v2/dags?{urlencode({'dag_id_pattern': dag})}")
        return any(candidate["dag_id"] == dag for candidate in answer["dags"])

    def import_errors(self) -> list[str]:
        errors = self._call("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace'].strip().splitlines()[-1]}" for error in errors]

    def unpause(self, dag: str) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})

    def runs(self, dag: str, limit: int = 20) -> list[dict]:
        """The newest runs first."""
        query = urlencode({"order_by": "-run_after", "limit": limit})
        return self._call("GET", f"/api/v2/dags/{dag}/dagRuns?{query}")["dag_runs"]

    def tasks(self, dag: str, run: str) -> list[dict]:
        return self._call("GET", f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances")["task_instances"]

    def clear_failed(self, dag: str, run: str) -> None:
        self._call(
            "POST", f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/clear", {"dry_run": False, "only_failed": True}
        )
