"""`sluice traffic`: how much came, how much was to be expected, and what is expected next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import pendulum
from rich.console import Group

from sluice.cli.options import Config, Json, PipelineArgument, Wide, load_pipeline
from sluice.cli.output import TableColumn, console, print_json, show, table_of
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, render
from sluice.config.counts import Counts
from sluice.config.pipeline import Pipeline
from sluice.errors import Refused, WrongUse
from sluice.flow.load.count_targets import view_name

_VALUES = (
    TableColumn("seen in 24 h", 1),
    TableColumn("expected", 3),
    TableColumn("seen", 4),
    TableColumn("difference", 2),
    TableColumn("expected next", 5),
)
_HOURS = (
    TableColumn("hour (UTC)", 0, wraps=False),
    TableColumn("expected", 1),
    TableColumn("seen", 0),
    TableColumn("difference", 2),
    TableColumn("█ seen  ░ expected", 3),
)


def traffic(
    pipeline: PipelineArgument, wide: Wide = False, config: Config = None, json: Json = False
) -> None:
    """The traffic of the last 24 hours against what the days before let one expect, and of the 24 to come.

    Example: sluice traffic adx
    """

    spec = load_pipeline(pipeline, config)
    if not spec.counts:
        raise WrongUse(f"pipeline {spec.name} counts nothing: `counts:` in its file does")
    hours_by_table = {counts.table: traffic_of(spec, counts) for counts in spec.counts}
    if json:
        print_json({table: [asdict(row) for row in rows] for table, rows in hours_by_table.items()})
    else:
        for counts in spec.counts:
            bar = bar_width(console(wide).width)
            show(
                _tables(counts, hours_by_table[counts.table], pendulum.now("UTC").int_timestamp, bar),
                wide=wide,
            )


def _tables(spec: Counts, hours: list[TrafficHour], now: int, bar: int) -> Group:
    field = next(iter(spec.by), "")
    title = f"{spec.table}: the last 24 hours, of them those for which something is expected, and the next 24"
    return Group(
        table_of(f"{spec.table}: rows by hour", _HOURS, plot(hourly(hours), now, bar)),
        table_of(title, (TableColumn(field or "all", 0), *_VALUES), by_value(hours)),
    )


_LONGEST, _SHORTEST = 40, 10  # of the longest bar
_BESIDE = 62  # what hour, counts and borders of the table take
NOT_LANDED = "not landed"
_HOUR = 3600
_HOURS_SEEN, _HOURS_AHEAD = 24, 24  # as the view gives them, around the last hour that its server has loaded
_SEEN, _AWAITED = "█", "░"


@dataclass(frozen=True)
class TrafficHour:
    """Rows of one hour (seconds since the epoch) and one value of the first field (`""` without fields).

    `expected` None: there is no earlier day to go by; `seen` None: the hour has not landed, or is still to
    come.
    """

    at: int
    value: str
    expected: float | None
    seen: int | None

    @property
    def difference(self) -> float | None:
        return None if self.expected is None or self.seen is None else self.expected - self.seen


def added(parts: Iterable[TrafficHour]) -> list[TrafficHour]:
    """Returns one for each hour and value, in order: of several shards, or with one value of several fields.
    An hour that one of the parts has not seen has not landed."""
    parts = list(parts)
    sums: dict[tuple[int, str], TrafficHour] = {}
    unseen = {part.at for part in parts if part.seen is None}
    for part in parts:
        key = (part.at, part.value)
        total = sums.get(key, TrafficHour(*key, None, None))
        seen = None if part.at in unseen else _sum(total.seen, part.seen)
        sums[key] = TrafficHour(
            *key, _sum(total.expected, part.expected), None if seen is None else int(seen)
        )
    return [sums[key] for key in sorted(sums)]


def of_shards(shards: Iterable[Sequence[TrafficHour]]) -> list[TrafficHour]:
    """Adds what shards give up to different last hours: of each the hours that every one of them gives, which
    are 24 up to its own last hour and 24 after it. One that the shard behind has not seen has not landed."""
    given = [(last, parts) for parts in shards if (last := _last_seen(parts)) is not None]
    if not given:
        return []
    nearest, furthest = min(last for last, _ in given), max(last for last, _ in given)
    first, end = furthest - _HOURS_SEEN * _HOUR, nearest + _HOURS_AHEAD * _HOUR
    common = [part for _, parts in given for part in parts if first < part.at <= end]
    return added(part if part.at <= nearest else replace(part, seen=None) for part in common)


def _last_seen(parts: Iterable[TrafficHour]) -> int | None:
    return max((part.at for part in parts if part.seen is not None), default=None)


def hourly(hours: Iterable[TrafficHour]) -> list[TrafficHour]:
    return added(TrafficHour(hour.at, "", hour.expected, hour.seen) for hour in hours)


def bar_width(terminal: int) -> int:
    """Of the longest bar, in characters, on a terminal of that width."""
    return min(max(terminal - _BESIDE, _SHORTEST), _LONGEST)


def plot(hours: Sequence[TrafficHour], now: int, width: int = _LONGEST) -> list[tuple[object, ...]]:
    """Returns (hour, expected, seen, difference, bar): the bar is what was seen, with the rest that was
    expected, at most `width` characters.

    `now` (seconds since the epoch) tells an hour that has not landed from one that is still to come.
    """
    most = max((max(hour.expected or 0, hour.seen or 0) for hour in hours), default=0) or 1
    return [
        (
            _name(hour.at),
            _shown(hour.expected),
            _came(hour, now),
            _shown(hour.difference),
            _bar(hour, most, width),
        )
        for hour in hours
    ]


def by_value(hours: Sequence[TrafficHour], most: int = 12) -> list[tuple[object, ...]]:
    """Returns (value, seen in all, expected, seen, difference, expected next), the values with the most rows
    first.

    Expected, seen and their difference are of the hours that have both; what is next is of those after the
    last that was seen.
    """
    rows: list[tuple[str, int, tuple[object, object, object], int]] = []
    last = max((hour.at for hour in hours if hour.seen is not None), default=0)
    for value in sorted({hour.value for hour in hours}):
        value_hours = [hour for hour in hours if hour.value == value]
        both = [hour for hour in value_hours if hour.difference is not None]
        ahead = round(sum(hour.expected or 0 for hour in value_hours if hour.at > last))
        rows.append((value, sum(hour.seen or 0 for hour in value_hours), _compared(both), ahead))
    most_rows = sorted(rows, key=lambda row: (-row[1], row[0]))[:most]
    return [(value, seen, *compared, ahead) for value, seen, compared, ahead in most_rows]


def _compared(both: Sequence[TrafficHour]) -> tuple[object, object, object]:
    """Expected, seen and the difference of hours that have both."""
    if not both:
        return "-", "-", "-"
    expected, seen = sum(hour.expected or 0 for hour in both), sum(hour.seen or 0 for hour in both)
    return round(expected), seen, round(expected - seen)


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def _shown(number: float | None) -> object:
    return "-" if number is None else round(number)


def _came(hour: TrafficHour, now: int) -> object:
    return NOT_LANDED if hour.seen is None and hour.at + _HOUR <= now else _shown(hour.seen)


def _name(at: int) -> str:
    return pendulum.from_timestamp(at).strftime("%Y-%m-%d %H:00")


def _bar(hour: TrafficHour, most: float, width: int) -> str:
    seen = round(width * (hour.seen or 0) / most)
    awaited = round(width * max(hour.expected or 0, hour.seen or 0) / most)
    return _SEEN * seen + _AWAITED * (awaited - seen)


def traffic_of(pipeline: Pipeline, spec: Counts) -> list[TrafficHour]:
    """By hour and the first field. Raises Refused before anything was loaded, and what the clients raise."""
    with connect_shards(pipeline) as servers:
        return of_shards([_read(server.reached, spec) for server in servers])


def _read(client: Client, spec: Counts) -> list[TrafficHour]:
    name = next(iter(spec.by), None)
    key = Sql(f"ifNull(toString({identifier(name)}), '')" if name else "''")
    try:
        rows = client.rows(
            render("cli/read_expected", key=key, view=identifier(SYSTEM, view_name(spec.table)))
        )
    except ServerError as error:
        if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            raise
        raise Refused(f"table {spec.table} was never loaded: a run loads it") from error
    return [TrafficHour(*row) for row in rows]
