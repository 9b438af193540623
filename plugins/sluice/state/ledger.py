"""Reads the ledger: what is committed for a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.sql import render
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Derived, Newest
from sluice.manifest import Manifest
from sluice.slices import Slice, SliceRange, Unit, from_seconds
from sluice.state.unit_state import Commit


@dataclass(frozen=True)
class LedgerRow:
    """A committed unit of one table: rows landed for it = `rows` in the table + `rejected_rows` rejected.

    `sharding` is the stamp of shards.py, `rules` the digest of the load's rules (rules.py). On a shard rows
    and rejected rows are its own share of those landed; `shares` are the shards' rows in the row of the whole
    unit (shard_ledgers.py), whose `generation` is the sum of theirs: another commit on any shard is another
    sum. `left`: shards that hold a part of the unit by the placement of its rows, and that the pipeline file
    does not list any more. `defaulted` and `nulls` are, by column, those of the rows whose event has no value
    for it, and which got a default, or NULL; of rows that are not `counted` that is unknown. `failed`: by
    check the rows that fail it. `added`: columns of its log that a table of newest rows has got since."""

    unit: Unit
    manifest: str
    types: tuple[str, ...]
    landed: int
    rows: int
    rejected_rows: int
    token: str
    generation: int
    sharding: str = ""
    rules: str = ""
    added: tuple[str, ...] = ()
    shares: tuple[tuple[str, LedgerRow | None], ...] = ()
    left: tuple[str, ...] = ()
    counted: bool = False
    defaulted: Mapping[str, int] = field(default_factory=dict, hash=False)
    nulls: Mapping[str, int] = field(default_factory=dict, hash=False)
    failed: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The shards that hold no commit of the unit."""
        return tuple(shard for shard, row in self.shares if row is None)

    def continues(self, manifest: Manifest) -> bool:
        """Returns whether the load was of this manifest, or of one that it amends."""
        return self.manifest in (manifest.id, *manifest.amends)


@dataclass(frozen=True)
class LedgerQuestion:
    """What is committed for some of a pipeline's tables. `lake` is the lake's url; without `slices` all hours
    are asked for."""

    pipeline: Pipeline
    lake: str
    targets: Sequence[Target]
    slices: SliceRange | None = None


Ledger = dict[Unit, LedgerRow]
"""A table's units whose newest row is a commit into the table as it is now (its UUID), by the pipeline that
asks and from its lake."""


class Commits(Ledger):
    """A ledger. `others` has the newest row of each unit where that is another pipeline's or lake's commit.
    `revoked` has the newest row of each unit that a load has revoked and not committed again: what it was
    going to commit."""

    def __init__(self) -> None:
        super().__init__()
        self.others: dict[Unit, LedgerRow] = {}
        self.revoked: dict[Unit, LedgerRow] = {}

    def newest(self, unit: Unit) -> LedgerRow | None:
        """Returns the unit's newest row, committed or revoked."""
        return self.get(unit) or self.revoked.get(unit)


# The whole of ClickHouse's DateTime, in seconds since the epoch.
_EVER = (0, 2**32 - 1)


def committed(
    client: Client, pipeline: Pipeline, lake: str, target: Target, slices: SliceRange | None = None
) -> Commits:
    """Reads one table's commits. Raises what the client raises."""
    (commits_by_table,) = ask_ledger(client, [LedgerQuestion(pipeline, lake, [target], slices)])
    return commits_by_table[target.table]


def ask_ledger(client: Client, questions: Sequence[LedgerQuestion]) -> list[dict[str, Commits]]:
    """Returns the ledgers of each question's tables; the questions are of different pipelines.

    A table without commits is there, and empty: all are where ClickHouse has no ledger yet. Raises what the
    client raises.
    """
    answers = [{target.table: Commits() for target in question.targets} for question in questions]
    filled = _filled_by_logs(client, questions)
    asked: dict[str, list[tuple[LedgerQuestion, Commits]]] = {}
    for question, answer in zip(questions, answers, strict=True):
        for table, ledger in answer.items():
            asked.setdefault(table, []).append((question, ledger))
    for name, lake, table, *values, is_committed in _rows(client, _parameters(questions)):
        # The statement's tables and hours are those of all the questions.
        for question, ledger in asked.get(table, ()):
            row = _row(question.pipeline, filled.get(table, frozenset()), *values)
            if not _within(row.unit.slice, question.slices):
                continue
            own = (name, lake) == (question.pipeline.name, question.lake)
            if own and is_committed:
                ledger[row.unit] = row
            elif own:
                ledger.revoked[row.unit] = row
            elif is_committed:
                ledger.others[row.unit] = row
    return answers


def _filled_by_logs(client: Client, questions: Sequence[LedgerQuestion]) -> dict[str, frozenset[str]]:
    """Returns by table of newest rows the columns that it takes of its log, as both are now."""
    targets = [target for question in questions for target in question.targets]
    logs = {target.table: t.source for target in targets if isinstance(t := target.rollup, Newest)}
    if not logs:
        return {}
    names = sorted({*logs, *logs.values()})
    databases = sorted({name.partition(".")[0] for name in names})
    stored: dict[str, dict[str, bool]] = {name: {} for name in names}
    for name, column, filled in client.rows(
        render("state/columns"), {"tables": names, "databases": databases}
    ):
        stored[name][column] = bool(filled)
    return {
        name: frozenset(column for column, filled in stored[name].items() if filled and column in stored[log])
        for name, log in logs.items()
    }


def _within(slice_: Slice, slices: SliceRange | None) -> bool:
    return slices is None or slices.start <= slice_.start < slices.end


def _parameters(questions: Sequence[LedgerQuestion]) -> dict[str, Any]:
    targets = [target for question in questions for target in question.targets]
    spans = [_EVER if q.slices is None else _seconds(q.slices) for q in questions]
    return {
        "start": min(start for start, _ in spans),
        "end": max(end for _, end in spans),
        "targets": sorted({target.table for target in targets}),
        "databases": sorted({target.database for target in targets}),
    }


def _seconds(slices: SliceRange) -> tuple[int, int]:
    return int(slices.start.timestamp()), int(slices.end.timestamp())


def _rows(client: Client, parameters: Mapping[str, Any]) -> list[Sequence[Any]]:
    try:
        return client.rows(render("state/read_ledger"), parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


def unit_of(pipeline: Pipeline, start: int, cluster: str) -> Unit:
    """Returns the unit of a row's slice start (seconds since the epoch) and cluster."""
    return Unit(Slice(from_seconds(start), pipeline.slice), cluster)


def _row(
    pipeline: Pipeline,
    now: frozenset[str],
    start: int,
    cluster: str,
    manifest: str,
    types: list[str],
    landed: int,
    rows: int,
    rejected_rows: int,
    token: str,
    generation: int,
    sharding: str,
    rules: str,
    columns: list[str],
    counted: bool,
    defaulted: Mapping[str, int],
    nulls: Mapping[str, int],
    failed: Mapping[str, int],
) -> LedgerRow:
    return LedgerRow(
        unit=unit_of(pipeline, start, cluster),
        manifest=manifest,
        types=tuple(types),
        landed=landed,
        rows=rows,
        rejected_rows=rejected_rows,
        token=token,
        generation=generation,
        sharding=sharding,
        rules=rules,
        added=tuple(sorted(now.difference(columns))),
        counted=bool(counted),
        defaulted=dict(defaulted),
        nulls=dict(nulls),
        failed=dict(failed),
    )


# What the ledger has to hold for the rollups of a unit. Pure.
#
# In place of a manifest the row of a rollup names what decides its rows: `<manifest>@<generation>` is the
# commit of the source, `#<digest>` its source and definition. Where these rows cannot be made, because
# their input is gone, the unit is frozen: `<what its rows are of> frozen for <what they should be of>`.
_FROZEN = " frozen for "


def rollups_wanted(pipeline: Pipeline, rows: Mapping[str, LedgerRow]) -> dict[str, Commit]:
    """By table, out of the unit's ledger rows in all tables: a rollup follows its source's commit, shard by
    shard. As long as the source has none, the unit is not complete anyway."""
    commits = {}
    for table, rollup in pipeline.derived.items():
        source, row = rows.get(rollup.source), rows.get(table)
        sharding = pipeline.clickhouse.sharding(table)
        if row and source and source.sharding != pipeline.clickhouse.sharding(rollup.source):
            sharding = row.sharding  # placed as its source
        if source is not None and row is not None and is_settled(rollup, row, source):
            commits[table] = Commit(row.manifest, row.types, sharding)
        elif source is not None:
            more = f" with {', '.join(row.added)}" if row is not None and row.added else ""
            commits[table] = Commit(f"{commit_of(rollup, source)}{more}", (), sharding)
    return commits


def is_settled(rollup: Derived, row: LedgerRow, source: LedgerRow) -> bool:
    """Returns whether the rollup's commit is of the source's commit, or frozen for it, on every shard, and
    has all the columns that the table has."""
    if not source.shares:
        return not row.added and settles(row.manifest, commit_of(rollup, source))
    rollup_rows = dict(row.shares)
    return all(
        commit is not None
        and (rollup_row := rollup_rows.get(shard)) is not None
        and is_settled(rollup, rollup_row, commit)
        for shard, commit in source.shares
    )


def follows(row: LedgerRow, source: LedgerRow) -> bool:
    """Returns whether the commit of a derived table is of its source's commit, or frozen for it, by whatever
    definition, on every shard that has both."""
    if not source.shares:
        return _of_source(source) in {part.partition("#")[0] for part in row.manifest.split(_FROZEN)}
    rows = dict(row.shares)
    pairs = ((rows.get(shard), commit) for shard, commit in source.shares)
    return all(follows(own, commit) for own, commit in pairs if own is not None and commit is not None)


def settles(held: str, commit: str) -> bool:
    """Returns whether a ledger row that names `held` leaves nothing to do for `commit`."""
    return commit in (held, held.partition(_FROZEN)[2])


def frozen_commit(row: LedgerRow | None, commit: str) -> str:
    """Names the commit of a unit whose rows stay as `row` has them, because `commit` cannot be made."""
    return f"{made_of(row.manifest) if row else ''}{_FROZEN}{commit}"


def made_of(held: str) -> str:
    """Returns the commit that the rows are made of; empty where none is known."""
    return held.partition(_FROZEN)[0]


def is_frozen(row: LedgerRow) -> bool:
    """Returns whether the rows of a rollup's unit stay as they are, on some shard."""
    return any(_FROZEN in commit.manifest for commit in _commits(row))


def manifests_in(row: LedgerRow) -> set[str]:
    """Returns the manifests whose rows a table has of a unit, by its commit, or the shards' own; a rollup's
    are its source's."""
    return {made_of(commit.manifest).partition("@")[0] for commit in _commits(row)}


def is_of_another(row: LedgerRow, manifest: str) -> bool:
    """Returns whether a table has rows of a unit, not frozen, that are another manifest's."""
    return manifests_in(row) != {manifest} and not is_frozen(row)


def _commits(row: LedgerRow) -> list[LedgerRow]:
    return [share for _, share in row.shares if share is not None] or [row]


def commit_of(rollup: Derived, source: LedgerRow) -> str:
    """Names all that decides the rows that a rollup has of a unit."""
    return f"{_of_source(source)}#{rollup.digest}"


def _of_source(source: LedgerRow) -> str:
    return f"{source.manifest}@{source.generation}"
