"""The pipeline file's `airflow` block: what a platform sets of its DAGs. The reference is made of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from sluice.config.alarms import Channel
from sluice.config.section import Section, WrongKey
from sluice.config.types import Duration, OptionalDuration, Timeout

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
