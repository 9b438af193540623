"""What is wrong, once for each cause: the anomalies that one repair ends. Pure.

`sluice verify`, the page and the watch group by the same function, so that their texts agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.repairs import merged, ranged
from sluice.flow.verify.verdict import OpenAnomaly

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
            AnomalyKind.MISFITS,
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
    **dict.fromkeys((AnomalyKind.READ, AnomalyKind.LANDED, AnomalyKind.UNPARSED), _COUNTS),
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
    def breaks(self) -> bool:
        """Whether a count is wrong, and not only an hour unfinished or lost."""
        return any(one.breaks for one in self.anomalies)

    @property
    def slices(self) -> tuple[str, ...]:
        """Ids of the hours concerned, in order."""
        return tuple(sorted({name for one in self.anomalies for name in one.slices}))

    @property
    def message(self) -> str:
        """`3 × rows missing, 1 × values differ in 2 hours, from … to …; of the first: expected …, seen …`.
        The numbers are of anomalies, not of rows."""
        first = self.anomalies[0]
        if len(self.anomalies) == 1:
            where = f" in {self.slices[0]}" if self.slices else ""
            return f"{first.kind}{where}: {first.message}"
        kinds = Counter(one.kind for one in self.anomalies)
        said = ", ".join(f"{number:,} × {kind}" for kind, number in kinds.items())
        return f"{said}{_span(self.slices)}; of the first: {first.message}"

    @property
    def remedy(self) -> str:
        """What repairs it, as one line."""
        return "; ".join([*(f"repair: {command}" for command in self.commands), *filter(None, [self.advice])])

    def __str__(self) -> str:
        return f"{self.name}: {self.place}: {self.message}; {self.remedy}"


def _span(slices: Sequence[str]) -> str:
    if not slices:
        return ""
    if len(slices) == 1:
        return f" in {slices[0]}"
    return f" in {len(slices):,} hours, from {slices[0]} to {slices[-1]}"


def causes_of(found: Iterable[OpenAnomaly]) -> list[Cause]:
    """Returns wrong counts first, and of these first what most anomalies come of."""
    groups: dict[tuple[str, ...], list[OpenAnomaly]] = {}
    for one in found:
        groups.setdefault(_key(one), []).append(one)
    causes = [_cause(key[0], group) for key, group in groups.items()]
    return sorted(causes, key=lambda cause: (not cause.breaks, -len(cause.anomalies)))


def broken_slices(found: Iterable[OpenAnomaly]) -> Counter[str]:
    """Returns how many causes break counts, by slice id."""
    broken = [
        {name for one in cause.anomalies if one.breaks for name in one.slices} for cause in causes_of(found)
    ]
    return Counter(name for names in broken for name in names)


def _key(one: OpenAnomaly) -> tuple[str, ...]:
    if one.cause or one.kind == AnomalyKind.TABLE_MISSING:
        return (str(AnomalyKind.TABLE_MISSING), one.cause or one.table)
    command = ranged(one.command or one.later)
    repair = command.head + command.tail if command else one.command
    family = _family(one)
    if family == _ROWS:
        return (family, one.table, repair)
    if family is not None:
        return (family, one.cluster, one.topic, repair)
    state = one.message if one.kind == AnomalyKind.INCOMPLETE else ""
    return (one.kind, one.table, one.shard, one.type, one.cluster, one.topic, state, repair)


def _cause(name: str, group: Sequence[OpenAnomaly]) -> Cause:
    own = sorted(group, key=lambda one: bool(one.cause))
    commands = tuple(merged(one.command for one in own))
    return Cause(name, _place(own[0]), commands, _advice(own), tuple(own))


def _place(one: OpenAnomaly) -> str:
    parts = [f"table {one.table}"] if one.table else []
    parts += [f"shard {one.shard}"] if one.shard and _family(one) != _ROWS else []
    parts += [f"cluster {one.cluster}"] if one.cluster and not one.table else []
    parts += [one.topic] if one.topic and not one.table else []
    parts += [f"type {one.type}"] if one.type and _family(one) is None else []
    return ", ".join(parts) or one.place


def _family(one: OpenAnomaly) -> str | None:
    return _FAMILIES.get(one.kind)


def _advice(own: Sequence[OpenAnomaly]) -> str:
    """What the first one says; of commands that have to wait one for all of them."""
    first = own[0]
    later = [one.later for one in own if one.later and not one.cause]
    if len(later) > 1:
        return f"when every table is there: {'; '.join(merged(later))}"
    others = sum(one.advice not in ("", first.advice) and not one.cause for one in own)
    return f"{first.advice}; {others:,} more have an advice of their own" if others else first.advice
