"""A few of the records that a slice rejected, with their payloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from typing import Any

import pyarrow.parquet as pq

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.sql import render
from sluice.clients.lake.base import Lake
from sluice.config.page import Payloads
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.page.masking import masked
from sluice.page.rejects import MisfitCount, plain
from sluice.page.slice_models import RejectedSample
from sluice.slices import Slice

PER_REASON = 3
MOST = 60
MOST_COUNTS = 1000
SHOWN_BYTES = 2000
# Of one file: the most that opening a page costs.
_MOST_ROWS, _MOST_BYTES, _FILES = 2000, 16 << 20, 4
_ROWS = 20
_COLUMNS = ["_reason", "_topic", "_partition", "_offset"]


def unparsed(
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
                included = reasons is None or reason in reasons
                if included and taken[reason] < each and len(samples) < most:
                    taken[reason] += 1
                    samples.append(_unparsed(manifest.cluster, reason, row, payloads))
    return samples


def _first_rows(lake: Lake, key: str, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yields up to `_MOST_BYTES` of rows. Yields none where the file has gone: verify names it.

    A record may be as large as Kafka allows: rows of a file with large row groups are read one by one.
    """
    rows = read_bytes = 0
    try:
        with lake.local(key) as path:
            parquet = pq.ParquetFile(path)
            groups = [parquet.metadata.row_group(n) for n in range(parquet.num_row_groups)]
            large = any(group.total_byte_size > _MOST_BYTES for group in groups)
            for batch in parquet.iter_batches(1 if large else _ROWS, columns=columns):
                yield from batch.to_pylist()
                rows, read_bytes = rows + batch.num_rows, read_bytes + batch.nbytes
                if read_bytes > _MOST_BYTES or rows >= _MOST_ROWS:
                    return
    except FileNotFoundError:
        return


def _unparsed(cluster: str, reason: str, row: dict[str, Any], payloads: Payloads) -> RejectedSample:
    return RejectedSample(
        kind="unparsed",
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


def misfits(client: Client, pipeline: Pipeline, slice_: Slice, payloads: Payloads) -> list[RejectedSample]:
    """Returns samples of the slice's misfits; none where ClickHouse has no `sluice.rejected` yet."""
    targets = [target.table for target in pipeline.targets]
    hidden = payloads == "hidden"  # then nothing of it leaves the server
    parameters = {"slice": int(slice_.start.timestamp()), "targets": targets, "hidden": hidden}
    rows = _rows(client, "page/sample_misfits", parameters)
    return [_misfit(payloads, *row) for row in rows]


def misfits_of(
    client: Client,
    tables: Collection[str],
    slices: Iterable[Slice],
    each: int,
    payloads: Payloads,
    most: int = MOST,
) -> list[RejectedSample]:
    """Returns samples of some slices and tables, `each` for each column and reason."""
    parameters = {
        "targets": sorted(tables),
        "slices": sorted({int(slice_.start.timestamp()) for slice_ in slices}),
        "hidden": payloads == "hidden",
        "each": each,
        "most": most,
    }
    return [_misfit(payloads, *row) for row in _rows(client, "rejected/sample_misfits", parameters)]


def misfit_counts(client: Client, pipeline: Pipeline, slice_: Slice) -> list[MisfitCount]:
    """Returns misfits by table, column and reason. Nothing where ClickHouse has no `sluice.rejected` yet."""
    targets = [target.table for target in pipeline.targets]
    parameters = {"slice": int(slice_.start.timestamp()), "targets": targets, "most": MOST_COUNTS}
    return [
        (str(t), str(c), str(r), int(n)) for t, c, r, n in _rows(client, "page/count_misfits", parameters)
    ]


def _rows(client: Client, statement: str, parameters: dict[str, Any]) -> list[Any]:
    try:
        return list(client.rows(render(statement), parameters))
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


def _misfit(
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
    place = f"{target}.{column}"
    return RejectedSample(
        kind="misfit",
        place=place if payloads == "shown" else plain(place),  # a map's key is the event's own
        reason=reason,
        value=value if payloads == "shown" else "",
        cluster=cluster,
        topic=topic,
        partition=partition,
        offset=offset,
        payload=shown_of(payload, payloads),
    )
