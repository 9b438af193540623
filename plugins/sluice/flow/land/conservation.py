"""records read = offsets in range − explained holes, for every partition of a unit; and its files hold what
was parsed and what was refused. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.config.counts import Counts
from sluice.errors import Conservation
from sluice.flow.land.task.reports import Gap, SeenOffsets, WrittenFile
from sluice.manifest import OffsetRange, TopicPartitionKey
from sluice.slices import Unit


def gaps_of(
    unit: Unit, left: Iterable[OffsetRange], seen: Iterable[SeenOffsets]
) -> dict[TopicPartitionKey, list[Gap]]:
    """Returns by (topic, partition) the offsets in range that no task brought.

    Raises Conservation when an offset was brought twice, or one from outside the range.
    """
    by_place: dict[TopicPartitionKey, list[SeenOffsets]] = {}
    for part in seen:
        by_place.setdefault((part.topic, part.partition), []).append(part)
    found = {}
    for r in left:
        parts = sorted(by_place.pop((r.topic, r.partition), []), key=lambda part: part.first)
        gaps = list(_gaps(unit, r, parts))
        if gaps:
            found[r.topic, r.partition] = gaps
    for parts in by_place.values():
        raise Conservation(
            _message(unit, parts[0].topic, parts[0].partition, parts[0].first, "not asked for")
        )
    return found


def check_rows(unit: Unit, seen: Sequence[SeenOffsets], files: Iterable[WrittenFile]) -> None:
    """Checks: rows of the parsed records = rows in the unit's files + rows that did not land, which are
    rejected like the records that could not be parsed; what is erased is neither. Of unparsed records whose
    bytes the lake has forgotten no file has a row. Raises Conservation."""
    unparsed = sum(sum(part.unparsed.values()) for part in seen)
    lost = sum(sum(part.rows_unparsed.values()) for part in seen)
    erased, bare = sum(part.erased for part in seen), sum(part.without_bytes for part in seen)
    held = sum(part.records if part.rows is None else part.rows for part in seen)
    parsed = held - lost - (unparsed + erased if all(part.rows is None for part in seen) else 0)
    rows, rejected = 0, 0
    for file in files:
        rows, rejected = (rows + file.rows, rejected) if file.hour else (rows, rejected + file.rows)
    for what, expected, found in (("parsed", parsed, rows), ("refused", unparsed + lost - bare, rejected)):
        if expected != found:
            raise Conservation(
                f"slice {unit}: {expected:,} rows were {what}, and the files hold {found:,} of them: nothing "
                "was committed; land the slice again and report it if it happens twice"
            )


def unexplained(gap: Gap, visible: int) -> bool:
    """Returns whether a second read of the gap, with `visible` records, differs from the first."""
    return visible != gap.until - gap.start - gap.missing


def refuse(unit: Unit, place: TopicPartitionKey, gap: Gap, visible: int) -> Conservation:
    read = gap.until - gap.start - gap.missing
    return Conservation(
        f"slice {unit}: in offsets [{gap.start}, {gap.until}) of {unit.cluster}/{place[0]}/{place[1]} Spark "
        f"read {read} records and a plain consumer {visible}: nothing was committed; land the slice again"
    )


def refuse_bare(unit: Unit, place: TopicPartitionKey, hole: tuple[int, int]) -> Conservation:
    where = f"offsets [{hole[0]}, {hole[1]}) of {unit.cluster}/{place[0]}/{place[1]}"
    return Conservation(
        f"slice {unit}: {where} hold no record, and neither compaction nor a transaction explains it: the "
        "broker has lost them; nothing was committed: inspect its log (an unclean leader election?), or, if "
        "the topic was compacted before, give it `compact` in cleanup.policy back until the slice has landed"
    )


def _gaps(unit: Unit, r: OffsetRange, parts: Sequence[SeenOffsets]) -> Iterator[Gap]:
    expected = r.start
    for part in parts:
        if part.first < expected or part.last >= r.until:
            raise Conservation(
                _message(unit, r.topic, r.partition, part.first, "brought twice or not asked for")
            )
        if part.first > expected:
            yield Gap(expected, part.first)
        yield from part.gaps
        missing = sum(gap.missing for gap in part.gaps)
        if part.records + part.hidden + missing != part.last - part.first + 1:
            raise Conservation(_message(unit, r.topic, r.partition, part.first, "counted wrong"))
        expected = part.last + 1
    if expected < r.until:
        yield Gap(expected, r.until)


def _message(unit: Unit, topic: str, partition: int, offset: int, what: str) -> str:
    return (
        f"slice {unit}: offset {offset} of {unit.cluster}/{topic}/{partition} was {what} by Spark's Kafka "
        "source: nothing was committed; land the slice again and report it if it happens twice"
    )


@dataclass(frozen=True)
class Counted:
    """What a unit's rows were counted by, and the file of the counts: None where no row was counted."""

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
