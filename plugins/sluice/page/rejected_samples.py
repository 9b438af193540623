"""A few of the records that a slice rejected, with their payloads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Cluster, Payloads, Pipeline
from sluice.flow.land.expansion import mended
from sluice.flow.land.reject_reasons import HALF_PAIR
from sluice.flow.rejected.rejections import FORGOTTEN_REJECTED_ROW_REMEDY, remedy_of, row_place
from sluice.manifest import TOMBSTONE, Manifest
from sluice.page.models import Model
from sluice.safe_text import visible
from sluice.slices import Slice
from sluice.state.system_tables import read_rejected_rows

PER_REASON = 3
MOST = 60
MOST_COUNTS = 1000
SHOWN_BYTES = 2000
# Of one file: the most that opening a page costs.
_MOST_ROWS, _MOST_BYTES, _FILES = 2000, 16 << 20, 4
_ROWS = 20
_COLUMNS = ["_reason", "_topic", "_partition", "_offset"]


_STRICTEST: tuple[Payloads, ...] = ("hidden", "masked", "shown")


class RejectedSample(Model):
    """A rejected record: `kind` is rejected (no row in the lake) or rejected row (a value did not fit
    `place`).

    `payload` is cut, and what is not UTF-8 is escaped. `place`, `value` and it are what the caller may see of
    them: a place has keys of maps."""

    kind: str
    place: str
    reason: str
    value: str
    cluster: str
    topic: str
    partition: int
    offset: int
    payload: str


class RejectGroup(Model):
    """Records that were rejected for one reason, rejected rows by table and column; `records` is exact, and
    the lake has `forgotten` the bytes of some of them. `advice` says what a person can do."""

    kind: str
    table: str
    column: str
    reason: str
    records: int
    forgotten: int
    advice: str
    samples: list[RejectedSample]


class Rejects(Model):
    """The most frequent first. `payloads` is hidden, masked or shown; `more`: groups that are left out."""

    payloads: Payloads
    groups: list[RejectGroup]
    more: int


def shared_payloads(pipeline: Pipeline, others: Iterable[Pipeline]) -> Payloads:
    """Returns how payloads of the pipeline are shown: as the strictest says of those that read a topic of its
    name, or name one of its tables. Whether it is the same server's cannot be told by the files."""
    files = (pipeline, *sharing(pipeline, others))
    return min((one.page.payloads for one in files), key=_STRICTEST.index)


def sharing(pipeline: Pipeline, others: Iterable[Pipeline]) -> list[Pipeline]:
    """Returns the pipelines whose records may be among this one's."""
    return [one for one in others if _share(pipeline, one)]


def _share(one: Pipeline, other: Pipeline) -> bool:
    """Returns whether both name one table, or may read one topic."""
    tables = {target.table for target in one.targets} & {target.table for target in other.targets}
    return bool(tables) or any(_meet(mine, theirs) for mine in one.kafka for theirs in other.kafka)


def _meet(one: Cluster, other: Cluster) -> bool:
    named = any(map(other.reads, one.named)) or any(map(one.reads, other.named))
    return named or bool(one.patterns and other.patterns and one.patterns.may_meet(other.patterns))


def rejected_records(
    lake: Lake,
    manifests: Iterable[Manifest],
    payloads: Payloads,
    each: int = PER_REASON,
    reasons: Container[str] | None = None,
    most: int = MOST,
) -> list[RejectedSample]:
    """Returns samples from the first rows of the first files: at most `each` for each reason, or for each of
    some `reasons`."""
    taken: Counter[str] = Counter()
    samples: list[RejectedSample] = []
    columns = _COLUMNS if payloads == "hidden" else [*_COLUMNS, "_payload"]
    for manifest in manifests:
        for file in manifest.held_rejected[:_FILES]:
            for row in _first_rows(lake, file.key, columns):
                reason = str(row["_reason"])
                included = reason != TOMBSTONE and (reasons is None or reason in reasons)
                if included and taken[reason] < each and len(samples) < most:
                    taken[reason] += 1
                    samples.append(_rejected(manifest.cluster, reason, row, payloads))
    return samples


def _first_rows(lake: Lake, key: str, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yields up to `_MOST_BYTES` of rows. Yields none where the file has gone or is damaged: verify names it.

    A record may be as large as Kafka allows: rows of a file with large row groups are read one by one.
    """
    rows = read_bytes = 0
    try:
        with lake.local(key) as path:
            parquet = pq.ParquetFile(path)
            if not set(columns) <= set(parquet.schema_arrow.names):
                return
            groups = [parquet.metadata.row_group(n) for n in range(parquet.num_row_groups)]
            large = any(group.total_byte_size > _MOST_BYTES for group in groups)
            for batch in parquet.iter_batches(1 if large else _ROWS, columns=columns):
                yield from batch.to_pylist()
                rows, read_bytes = rows + batch.num_rows, read_bytes + batch.nbytes
                if read_bytes > _MOST_BYTES or rows >= _MOST_ROWS:
                    return
    except (FileNotFoundError, pa.ArrowException):
        return
    except OSError as error:
        if error.errno is not None:  # pyarrow's own, for damaged bytes, has no number
            raise


def _rejected(cluster: str, reason: str, row: dict[str, Any], payloads: Payloads) -> RejectedSample:
    return RejectedSample(
        kind="record",
        place="",
        reason=reason,
        value="",
        cluster=cluster,
        topic=row["_topic"],
        partition=row["_partition"],
        offset=row["_offset"],
        payload=shown_of(row.get("_payload"), payloads),
    )


def shown_of(payload: bytes | str | None, payloads: Payloads) -> str:
    """Returns what the page may show of it."""
    if payload is None or payloads == "hidden":
        return ""
    return text_of(payload) if payloads == "shown" else text_of(payload, masked)


def text_of(payload: bytes | str | None, convert: Callable[[str], str] = str) -> str:
    """Returns the beginning of a payload as text, converted by `convert`. Bytes that are not UTF-8 are
    written as \\x…."""
    if payload is None:
        return ""
    content = payload.encode() if isinstance(payload, str) else bytes(payload)
    cut = convert(content[:SHOWN_BYTES].decode("utf-8", "backslashreplace"))
    return cut if len(content) <= SHOWN_BYTES else f"{cut}… ({len(content):,} bytes)"


def rejected_rows(
    client: Client, pipeline: Pipeline, own: Collection[str], slice_: Slice, payloads: Payloads
) -> list[RejectedSample]:
    """Returns samples of the slice's rejected rows in the pipeline's `own` tables."""
    hidden = payloads == "hidden"  # then nothing of it leaves the server
    parameters = {"slice": int(slice_.start.timestamp()), "hidden": hidden}
    rows = read_rejected_rows(client, "page/sample_rejected_rows", pipeline, own, parameters)
    return [_rejected_row(payloads, *row) for row in rows]


def rejected_rows_of(
    client: Client,
    pipeline: Pipeline,
    own: Collection[str],
    slices: Iterable[Slice],
    each: int,
    payloads: Payloads,
    most: int = MOST,
) -> list[RejectedSample]:
    """Returns samples of some slices and `own` tables, `each` for each column and reason."""
    parameters = {
        "slices": sorted({int(slice_.start.timestamp()) for slice_ in slices}),
        "hidden": payloads == "hidden",
        "each": each,
        "most": most,
    }
    rows = read_rejected_rows(client, "rejected/sample_rejected_rows", pipeline, own, parameters)
    return [_rejected_row(payloads, *row) for row in rows]


def rejected_row_counts(
    client: Client, pipeline: Pipeline, own: Collection[str], slice_: Slice
) -> list[RejectedRowCount]:
    """Returns rejected rows of the pipeline's `own` tables by table, column and reason."""
    parameters = {"slice": int(slice_.start.timestamp()), "most": MOST_COUNTS}
    rows = read_rejected_rows(client, "page/count_rejected_rows", pipeline, own, parameters)
    return [(str(t), str(c), str(r), int(n)) for t, c, r, n in rows]


def _rejected_row(
    payloads: Payloads,
    cluster: str,
    topic: str,
    partition: int,
    offset: int,
    target: str,
    column: str,
    reason: str,
    value: str,
    payload: str,
) -> RejectedSample:
    place = row_place(target, column)
    return RejectedSample(
        kind="row",
        place=place if payloads == "shown" else plain(place),  # a map's key is the event's own
        reason=reason,
        value=value if payloads == "shown" else "",
        cluster=cluster,
        topic=topic,
        partition=partition,
        offset=offset,
        payload=shown_of(payload, payloads),
    )


# Masks a payload: keeps structure and field names, and puts kinds in place of values. Pure.
#
# A payload may be cut anywhere, and need not be JSON: it is shown as far as it is, and what follows is
# hidden.
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+) | (?P<object>\{) | (?P<list>\[) | (?P<end_object>\}) | (?P<end_list>\])
    | (?P<comma>,) | (?P<colon>:) | (?P<text>"(?:[^"\\]|\\.)*") | (?P<null>null\b)
    | (?P<boolean>(?:true|false)\b) | (?P<number>-?[0-9][0-9.eE+-]*(?![\w.]))""",
    re.VERBOSE | re.DOTALL,
)
# A key that is no field's name, such as an address or a number, is data.
_NAME = re.compile(r"[^\W\d]\w{0,63}(?:[.-]\w{1,63}){0,7}")
_SCALARS = frozenset({"text", "null", "boolean", "number"})
_VALUES = _SCALARS | {"object", "list"}
_SIGNS = {"object": "{", "list": "[", "end_object": "}", "end_list": "]", "comma": ", ", "colon": ": "}


def masked(text: str) -> str:
    """`{"id": 7, "who": "Ann"}`: `{"id": number, "who": text}`. It says which text has half a pair."""
    scan, at = _Scan(), 0
    while (token := _TOKEN.match(text, at)) is not None and scan.takes(token):
        at = token.end()
    hidden = len(text) - at
    return "".join(scan.shown) + (f"… ({hidden:,} characters are hidden)" if hidden else "")


class _Scan:
    """JSON's grammar: `_next` are the kinds of tokens that may follow, `_closers` the open brackets' ends."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._closers: list[str] = []
        self._next = _VALUES

    def takes(self, token: re.Match[str]) -> bool:
        kind = token.lastgroup or ""
        if kind == "space":
            return True
        if kind not in self._next:
            return False
        if kind in _SCALARS:
            self._scalar(kind, token[0])
        else:
            self.shown.append(_SIGNS[kind])
            self._next = self._after(kind)
        return True

    def _scalar(self, kind: str, text: str) -> None:
        if "null" in self._next:
            content = text.encode("utf-8", "surrogatepass")
            broken = kind == "text" and mended(content) != content
            self.shown.append(HALF_PAIR if broken else kind)
            self._next = self._follow()
        else:
            self.shown.append(text if _NAME.fullmatch(text[1:-1]) else '"…"')
            self._next = frozenset({"colon"})

    def _after(self, sign: str) -> frozenset[str]:
        if sign in ("object", "list"):
            self._closers.append(f"end_{sign}")
            return frozenset({"text", "end_object"}) if sign == "object" else _VALUES | {"end_list"}
        if sign == "colon":
            return _VALUES
        if sign == "comma":
            return frozenset({"text"}) if self._closers[-1] == "end_object" else _VALUES
        self._closers.pop()
        return self._follow()

    def _follow(self) -> frozenset[str]:
        return frozenset({"comma", self._closers[-1]}) if self._closers else frozenset()


# Rejected records by reason and column, each with what to do and a few samples. Pure.
MOST_GROUPS = 100
PER_GROUP = 3
REJECTED_RECORDS, REJECTED_ROW = "record", "row"
# As include/sql/page/count_rejected_rows.sql has it.
_ITEM = re.compile(r'\[([0-9]+|"([^"\\]|\\.)*")\]')

RejectedRowCount = tuple[str, str, str, int]
"""Table, column, reason and records."""


def rejected_records_counts(manifests: Iterable[Manifest]) -> Counter[str]:
    """Returns records, and rows of records, by reason: exact, from the manifests."""
    return sum((Counter(manifest.refused_by_reason()) for manifest in manifests), Counter())


def forgotten_counts(manifests: Iterable[Manifest]) -> Counter[str]:
    """Returns, by reason, the rejected records of which the lake has forgotten the bytes."""
    return sum((Counter(manifest.forgotten_by_reason()) for manifest in manifests), Counter())


def rejects_of(
    rejected_records: Mapping[str, int],
    rejected_rows: Sequence[RejectedRowCount],
    samples: Sequence[RejectedSample],
    payloads: Payloads,
    forgotten: Mapping[str, int] | None = None,
    without_files: bool = False,
) -> Rejects:
    """Groups what was rejected; the most records first. `forgotten`: those of `rejected_records` without
    bytes; `without_files`: the lake has forgotten the files that rejected rows could be loaded from again."""
    gone = forgotten or {}
    by_key: dict[tuple[str, str, str], list[RejectedSample]] = {}
    for sample in samples:
        by_key.setdefault((sample.kind, plain(sample.place), sample.reason), []).append(sample)
    groups = [
        _group(
            REJECTED_RECORDS,
            "",
            "",
            reason,
            count,
            by_key.get((REJECTED_RECORDS, "", reason), ()),
            gone.get(reason, 0),
        )
        for reason, count in rejected_records.items()
    ]
    records: Counter[tuple[str, str, str]] = Counter()  # what several shards have counted
    for table, column, reason, count in rejected_rows:
        records[table, column, reason] += count
    for (table, column, reason), count in records.items():
        group_samples = by_key.get((REJECTED_ROW, row_place(table, column), reason), ())
        group = _group(REJECTED_ROW, table, column, reason, count, group_samples)
        groups.append(
            group.model_copy(update={"advice": FORGOTTEN_REJECTED_ROW_REMEDY}) if without_files else group
        )
    groups.sort(key=lambda one: (-one.records, one.kind, one.table, one.column, one.reason))
    return Rejects(payloads=payloads, groups=groups[:MOST_GROUPS], more=max(len(groups) - MOST_GROUPS, 0))


def plain(place: str) -> str:
    """Returns a place without its indexes and keys: `t.items[][]` for `t.items[3]["k"]`."""
    return _ITEM.sub("[]", place)


def _group(
    kind: str,
    table: str,
    column: str,
    reason: str,
    records: int,
    samples: Sequence[RejectedSample],
    forgotten: int = 0,
) -> RejectGroup:
    advice = [remedy_of(reason, unfit=kind == REJECTED_ROW, column=column)] if forgotten < records else []
    if forgotten:
        advice.append(
            f"the lake has forgotten the bytes of {forgotten:,} of them: `reland` brings the hour, as long "
            "as Kafka has it"
        )
    return RejectGroup(
        kind=kind,
        table=table,
        column=visible(column),
        reason=visible(reason),
        records=records,
        forgotten=forgotten,
        advice="; ".join(advice),
        samples=list(samples[:PER_GROUP]),
    )
