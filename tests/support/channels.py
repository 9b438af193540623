"""Channels of alarms, as a pipeline file has them."""

from __future__ import annotations

from typing import Any


def webhook(connection: str) -> dict[str, Any]:
    arguments = {"http_conn_id": connection, "text": "{subject}\n{text}"}
    return {"notifier": "sluice.airflow.notifiers.WebhookNotifier", "arguments": arguments}


def mail(connection: str, to: str = "ops@example.com") -> dict[str, Any]:
    said = {"subject": "{subject}", "html_content": "<pre>{text}</pre>"}
    arguments = {"smtp_conn_id": connection, "to": to, **said}
    return {"notifier": "airflow.providers.smtp.notifications.smtp.SmtpNotifier", "arguments": arguments}
