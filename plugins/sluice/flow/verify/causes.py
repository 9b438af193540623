"""What is wrong, once for each cause: the anomalies that one repair ends. Pure.

`sluice verify`, the page and the watch group by the same function, so that their texts agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.config.pipeline import Pipeline, Tables
from sluice.errors import Busy, Conservation, NotLoaded, SluiceError
from sluice.flow.verify.anomaly import QUIET_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.facts import lacking, narrowed, targets_of
from sluice.flow.verify.repairs import Repairs, merged, ranged
from sluice.flow.verify.verdict import OpenAnomaly
from sluice.plan.plan import waiting
from sluice.slices import Slice
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

_ROWS, _FILES, _COUNTS, _OFFSETS = "wrong rows", "wrong files", "wrong counts", "wrong offsets"
_FAMILIES: dict[str, str] = {
    **dict.fromkeys(
        (
            AnomalyKind.LEDGER,
            AnomalyKind.ROWS_MISSING,
            AnomalyKind.ROWS_EXTRA,
            AnomalyKind.ROWS_DUPLICATE,
            AnomalyKind.ROWS_FOREIGN,
            AnomalyKind.VALUES,
            AnomalyKind.REJECTED_ROWS,
            AnomalyKind.REJECTED_VALUES,
            AnomalyKind.MISPLACED,
        ),
        _ROWS,
    ),
    **dict.fromkeys(
        (
            AnomalyKind.FILE_MISSING,
            AnomalyKind.FILE_SIZE,
            AnomalyKind.FILE_CHECKSUM,
            AnomalyKind.ROW_PAYLOAD,
            AnomalyKind.ROW_TYPE,
            AnomalyKind.ROW_HOUR,
            AnomalyKind.ROW_IDENTITY,
        ),
        _FILES,
    ),
    **dict.fromkeys((AnomalyKind.READ, AnomalyKind.LANDED, AnomalyKind.REJECTED_RECORDS), _COUNTS),
    **dict.fromkeys(
        (AnomalyKind.GAP, AnomalyKind.OVERLAP, AnomalyKind.BACKWARD, AnomalyKind.OFFSETS), _OFFSETS
    ),
}
"""Kinds that the same command repairs. Every other kind stands for itself."""


@dataclass(frozen=True)
class Cause:
    """`name` and `place` stay the same while more hours have it. `advice` says what a person does where there
    is no command, or beside it. `anomalies`: the first one is that of the cause itself, where there is one.
    """

    name: str
    place: str
    commands: tuple[str, ...]
    advice: str
    anomalies: tuple[OpenAnomaly, ...]

    @property
    def title(self) -> str:
        """`wrong rows, table e.clicks`: what everybody calls it."""
        return f"{self.name}, {self.place}"

    @property
    def breaks(self) -> bool:
        """Whether a count is wrong, and not only an hour unfinished or lost."""
        return any(anomaly.breaks for anomaly in self.anomalies)

    @property
    def slices(self) -> tuple[str, ...]:
        """Ids of the hours concerned, in order."""
        return tuple(sorted({name for anomaly in self.anomalies for name in anomaly.slices}))

    @property
    def message(self) -> str:
        """`3 × rows missing, 1 × values differ in 2 hours, from … to …; of the first: expected …, seen …`.
        The numbers are of anomalies, not of rows."""
        first = self.anomalies[0]
        if len(self.anomalies) == 1:
            where = f" in {self.slices[0]}" if self.slices else ""
            return f"{first.kind}{where}: {first.message}"
        numbers = Counter(anomaly.kind for anomaly in self.anomalies)
        kinds = ", ".join(f"{number:,} × {kind}" for kind, number in numbers.items())
        return f"{kinds}{_span(self.slices)}; of the first: {first.message}"

    @property
    def remedy(self) -> str:
        """What repairs it, as one line."""
        return "; ".join([*(f"repair: {command}" for command in self.commands), *filter(None, [self.advice])])

    def __str__(self) -> str:
        return f"{self.title}: {self.message}; {self.remedy}"


def _span(slices: Sequence[str]) -> str:
    if not slices:
        return ""
    if len(slices) == 1:
        return f" in {slices[0]}"
    return f" in {len(slices):,} hours, from {slices[0]} to {slices[-1]}"


def causes_of(anomalies: Iterable[OpenAnomaly]) -> list[Cause]:
    """Returns first the causes that break counts, and of these first the one of most anomalies."""
    groups: dict[tuple[str, ...], list[OpenAnomaly]] = {}
    for anomaly in anomalies:
        groups.setdefault(_key(anomaly), []).append(anomaly)
    causes = [_cause(key[0], group) for key, group in groups.items()]
    return sorted(causes, key=lambda cause: (not cause.breaks, -len(cause.anomalies)))


def broken_slices(anomalies: Iterable[OpenAnomaly]) -> Counter[str]:
    """Returns how many causes break counts, by slice id."""
    broken = [
        {name for anomaly in cause.anomalies if anomaly.breaks for name in anomaly.slices}
        for cause in causes_of(anomalies)
    ]
    return Counter(name for names in broken for name in names)


def broken_units(anomalies: Iterable[OpenAnomaly]) -> Callable[[str, str], tuple[str, ...]]:
    """Returns a function from a unit's slice id and cluster to the titles of what breaks it. In an hour that
    is mostly rejected every count holds."""
    titles: dict[tuple[str, str], dict[str, None]] = {}
    for cause in causes_of(anomalies):
        for anomaly in cause.anomalies:
            if anomaly.breaks and anomaly.kind not in QUIET_KINDS:
                for name in anomaly.slices:
                    titles.setdefault((name, anomaly.cluster), {})[cause.title] = None
    nothing: dict[str, None] = {}

    def titles_of(name: str, cluster: str) -> tuple[str, ...]:
        of_cluster, of_all = (titles.get(unit, nothing) for unit in ((name, cluster), (name, "")))
        return tuple({**of_cluster, **of_all})

    return titles_of


def _key(anomaly: OpenAnomaly) -> tuple[str, ...]:
    if anomaly.cause or anomaly.kind == AnomalyKind.TABLE_MISSING:
        return (str(AnomalyKind.TABLE_MISSING), anomaly.cause or anomaly.table)
    command = ranged(anomaly.command or anomaly.later)
    repair = command.head + command.tail if command else anomaly.command
    family = _family(anomaly)
    if family == _ROWS:
        return (family, anomaly.table, repair)
    if family is not None:
        return (family, anomaly.cluster, anomaly.topic, repair)
    state = anomaly.message if anomaly.kind == AnomalyKind.INCOMPLETE else ""
    return (
        anomaly.kind,
        anomaly.table,
        anomaly.shard,
        anomaly.type,
        anomaly.cluster,
        anomaly.topic,
        state,
        repair,
    )


def _cause(name: str, group: Sequence[OpenAnomaly]) -> Cause:
    ordered = sorted(group, key=lambda anomaly: bool(anomaly.cause))
    commands = tuple(merged(anomaly.command for anomaly in ordered))
    return Cause(name, _place(ordered[0]), commands, _advice(ordered), tuple(ordered))


def _place(anomaly: OpenAnomaly) -> str:
    parts = [f"table {anomaly.table}"] if anomaly.table else []
    parts += [f"shard {anomaly.shard}"] if anomaly.shard and _family(anomaly) != _ROWS else []
    parts += [f"cluster {anomaly.cluster}"] if anomaly.cluster and not anomaly.table else []
    parts += [anomaly.topic] if anomaly.topic and not anomaly.table else []
    parts += [f"type {anomaly.type}"] if anomaly.type and _family(anomaly) is None else []
    return ", ".join(parts) or anomaly.place


def _family(anomaly: OpenAnomaly) -> str | None:
    return _FAMILIES.get(anomaly.kind)


def _advice(anomalies: Sequence[OpenAnomaly]) -> str:
    """Returns the first anomaly's advice; where commands have to wait, one advice for all of them."""
    first = anomalies[0]
    later = [anomaly.later for anomaly in anomalies if anomaly.later and not anomaly.cause]
    if len(later) > 1:
        return f"when every table is there: {'; '.join(merged(later))}"
    others = sum(anomaly.advice not in ("", first.advice) and not anomaly.cause for anomaly in anomalies)
    return f"{first.advice}; {others:,} more have an advice of their own" if others else first.advice


# Decides by what verify has found with which error a run ends, if any, and what it publishes.

_NAMED = 5
_OF_NONE = "what belongs to no slice"


def failing(
    pipeline: Pipeline, findings: Iterable[Anomaly], statuses: Sequence[UnitStatus], tables: Tables | None
) -> list[Anomaly]:
    """Returns the findings that fail a run into `tables`, or into all. That a cluster has not landed, or that
    other tables lack what the run was not asked to load, fails none: such slices are not published."""
    waiting_units = (unit for cluster in waiting(pipeline, statuses) for unit in cluster.units)
    apart = {(unit.slice.id, unit.cluster) for unit in waiting_units}
    apart |= {(s.unit.slice.id, s.unit.cluster) for s in _lacked(pipeline, statuses, tables)}
    return [
        finding
        for finding in findings
        if finding.kind not in QUIET_KINDS
        and not (finding.kind is AnomalyKind.INCOMPLETE and (finding.slice, finding.cluster) in apart)
    ]


def lacked_elsewhere(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], tables: Tables | None
) -> dict[Slice, frozenset[str]]:
    """Returns the slices that `tables` hold and other tables lack, and which; without a choice none."""
    targets = targets_of(pipeline)
    lacked: dict[Slice, frozenset[str]] = {}
    for status in _lacked(pipeline, statuses, tables):
        without = lacking(pipeline, targets, status)
        lacked[status.unit.slice] = lacked.get(status.unit.slice, frozenset()) | without
    return lacked


def _lacked(pipeline: Pipeline, statuses: Sequence[UnitStatus], tables: Tables | None) -> list[UnitStatus]:
    """Returns the units that only tables lack which were not chosen."""
    in_tables = narrowed(pipeline, statuses, tables)
    pairs = zip(statuses, in_tables, strict=True)
    return [status for status, chosen in pairs if chosen.state.done and not status.state.done]


def not_published(pipeline: Pipeline, lacked: Mapping[Slice, Collection[str]]) -> str:
    """Says which slices `lacked_elsewhere` has left out, and what loads them; empty where there are none."""
    if not lacked:
        return ""
    tables = ", ".join(sorted({table for without in lacked.values() for table in without}))
    slices = "1 slice is" if len(lacked) == 1 else f"{len(lacked):,} slices are"
    fill = Repairs.of(pipeline).run([min(lacked), max(lacked)], "fill")
    return f"{slices} not complete, and not published: not in {tables}; `{fill}` loads the rest"


def error_of(
    broken: Sequence[Anomaly],
    statuses: Iterable[UnitStatus],
    pending: Collection[tuple[str, str]],
    verify: str,
) -> SluiceError | None:
    """Returns the error of a run that has `found` these states and these `broken` equations, while the
    `pending` units, as (slice id, cluster), could not be judged. `verify` is the command that names all."""
    named = "; ".join(map(str, broken[:_NAMED]))
    if broken and _on_their_way(broken, statuses):
        return NotLoaded(named, frozenset((anomaly.slice, anomaly.cluster) for anomaly in broken))
    if broken:
        left = len(broken) - _NAMED
        return Conservation(named + (f" (and {left} more: `{verify}`)" if left > 0 else ""))
    if pending:
        units = ("/".join(filter(None, pair)) or _OF_NONE for pair in sorted(pending)[:_NAMED])
        reason = f"not verified, for it was landed or loaded meanwhile: {', '.join(units)}"
        return Busy(f"{reason}; verify when that is done")
    return None


def _on_their_way(broken: Iterable[Anomaly], statuses: Iterable[UnitStatus]) -> bool:
    """A run verifies what it has loaded: what is not, another run has landed again meanwhile."""
    units = {
        (s.unit.slice.id, s.unit.cluster) for s in statuses if s.state in (UnitState.LANDED, UnitState.STALE)
    }
    kinds = (AnomalyKind.INCOMPLETE, AnomalyKind.FILE_NOT_MOVED)
    return all(anomaly.kind in kinds and (anomaly.slice, anomaly.cluster) in units for anomaly in broken)
