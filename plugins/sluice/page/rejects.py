"""Rejected records by reason and column, each with what to do and a few samples. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sluice.config.page import Payloads
from sluice.flow.land import reject_reasons as why
from sluice.manifest import Manifest
from sluice.page.slice_models import RejectedSample, RejectGroup, Rejects
from sluice.safe_text import visible

MOST_GROUPS = 100
PER_GROUP = 3
UNPARSED, MISFIT = "unparsed", "misfit"
# As include/sql/page/count_misfits.sql has it.
_ITEM = re.compile(r'\[([0-9]+|"([^"\\]|\\.)*")\]')

# Reasons that only one format gives; its decoder is not imported for them.
OF_FORMATS = (
    "not Avro of its schema",
    "does not fit the reader's schema",
    "not Protobuf of its message",
)
_PRODUCER = "correct the producer; the lake's _rejected/ keeps the record"
_TYPE = "let `event.type` name the field or header that has it, or correct the producer; then `reland`"
_TIME = "let `event.time` name the field and its format, or correct the producer; then `reland`"
_SCHEMA = "give the registry, or the file that `event` names, the schema of these messages; then `reland`"
_ADVICE = {
    why.NO_VALUE: "a record without a value is a tombstone: nothing, or correct the producer",
    why.NO_TYPE: _TYPE,
    why.TYPE_NOT_STRING: _TYPE,
    why.TYPE_TOO_LONG: _TYPE,
    why.TOO_MANY_TYPES: "let `event.type` name a field with few values: each of them is a folder of the lake",
    why.NO_TIME: _TIME,
    why.TIME_NOT_UNDERSTOOD: _TIME,
    why.TIME_OUT_OF_RANGE: _TIME,
    why.TOO_MANY_HOURS: "set `max_late` where years of events are published at once; then `reland`",
    why.NOT_FRAMED: _SCHEMA,
    why.UNKNOWN_SCHEMA: _SCHEMA,
    why.OTHER_SCHEMA: _SCHEMA,
    why.UNREADABLE_SCHEMA: _SCHEMA,
    **dict.fromkeys(OF_FORMATS, _SCHEMA),
    why.TOO_LARGE: "raise `max_record` where such records are meant; then `reland`",
    why.NOT_AN_ARRAY: "set or remove `rows: array` as the messages are; then `reland`",
    why.NOT_AN_OBJECT: "set `rows: array` where messages are arrays, or correct the producer; then `reland`",
    why.SHIPPED_TWICE: "nothing: the same event is there once",
}
_MISFIT = (
    "give the column a type that takes it (ALTER TABLE … MODIFY COLUMN), then `reload` the hour; or correct "
    "the producer"
)

MisfitCount = tuple[str, str, str, int]
"""Table, column, reason and records."""


def unparsed_counts(manifests: Iterable[Manifest]) -> Counter[str]:
    """Returns records, and rows of records, by reason: exact, from the manifests."""
    counts: Counter[str] = Counter()
    for manifest in manifests:
        counts.update(manifest.kept_by_reason())
    return counts


def rejects_of(
    unparsed: Mapping[str, int],
    misfits: Sequence[MisfitCount],
    samples: Sequence[RejectedSample],
    payloads: Payloads,
) -> Rejects:
    """Groups what was rejected; the most records first."""
    by_key: dict[tuple[str, str, str], list[RejectedSample]] = {}
    for sample in samples:
        by_key.setdefault((sample.kind, plain(sample.place), sample.reason), []).append(sample)
    groups = [
        _group(UNPARSED, "", "", reason, count, by_key.get((UNPARSED, "", reason), ()))
        for reason, count in unparsed.items()
    ]
    for (table, column, reason), count in _summed(misfits).items():
        own = by_key.get((MISFIT, f"{table}.{column}", reason), ())
        groups.append(_group(MISFIT, table, column, reason, count, own))
    groups.sort(key=lambda one: (-one.records, one.kind, one.table, one.column, one.reason))
    return Rejects(payloads=payloads, groups=groups[:MOST_GROUPS], more=max(len(groups) - MOST_GROUPS, 0))


def _summed(misfits: Iterable[MisfitCount]) -> Counter[tuple[str, str, str]]:
    """Adds up what several shards have counted."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for table, column, reason, records in misfits:
        counts[table, column, reason] += records
    return counts


def plain(place: str) -> str:
    """`t.items[3]["k"]`: `t.items[][]`."""
    return _ITEM.sub("[]", place)


def _group(
    kind: str, table: str, column: str, reason: str, records: int, samples: Sequence[RejectedSample]
) -> RejectGroup:
    return RejectGroup(
        kind=kind,
        table=table,
        column=visible(column),
        reason=visible(reason),
        records=records,
        advice=_MISFIT if kind == MISFIT else _ADVICE.get(reason, _PRODUCER),
        samples=list(samples[:PER_GROUP]),
    )
