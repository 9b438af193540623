"""sum of counts = rows landed, for every type that is counted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.counts.spec import Counts
from sluice.errors import Conservation
from sluice.landing.reports import WrittenFile
from sluice.slices import Unit


@dataclass(frozen=True)
class Counted:
    """What a unit's rows were counted by, and the file of the counts: None where no row was counted."""

    spec: Counts
    file: WrittenFile | None


def counted(
    unit: Unit, specs: Sequence[Counts], rows: Iterable[WrittenFile], totals: Iterable[WrittenFile]
) -> tuple[Counted, ...]:
    """The counts of a unit by spec. Raises Conservation when they are not those of its files of `rows`."""
    landed: Counter[str] = Counter()
    for file in rows:
        if file.hour:
            landed.update(file.rows_by_type if file.type is None else {file.type: file.rows})
    by_table = {file.type: file for file in totals}
    found = tuple(Counted(spec, by_table.get(spec.table)) for spec in specs)
    for one in found:
        wanted = {kind: rows for kind, rows in landed.items() if one.spec.counts(kind)}
        sums = dict(one.file.rows_by_type) if one.file else {}
        if sums != wanted:
            raise _uneven(unit, one.spec, wanted, sums)
    return found


def _uneven(unit: Unit, spec: Counts, landed: Mapping[str, int], sums: Mapping[str, int]) -> Conservation:
    kind = next(k for k in sorted({*landed, *sums}) if landed.get(k) != sums.get(k))
    return Conservation(
        f"slice {unit}: the counts for table {spec.table} sum up to {sums.get(kind, 0):,} rows of type "
        f"{kind!r}, and {landed.get(kind, 0):,} landed: nothing was committed; land the slice again and "
        "report it if it happens twice"
    )
