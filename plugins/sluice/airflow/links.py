"""Links from Airflow's tasks to the Sluice page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink


class HoursLink(BaseOperatorLink):
    """From a task of a batch to the pipeline on the page, over the hours of the batch."""

    name = "Hours in Sluice"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns an address below `[api] base_url`, or below the server's root where that is not set."""
        from airflow.configuration import conf

        base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
        address = f"{base}/plugin/sluice#/p/{quote(operator.pipeline, safe='')}"
        # A task that failed before its templates were rendered has no hours yet.
        return f"{address}?{urlencode(operator.batch)}" if isinstance(operator.batch, dict) else address
