"""What has changed in the fields of events, from one slice to the next, out of manifests alone.

A field counts where it is not null: one that becomes null in every row has vanished like one that is not
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from itertools import groupby
from math import sqrt

from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.errors import SluiceError
from sluice.manifest import FieldSeen, Manifest, TypeFields
from sluice.safe_text import Say, visible
from sluice.slices import Slice, Unit, from_seconds
from sluice.state.manifests import read_manifest

COMPARED, LOOK_BACK, EARLIER = timedelta(hours=24), timedelta(days=7), timedelta(days=31)
"""A slice is compared with so many landed slices with rows as COMPARED has, of those within LOOK_BACK. Once
something seems to have changed, what comes and goes is searched for within EARLIER."""
_FEWEST_SLICES = 24

Fields = Mapping[str, TypeFields]


@dataclass(frozen=True)
class UnitChange:
    """A change that the unit's rows show, and those before it did not."""

    unit: Unit
    change: FieldChange

    def __str__(self) -> str:
        return f"{self.unit}: {self.change}"


class FieldHistory:
    """The fields of one cluster's slices, read when they are needed and then kept; slices are numbered."""

    def __init__(self, lake: Lake, cluster: str, manifests: Mapping[Slice, Manifest], say: Say) -> None:
        self._lake, self._cluster, self._say = lake, cluster, say
        self._fields = {_number(slice_): _fields(manifest) for slice_, manifest in manifests.items()}

    def changes(self, slice_: Slice) -> Iterator[FieldChange]:
        """Yields those that `slice_` shows; none where it has not landed."""
        now = self._of([_number(slice_)], slice_.length)[0]
        before = self._before(slice_, COMPARED, LOOK_BACK) if now else []
        for name, type_fields in now.items():
            for change in changes_in([*(one[name] for one in before if name in one), type_fields]):
                earlier = self._before(slice_, EARLIER, EARLIER)[: -len(before)]
                if confirmed(change, [one[name] for one in earlier if name in one]):
                    yield change

    def _before(self, slice_: Slice, most: timedelta, within: timedelta) -> list[Fields]:
        """Returns the newest slices with rows within a time before `slice_`, as many as `most` has; oldest
        first."""
        count, fields, last = _count(most, slice_.length), list[Fields](), _number(slice_)
        first = max(last - _count(within, slice_.length), 0)
        for end in range(last, first, -count):
            numbers = range(end - 1, max(end - count, first) - 1, -1)
            fields += [one for one in self._of(numbers, slice_.length) if one]
            if len(fields) >= count:
                break
        return fields[:count][::-1]

    def _of(self, numbers: Sequence[int], length: timedelta) -> list[Fields]:
        new = [number for number in numbers if number not in self._fields]
        slices = [Slice(from_seconds(number * int(length.total_seconds())), length) for number in new]
        self._fields.update(zip(new, each_if_slow(self._read, slices), strict=True))
        return [self._fields[number] for number in numbers]

    def _read(self, slice_: Slice) -> Fields:
        """Reads the fields. A manifest that cannot be read does not count: `sluice verify` names the manifest
        and what to do."""
        try:
            return _fields(read_manifest(self._lake, Unit(slice_, self._cluster)))
        except SluiceError as error:
            if error.retryable:
                raise
            self._say(f"fields are not compared with those of {slice_.id}/{self._cluster}: {error}")
            return {}


def changes_of(
    lake: Lake, units: Iterable[Unit], manifests: Mapping[Unit, Manifest], say: Say
) -> list[UnitChange]:
    """Returns what the landed ones of `units` show, in their order; `manifests` need not be read.

    Raises LakeUnavailable.
    """
    histories: dict[str, FieldHistory] = {}
    changes = []
    for unit in units:
        if unit.cluster not in histories:
            of_cluster = {
                one.slice: manifest for one, manifest in manifests.items() if one.cluster == unit.cluster
            }
            histories[unit.cluster] = FieldHistory(lake, unit.cluster, of_cluster, say)
        changes += [UnitChange(unit, change) for change in histories[unit.cluster].changes(unit.slice)]
    return changes


def _fields(manifest: Manifest | None) -> Fields:
    return {one.type: one for one in manifest.fields if one.rows} if manifest else {}


def _number(slice_: Slice) -> int:
    return int(slice_.start.timestamp() // slice_.length.total_seconds())


def _count(time: timedelta, length: timedelta) -> int:
    return max(_FEWEST_SLICES, time // length)


_KINDS_APART, _SHARES_APART, _PLACES_APART = 0.1, 0.05, 1.0
"""What two names of one field may differ by: in the shares of kinds, of rows, and in the place."""


class ChangeKind(StrEnum):
    NEW = "new field"
    VANISHED = "field vanished"
    RENAMED = "field renamed"
    KIND = "field changed its kind"


@dataclass(frozen=True)
class FieldChange:
    """`having` of the `rows` since have the field; `having_before` of the `rows_before` had it. For KIND they
    are rows with the field, and those of them with a value of the new kind.

    `likely` is the name that the field seems to have now.
    """

    kind: ChangeKind
    type: str
    field: str
    rows: int
    having: int
    rows_before: int
    having_before: int
    kinds: tuple[str, ...] = ()
    kinds_before: tuple[str, ...] = ()
    likely: str = ""

    def __str__(self) -> str:
        return f"type {visible(self.type)}: {self.said}"

    @property
    def said(self) -> str:
        """Without the type."""
        now, before = _of(self.having, self.rows), _of(self.having_before, self.rows_before)
        name, kinds = f"field `{visible(self.field)}`", ", ".join(self.kinds)
        was = f"was in {before} ({', '.join(self.kinds_before)})"
        if self.kind is ChangeKind.NEW:
            return f"{name} is new: in {now} ({kinds}); before in {before}"
        if self.kind is ChangeKind.KIND:
            return f"{name} is {kinds} in {now}; before in {before}, and else {', '.join(self.kinds_before)}"
        if self.kind is ChangeKind.VANISHED:
            return f"{name} vanished: in none of {self.rows:,} rows, {was}"
        likely = f"likely `{visible(self.likely)}` now, which is in {now} ({kinds}), at the same place"
        return f"{name} vanished: in none of {self.rows:,} rows, {was}; {likely}"


def _of(having: int, rows: int) -> str:
    return f"{having:,} of {rows:,} rows, {100 * having / rows:.3g} %"


def changes_in(window: Sequence[TypeFields]) -> list[FieldChange]:
    """Returns the changes in the last of `window`, which are slices of one type and cluster, oldest first.
    Changes of earlier slices are not reported again."""
    kinds = [one.kinds for one in window]
    if all(slice_kinds == kinds[-1] for slice_kinds in kinds):
        return []
    names = sorted({name for name, _ in frozenset().union(*kinds) - frozenset.intersection(*kinds)})
    changes = [change for name in names for change in _of_field(window, name)]
    return list(_with_names(window, changes, names))


def confirmed(change: FieldChange, earlier: Sequence[TypeFields]) -> bool:
    """Returns whether it is a change against earlier slices, too: what comes and goes from time to time has
    not changed."""
    filled = [_filled(one, change.field) for one in earlier]
    if change.kind is ChangeKind.NEW:
        return not recurs(_series(earlier, filled), change.having / change.rows)
    if change.kind is ChangeKind.KIND:
        (kind,) = change.kinds
        having = [_kinds(one, change.field).get(kind, 0) for one in earlier]
        return not recurs(FieldSeries(filled, having, [0] * len(filled)), change.having / change.rows)
    series = _series(earlier, filled)
    return longest_gap(series, len(earlier), change.having_before / change.rows_before) < EXPECTED


def _of_field(window: Sequence[TypeFields], name: str) -> Iterator[FieldChange]:
    having = [_filled(one, name) for one in window]
    series = _series(window, having)
    new = begins(series)
    if new is not None:
        yield _change(ChangeKind.NEW, window, name, new)
    gone = ends(series)
    if gone is not None:
        yield _change(ChangeKind.VANISHED, window, name, gone)
    if having[-1]:
        yield from _of_kinds(window, name, having)


def _of_kinds(window: Sequence[TypeFields], name: str, having: Sequence[int]) -> Iterator[FieldChange]:
    unknown = [one.others for one in window]
    kinds = [_kinds(one, name) for one in window]
    for kind in kinds[-1]:
        turn = begins(FieldSeries(having, [rows_by_kind.get(kind, 0) for rows_by_kind in kinds], unknown))
        if turn is None:
            continue
        change = _change(ChangeKind.KIND, window, name, turn)
        # A number without a fraction is written as an integer, too.
        if kind != "integer" or "number" not in change.kinds_before:
            others = tuple(one for one in change.kinds_before if one != kind)
            yield replace(change, kinds=(kind,), kinds_before=others)


def _change(kind: ChangeKind, window: Sequence[TypeFields], name: str, turn: Turn) -> FieldChange:
    return FieldChange(
        kind,
        window[-1].type,
        name,
        turn.rows,
        turn.having,
        turn.rows_before,
        turn.having_before,
        tuple(_all_kinds(window[turn.at :], name)),
        tuple(_all_kinds(window[: turn.at], name)),
    )


def _with_names(
    window: Sequence[TypeFields], changes: Sequence[FieldChange], names: Sequence[str]
) -> Iterator[FieldChange]:
    """Yields the changes, with a vanished and a new field as one renamed where each fits only the other."""
    gone = [change for change in changes if change.kind is ChangeKind.VANISHED]
    likely = {change.field: [n for n in names if _same(window, change, n)] for change in gone}
    taken = [name for candidates in likely.values() for name in candidates]
    renamed = {
        old: candidates[0]
        for old, candidates in likely.items()
        if len(candidates) == 1 and taken.count(candidates[0]) == 1
    }
    for change in changes:
        if change.kind is ChangeKind.VANISHED and change.field in renamed:
            yield _renamed(window, change, renamed[change.field])
        elif change.kind is not ChangeKind.NEW or change.field not in renamed.values():
            yield change


def _renamed(window: Sequence[TypeFields], change: FieldChange, name: str) -> FieldChange:
    since = window[_begin(window, change) :]
    having, kinds = sum(_filled(one, name) for one in since), tuple(_all_kinds(since, name))
    return replace(change, kind=ChangeKind.RENAMED, likely=name, having=having, kinds=kinds)


def _begin(window: Sequence[TypeFields], change: FieldChange) -> int:
    """Returns the place of the first slice without the field."""
    return max(at for at, one in enumerate(window) if _filled(one, change.field)) + 1


def _same(window: Sequence[TypeFields], change: FieldChange, name: str) -> bool:
    """Returns whether `name` came when the field went, in as many rows, with the same kinds and at the same
    place. The slice in which a producer changes over has both."""
    begin = _begin(window, change)
    before, since = window[: begin - 1], window[begin:]
    old_slices = before if any(_filled(one, change.field) for one in before) else window[:begin]
    if any(_filled(one, name) for one in before) or not all(_filled(one, name) for one in since):
        return False
    old, new = _united(old_slices, change.field), _united(since, name)
    share = old.filled / sum(one.rows for one in old_slices)
    apart = _SHARES_APART + 2 * sqrt(share * (1 - share) / change.rows)
    return (
        abs(share - new.filled / change.rows) <= apart
        and abs(old.places / old.rows - new.places / new.rows) <= _PLACES_APART
        and _kinds_apart(old, new) <= _KINDS_APART
    )


def _kinds_apart(one: FieldSeen, other: FieldSeen) -> float:
    kinds = (one.kinds.keys() | other.kinds.keys()) - {"null"}
    shares = [abs(one.kinds.get(k, 0) / one.filled - other.kinds.get(k, 0) / other.filled) for k in kinds]
    return sum(shares) / 2


def _united(window: Sequence[TypeFields], name: str) -> FieldSeen:
    seen = [one.fields[name] for one in window if name in one.fields]
    kinds = {kind: sum(one.kinds.get(kind, 0) for one in seen) for field in seen for kind in field.kinds}
    return FieldSeen(sum(one.rows for one in seen), kinds, sum(one.places for one in seen))


def _series(window: Sequence[TypeFields], having: Sequence[int]) -> FieldSeries:
    return FieldSeries([one.rows for one in window], having, [one.others for one in window])


def _filled(one: TypeFields, name: str) -> int:
    return one.fields[name].filled if name in one.fields else 0


def _kinds(one: TypeFields, name: str) -> dict[str, int]:
    seen = one.fields.get(name)
    return {kind: rows for kind, rows in seen.kinds.items() if kind != "null"} if seen else {}


def _all_kinds(window: Sequence[TypeFields], name: str) -> list[str]:
    return sorted({kind for one in window for kind in _kinds(one, name)})


# When something that events have begins, and when it ends: from how many rows have it, slice by slice. Pure.
#
# A judgement needs enough rows to mean something. What a share of the rows has is in none of n rows by chance
# with `(1 - share) ** n`: at EXPECTED rows that should have it, with one in 500 million. Slices of few rows
# add up until they are enough, so each change is judged in exactly one slice.
EXPECTED = 20
"""Rows that should have it, where none has."""
FEWEST = 10
"""Rows that have it, for a beginning."""
COMMON, LIKELY = 0.1, 0.5
"""Shares of the rows: what fewer than COMMON have does not end; what fewer than LIKELY have ends after
STEADY slices with it."""
STEADY = 3
STRAY, _NEAR = 10, 4
"""How many times rarer something was that was there by mistake, and at most that was there at times."""
_FLICKERS = 5
"""Rows that should have it in a stretch without any, after which nothing that ends is an event."""


@dataclass(frozen=True)
class FieldSeries:
    """By slice, the oldest first: rows, those of them that have it, and how many more may have it."""

    rows: Sequence[int]
    having: Sequence[int]
    unknown: Sequence[int]


@dataclass(frozen=True)
class Turn:
    """Rows, and those that have it, in the slices before `at` and from there on."""

    at: int
    rows_before: int
    having_before: int
    rows: int
    having: int


def begins(series: FieldSeries) -> Turn | None:
    """Returns a turn where it is new, and the last slice is the first in which there are enough rows to say
    so."""
    turn = _begun(series) if series.having[-1] else None
    if turn is None or any(_begun(_until(series, end)) for end in range(2, len(series.rows))):
        return None
    return turn


def _begun(series: FieldSeries) -> Turn | None:
    """Since the first slice that has it in a share that is near today's; strays before that do not count."""
    today = _share_today(series)
    if today is None:
        return None
    pairs = zip(series.having, series.rows, strict=True)
    turn = _turn(series, next(at for at, (having, rows) in enumerate(pairs) if having * STRAY > today * rows))
    missed = turn.having / turn.rows * turn.rows_before - sum(series.unknown[: turn.at])
    return turn if missed >= EXPECTED else None


def _share_today(series: FieldSeries) -> float | None:
    """In the newest slices that have it in FEWEST rows."""
    for at in range(len(series.rows) - 1, -1, -1):
        having = sum(series.having[at:])
        if having >= FEWEST:
            return having / sum(series.rows[at:])
    return None


def recurs(series: FieldSeries, share: float) -> bool:
    """Returns whether slices had it in a share that is not far below this one."""
    pairs = zip(series.having, series.rows, strict=True)
    return sum(having for having, rows in pairs if having * _NEAR >= share * rows) >= FEWEST


def ends(series: FieldSeries) -> Turn | None:
    """Returns a turn where it is no more, and the last slice is the first in which there are enough rows to
    say so."""
    if series.having[-1]:
        return None
    last = max((at for at, having in enumerate(series.having) if having), default=-1)
    turn = _turn(series, last + 1)
    if turn.having_before < EXPECTED or not turn.rows:
        return None
    first = next(at for at, having in enumerate(series.having) if having)
    share = turn.having_before / sum(series.rows[first : turn.at])
    missed = share * turn.rows - sum(series.unknown[turn.at :])
    missed_last = share * series.rows[-1] - series.unknown[-1]
    if not missed - missed_last < EXPECTED <= missed or not _steady(series, turn, share):
        return None
    return None if longest_gap(series, turn.at, share) >= _FLICKERS else turn


def longest_gap(series: FieldSeries, until: int, share: float) -> float:
    """Of the stretches without it, between two slices that have it before `until`, the most rows that should
    have it."""
    pairs = list(zip(series.having, series.rows, strict=True))[:until]
    stretches = [
        (present, list(stretch)) for present, stretch in groupby(pairs, key=lambda pair: pair[0] > 0)
    ]
    inner = [stretch for present, stretch in stretches[1:] if not present]
    return share * max((sum(rows for _, rows in stretch) for stretch in inner), default=0)


def _steady(series: FieldSeries, turn: Turn, share: float) -> bool:
    slices = sum(having > 0 for having in series.having)
    return share >= COMMON and (share >= LIKELY or slices >= STEADY)


def _until(series: FieldSeries, end: int) -> FieldSeries:
    return FieldSeries(series.rows[:end], series.having[:end], series.unknown[:end])


def _turn(series: FieldSeries, at: int) -> Turn:
    having, rows = series.having, series.rows
    return Turn(at, sum(rows[:at]), sum(having[:at]), sum(rows[at:]), sum(having[at:]))
