"""Which TTLs delete rows: the texts are those that system.tables gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.notes import notes
from sluice.state.ttl import deleting
from tests.support.verified import CLICKS, ELEVEN, FACTS, OTHER, TEN, found

HEAD = "MergeTree PARTITION BY toDate(d) ORDER BY d"
TAIL = " SETTINGS index_granularity = 8192"


@pytest.mark.parametrize(
    ("ttl", "expressions"),
    [
        ("", []),
        (" TTL d + toIntervalYear(3)", ["d + toIntervalYear(3)"]),
        (" TTL d + toIntervalMonth(1) TO DISK 'cold'", []),
        (" TTL d + toIntervalMonth(1) TO VOLUME 'cold', d RECOMPRESS CODEC(ZSTD(3))", []),
        (
            " TTL d TO DISK 'x', toDateTime(if(a IN (1, 2), d, e)) WHERE s = 'a, TTL TO DISK \\'x\\'', d",
            ["toDateTime(if(a IN (1, 2), d, e))", "d"],
        ),
        (" TTL d DELETE", ["d"]),
        (" TTL if(s = 'ab', d, e) DELETE, `X y` WHERE a", ["if(s = 'ab', d, e)", "`X y`"]),
        (" TTL X, d", ["X", "d"]),
        (
            " TTL d + toIntervalMonth(1) GROUP BY d, s SET x = max(x), d + toIntervalYear(2)",
            ["d + toIntervalMonth(1)", "d + toIntervalYear(2)"],
        ),
        (
            " TTL d + toIntervalDay(1) GROUP BY d, s SET x = max(x), `y ` = any(if(a, b, c)), e TO DISK 'c'",
            ["d + toIntervalDay(1)"],
        ),
        (" TTL d GROUP BY d, toStartOfDay(e)", ["d"]),
        (" TTL d WHERE s = ' GROUP BY ', e", ["d", "e"]),
        (" TTL `a TO DISK 'b` + 1", ["`a TO DISK 'b` + 1"]),
        (" TTL d + toIntervalDay(' SETTINGS ')", ["d + toIntervalDay(' SETTINGS ')"]),
    ],
)
def test_only_ttls_that_delete_rows(ttl: str, expressions: list[str]):
    assert list(deleting(HEAD + ttl + TAIL)) == expressions
    assert list(deleting(HEAD + ttl)) == expressions


def test_rows_that_cannot_have_expired_have_to_be_there():
    fewer = replace(CLICKS, rows={TEN: {"": 2}, ELEVEN: {"": 2}}, expiring=True, lasting=frozenset({ELEVEN}))
    facts = replace(FACTS, tables=(fewer, OTHER))
    assert [(a.kind, a.slice) for a in found(facts)] == [(AnomalyKind.ROWS_MISSING, ELEVEN.slice.id)]
    assert list(notes(facts)) == [
        "table e.clicks: missing rows of 1 slices are not reported, because its TTL deletes rows; "
        "`sluice verify ads --contents` compares those that cannot have expired"
    ]
    assert list(notes(FACTS)) == []
