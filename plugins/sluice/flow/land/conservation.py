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
    """Returns by (topic, partition) the offsets in range that no task has read.

    Raises Conservation when an offset was read twice, or one from outside the range.
    """
    seen_by_partition: dict[TopicPartitionKey, list[SeenOffsets]] = {}
    for part in seen:
        seen_by_partition.setdefault((part.topic, part.partition), []).append(part)
    gaps_by_partition = {}
    for r in left:
        parts = sorted(seen_by_partition.pop((r.topic, r.partition), []), key=lambda part: part.first)
        gaps = list(_gaps(unit, r, parts))
        if gaps:
            gaps_by_partition[r.topic, r.partition] = gaps
    for parts in seen_by_partition.values():
        raise Conservation(
            _message(unit, parts[0].topic, parts[0].partition, parts[0].first, "not asked for")
        )
    return gaps_by_partition


def check_rows(unit: Unit, seen: Sequence[SeenOffsets], files: Iterable[WrittenFile]) -> None:
    """Checks that the unit's files hold every row of the parsed records, and every refused one.

    Rows of parsed records = rows in the files + rows that did not land; those are rejected, as records are
    that could not be parsed. Erased rows are neither. No file has an unparsed record whose bytes the
    lake has forgotten. Raises Conservation.
    """
    unparsed = sum(sum(part.unparsed.values()) for part in seen)
    lost = sum(sum(part.rows_unparsed.values()) for part in seen)
    erased, bare = sum(part.erased for part in seen), sum(part.without_bytes for part in seen)
    records = sum(part.records if part.rows is None else part.rows for part in seen)
    parsed = records - lost - (unparsed + erased if all(part.rows is None for part in seen) else 0)
    rows, rejected = 0, 0
    for file in files:
        rows, rejected = (rows + file.rows, rejected) if file.hour else (rows, rejected + file.rows)
    for what, expected, held in (("parsed", parsed, rows), ("refused", unparsed + lost - bare, rejected)):
        if expected != held:
            raise Conservation(
                f"slice {unit}: {expected:,} rows were {what}, and the files hold {held:,} of them: nothing "
                "was committed; land the slice again and report it if it happens twice"
            )


def unexplained(gap: Gap, visible: int) -> bool:
    """Returns whether a second read of the gap, with `visible` records, differs from the first."""
    return visible != gap.until - gap.start - gap.missing


def refuse(unit: Unit, topic_partition: TopicPartitionKey, gap: Gap, visible: int) -> Conservation:
    topic, partition = topic_partition
    read = gap.until - gap.start - gap.missing
    return Conservation(
        f"slice {unit}: in offsets [{gap.start}, {gap.until}) of {unit.cluster}/{topic}/{partition} Spark "
        f"read {read} records and a plain consumer {visible}: nothing was committed; land the slice again"
    )


def refuse_bare(unit: Unit, topic_partition: TopicPartitionKey, hole: tuple[int, int]) -> Conservation:
    topic, partition = topic_partition
    where = f"offsets [{hole[0]}, {hole[1]}) of {unit.cluster}/{topic}/{partition}"
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
