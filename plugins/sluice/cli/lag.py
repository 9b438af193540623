"""How far a pipeline is behind, as `sluice status` and `sluice run` say it: always of its newest hours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pendulum
from rich.console import RenderableType

from sluice.cli.options import NEWEST, known_range
from sluice.cli.output import TableColumn, table_of, text_of
from sluice.config.pipeline import Pipeline
from sluice.flow.verify.landed_without import landed_without
from sluice.plan.backlog import Backlog
from sluice.slices import floor
from sluice.state.departed_tables import GoneTable, without_tables
from sluice.state.status import UnitStatus, complete_slices

if TYPE_CHECKING:
    from sluice.plan.lag import Lag, PartitionLag, TopicsNow
    from sluice.state.boundaries.model import Boundaries

_COLUMNS = (
    TableColumn("partition", 0),
    TableColumn("landed until", 3),
    TableColumn("log end", 4),
    TableColumn("records waiting", 0),
    TableColumn("behind open transaction", 2),
    TableColumn("hours lack the topic", 2),
    TableColumn("outside", 2),
    TableColumn("seconds", 1),
    TableColumn("records/s", 5),
)


@dataclass(frozen=True)
class Behind:
    """How far a pipeline is behind: its newest hours, what is not complete of older ones, with `--lag` what
    Kafka holds that has not landed, of tables that are gone what to do, what lies outside of every slice, and
    a line for each topic that was recreated."""

    newest: list[UnitStatus]
    older: Backlog
    waiting: Lag | None = None
    gone: tuple[GoneTable, ...] = ()
    outside: str = ""
    recreated: tuple[str, ...] = ()

    @property
    def seconds(self) -> int | None:
        """Seconds since the end of the last complete slice; None when none is complete."""
        done = complete_slices(self.newest)
        return int((pendulum.now("UTC") - done[-1].end).total_seconds()) if done else None


def read_behind(spec: Pipeline, statuses: list[UnitStatus], with_lag: bool = False) -> Behind:
    """Reads how far the pipeline is behind. `statuses` are those of some of its hours."""
    from sluice.clients.lake.open import open_lake
    from sluice.plan.lag import recreated
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.boundaries.outside import outside_at_most
    from sluice.state.departed_tables import gone_tables

    newest, older = _newest(spec, statuses), _older(spec)
    boundaries = BoundaryLog(open_lake(spec)).read()
    waiting, topics = _waiting(spec, newest, older, boundaries) if with_lag else (None, {})
    anew = tuple(map(str, recreated(spec, boundaries, topics, pendulum.now("UTC"))))
    words = _outside(spec, boundaries, topics) if with_lag else outside_at_most(spec, boundaries)
    gone = gone_tables(spec) if any(s.manifest for s in (*statuses, *newest)) else ()
    return Behind(without_tables(newest, gone), older, waiting, gone, words, anew)


def lines(behind: Behind) -> Iterator[RenderableType]:
    if behind.waiting is not None:
        yield from _partitions(behind.waiting, behind.newest)
    for line in behind.recreated:
        yield text_of(line, style="bold red")
    for table in behind.gone:
        yield text_of(str(table), style="bold red")
    if behind.outside:
        yield text_of(behind.outside, style="yellow")
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
    gone = {"missing_tables": {one.table: one.remedy for one in behind.gone}} if behind.gone else {}
    outside = {"outside": behind.outside} if behind.outside else {}
    anew = {"recreated": list(behind.recreated)} if behind.recreated else {}
    return {"lag_seconds": behind.seconds, "older": older, **waiting, **gone, **outside, **anew}


def _newest(spec: Pipeline, statuses: list[UnitStatus]) -> list[UnitStatus]:
    """Returns `statuses`, or where they end before the newest hours a survey of these: a range of old hours
    says nothing of how far the pipeline is behind."""
    from sluice.state.survey import survey

    slices = known_range(spec, None, "now", newest=NEWEST)
    last = min(slices.end, floor(pendulum.now("UTC"), spec.slice))
    return statuses if statuses and statuses[-1].unit.slice.end >= last else survey(spec, slices)


def _waiting(
    spec: Pipeline, newest: list[UnitStatus], older: Backlog, boundaries: Boundaries
) -> tuple[Lag, TopicsNow]:
    from sluice.clients.lake.open import open_lake
    from sluice.flow.choose_backlog import seen_backlog
    from sluice.plan.lag import ask_topics, lag_of, older_unread

    topics, errors = ask_topics(spec)
    now, lake = pendulum.now("UTC"), open_lake(spec)
    until = newest[0].unit.slice.start if newest else floor(now, spec.slice)
    open_units = older if until <= now - spec.lookback else seen_backlog(spec, lake, until)
    unread = older_unread(spec, lake, until, boundaries, open_units)
    return lag_of(newest, topics, errors, now, boundaries, unread), topics


def _outside(spec: Pipeline, boundaries: Boundaries, topics: TopicsNow) -> str:
    """Returns what Kafka holds now before the first boundaries, of the clusters that answer."""
    from sluice.state.boundaries.outside import outside, outside_words

    return outside_words(
        part
        for (cluster, topic), now in topics.items()
        if boundaries.uuid(cluster, topic) == now.state.uuid
        for part in outside(boundaries, cluster, topic, now.state.log_starts)
    )


def _older(spec: Pipeline) -> Backlog:
    """Returns what is not complete of the hours before the range of the hourly runs."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.choose_backlog import seen_backlog

    until = floor(pendulum.now("UTC"), spec.slice) - spec.lookback
    return seen_backlog(spec, open_lake(spec), until)


def _partitions(waiting: Lag, newest: Iterable[UnitStatus]) -> Iterator[RenderableType]:
    """Yields what has not landed, by partition."""
    yield table_of("not landed yet", _COLUMNS, [_partition(p) for p in waiting.partitions])
    yield from (text_of(error, style="bold red") for error in waiting.errors)
    held, lacking = (sum(getattr(p, kind) for p in waiting.partitions) for kind in ("held", "lacking"))
    behind = f", {held:,} of them behind open transactions" if held else ""
    passed = (
        f", {lacking:,} of them in hours that landed without the topic: reland brings them" if lacking else ""
    )
    yield text_of(f"{sum(p.records for p in waiting.partitions):,} records wait in Kafka{behind}{passed}")
    waits = {f"{p.cluster}/{p.topic}" for p in waiting.partitions if p.records}
    for topic in landed_without(newest):
        if topic.offsets is None and topic.name in waits:
            yield text_of(f"{topic.name}: unknown how many of them are in hours that landed without it")


def _partition(p: PartitionLag) -> tuple[object, ...]:
    name = f"{p.cluster}/{p.topic}/{p.partition}"
    counts = p.records, p.held, p.lacking, p.outside
    return name, _known(p.landed_until), p.log_end, *counts, _known(p.seconds), p.rate


def _known(value: int | None) -> object:
    return "-" if value is None else value
