"""Asks the server which values of sample events its tables would reject, with the load's own casts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.settings import STEADY
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render
from sluice.doctor.check import Area, Check, ok, warn
from sluice.doctor.events import Sampled
from sluice.flow.load.casts.columns import LAKE, Filling
from sluice.flow.load.casts.judged import MISSING
from sluice.flow.load.source.select import filled, structure, with_places

_SHOWN = 80  # characters of a value
_LAST_STAMP = 10_413_791_999_999  # ms: the end of 2299, and of what a DateTime64 has a text for
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_QUERY = 256 << 20


def misfit_checks(client: Client, name: str, filling: Filling, events: Sequence[Sampled]) -> Iterator[Check]:
    """Yields one check for each column that would reject a value. Raises what the client raises."""
    place = f"table {name}"
    if not events:
        return
    sample = render(
        "doctor/source_sample",
        columns=listed(map(identifier, LAKE)),
        structure=structure(tuple(LAKE), with_slice=True),
        rows=literal("\n".join(_row(item) for item in events)),
    )
    checks = [check for check in filling.checks if check.misfit != "0"]
    sql = render(
        "doctor/misfits",
        misfit=filling.misfit,
        counts=listed(f"countIf({check.misfit})" for check in checks),
        places=listed(f"anyIf({check.parts['column']}, {check.misfit})" for check in checks),
        kinds=listed(f"anyIf({check.parts['type']}, {check.misfit})" for check in checks),
        values=listed(f"anyIf(ifNull({check.parts['text']}, ''), {check.misfit})" for check in checks),
        rows=with_places(filling, filled(filling, tuple(LAKE), sample, Sql("1"))),
    )
    [(misfit_rows, *facts)] = client.rows(sql, settings={**STEADY, "max_query_size": _MAX_QUERY})
    for count, column, kind, value in zip(*facts, strict=True):
        if count:
            text = f"{count:,} of {len(events):,} events would be rejected: {_shown(column, value)}"
            wanted = "a value" if kind == MISSING else kind
            yield warn(Area.SCHEMA, place, text, f"expected {wanted}: correct the column or the producer")
    if not misfit_rows:
        yield ok(Area.SCHEMA, place, f"every value of {len(events):,} events fits its column")


def _shown(column: str, value: str) -> str:
    text = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
    return f"{column or 'the event'} = {text!r}"


def _written(timestamp: int) -> str:
    """Returns the time as text: of a number the server wants ten digits."""
    return str(_EPOCH + timedelta(milliseconds=min(max(timestamp, 0), _LAST_STAMP)))


def _row(item: Sampled) -> Sql:
    record = item.record
    return Sql(
        json.dumps(
            {
                "_type": item.type,
                "_cluster": "",
                "_topic": record.topic,
                "_partition": record.partition,
                "_offset": record.offset,
                "_timestamp": _written(record.timestamp),
                "_key": None,
                "_payload": item.payload,
                "_slice": 0,
            }
        )
    )
