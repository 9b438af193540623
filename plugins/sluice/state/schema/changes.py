"""What has changed in the fields of a type, from the slices before to the last one. Pure.

A field counts where it is not null: one that becomes null in every row has vanished like one that is not
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt

from sluice.safe_text import visible
from sluice.state.schema.series import EXPECTED, FieldSeries, Turn, begins, ends, longest_gap, recurs
from sluice.type_fields import FieldSeen, TypeFields

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
