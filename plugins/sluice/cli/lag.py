"""How far a pipeline is behind, as `sluice status` and `sluice run` say it: always of its newest hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pendulum
from rich.console import RenderableType

from sluice.cli.fit_columns import TableColumn
from sluice.cli.options import NEWEST, known_range
from sluice.cli.output import table_of, text_of
from sluice.config.pipeline import Pipeline
from sluice.plan.backlog import Backlog, unlanded
from sluice.slices import floor
from sluice.state.status import UnitStatus, complete_slices
from sluice.state.unit_state import UnitState

if TYPE_CHECKING:
    from sluice.plan.lag import Lag, PartitionLag

_COLUMNS = (
    TableColumn("partition", 0),
    TableColumn("landed until", 3),
    TableColumn("log end", 4),
    TableColumn("records waiting", 0),
    TableColumn("behind open transaction", 2),
    TableColumn("seconds", 1),
    TableColumn("records/s", 5),
)


@dataclass(frozen=True)
class Behind:
    """How far a pipeline is behind: its newest hours, what is not complete of older ones, with `--lag` what
    Kafka holds that has not landed, and of tables that are gone what to do."""

    newest: list[UnitStatus]
    older: Backlog
    waiting: Lag | None = None
    gone: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> int | None:
        """Seconds since the end of the last complete slice; None when none is complete."""
        done = complete_slices(self.newest)
        return int((pendulum.now("UTC") - done[-1].end).total_seconds()) if done else None


def read_behind(spec: Pipeline, statuses: list[UnitStatus], with_lag: bool = False) -> Behind:
    """Reads how far the pipeline is behind. `statuses` are those of some of its hours."""
    newest, older = _newest(spec, statuses), _older(spec)
    return Behind(newest, older, _waiting(spec, newest, older) if with_lag else None, _gone(spec, statuses))


def _gone(spec: Pipeline, statuses: list[UnitStatus]) -> Mapping[str, str]:
    """Returns a remedy for each table that is gone; asks only where a landed unit is not loaded."""
    from sluice.flow.load.missing_targets import gone_targets

    return gone_targets(spec) if any(status.state is UnitState.LANDED for status in statuses) else {}


def lines(behind: Behind) -> Iterator[RenderableType]:
    if behind.waiting is not None:
        yield from _partitions(behind.waiting)
    for table, remedy in behind.gone.items():
        yield text_of(f"{table}: there is no such table; {remedy}", style="bold red")
    seconds = behind.seconds
    yield text_of("lag: none of the newest slices is complete" if seconds is None else f"lag: {seconds:,} s")
    if behind.older:
        yield text_of(f"older: {behind.older}; the hourly runs go back to them", style="bold red")


def as_json(behind: Behind) -> dict[str, Any]:
    """`older` are the units that are not complete, by state."""
    older: dict[str, list[str]] = {}
    for unit, state in behind.older.states.items():
        older.setdefault(str(state), []).append(str(unit))
    waiting = {} if behind.waiting is None else {"waiting": asdict(behind.waiting)}
    gone = {"missing_tables": dict(behind.gone)} if behind.gone else {}
    return {"lag_seconds": behind.seconds, "older": older, **waiting, **gone}


def _newest(spec: Pipeline, statuses: list[UnitStatus]) -> list[UnitStatus]:
    """Returns `statuses`, or where they end before the newest hours a survey of these: a range of old hours
    says nothing of how far the pipeline is behind."""
    from sluice.state.survey import survey

    slices = known_range(spec, None, "now", newest=NEWEST)
    last = min(slices.end, floor(pendulum.now("UTC"), spec.slice))
    return statuses if statuses and statuses[-1].unit.slice.end >= last else survey(spec, slices)


def _waiting(spec: Pipeline, newest: list[UnitStatus], older: Backlog) -> Lag:
    from sluice.clients.lake.open import open_lake
    from sluice.plan.lag import ask_topics, lag_of
    from sluice.state.boundaries.log import BoundaryLog

    topics, errors = ask_topics(spec)
    spans = unlanded(older, BoundaryLog(open_lake(spec)).read())
    return lag_of(newest, topics, errors, pendulum.now("UTC"), spans)


def _older(spec: Pipeline) -> Backlog:
    """Returns what is not complete of the hours before the range of the hourly runs."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.choose_backlog import seen_backlog

    until = floor(pendulum.now("UTC"), spec.slice) - spec.heal
    return seen_backlog(spec, open_lake(spec), until)


def _partitions(waiting: Lag) -> Iterator[RenderableType]:
    """Yields what has not landed, by partition."""
    yield table_of("not landed yet", _COLUMNS, [_partition(p) for p in waiting.partitions])
    yield from (text_of(error, style="bold red") for error in waiting.errors)
    held = sum(p.held for p in waiting.partitions)
    behind = f", {held:,} of them behind open transactions" if held else ""
    yield text_of(f"{sum(p.records for p in waiting.partitions):,} records wait in Kafka{behind}")


def _partition(p: PartitionLag) -> tuple[object, ...]:
    name = f"{p.cluster}/{p.topic}/{p.partition}"
    return name, _known(p.landed_until), p.log_end, p.records, p.held, _known(p.seconds), p.rate


def _known(value: int | None) -> object:
    return "-" if value is None else value
