"""The lines of `sluice status`, `plan` and `run`: one for each hour, or for each day or month where there are
many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from sluice.cli.output import TableColumn
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.verify.facts import lacking_landed, targets_of
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

_BAD = ("broken", UnitState.EXPIRED)
_LEFT = (
    UnitState.MISSING,
    UnitState.LANDED,
    UnitState.STALE,
    UnitState.COMPLETE_WITH_LOSS,
    "mostly rejected",
    "shard",
)


def style_of(states: str) -> str:
    """Returns the style of a state, or of a line's counted states, as the worst of them asks for it."""
    if any(word in states for word in _BAD):
        return "bold red"
    if any(word in states for word in _LEFT):
        return "yellow"
    return "dim" if states == UnitState.NOT_OVER else "green"


COLUMNS = (
    TableColumn("slice", 0),
    TableColumn("cluster", 1),
    TableColumn("state", 0, style=style_of),
    TableColumn("records", 5),
    TableColumn("parsed", 7),
    TableColumn("rejected records", 4),
    TableColumn("late", 6),
    TableColumn("loaded", 2),
    TableColumn("rejected rows", 3),
    TableColumn("lacked by", 1),
)
MOST_HOURS = 500
A_SCREEN = 24
_DAY, _MONTH = 10, 7  # letters of a slice's id
Row = tuple[object, ...]


def grouped(statuses: Sequence[UnitStatus], most: int = MOST_HOURS) -> list[list[UnitStatus]]:
    """Divides the units into lines: one for each unit; of more than `most` units one for each cluster and
    day; of more than `most` such days one for each cluster and month."""
    if len(statuses) <= most:
        return [[status] for status in statuses]
    days = _by(statuses, _DAY)
    return days if len(days) <= most else _by(statuses, _MONTH)


def _by(statuses: Sequence[UnitStatus], letters: int) -> list[list[UnitStatus]]:
    groups: dict[tuple[str, str], list[UnitStatus]] = {}
    for status in statuses:
        groups.setdefault((status.unit.slice.id[:letters], status.unit.cluster), []).append(status)
    return list(groups.values())


def title(
    name: str, statuses: Sequence[UnitStatus], lines: Sequence[Sequence[UnitStatus]], option: str = "--json"
) -> str:
    """Returns the title. If a line isn't an hour, it says what it is, and which option shows the hours."""
    if len(lines) == len(statuses):
        return name
    word = "day" if len(lines) == len(_by(statuses, _DAY)) else "month"
    return f"{name}, by {word} ({option} has the {len(statuses):,} hours)"


def line(units: Sequence[UnitStatus], pipeline: Pipeline) -> Row:
    """Returns a line under `COLUMNS`. Counts of what has not landed are left out."""
    landed = [status for status in units if status.manifest is not None]
    counts: Row = ("", "", "", "")
    if landed:
        read, parsed, late = (
            _sum(landed, lambda m: m.read),
            _sum(landed, lambda m: m.parsed),
            _sum(landed, lambda m: m.late),
        )
        counts = (read, parsed, _rejected(landed), late)
    loaded = (sum(numbers) for numbers in zip(*(status.loaded for status in units), strict=True))
    states = counted(status.seen for status in units)
    return (name_of(units), units[0].unit.cluster, states, *counts, *loaded, lacked_by(units, pipeline))


def lacked_by(units: Sequence[UnitStatus], pipeline: Pipeline) -> str:
    """Names the tables that lack landed units, or have rows of an earlier landing; of several units with how
    many of them."""
    targets = targets_of(pipeline)
    counts = Counter(name for status in units for name in lacking_tables(pipeline, targets, status))
    return ", ".join(f"{name} ({count})" if len(units) > 1 else name for name, count in counts.items())


def lacking_tables(pipeline: Pipeline, targets: Mapping[str, Target], status: UnitStatus) -> list[str]:
    """Returns the tables that lack a landed unit, in the order of the pipeline file."""
    lacked = lacking_landed(pipeline, targets, status)
    return [name for name in targets if name in lacked]


def line_by_type(units: Sequence[UnitStatus], types: Iterable[str]) -> Row:
    """Returns the rows landed of each type."""
    counts: Counter[str] = Counter()
    for status in units:
        counts.update(status.manifest.rows_by_type() if status.manifest else {})
    return (f"{name_of(units)}/{units[0].unit.cluster}", *(counts[name] for name in types))


def name_of(units: Sequence[UnitStatus]) -> str:
    """Returns the slice, else the day or the month that the units have in common."""
    first, last = units[0].unit.slice.id, units[-1].unit.slice.id
    if len(units) == 1:
        return first
    return first[:_DAY] if first[:_DAY] == last[:_DAY] else first[:_MONTH]


def counted(words: Iterable[str]) -> str:
    """Counts equal words, such as `3 missing, 1 landed`; a single word is returned as it is."""
    counts = Counter(words)
    if counts.total() == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {word}" for word, count in counts.items())


def _rejected(landed: Sequence[UnitStatus]) -> object:
    records = _sum(landed, lambda m: m.refused_records)
    rows = _sum(landed, lambda m: sum(m.rejected_elements.values()))
    return f"{records} and {rows} rows" if rows else records


def _sum(landed: Sequence[UnitStatus], number: Callable[..., int]) -> int:
    return sum(number(status.manifest) for status in landed)
