"""The lines of `sluice status` and `sluice run`: one for each hour, or for each day where there are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from sluice.status import UnitStatus

COLUMNS = ("slice", "cluster", "state", "records", "parsed", "unparsed", "late", "loaded", "misfits")
MOST_HOURS = 500
Row = tuple[object, ...]


def grouped(found: Sequence[UnitStatus]) -> list[list[UnitStatus]]:
    """What goes onto one line each: a unit, or a cluster's units of one day."""
    if len(found) <= MOST_HOURS:
        return [[status] for status in found]
    days: dict[tuple[str, str], list[UnitStatus]] = {}
    for status in found:
        days.setdefault((_day(status), status.unit.cluster), []).append(status)
    return list(days.values())


def line(units: Sequence[UnitStatus]) -> Row:
    """A line under `COLUMNS`. Counts of what has not landed are left out."""
    landed = [status for status in units if status.manifest is not None]
    counts: Row = ("", "", "", "")
    if landed:
        read, parsed, late = (
            _sum(landed, lambda m: m.read),
            _sum(landed, lambda m: m.parsed),
            _sum(landed, lambda m: m.late),
        )
        counts = (read, parsed, _unparsed(landed), late)
    loaded = (sum(numbers) for numbers in zip(*(status.loaded for status in units), strict=True))
    return (_name(units), units[0].unit.cluster, _states(units), *counts, *loaded)


def line_by_type(units: Sequence[UnitStatus], types: Iterable[str]) -> Row:
    """The rows landed of each type."""
    counts: Counter[str] = Counter()
    for status in units:
        counts.update(status.manifest.rows_by_type() if status.manifest else {})
    return (f"{_name(units)}/{units[0].unit.cluster}", *(counts[name] for name in types))


def _name(units: Sequence[UnitStatus]) -> str:
    return units[0].unit.slice.id if len(units) == 1 else _day(units[0])


def _day(status: UnitStatus) -> str:
    return status.unit.slice.id[:10]


def _states(units: Sequence[UnitStatus]) -> str:
    if len(units) == 1:
        return units[0].seen
    return ", ".join(f"{count} {state}" for state, count in Counter(s.seen for s in units).items())


def _unparsed(landed: Sequence[UnitStatus]) -> object:
    records = _sum(landed, lambda m: sum(m.unparsed.values()))
    rows = _sum(landed, lambda m: sum(m.rows_unparsed.values()))
    return f"{records} and {rows} rows" if rows else records


def _sum(landed: Sequence[UnitStatus], number: Callable[..., int]) -> int:
    return sum(number(status.manifest) for status in landed)
