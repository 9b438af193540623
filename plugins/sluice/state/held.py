"""Hours that a check of the pipeline file holds out of a table, and who has released them, in `_held/`.

The load that holds rows writes it, `sluice release` and the page release. It is a note and no evidence: an
hour counts by its ledger row, and one that is held and not noted is held again by the next load.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.safe_text import visible
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.manifests import read_manifests
from sluice.state.notes import MonthlyNotes
from sluice.state.status import UnitStatus
from sluice.stored_json import Second


class HeldRows(msgspec.Struct, frozen=True):
    """Rows of one unit that fail checks of one table on one shard: of each check its SQL, and how many.

    `mode`: that of the run. `at`: when, in seconds since the epoch. `by`: who has `released` them, as far as
    that user has a name.
    """

    table: str
    cluster: str
    shard: str
    manifest: str
    checks: dict[str, tuple[str, int]]
    at: Second
    mode: str = "fill"
    released: bool = False
    by: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        return self.table, self.cluster, self.shard

    @property
    def released_of(self) -> tuple[tuple[str, str], ...]:
        """The checks, as (name, SQL), that it is released of."""
        return tuple((name, sql) for name, (sql, _) in self.checks.items()) if self.released else ()

    @property
    def words(self) -> str:
        return failed_words({name: rows for name, (_, rows) in self.checks.items()})


def failed_words(failed: Mapping[str, int]) -> str:
    """`12 rows fail positive_total, 1 row fails known_country`."""
    return ", ".join(
        f"{rows:,} {'row fails' if rows == 1 else 'rows fail'} {visible(name, 40)}"
        for name, rows in failed.items()
    )


_NOTES: MonthlyNotes[list[HeldRows]] = MonthlyNotes(
    "_held/",
    dict[str, list[HeldRows]],
    "holds no notes of held rows",
    "delete it: the next load of an hour that is held writes it anew",
)


def read_held(lake: Lake, slices: SliceRange) -> dict[str, list[HeldRows]]:
    """Returns what was held, by slice id, also what is released. Raises what the lake raises."""
    return _NOTES.read(lake, slices)


def hold(lake: Lake, held: Mapping[Unit, HeldRows]) -> None:
    """Notes units that are held, in place of what was noted of the same table and shard before."""
    new: dict[str, list[HeldRows]] = {}
    for unit, rows in held.items():
        new.setdefault(unit.slice.id, []).append(rows)
    _NOTES.add(lake, new, _merged)


def release(lake: Lake, slices: SliceRange, table: str, user: str) -> dict[str, list[HeldRows]]:
    """Releases what is held of the table in these slices, of the landings that they have now; returns it by
    slice id. Raises what the lake raises."""
    by_id, notes = {slice_.id: slice_ for slice_ in slices}, read_held(lake, slices)
    waiting = {
        (Unit(by_id[name], one.cluster), one.shard): one
        for name, held in notes.items()
        for one in held
        if name in by_id and one.table == table and not one.released
    }
    landed = read_manifests(lake, {unit for unit, _ in waiting})
    free: dict[str, list[HeldRows]] = {}
    for (unit, _), one in waiting.items():
        if unit in landed and landed[unit].id == one.manifest:
            free.setdefault(unit.slice.id, []).append(msgspec.structs.replace(one, released=True, by=user))
    _NOTES.add(lake, free, _merged)
    return free


@dataclass(frozen=True)
class Held:
    """What keeps one slice out of a table."""

    slice: Slice
    rows: HeldRows


def still_held(
    pipeline: Pipeline, lake: Lake, slices: SliceRange, statuses: Iterable[UnitStatus]
) -> list[Held]:
    """Returns what nobody has released, of the landing that a unit has now. Raises what the lake raises."""
    if not any(check.on_fail == "hold" for target in pipeline.targets for check in target.checks.values()):
        return []
    notes, found = read_held(lake, slices), []
    for status in statuses:
        for one in notes.get(status.unit.slice.id, ()):
            row = status.tables.get(one.table)
            current = status.manifest is not None and status.manifest.id == one.manifest
            loaded = row is not None and row.manifest == one.manifest
            if one.cluster == status.unit.cluster and current and not loaded and not one.released:
                found.append(Held(status.unit.slice, one))
    return found


def release_command(pipeline: Pipeline, table: str, slices: Collection[Slice]) -> str:
    """Returns the command that lets what is held of these slices into the table."""
    first, last = min(slices), max(slices)
    words = SliceRange(first.start, last.end, first.length).words
    return pipeline.command("release", "--table", table, *words)


def _merged(before: dict[str, list[HeldRows]], new: dict[str, list[HeldRows]]) -> dict[str, list[HeldRows]]:
    """A load that began before a release doesn't take it back."""
    merged = dict(before)
    for name, held in new.items():
        earlier = {one.place: one for one in before.get(name, [])}
        earlier |= {one.place: one for one in held if not _released_since(earlier.get(one.place), one)}
        merged[name] = list(earlier.values())
    return merged


def _released_since(earlier: HeldRows | None, one: HeldRows) -> bool:
    same = earlier is not None and (earlier.manifest, earlier.checks) == (one.manifest, one.checks)
    return same and earlier is not None and earlier.released
