"""Alarms through Airflow's notifiers. Text goes as it is: nothing that data can say is rendered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx
from airflow.sdk import BaseNotifier

from sluice.clients import connections as connections
from sluice.clients.connections import Connection
from sluice.config.airflow import Channel
from sluice.config.pipeline import Pipeline
from sluice.errors import NotSent, SluiceError, WrongUse
from sluice.safe_text import line
from sluice.watch.problems import notifier_class, unaddressed

if TYPE_CHECKING:
    from airflow.sdk.definitions.deadline import DeadlineAlert


_SECONDS = 20
_FIRST_ERROR_STATUS = 400
_PLACES = re.compile(r"\{subject\}|\{text\}")  # at once: nothing is filled into what was filled in


class WebhookNotifier(BaseNotifier):
    """Posts a JSON object with `text`, which Slack's incoming webhooks and many others take.

    The HTTP connection has the whole URL as its host, or schema, host and port, and the path in its extra
    as `path`; its password, if any, goes as a bearer token.
    """

    def __init__(self, http_conn_id: str, text: str) -> None:
        super().__init__()
        self.http_conn_id, self.text = http_conn_id, text

    def notify(self, context: Any) -> None:
        """Raises httpx.HTTPError, and WrongUse for the connection."""
        connection = connections.find(self.http_conn_id)
        headers = {"Authorization": f"Bearer {connection.password}"} if connection.password else {}
        body = {"text": self.text}
        answer = httpx.post(_url(connection), json=body, headers=headers, timeout=_SECONDS)
        answer.raise_for_status()


def _url(connection: Connection) -> str:
    if not connection.host:
        raise WrongUse(f"connection {connection.conn_id!r}: its host is missing, the webhook's address")
    host = (
        connection.host if "://" in connection.host else f"{connection.schema or 'https'}://{connection.host}"
    )
    port = f":{connection.port}" if connection.port else ""
    return f"{host}{port}{connection.extra.get('path', '')}"


def send(channel: Channel, subject: str, text: str) -> None:
    """Raises NotSent, naming the channel and never what its connection holds."""
    try:
        notifier_of(channel, subject, text).notify({})
    except Exception as error:  # any class of anybody's notifier raises what it likes
        raise NotSent(f"alarm not sent to {channel.name}: {_reason(error)}") from None


def notifier_of(channel: Channel, subject: str, text: str) -> BaseNotifier:
    """Returns the notifier with its message. `notify` is called on it directly, so that no template in a
    message, which may quote data, is ever rendered. Raises as `notifier_class`."""
    arguments = _filled(channel.arguments, unaddressed(subject), unaddressed(text))
    notifier: BaseNotifier = notifier_class(channel.notifier)(**arguments)
    return notifier


def _filled(arguments: Mapping[str, Any], subject: str, text: str) -> dict[str, Any]:
    return {name: _fill(value, subject, text) for name, value in arguments.items()}


def _fill(value: Any, subject: str, text: str) -> Any:
    if isinstance(value, str):
        words = {"{subject}": subject, "{text}": text}
        return _PLACES.sub(lambda match: words[match[0]], value)
    if isinstance(value, Mapping):
        return _filled(value, subject, text)
    return [_fill(item, subject, text) for item in value] if isinstance(value, list) else value


def _reason(error: Exception) -> str:
    """Returns the reason of a failure: Sluice's own words, the status of an HTTP answer, or the error's kind.

    A foreign error's text may quote what the connection holds: a webhook's address, a token.
    """
    if isinstance(error, SluiceError):
        return line(str(error), 200)
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int) and status >= _FIRST_ERROR_STATUS:
        return f"HTTP {status:d}"
    return type(error).__name__


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
