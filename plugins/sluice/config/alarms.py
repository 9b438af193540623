"""The pipeline file's `alarms:` block. The reference is made of the models."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from hashlib import sha256
from typing import Any

from pydantic import Field, field_validator, model_validator

from sluice.config.section import Section, WrongKey
from sluice.config.types import Duration, OptionalDuration, OptionalShare

_PLACE = re.compile(r"\{(?:subject|text)\}")
_CRONS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)


class Channel(Section):
    """Where alarms go: a notifier of Airflow's. Addresses and secrets are Airflow connections."""

    notifier: str
    """Its class. Example: `airflow.providers.smtp.notifications.smtp.SmtpNotifier`"""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What the class is made with; `{subject}` and `{text}` stand for the message.
    Example: `{smtp_conn_id: smtp_ops, to: ops@a.com, subject: "{subject}", html_content: "{text}"}`"""

    @property
    def connections(self) -> tuple[str, ...]:
        """The connections that the arguments name."""
        named = (value for key, value in sorted(self.arguments.items()) if key.endswith("conn_id"))
        return tuple(value for value in named if isinstance(value, str))

    @property
    def name(self) -> str:
        """What is kept of it: who has been notified of what. Arguments may hold a secret, against all advice:
        so only their checksum tells two channels of one class and connection apart."""
        fixed = {key: value for key, value in self.arguments.items() if not _PLACE.search(str(value))}
        beyond = sorted(key for key in fixed if not key.endswith("conn_id"))
        text = json.dumps([[key, fixed[key]] for key in beyond], default=str)
        digest = sha256(text.encode()).hexdigest()[:8] if beyond else ""
        words = (self.notifier.rpartition(".")[2], *self.connections, digest)
        return " ".join(filter(None, words))


class Alarms(Section):
    """When something is a problem, and who is notified. `none` switches a duration's or share's bound off."""

    every: Duration = timedelta(minutes=5)
    """Expert. How often the watch inspects the pipeline: 1m to 30m, and divides the hour. Example: `10m`"""
    overdue: Duration = timedelta(minutes=30)
    """How long after its end and `settle` an hour may be neither landed nor in its tables. Example: `1h`"""
    lag: OptionalDuration = None
    """Time since the end of the newest complete slice. Example: `3h`"""
    lag_records: int | None = Field(None, ge=1)
    """Records in Kafka that have not landed, of all partitions together. Example: `10000000`"""
    retention: OptionalDuration = timedelta(hours=6)
    """Time until Kafka deletes an hour that has not landed. Example: `12h`"""
    fewer: OptionalShare = 0.25
    """By which share an hour may bring less of a type than is expected. Less is a problem where it is unusual
    for the type, too; what is usual takes four weeks to learn. Example: `0.5`"""
    rejected: OptionalShare = 0.01
    """Share of an hour's records that may be rejected, and of its rows that may not fit a table.
    Example: `0.05`"""
    missing: OptionalShare = 0.1
    """By how much the share of an hour's rows without a value for a column may be above that of the three
    hours before. Example: `0.05`"""
    queue: int = Field(100, ge=1)
    """Expert. Entries in a target's replication queue. Example: `500`"""
    parts: int = Field(500, ge=1)
    """Expert. Active parts in one partition of a target. Example: `1000`"""
    disk_free: float = Field(0.1, ge=0, lt=1)
    """Expert. Free share of a ClickHouse server's disk. Example: `0.2`"""
    notify: tuple[Channel, ...] = ()
    """Channels that are notified."""

    @field_validator("every")
    @classmethod
    def _divides_the_hour(cls, value: timedelta) -> timedelta:
        if value not in [timedelta(minutes=minutes) for minutes in _CRONS]:
            raise ValueError("expected 1m … 30m that divides the hour")
        return value

    @model_validator(mode="after")
    def _different(self) -> Alarms:
        names = [channel.name for channel in self.notify]
        if len(set(names)) != len(names):
            raise WrongKey(("notify",), "a channel is listed twice")
        return self
