"""The pipeline file's `alarms:` block. The reference is made of the models."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema, field_validator, model_validator

from sluice.config.section import Section, WrongKey
from sluice.config.types import TEXT, Duration, OptionalDuration, OptionalShare

_CRONS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)


class Channel(Section):
    """Where alarms go; addresses and secrets are Airflow connections."""

    email: str | None = None
    """SMTP connection; mail goes to `to`. Example: `smtp_default`"""
    to: Annotated[tuple[str, ...], WithJsonSchema({"anyOf": [TEXT, {"type": "array", "items": TEXT}]})] = ()
    """Receivers of the mail, one or several. Example: `[ops@example.com]`"""
    webhook: str | None = None
    """HTTP connection; it gets a JSON object with `text`, as Slack takes it. Example: `slack_ops`"""
    notifier: str | None = None
    """Class of any Airflow notifier. Example: `airflow.providers.slack.notifications.slack.SlackNotifier`"""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """The notifier's arguments; `{subject}` and `{text}` stand for the message.
    Example: `{channel: ops, text: "{subject}"}`"""

    @field_validator("to", mode="before")
    @classmethod
    def _one_or_more(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_kind(self) -> Channel:
        if sum(kind is not None for kind in (self.email, self.webhook, self.notifier)) != 1:
            raise ValueError("expected exactly one of {email: …, to: …}, {webhook: …}, {notifier: …}")
        if (self.email is not None) != bool(self.to):
            raise ValueError("expected `to` with `email`, and only there")
        return self

    @property
    def name(self) -> str:
        """What is kept of it: who has been notified of what."""
        if self.email is not None:
            return f"email {self.email} {','.join(self.to)}"
        return f"webhook {self.webhook}" if self.webhook is not None else f"notifier {self.notifier}"


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
    """Share of an hour's records that may be unparsed, and of its rows that may not fit a table.
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
