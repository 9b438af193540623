"""Finds the changes of landed units: each against the newest hours of its cluster before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.errors import SluiceError
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import Slice, Unit, from_seconds
from sluice.state.manifests import read_manifest
from sluice.state.schema.changes import FieldChange, changes_in, confirmed
from sluice.type_fields import TypeFields

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
