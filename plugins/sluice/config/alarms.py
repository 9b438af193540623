"""The pipeline file's `alarms:` block. The model is the documentation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sluice.config.types import Duration, OptionalDuration

_CRONS = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Channel(_Strict):
    """Where alarms go; addresses and secrets are Airflow connections.

    `email` is an SMTP connection (mail to `to`), `webhook` an HTTP connection that gets a JSON object with
    `text`, as Slack and many others take it. `notifier` is any Airflow notifier's class, made with
    `arguments`, in which `{subject}` and `{text}` stand for the message.
    """

    email: str | None = None
    to: tuple[str, ...] = ()
    sender: str | None = None
    webhook: str | None = None
    notifier: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)

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
        """What is kept of it: who has been told what."""
        if self.email is not None:
            return f"email {self.email} {','.join(self.to)}"
        return f"webhook {self.webhook}" if self.webhook is not None else f"notifier {self.notifier}"


class Alarms(_Strict):
    """When something is a problem, and who is told. `none` switches a bound off."""

    every: Duration = timedelta(minutes=5)
    overdue: Duration = timedelta(minutes=30)  # for landing and loading, after the hour's end and `settle`
    lag: OptionalDuration = None  # since the end of the newest complete slice
    lag_records: int | None = Field(None, ge=1)  # in Kafka and not landed, all partitions together
    retention: OptionalDuration = timedelta(hours=6)  # before Kafka deletes an hour that has not landed
    queue: int = Field(100, ge=1)  # entries in a target's replication queue
    parts: int = Field(500, ge=1)  # active parts in one partition of a target
    disk_free: float = Field(0.1, ge=0, lt=1)  # of a server's disk
    notify: tuple[Channel, ...] = ()

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
            raise ValueError("notify: a channel is listed twice")
        return self
