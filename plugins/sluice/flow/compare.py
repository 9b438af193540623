"""Compares a table of the pipeline with another one of the same server that has the same events.

Rows are matched by their key within an hour of their time. Without a key they are matched by all columns that
both have; then a row with another value is missing and extra.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce

import pendulum

from sluice.clients.clickhouse.client import STEADY, Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, own_prefix, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.clickhouse.types import parse, takes
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import WrongUse
from sluice.slices import SliceRange

KINDS = ("missing", "extra", "doubled", "different")
SAME = "same"
_IDENTITY = ("_topic", "_partition", "_offset")
_OWN = frozenset({"_slice", "_cluster", "_type"})
_WINDOW = timedelta(days=1)
_MEMORY = 2 << 30  # bytes from which on the server groups on its disk


@dataclass(frozen=True)
class Comparison:
    """How two tables are compared. `columns` are those that both have, without the key; `left_out` are those
    that only one has, or whose types hold no value of each other. `casts`: what theirs become."""

    ours: str
    theirs: str
    time: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    type: str = ""
    only_type: str = ""
    own: str = "sluice_"
    casts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        target: Target,
        ours: TargetTable,
        theirs: TargetTable,
        key: Sequence[str],
        time: str,
    ) -> Comparison:
        """Raises WrongUse for a key or a time that one of them lacks."""
        mine = {column.name: column.type for column in ours.columns if column.stored}
        other = {column.name: column.type for column in theirs.columns if column.stored}
        shared = mine.keys() & other.keys()
        time = time or (pipeline.event.time.field or "").rpartition(".")[2]
        if time not in shared:
            raise WrongUse(
                f"{time or 'the time'}: no column of both tables: name one by --time, such as --time at"
            )
        for kind in (mine[time], other[time]):
            if parse(kind).shape.name not in ("DateTime", "DateTime64"):
                raise WrongUse(f"{time} is a {kind} in one of them: name a DateTime column of both by --time")
        if lacking := [name for name in key if name not in shared]:
            raise WrongUse(f"--key {lacking[0]}: {ours.table} and {theirs.table} do not both have it")
        chosen = tuple(key) or (_IDENTITY if shared.issuperset(_IDENTITY) else ())
        casts = {name: mine[name] for name in shared if not takes(parse(mine[name]), parse(other[name]))}
        apart = {name for name, kind in casts.items() if not _castable(kind) or not _castable(other[name])}
        columns = tuple(c.name for c in ours.columns if c.name in shared - apart - _OWN - set(chosen))
        if not chosen and not columns:
            raise WrongUse(f"{ours.table} and {theirs.table} have no columns in common")
        single = target.types[0] if len(target.types) == 1 and not target.catch_all else ""
        return cls(
            ours.table,
            theirs.table,
            time,
            chosen,
            columns,
            tuple(sorted((mine.keys() ^ other.keys() | apart) - _OWN)),
            "_type" if "_type" in shared else "",
            single,
            own_prefix(mine.keys() | other.keys()),
            {name: kind for name, kind in casts.items() if name not in apart},
        )

    def rows(self, theirs: bool) -> Sql:
        """Returns the SELECT of the rows of one of them."""
        return render(
            "compare/rows",
            own=Sql(self.own),
            time=identifier(self.time),
            type=Sql(f"toString({identifier(self.type)})") if self.type else literal(self.only_type),
            key=self._texts(self.key or self.columns, theirs),
            values=self._texts(self.columns, theirs),
            side=Sql(str(int(theirs))),
            table=table(self.theirs if theirs else self.ours),
        )

    @property
    def keys(self) -> Sql:
        both = Sql(f"{self.rows(theirs=False)} UNION ALL {self.rows(theirs=True)}")
        return render("compare/keys", own=Sql(self.own), rows=both)

    def values(self, theirs: bool) -> Sql:
        return render(
            "compare/values",
            own=Sql(self.own),
            key=self._texts(self.key or self.columns, theirs),
            names=self._array(self.key or self.columns, theirs),
            values=self._array(self.columns, theirs),
            table=table(self.theirs if theirs else self.ours),
            time=identifier(self.time),
        )

    def _texts(self, names: Sequence[str], theirs: bool) -> Sql:
        values = [self._text(name, theirs) for name in names]
        return listed(
            [part for value in values for part in (f"isNull({value})", f"ifNull({value}, '')")] or ["0"]
        )

    def _array(self, names: Sequence[str], theirs: bool) -> Sql:
        return Sql(
            f"CAST([{listed([self._text(name, theirs) for name in names])}], 'Array(Nullable(String))')"
        )

    def _text(self, name: str, theirs: bool) -> Sql:
        """Returns the value as ours would have it; as it is where ours cannot."""
        value = f"toString({identifier(name)})"
        if theirs and name in self.casts:
            kind = literal(parse(self.casts[name]).plain.text)
            value = f"ifNull(toString(accurateCastOrNull({identifier(name)}, {kind})), {value})"
        return Sql(value)


def _castable(kind: str) -> bool:
    return parse(kind).shape.name not in (
        "Array",
        "Map",
        "Tuple",
        "JSON",
        "Object",
        "Variant",
        "Dynamic",
        "AggregateFunction",
    )


@dataclass(frozen=True)
class HourCompared:
    """Rows of one hour (seconds since the epoch) and type. `ours` and `theirs` are all that each table has;
    `same` are in both, `missing` and `extra` are said of the other table, `doubled` are those that it has
    more often, and `different` of those in both have other values."""

    hour: int
    type: str
    ours: int
    theirs: int
    same: int
    missing: int
    extra: int
    doubled: int
    different: int

    @property
    def differs(self) -> bool:
        return bool(self.missing or self.extra or self.doubled or self.different)

    def __add__(self, other: HourCompared) -> HourCompared:
        counts = (a + b for a, b in zip(self.counts, other.counts, strict=True))
        return HourCompared(self.hour, self.type, *counts)

    @property
    def counts(self) -> tuple[int, ...]:
        return self.ours, self.theirs, self.same, self.missing, self.extra, self.doubled, self.different


@dataclass(frozen=True)
class Sample:
    """A key of a difference. `columns` are those whose values differ, with ours and theirs."""

    kind: str
    hour: int
    type: str
    key: Mapping[str, str | None]
    ours: int
    theirs: int
    columns: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """`untimed` are the rows of either table without a time, which are in no hour."""

    how: Comparison
    hours: tuple[HourCompared, ...]
    samples: tuple[Sample, ...]
    untimed: tuple[int, ...]

    @property
    def total(self) -> HourCompared:
        return reduce(lambda a, b: a + b, self.hours, HourCompared(0, "", 0, 0, 0, 0, 0, 0, 0))


def compare(
    client: Client,
    pipeline: Pipeline,
    target: Target,
    other: str,
    slices: SliceRange,
    key: Sequence[str] = (),
    time: str = "",
    kinds: Sequence[str] = KINDS,
    most: int = 3,
    say: Callable[[str], None] = lambda _: None,
) -> Compared:
    """Compares the rows with a time in the range, a day at a time. Takes samples of `kinds`, at most `most`
    of each. Changes nothing. Raises WrongUse for a table that is not there, and where neither has a row to
    compare; and what the client raises."""
    ours, theirs = (_table(client, name) for name in (target.table, other))
    how = Comparison.of(pipeline, target, ours, theirs, key, time)
    client = client.reading({**STEADY, "max_bytes_before_external_group_by": _MEMORY})
    hours: list[HourCompared] = []
    samples: list[Sample] = []
    for start, end in _windows(slices):
        say(f"comparing {start:%Y-%m-%d %H:%M}")
        span = {"start": int(start.timestamp()), "end": int(end.timestamp())}
        found = [HourCompared(*row) for row in client.rows(render("compare/hours", keys=how.keys), span)]
        hours += found
        lacking = [
            k for k in kinds if sum(s.kind == k for s in samples) < most and any(_has(h, k) for h in found)
        ]
        if lacking:
            rows = client.rows(
                render("compare/samples", keys=how.keys), {**span, "kinds": lacking, "most": most}
            )
            samples += _samples(client, how, span, rows)
    if not hours:
        raise WrongUse(
            f"neither {how.ours} nor {how.theirs} has a row with {how.time} from {slices.start} to "
            f"{slices.end}: name another range by --from and --to, or another column by --time"
        )
    untimed = tuple(
        client.rows(render("compare/untimed", table=table(name), time=identifier(how.time)))[0][0]
        for name in (how.ours, how.theirs)
    )
    limited = [s for k in kinds for s in [one for one in samples if one.kind == k][:most]]
    return Compared(how, tuple(hours), tuple(limited), untimed)


def _has(hour: HourCompared, kind: str) -> bool:
    return bool(getattr(hour, kind))


def _windows(slices: SliceRange) -> Iterator[tuple[pendulum.DateTime, pendulum.DateTime]]:
    start = slices.start
    while start < slices.end:
        end = min(start.start_of("day") + _WINDOW, slices.end)
        yield start, end
        start = end


def _table(client: Client, name: str) -> TargetTable:
    database, _, short = name.partition(".")
    found = read_table(client, database, short) if short else None
    if found is None:
        raise WrongUse(f"there is no table {name} on {client.address}, or its user may not see it")
    return found


def _samples(
    client: Client, how: Comparison, span: Mapping[str, int], rows: Sequence[Sequence[object]]
) -> Iterator[Sample]:
    asked = {**span, "keys": [row[3] for row in rows]}
    ours, theirs = (
        {key: (names, values) for key, names, values in client.rows(how.values(side), asked)}
        for side in (False, True)
    )
    for kind, hour, name, digest, count, their_count in rows:
        mine, other = ours.get(digest), theirs.get(digest)
        present = mine or other
        key = dict(zip(how.key or how.columns, present[0] if present else (), strict=False))
        differing = {}
        if kind == "different" and mine and other:
            pairs = zip(how.columns, mine[1], other[1], strict=True)
            differing = {column: (a, b) for column, a, b in pairs if a != b}
        yield Sample(
            str(kind), int(str(hour)), str(name), key, int(str(count)), int(str(their_count)), differing
        )
