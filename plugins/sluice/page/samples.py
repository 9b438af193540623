"""A few of the records that a slice rejected, with their payloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow.parquet as pq

from sluice.clickhouse.client import Client
from sluice.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.lake.base import Lake
from sluice.load.sql import render
from sluice.manifest import Manifest
from sluice.page.slice_models import Sample
from sluice.pipeline import Pipeline
from sluice.slices import Slice

PER_REASON = 3
MOST = 60
SHOWN_BYTES = 2000
_ROWS = 20
_MOST_BYTES = 16 << 20
_FILES = 4
_COLUMNS = ["_reason", "_payload", "_topic", "_partition", "_offset"]


def unparsed(lake: Lake, manifests: Iterable[Manifest]) -> list[Sample]:
    """Of the first rows of the first files: at most `PER_REASON` for each reason."""
    shown: Counter[str] = Counter()
    samples: list[Sample] = []
    for manifest in manifests:
        for file in manifest.rejected[:_FILES]:
            for row in _first_rows(lake, file.key):
                reason = str(row["_reason"])
                if shown[reason] < PER_REASON and len(samples) < MOST:
                    shown[reason] += 1
                    samples.append(_unparsed(manifest.cluster, reason, row))
    return samples


def _first_rows(lake: Lake, key: str) -> Iterator[dict]:
    """Up to `_MOST_BYTES` of them. Nothing where the file has gone: verify names it."""
    seen = 0
    try:
        with lake.local(key) as path:
            for batch in pq.ParquetFile(path).iter_batches(_ROWS, columns=_COLUMNS):
                yield from batch.to_pylist()
                seen += batch.nbytes
                if seen > _MOST_BYTES:
                    return
    except FileNotFoundError:
        return


def _unparsed(cluster: str, reason: str, row: dict) -> Sample:
    payload = row["_payload"]
    return Sample(
        kind="unparsed",
        place="",
        reason=reason,
        value="",
        cluster=cluster,
        topic=row["_topic"],
        partition=row["_partition"],
        offset=row["_offset"],
        payload=text_of(payload),
    )


def text_of(payload: bytes | str | None) -> str:
    """The beginning of a payload as text; bytes that are not UTF-8 are written as \\x…."""
    if payload is None:
        return ""
    data = payload.encode() if isinstance(payload, str) else bytes(payload)
    cut = data[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return cut if len(data) <= SHOWN_BYTES else f"{cut}… ({len(data):,} bytes)"


def misfits(client: Client, pipeline: Pipeline, piece: Slice) -> list[Sample]:
    """Nothing where ClickHouse has no `sluice.rejected` yet."""
    targets = [target.table for target in pipeline.targets]
    parameters = {"slice": int(piece.start.timestamp()), "targets": targets}
    try:
        rows = client.rows(render("sample_misfits"), parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise
    return [_misfit(*row) for row in rows]


def _misfit(
    cluster: str,
    topic: str,
    partition: int,
    offset: int,
    target: str,
    column: str,
    reason: str,
    value: str,
    payload: str,
) -> Sample:
    return Sample(
        kind="misfit",
        place=f"{target}.{column}",
        reason=reason,
        value=value,
        cluster=cluster,
        topic=topic,
        partition=partition,
        offset=offset,
        payload=payload,
    )
