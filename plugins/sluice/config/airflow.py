"""The pipeline file's `airflow` block: what a platform sets of its DAGs. The reference is made of it."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from hashlib import sha256
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from sluice.config.types import Duration, OptionalDuration, OptionalShare, Section, Timeout, WrongKey

# The pipeline file's `alarms:` block.

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


Step = Literal[
    "plan",
    "settle",
    "resolve",
    "land",
    "load",
    "verify",
    "publish",
    "verify_all",
    "cluster",
    "forget",
    "watch",
]
STEPS: tuple[str, ...] = get_args(Step)
# What Airflow's database holds of each; what is longer stops the DAG's serialization, or the scheduler.
_Name = Annotated[str, Field(min_length=1, max_length=250)]
_Tag = Annotated[str, Field(min_length=1, max_length=100)]
_Priority = Annotated[int, Field(ge=1, le=10_000)]
Right = Literal["can_read", "can_edit", "can_delete"]


class StepSettings(Section):
    """Of one step; what is absent is as in `airflow`."""

    queue: _Name | None = None
    """Queue of the executor. Example: `spark`"""
    pool: _Name | None = None
    """Airflow pool; make it first, for a task whose pool is missing never starts.
    Example: `sluice_land`"""
    priority: _Priority | None = None
    """Expert. Airflow's priority weight. Example: `10`"""
    timeout: Timeout | None = None
    """As `airflow.timeout`. Example: `2h`"""


class AirflowSettings(Section):
    """What a platform sets of a pipeline's DAGs; `_defaults.yaml` in the folder sets it for all."""

    owner: _Name = "sluice"
    """Owner of the tasks. Example: `data-platform`"""
    tags: tuple[_Tag, ...] = Field((), max_length=100)
    """Tags of the DAGs, beside `sluice` and the pipeline's name. Example: `[ads, tier-1]`"""
    queue: _Name | None = None
    """Queue of the executor; without it Airflow's default. Example: `etl`"""
    pool: _Name = "default_pool"
    """Airflow pool; make it first, for a task whose pool is missing never starts. Example: `sluice`"""
    priority: _Priority = 1
    """Expert. Airflow's priority weight. Example: `10`"""
    timeout: Timeout = "auto"
    """Time that one try of a step may take (`execution_timeout`). `auto` is one hour, and ten
    times what as many units and rows took in earlier runs; each further try has twice as long.
    Example: `6h`"""
    retries: int = Field(3, ge=0, le=100)
    """Expert. How often a step is retried after a retryable error. Example: `5`"""
    retry_delay: Duration = timedelta(seconds=30)
    """Expert. Wait before the first retry; it doubles, up to 15m. Example: `1m`"""
    steps: dict[Step, StepSettings] = Field(default_factory=dict)
    """Settings of single steps: plan, settle, resolve, land, load, verify, publish, verify_all, cluster,
    forget, watch.
    Example: `{land: {pool: sluice_land, queue: spark, timeout: 2h}}`"""
    offset: Duration = timedelta(0)
    """Expert. Time after a slice's end at which its run is scheduled, in whole minutes and less than a slice.
    `settle` counts from the slice's end. Example: `5m`"""
    backfills: int = Field(4, ge=1, le=1000)
    """Expert. Runs of the backfill DAG at once. Example: `2`"""
    access_control: dict[_Name, tuple[Right, ...]] = Field(default_factory=dict)
    """What roles may do with the DAGs, where Airflow's auth manager has roles (FAB).
    Example: `{Ads: [can_read, can_edit]}`"""

    deadline: OptionalDuration = None
    """How long after it was queued a run of the hourly DAG may take until the channels of `on_failure` are
    notified, while it goes on. Airflow's triggerer does it. Example: `45m`"""
    on_failure: tuple[Channel, ...] = ()
    """Channels that are notified of each failed run of the hourly and the backfill DAG; `alarms.notify` is
    for problems of the data.
    Example: `[{notifier: pagers.Pager, arguments: {http_conn_id: ops, text: "{text}"}}]`"""

    @field_validator("steps", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        unknown = sorted(str(name) for name in value if name not in STEPS) if isinstance(value, dict) else ()
        if unknown:
            raise WrongKey((unknown[0],), f"no such step; there are: {', '.join(STEPS)}")
        return value

    @field_validator("offset")
    @classmethod
    def _whole_minutes(cls, value: timedelta) -> timedelta:
        if value % timedelta(minutes=1):
            raise ValueError("expected whole minutes")
        return value

    @field_validator("deadline")
    @classmethod
    def _some_time(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value <= timedelta(0):
            raise ValueError("expected a duration of more than 0s, or none")
        return value

    @field_validator("on_failure")
    @classmethod
    def _different(cls, value: tuple[Channel, ...]) -> tuple[Channel, ...]:
        if len({channel.name for channel in value}) != len(value):
            raise ValueError("a channel is listed twice")
        return value

    @model_validator(mode="after")
    def _notified(self) -> AirflowSettings:
        if self.deadline is not None and not self.on_failure:
            raise WrongKey(("deadline",), "expected `on_failure`, the channels that are notified")
        return self

    def of(self, step: str) -> StepSettings:
        """What holds for one step: its own keys, else those of all steps."""
        common = {"queue": self.queue, "pool": self.pool, "priority": self.priority, "timeout": self.timeout}
        settings = next((settings for name, settings in self.steps.items() if name == step), None)
        own = {} if settings is None else {key: value for key, value in settings if value is not None}
        return StepSettings.model_construct(**{**common, **own})

    @property
    def pools(self) -> tuple[str, ...]:
        """Every pool that a task names, each once, in the order of the steps."""
        return tuple(dict.fromkeys(self.of(step).pool or self.pool for step in STEPS))
