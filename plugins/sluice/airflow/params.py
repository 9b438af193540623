"""What a person gives a backfill: the DAG's params, which Airflow checks and shows as a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from sluice.slices import MOST_SLICES

# The years are those of sluice.slices: no table's `_slice` holds others.
_DATE, _ZONE = r"(19[7-9]\d|20\d{2}|210[0-5])-\d{2}-\d{2}", r"(Z|[+-]\d{2}(:?\d{2})?)?"
INSTANT = rf"^(now|{_DATE}([T ]\d{{2}}(:?\d{{2}}(:?\d{{2}}(\.\d+)?)?)?{_ZONE})?)$"
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
            maxLength=40,
            description="First instant, ISO 8601 (UTC without a zone), for example 2026-11-20T10:00Z. "
            f"A run takes at most {MOST_SLICES:,} slices",
        ),
        "to": Param(
            "now",
            type="string",
            pattern=INSTANT,
            maxLength=40,
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
