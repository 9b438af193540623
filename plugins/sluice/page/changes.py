"""What has changed about a pipeline: file, Sluice, tables, types, fields, topics, runs, erasures. Pure."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from difflib import unified_diff
from itertools import groupby, islice, pairwise

import pendulum
from pydantic import Field

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import Unavailable
from sluice.manifest import Manifest
from sluice.page.airflow_runs import CANCELLED
from sluice.page.models import Model
from sluice.page.run_history import RunRecord
from sluice.page.status_cache import StatusCache
from sluice.safe_text import visible
from sluice.slices import SliceRange, Unit, from_seconds, iso, utc
from sluice.state.additions import Addition, read_additions
from sluice.state.boundaries.boundary import PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries
from sluice.state.departed_tables import kept_rules
from sluice.state.erasures import Erasure, read_erasures
from sluice.state.field_changes import COMPARED, UnitChange, changes_of
from sluice.state.notes import TOPICS, FileVersion, read_versions
from sluice.watch.problems import AlarmStore

MOST, MOST_LINES, LINE_CHARACTERS = 200, 120, 200
_COMPARED_LINES = 2_000
"""Lines of a text that are compared: of two longer ones their beginnings."""


class Change(Model):
    """`kind` is file, Sluice, table, column, type, field, topic, partition, retention, run or erasure; `at`
    when it was seen (ISO 8601, UTC), or the hour in which it shows; `lines` are those of a diff of a file or
    a table, at most so many."""

    at: str
    kind: str
    place: str
    what: str
    slice: str = ""
    lines: list[str] = Field(default_factory=list)


class Changes(Model):
    """The newest first; `more` are left out. `known_since`: nothing was noted of the file before.
    `fields_at` is when the hours' fields were compared (answers are kept for five minutes)."""

    start: str
    end: str
    changes: list[Change]
    more: int
    known_since: str
    fields_at: str


@dataclass(frozen=True)
class ChangeFacts:
    """What is known of a range: `versions`, `additions` and `erasures` all that are kept, `fields` and
    `types` those of its hours, compared at `fields_at` (ISO 8601, UTC). `topics` are versions of how long
    Kafka keeps them, `tables` those of each table, `runs` its backfills and commands."""

    slices: SliceRange
    versions: Sequence[FileVersion]
    additions: Sequence[Addition]
    fields: Sequence[UnitChange]
    fields_at: str
    boundaries: Boundaries
    erasures: Sequence[Erasure]
    types: Sequence[NewType] = ()
    topics: Sequence[FileVersion] = ()
    tables: Sequence[TableVersion] = ()
    runs: Sequence[RunRecord] = ()


@dataclass(frozen=True)
class NewType:
    """A type that the unit has, and no landed unit of its cluster before it in the days that were read."""

    unit: Unit
    type: str
    rows: int


@dataclass(frozen=True)
class TableVersion:
    """How a table was made, by its CREATE statements, as a load saw it first `at` an instant; without any:
    it is not there."""

    at: str
    table: str
    ddl: tuple[str, ...]


def changes_of_pipeline(facts: ChangeFacts) -> Changes:
    """Returns the changes of the range, the newest first, at most `MOST`."""
    changes = [
        *_of_file(facts.versions),
        *(_column(one) for one in facts.additions if one.done),
        *map(_field, facts.fields),
        *_of_topics(facts.boundaries),
        *map(_new_type, facts.types),
        *_of_tables(facts.tables),
        *_of_retention(facts.topics),
        *map(_run, facts.runs),
        *(_erasure(number, one) for number, one in enumerate(facts.erasures)),
    ]
    edges = facts.slices.start, facts.slices.end
    within = [one for one in changes if edges[0] <= utc(datetime.fromisoformat(one.at)) < edges[1]]
    newest = sorted(within, key=lambda one: (one.at, one.kind, one.place), reverse=True)
    return Changes(
        start=edges[0].isoformat(),
        end=edges[1].isoformat(),
        changes=newest[:MOST],
        more=max(len(newest) - MOST, 0),
        known_since=facts.versions[0].at if facts.versions else "",
        fields_at=facts.fields_at,
    )


def _of_file(versions: Sequence[FileVersion]) -> Iterator[Change]:
    """The first version is no change: nothing is known of the file before."""
    for old, new in pairwise(versions):
        if old.hash != new.hash:
            lines = diff_of(old.text, new.text)
            what = f"version {new.hash[:8]}, before {old.hash[:8]}"
            yield Change(at=new.at, kind="file", place="pipeline file", what=what, lines=lines)
        if old.sluice != new.sluice:
            what = f"{visible(old.sluice)} → {visible(new.sluice)}"
            yield Change(at=new.at, kind="Sluice", place="Sluice", what=what)


def diff_of(old: str, new: str) -> list[str]:
    """Returns a diff with one line around each change, at most `MOST_LINES` of it."""
    before, now = (text.splitlines()[:_COMPARED_LINES] for text in (old, new))
    lines = list(unified_diff(before, now, n=1, lineterm=""))[2:]  # without the files' names
    shown_lines = [visible(line, LINE_CHARACTERS) for line in lines[:MOST_LINES]]
    left_out = len(lines) - len(shown_lines)
    return [*shown_lines, f"… {left_out:,} more lines"] if left_out > 0 else shown_lines


def _column(addition: Addition) -> Change:
    return Change(
        at=addition.at, kind="column", place=addition.table, what=addition.said, slice=addition.slice
    )


def _field(unit_change: UnitChange) -> Change:
    slice_, change = unit_change.unit.slice, unit_change.change
    return Change(
        at=slice_.start.isoformat(),
        kind="field",
        place=f"{unit_change.unit.cluster}, type {visible(change.type)}",
        what=change.said,
        slice=slice_.id,
    )


def _erasure(number: int, erasure: Erasure) -> Change:
    paths = sorted({".".join(value.path) for value in erasure.values})
    fields = ", ".join(f"`{visible(path)}`" for path in paths)
    hours = f"from {erasure.start} until {erasure.until}" if erasure.start else f"until {erasure.until}"
    what = f"erasure {number} of records by {fields}, {hours}: {visible(erasure.reason)}"
    return Change(
        at=erasure.at,
        kind="erasure",
        place=f"type {visible(erasure.type)}" if erasure.type else "all types",
        what=f"{what} (asked for by {visible(erasure.by)})",
    )


def _new_type(new: NewType) -> Change:
    slice_ = new.unit.slice
    return Change(
        at=slice_.start.isoformat(),
        kind="type",
        place=f"{new.unit.cluster}, type {visible(new.type)}",
        what=f"the type is new: {new.rows:,} rows in its first hour, and none in the days before",
        slice=slice_.id,
    )


def _of_tables(versions: Sequence[TableVersion]) -> Iterator[Change]:
    """Yields what is different from one load to the next; the first load of a table shows no change."""
    for name, group in groupby(sorted(versions, key=_table_and_time), key=lambda one: one.table):
        for old, new in pairwise(group):
            if not new.ddl:
                yield Change(
                    at=new.at, kind="table", place=name, what="the table is not in ClickHouse any more"
                )
            elif old.ddl != new.ddl:
                lines = diff_of("\n".join(map(_by_line, old.ddl)), "\n".join(map(_by_line, new.ddl)))
                what = "the table, or a view of it, was altered" if old.ddl else "the table is there again"
                yield Change(at=new.at, kind="table", place=name, what=what, lines=lines)


def _table_and_time(version: TableVersion) -> tuple[str, str]:
    return version.table, version.at


_CLAUSES = re.compile(
    r"(?<=\() ?(?=`)|(?<=, )(?=`)| (?=ENGINE |PARTITION BY |PRIMARY KEY |ORDER BY |TTL |SETTINGS |AS SELECT )"
)


def _by_line(statement: str) -> str:
    """Returns a CREATE statement with a line for each column and clause: for a diff, not to run."""
    return _CLAUSES.sub("\n", statement)


def _of_retention(versions: Sequence[FileVersion]) -> Iterator[Change]:
    for old, new in pairwise(versions):
        before, now = _settings(old), _settings(new)
        for topic in sorted(before.keys() & now.keys()):
            words = [
                f"{name} {visible(before[topic].get(name, 'unknown'))} → {visible(value)}"
                for name, value in sorted(now[topic].items())
                if before[topic].get(name) != value
            ]
            if words:
                yield Change(at=new.at, kind="retention", place=visible(topic), what="; ".join(words))


def _settings(version: FileVersion) -> dict[str, dict[str, str]]:
    """Returns the settings of each topic, by `cluster/topic`."""
    settings = {}
    for one in version.text.splitlines():
        topic, *words = one.split(" ")
        settings[topic] = {name: value for name, _, value in (word.partition("=") for word in words)}
    return settings


def _run(run: RunRecord) -> Change:
    hours = f"{run.start[:16]}Z – {run.end[:16]}Z" if run.start else "an unknown range"
    only = f", only {', '.join(run.tables)}" if run.tables else ""
    ended = run.why if run.state == CANCELLED else ": ".join(filter(None, (run.state, run.why)))
    return Change(
        at=run.started,
        kind="run",
        place="backfill" if run.dag_id else "sluice run" if run.state else "command",
        what=f"{run.mode} of {hours}{only}, started by {run.user or 'somebody'}"
        + (f": {ended}" if ended else ""),
    )


def _of_topics(boundaries: Boundaries) -> Iterator[Change]:
    """Yields topic ids that were accepted, and the first boundaries with a new partition."""
    for (cluster, topic), eras in sorted(boundaries.eras.items()):
        place = f"{cluster}/{topic}"
        for old, new in pairwise(eras):
            if new.since is not None:
                what = f"the topic is another one: id {visible(new.uuid)}, before {visible(old.uuid)}"
                yield _seen(new.since, "topic", place, what)
        block = boundaries.stored(cluster, topic)
        if block is not None and len(block.instants):
            yield from _of_partitions(block, place)
            yield from _of_matching(boundaries, block)


def _of_matching(boundaries: Boundaries, block: TopicBoundaries) -> Iterator[Change]:
    """Yields when a topic came that matches a pattern, after the first slices, and when it went."""
    oldest = boundaries.oldest_listed(block.cluster)
    place, first = f"{block.cluster}/{block.topic}", block.instants[0]
    if oldest is not None and first > oldest and boundaries.lists(block.cluster, first):
        yield _seen(first, "topic", place, "the topic is new: it matches")
    if boundaries.gone_since(block.cluster, block.topic) is not None:
        yield _seen(block.instants[-1], "topic", place, "the topic is gone")


def _of_partitions(block: TopicBoundaries, place: str) -> Iterator[Change]:
    added: dict[int, list[int]] = {}
    for number, column in block.columns.items():
        row = _first_known(column)
        if row:
            added.setdefault(row, []).append(number)
    for row, numbers in sorted(added.items()):
        total = sum((_first_known(column) or 0) <= row for column in block.columns.values())
        what = f"partitions {_spans(sorted(numbers))} are new: {total:,} now, {total - len(numbers):,} before"
        yield _seen(block.instants[row], "partition", place, what)


def _first_known(column: PartitionColumn) -> int | None:
    return next((row for row in range(len(column.offsets)) if column.knows(row)), None)


def _seen(seconds: int, kind: str, place: str, what: str) -> Change:
    return Change(at=from_seconds(seconds).isoformat(), kind=kind, place=place, what=what)


def _spans(numbers: Sequence[int]) -> str:
    """`4–7, 9`."""
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in spans)


# Reads what has changed about a pipeline out of its lake. Fields are compared a day at a time, the newest day
# first, so that no more than two days of manifests' fields are in memory. That reads every manifest of the
# range, so whoever asks keeps that answer longer than the others.
log = logging.getLogger(__name__)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class ComparedFields:
    """`at` is when they were compared (ISO 8601, UTC)."""

    at: str
    changes: list[UnitChange]
    types: list[NewType]
    tables: list[TableVersion]


def read_changes(
    pipeline: Pipeline,
    lake: Lake,
    memory: StatusCache,
    slices: SliceRange,
    compared: ComparedFields,
    runs: Sequence[RunRecord] = (),
) -> ChangeFacts:
    """Raises what the lake raises."""
    return ChangeFacts(
        slices=slices,
        versions=read_versions(lake),
        additions=read_additions(lake),
        fields=compared.changes,
        fields_at=compared.at,
        boundaries=memory.of(pipeline).boundaries(lake),
        erasures=read_erasures(lake).entries,
        types=compared.types,
        topics=read_versions(lake, TOPICS),
        tables=compared.tables,
        runs=runs,
    )


def compare_fields(pipeline: Pipeline, lake: Lake, memory: StatusCache, slices: SliceRange) -> ComparedFields:
    """Raises what the lake and ClickHouse raise."""
    at = iso(pendulum.now("UTC"))
    changes: list[UnitChange] = []
    types = TypesSeen()
    for day in _days(slices):
        if len(changes) < MOST:
            around = SliceRange.widen(day.start - COMPARED, day.end, pipeline.slice)
            manifests = {}
            for status in memory.walk(pipeline, around):
                if status.manifest:
                    types.add(status.unit, status.manifest.rows_by_type())
                    manifests[status.unit] = _only_fields(status.manifest)
            units = [unit for unit in sorted(manifests) if day.start <= unit.slice.start < day.end]
            changes += changes_of(lake, units, manifests, log.info)
    return ComparedFields(at, changes[:MOST], types.new, read_tables(pipeline, lake, memory, slices, at))


@dataclass
class TypesSeen:
    """The first unit of each cluster, and of each of its types, whatever the order in which they come."""

    _first: dict[str, Unit] = field(default_factory=dict)
    _types: dict[tuple[str, str], NewType] = field(default_factory=dict)

    def add(self, unit: Unit, rows_by_type: Mapping[str, int]) -> None:
        if rows_by_type:
            self._first[unit.cluster] = min(unit, self._first.get(unit.cluster, unit))
        for name, rows in rows_by_type.items():
            known = self._types.get((unit.cluster, name))
            if known is None or unit < known.unit:
                self._types[unit.cluster, name] = NewType(unit, name, rows)

    @property
    def new(self) -> list[NewType]:
        """Those that were not in the first unit of their cluster."""
        return [one for one in self._types.values() if one.unit > self._first[one.unit.cluster]][:MOST]


_MOST_RULES = 500


def read_tables(
    pipeline: Pipeline, lake: Lake, memory: StatusCache, slices: SliceRange, at: str
) -> list[TableVersion]:
    """Returns how each table was made by the loads since the range began, with the last one before; then how
    it is `at` an instant, now, if ClickHouse answers. Raises what the lake raises."""
    names = {target.table for target in pipeline.targets}
    versions: list[TableVersion] = []
    older: set[str] = set()
    for modified, rules in islice(kept_rules(lake), _MOST_RULES):
        if rules.table in names - older and rules.ddl:
            versions.append(TableVersion(iso(modified), rules.table, rules.ddl))
            older |= {rules.table} if modified < slices.start else set()
        if older == names:
            break
    loaded = {version.table for version in versions}
    with suppress(Unavailable):
        versions += [one for one in _tables_now(pipeline, lake, memory, at) if one.table in loaded]
    return versions


def _tables_now(pipeline: Pipeline, lake: Lake, memory: StatusCache, at: str) -> Iterator[TableVersion]:
    """Yields each table as the first server has it that answers; one that is gone since the watch saw it
    first."""
    client = next((server.client for server in memory.clients.servers(pipeline) if server.client), None)
    gone = memory.clients.gone(pipeline)
    alarms = AlarmStore(lake).read().alarms.values() if gone else ()
    since = {alarm.problem.place: alarm.since for alarm in alarms if not alarm.over}
    for target in pipeline.targets:
        if target.table in gone:
            yield TableVersion(since.get(f"table {target.table}", at), target.table, ())
        elif client is not None and (found := read_table(client, target.database, target.name)) is not None:
            yield TableVersion(at, target.table, found.ddl)


def _days(slices: SliceRange) -> Iterator[SliceRange]:
    end = slices.end
    while end > slices.start:
        start = max(slices.start, end - _DAY)
        yield SliceRange(start, end, slices.length)
        end = start


def _only_fields(manifest: Manifest) -> Manifest:
    return replace(manifest, files=(), rejected=(), counts=(), traffic=(), ranges=())
