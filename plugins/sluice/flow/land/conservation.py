"""A unit's files hold what was parsed and what was refused, and its counts are those of its rows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.config.counts import Counts
from sluice.errors import Conservation
from sluice.flow.land.task.reports import SeenOffsets, WrittenFile
from sluice.slices import Unit


def check_rows(unit: Unit, seen: Sequence[SeenOffsets], files: Iterable[WrittenFile]) -> None:
    """Checks that the unit's files hold every row of the parsed records, and every refused one.

    Rows of parsed records = rows in the files + rows that did not land; those are rejected, as records are
    that could not be parsed. Erased rows are neither. No file has an rejected record whose bytes the
    lake has forgotten. Raises Conservation.
    """
    rejected_records = sum(sum(part.rejected_records.values()) for part in seen)
    lost = sum(sum(part.rejected_elements.values()) for part in seen)
    erased, bare = sum(part.erased for part in seen), sum(part.without_bytes for part in seen)
    records = sum(part.records if part.rows is None else part.rows for part in seen)
    parsed = records - lost - (rejected_records + erased if all(part.rows is None for part in seen) else 0)
    rows, rejected = 0, 0
    for file in files:
        rows, rejected = (rows + file.rows, rejected) if file.hour else (rows, rejected + file.rows)
    for what, expected, held in (
        ("parsed", parsed, rows),
        ("refused", rejected_records + lost - bare, rejected),
    ):
        if expected != held:
            raise Conservation(
                f"slice {unit}: {expected:,} rows were {what}, and the files hold {held:,} of them: nothing "
                "was committed; land the slice again and report it if it happens twice"
            )


@dataclass(frozen=True)
class Counted:
    """How a unit's rows were counted, and the file of the counts: None where no row was counted."""

    spec: Counts
    file: WrittenFile | None


def counted(
    unit: Unit, specs: Sequence[Counts], rows: Iterable[WrittenFile], totals: Iterable[WrittenFile]
) -> tuple[Counted, ...]:
    """Returns the counts of a unit by spec. Raises Conservation when they are not those of its files of
    `rows`."""
    landed: Counter[str] = Counter()
    for file in rows:
        if file.hour:
            landed.update(file.rows_by_type if file.type is None else {file.type: file.rows})
    by_table = {file.type: file for file in totals}
    counts = tuple(Counted(spec, by_table.get(spec.table)) for spec in specs)
    for count in counts:
        expected = {kind: rows for kind, rows in landed.items() if count.spec.counts(kind)}
        sums = dict(count.file.rows_by_type) if count.file else {}
        if sums != expected:
            raise _uneven(unit, count.spec, expected, sums)
    return counts


def _uneven(unit: Unit, spec: Counts, landed: Mapping[str, int], sums: Mapping[str, int]) -> Conservation:
    kind = next(k for k in sorted({*landed, *sums}) if landed.get(k) != sums.get(k))
    return Conservation(
        f"slice {unit}: the counts for table {spec.table} sum up to {sums.get(kind, 0):,} rows of type "
        f"{kind!r}, and {landed.get(kind, 0):,} landed: nothing was committed; land the slice again and "
        "report it if it happens twice"
    )
