"""Sluice's own notifier, as Airflow's others are, and the notice of a run that is late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from sluice.config.pipeline import Pipeline
from sluice.errors import NotSent
from sluice.safe_text import line
from sluice.watch.notify import Webhook, send

if TYPE_CHECKING:
    from airflow.sdk.definitions.deadline import DeadlineAlert


class WebhookNotifier(BaseNotifier):
    """Airflow's form of `sluice.watch.notify.Webhook`."""

    def __init__(self, http_conn_id: str, text: str) -> None:
        super().__init__()
        self.webhook = Webhook(http_conn_id, text)

    def notify(self, context: Any) -> None:
        """Raises httpx.HTTPError, and WrongUse for the connection."""
        self.webhook.notify(context)


# Notifies the channels of `airflow.on_failure` of a run that is late, while it goes on.
#
# Airflow's scheduler finds it, and its triggerer calls `late`. That process reads no DAG file, so it reads
# the pipeline by its name. `airflow dags test` of Airflow 3.3.2 cannot run a DAG that has a deadline.


def deadline(pipeline: Pipeline) -> DeadlineAlert | None:
    """Returns the deadline of the hourly DAG; None without `airflow.deadline`."""
    if pipeline.airflow.deadline is None:
        return None
    from airflow.sdk.definitions.callback import AsyncCallback
    from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

    callback = AsyncCallback(f"{__name__}.late", {"pipeline": pipeline.name})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, pipeline.airflow.deadline, callback)


async def late(pipeline: str, context: Any = None) -> None:
    """Notifies the channels of a late run. Raises WrongUse where there is no such pipeline file, and NotSent
    for the channels that it cannot reach, after all have been tried."""
    await asyncio.to_thread(_notify, pipeline, (context or {}).get("dag_run") or {})


def _notify(name: str, run: dict[str, Any]) -> None:
    from sluice.airflow.pipelines import read_pipeline
    from sluice.plan.estimate import duration_text

    settings, failed = read_pipeline(name).airflow, []
    ago = (
        ""
        if settings.deadline is None
        else f" more than {duration_text(settings.deadline.total_seconds())} ago"
    )
    which = line(f"DAG {run.get('dag_id') or name}, run {run.get('dag_run_id') or 'unknown'}")
    text = f"{which}\nit was queued{ago}, and goes on"
    for channel in settings.on_failure:
        try:
            send(channel, f"[sluice] {name}: run late", text)
        except NotSent as error:
            failed.append(str(error))
    if failed:
        raise NotSent("; ".join(failed))
