"""Stores in the lake which columns loads have added. An addition is stored before its column is added.

Loads of several tables, and of one table's shards, write at the same time: by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, identifier, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake, update_object
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import TargetRefused
from sluice.field_path import first_keys, paths_of
from sluice.manifest import Manifest
from sluice.safe_text import visible
from sluice.slices import Slice, SliceRange
from sluice.state.ledger import LedgerRow
from sluice.state.rules import TableRules
from sluice.stored_json import decode_stored

MOST = 20_000
"""Additions that are stored; the oldest are dropped first."""


@dataclass(frozen=True)
class Addition:
    """A column that a load has added. `filled` of the `rows` that `slice` gave the table have a value.

    `shards`: by the shard's name (empty without shards) the generation of the lease under which it has the
    column; none yet while the ALTER is under way. `begun`: shards that may have it by then, as an ALTER
    of its type was begun there. `run` is the run's token, `by` its process.
    """

    table: str
    column: str
    type: str
    slice: str
    filled: int
    rows: int
    at: str
    by: str
    run: str = ""
    shards: Mapping[str, int] = field(default_factory=dict)
    begun: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return bool(self.shards)

    @property
    def said(self) -> str:
        """What it is, without its slice."""
        share = f"in {self.filled:,} of {self.rows:,} rows"
        return f"table {self.table}: column `{visible(self.column)}` {self.type} was added: {share}"

    def __str__(self) -> str:
        return f"{self.slice}: {self.said}"


_ADDITIONS = msgspec.json.Decoder(tuple[Addition, ...])


def read_additions(lake: Lake) -> tuple[Addition, ...]:
    """Returns all of a pipeline, the oldest first. Raises SluiceError for bytes that are none."""
    stored = lake.read(layout.ADDITIONS)
    return _decoded(lake, None if stored is None else stored.data)


def additions_in(lake: Lake, slices: SliceRange) -> list[Addition]:
    """Returns the finished additions of the range, in the order of their slices. Raises as
    `read_additions`."""
    edges = slices.start, slices.end
    done = [one for one in read_additions(lake) if one.done]
    starts = {one.slice: Slice.from_id(one.slice, slices.length).start for one in done}
    within = [one for one in done if edges[0] <= starts[one.slice] < edges[1]]
    return sorted(within, key=lambda one: starts[one.slice])


def announce(lake: Lake, new: Sequence[Addition], shard: str) -> dict[str, str]:
    """Stores what is about to be added; returns the type of each column.

    Of a table on shards all have the type that the first of them has chosen, see `decides`.
    """
    _update(lake, lambda stored: announced(stored, new, shard))
    newest = latest(read_additions(lake), new[0].table)
    return {one.column: newest[one.column].type for one in new}


def begin(lake: Lake, new: Sequence[Addition], shard: str) -> dict[str, str]:
    """Notes that the shard is about to add the columns; returns the type of each, which nobody changes from
    then on. It is another one where another run has announced one of its own meanwhile."""
    _update(lake, lambda stored: begun(stored, new, shard))
    newest = latest(read_additions(lake), new[0].table)
    return {one.column: newest[one.column].type for one in new}


def confirm(lake: Lake, table: str, columns: Collection[str], shard: str, generation: int) -> None:
    """Notes since which generation the shard has the columns."""
    _update(lake, lambda stored: confirmed(stored, table, columns, shard, generation))


def announced(stored: Sequence[Addition], new: Iterable[Addition], shard: str) -> tuple[Addition, ...]:
    """Returns the additions with the announced ones. Each replaces an earlier one that was never done."""
    additions = list(stored)
    for addition in new:
        earlier = latest(additions, addition.table).get(addition.column)
        if earlier is not None and decides(earlier, shard, addition.run):
            continue
        if earlier is not None and not earlier.done:
            additions.remove(earlier)
        additions.append(addition)
    return tuple(additions[-MOST:])


def begun(stored: Sequence[Addition], new: Iterable[Addition], shard: str) -> tuple[Addition, ...]:
    """Returns the additions with the newest of each column begun on the shard."""
    additions = list(stored)
    for addition in new:
        newest = latest(additions, addition.table).get(addition.column)
        if newest is None:
            additions.append(replace(addition, begun=(shard,)))
        elif shard not in newest.begun:
            additions[additions.index(newest)] = replace(newest, begun=(*newest.begun, shard))
    return tuple(additions[-MOST:])


def decides(earlier: Addition, shard: str, run: str) -> bool:
    """Returns whether an addition decides the type for a shard whose table lacks the column: where another
    shard has the column, or may have it by now, and this one never had it, or where it is of the same run.

    One of another run that never came to its ALTER decides nothing, nor does one whose column was dropped,
    nor one whose ALTER was begun only on this shard: under its lease that ALTER has come to nothing.
    """
    elsewhere = earlier.done or any(other != shard for other in earlier.begun)
    return bool(shard) and shard not in earlier.shards and (elsewhere or earlier.run == run)


def confirmed(
    stored: Sequence[Addition], table: str, columns: Collection[str], shard: str, generation: int
) -> tuple[Addition, ...]:
    newest = [one for name, one in latest(stored, table).items() if name in columns]
    return tuple(
        replace(one, shards={**one.shards, shard: generation}) if one in newest else one for one in stored
    )


def latest(additions: Iterable[Addition], table: str) -> dict[str, Addition]:
    """Returns the newest addition of each of the table's columns."""
    return {one.column: one for one in additions if one.table == table}


Since = Mapping[tuple[str, str], Mapping[str, int]]
"""By table and shard, of each column that a load has added the generation that was the first to have it."""


def since(additions: Iterable[Addition]) -> Since:
    """Returns the first generation of each added column."""
    generations: dict[tuple[str, str], dict[str, int]] = {}
    for addition in additions:
        for shard, generation in addition.shards.items():
            generations.setdefault((addition.table, shard), {})[addition.column] = generation
    return generations


def _update(lake: Lake, change: Callable[[tuple[Addition, ...]], tuple[Addition, ...]]) -> None:
    def changed(data: bytes | None) -> bytes:
        return msgspec.json.format(msgspec.json.encode(change(_decoded(lake, data))), indent=1)

    update_object(lake, layout.ADDITIONS, changed)


def _decoded(lake: Lake, data: bytes | None) -> tuple[Addition, ...]:
    if data is None:
        return ()
    place = f"{lake.url}/{layout.ADDITIONS}"
    return decode_stored(
        _ADDITIONS,
        data,
        lambda error: f"{place} does not say which columns were added ({error}): move it away",
        lambda additions: [one.at for one in additions],
    )


# Which of a commit's columns were added after it, and which of their fields its rows may have. Pure.
#
# A load has all columns that are there when it begins: the generation of its lease tells it from loads
# before.
def added_after(columns: Since, table: str, row: LedgerRow, shard: str = "") -> frozenset[str]:
    """Returns columns that the commit has nothing in, on some shard where it is of several."""
    if row.shares:
        return frozenset[str]().union(
            *(added_after(columns, table, part, name) for name, part in row.shares if part is not None)
        )
    generations = columns.get((table, shard), {})
    return frozenset(column for column, first in generations.items() if row.generation < first)


def maybe_lost(
    target: Target, manifest: Manifest, types: Iterable[str], columns: Iterable[str]
) -> dict[str, int | None]:
    """Returns those of the columns whose fields the rows of `types` have, with the number of rows; None: the
    manifest has not counted them exactly."""
    by_type = {one.type: one for one in manifest.fields}
    type_fields = [by_type.get(name) for name in types]
    rows_by_column: dict[str, int | None] = {}
    for column in sorted(columns):
        keys = frozenset[str]().union(*map(first_keys, paths_of(column, target.columns)))
        rows = [
            None
            if one is None or not one.exact or (one.others and not keys <= one.fields.keys())
            else sum(one.fields[key].filled for key in keys & one.fields.keys())
            for one in type_fields
        ]
        counted = [count for count in rows if count is not None]
        if len(counted) < len(rows):
            rows_by_column[column] = None
        elif sum(counted):
            rows_by_column[column] = sum(counted)
    return rows_by_column


def later_by_table(
    since: Since, targets: Iterable[Target], manifest: Manifest, rows: Mapping[str, LedgerRow]
) -> dict[str, dict[str, int | None]]:
    """Returns what each table's commit may have lost; without the tables that lack nothing."""
    lost_by_table: dict[str, dict[str, int | None]] = {}
    for target in targets if since else ():
        row = rows.get(target.table)
        columns = None if row is None else added_after(since, target.table, row)
        if row is not None and columns and (lost := maybe_lost(target, manifest, row.types, columns)):
            lost_by_table[target.table] = lost
    return lost_by_table


# Columns that a table has got since hours of it were loaded: the hours' rows have their DEFAULT.
#
# Other values may be those of a column that was renamed, where the table lacks one that the hours' rules
# fill: nobody takes these away. Else somebody has changed them, and a repair puts the DEFAULT back.


@dataclass(frozen=True)
class LaterValues:
    """How many rows have values that no rules explain, by the column that came later. `target` is the
    pipeline file's; `lacking`: columns that the `rules` fill and the table lacks."""

    pipeline: Pipeline
    target: Target
    rules: TableRules
    lacking: tuple[str, ...]
    rows: Mapping[str, int]

    def refusal(self, slices: Collection[Slice]) -> TargetRefused:
        """Returns why the slices are not loaded by their rules."""
        (column, rows), *_ = self.rows.items()
        return TargetRefused(
            self.target.table,
            f"column {visible(column)} came after these hours were loaded, and {rows:,} of their rows have "
            "values there that no rule says where from",
            self.remedy(slices),
        )

    def remedy(self, slices: Collection[Slice]) -> str:
        if self._named:
            return f"the pipeline file says it now: `{self._reload(slices)}`"
        back = "was it renamed? Rename it back, or name its field under `columns`; then"
        return f"{back} `{self._reload(slices)}`"

    def command(self, slices: Collection[Slice]) -> str:
        """Returns what loads the slices again as the file is; empty where that would take values away."""
        return self._reload(slices) if self._named else ""

    @property
    def _named(self) -> bool:
        """Whether the file fills the columns from the fields of those that are gone."""
        fields = {paths_of(name, self.rules.columns) for name in self.lacking}
        return all(paths_of(name, self.target.columns) in fields for name in self.rows)

    def _reload(self, slices: Collection[Slice]) -> str:
        first, last = min(slices), max(slices)
        words = SliceRange(first.start, last.end, first.length).words
        return self.pipeline.command("run", *words, "--mode", "reload", "--table", self.target.table)


def later_columns(target_table: TargetTable, rules: TableRules) -> frozenset[str]:
    """Returns the columns that the table has got since a load by the rules."""
    taken = frozenset(column.name for column in target_table.columns if column.taken)
    return taken - frozenset(rules.filled)


def later_values(
    client: Client,
    pipeline: Pipeline,
    target: Target,
    target_table: TargetTable,
    rules: TableRules,
    slices: Collection[Slice],
) -> LaterValues | None:
    """Returns what rows of the slices have in later columns other than the DEFAULT; None where they have
    nothing. Raises what the client raises."""
    starts = sorted({int(one.start.timestamp()) for one in slices})
    later = later_columns(target_table, rules)
    rows_by_column: dict[str, int] = {}
    for column in target_table.columns if starts else ():
        if column.name not in later or not column.filled:
            continue
        default = column.default or f"defaultValueOfTypeName({literal(column.type)})"
        sql = render(
            "load/count_given",
            target=table(target_table.table),
            column=identifier(column.name),
            default=Sql(f"CAST({default}, {literal(column.type)})"),
        )
        [(rows,)] = client.rows(sql, {"starts": starts})
        if rows:
            rows_by_column[column.name] = rows
    names = {column.name for column in target_table.columns}
    lacking = tuple(name for name in rules.filled if name not in names)
    return LaterValues(pipeline, target, rules, lacking, rows_by_column) if rows_by_column else None
