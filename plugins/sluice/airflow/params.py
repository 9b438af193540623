"""What a person gives a backfill: the DAG's params, which Airflow checks and shows as a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

INSTANT = r"^(now|\d{4}-\d{2}-\d{2}([T ]\d{2}(:?\d{2}(:?\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?)$"
DEFAULT_MODE = "fill"


def mode_of(params: Mapping[str, Any]) -> str:
    """The backfill's mode; the hourly DAG has no params and always fills."""
    return params.get("mode", DEFAULT_MODE)


def backfill_params() -> dict[str, Param]:
    """Airflow keeps the value that a run resolved in the object, so every DAG has its own."""
    return {
        "from": Param(
            type="string",
            pattern=INSTANT,
            description="First instant, ISO 8601 (UTC without a zone), for example 2026-11-20T10:00Z",
        ),
        "to": Param(
            "now",
            type="string",
            pattern=INSTANT,
            description="End, not included; `now` is the end of the last complete slice",
        ),
        "mode": Param(
            DEFAULT_MODE,
            type="string",
            enum=["fill", "reload", "reland"],
            description="fill: what is missing or stale. reload: ClickHouse again from the lake. "
            "reland: Kafka again with the same boundaries, then the lake and ClickHouse",
        ),
        "dry_run": Param(False, type="boolean", description="Only log what would be done"),
    }
