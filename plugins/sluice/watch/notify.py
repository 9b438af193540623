"""Alarms through notifiers. Text goes as it is: nothing that data can say is rendered.

A webhook needs no Airflow. Any other notifier is a class of Airflow's, or of one of its providers.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import httpx

from sluice.clients import connections
from sluice.clients.connections import Connection
from sluice.config.airflow import Channel
from sluice.errors import NotSent, SluiceError, WrongUse
from sluice.safe_text import line
from sluice.watch.problems import unaddressed

WEBHOOK = "sluice.airflow.notifiers.WebhookNotifier"
"""What pipeline files call `Webhook`."""

_SECONDS = 20
_FIRST_ERROR_STATUS = 400
_PLACES = re.compile(r"\{subject\}|\{text\}")  # at once: nothing is filled into what was filled in


class Webhook:
    """Posts a JSON object with `text`, which Slack's incoming webhooks and many others take.

    The HTTP connection has the whole URL as its host, or schema, host and port, and the path in its extra
    as `path`; its password, if any, goes as a bearer token.
    """

    def __init__(self, http_conn_id: str, text: str) -> None:
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


def notifier_of(channel: Channel, subject: str, text: str) -> Any:
    """Returns the notifier with its message. `notify` is called on it directly, so that no template in a
    message, which may quote data, is ever rendered. Raises as `notifier_class`."""
    arguments = _filled(channel.arguments, unaddressed(subject), unaddressed(text))
    return notifier_class(channel.notifier)(**arguments)


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


# The class behind a channel's `notifier`.
def notifier_class(path: str) -> type[Any]:
    """Imports the class. Whoever writes a pipeline file may send a message, and call nothing else: so it has
    to be a notifier of Airflow's.

    Raises WrongUse where it is another object, or needs an Airflow that is not installed, and whatever else
    the import of its module raises.
    """
    if path == WEBHOOK:
        return Webhook
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "airflow" or find_spec("airflow"):
            raise
        raise WrongUse(f"{path} needs Airflow, which is not installed here; {WEBHOOK} does not") from None
    if not (inspect.isclass(found) and any(map(_is_airflows, found.__mro__))):
        raise WrongUse(f"{path} is no notifier: expected a subclass of Airflow's BaseNotifier")
    return found


def _is_airflows(base: type) -> bool:
    return base.__name__ == "BaseNotifier" and base.__module__.partition(".")[0] == "airflow"
