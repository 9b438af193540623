"""What is told of a wrong row, word by word, and how types and times are found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from sluice.config.event import Event
from sluice.flow.contents.read_rows import FileColumns
from sluice.flow.contents.recompute import FileJudge, TypeFolder, WrongRows
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.slices import to_ms
from tests.support.verified import START
from tests.unit.flow.contents.test_contents_judge import EVENT, GOOD, MANIFEST, TIME, rows, wrong

ONE_EVENT = "a JSON object with one type and one time"
CLICKS = "type=click/date=2026-11-20/hour=10/x.parquet"
MANY = "type=_overflow/date=2026-11-20/hour=10/x.parquet"
DEEP = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def told(given: FileColumns, event: Event = EVENT, folder: str = CLICKS) -> list[WrongRows]:
    judge = FileJudge([event], MANIFEST, TypeFolder.of(folder))
    judge.take(given)
    return list(judge.wrong.values())


@pytest.mark.parametrize(
    ("columns", "folder", "kind", "expected", "seen"),
    [
        ({"payloads": [GOOD, b"[]", GOOD]}, CLICKS, AnomalyKind.ROW_PAYLOAD, ONE_EVENT, "it is no object"),
        (
            {"types": ["click", "view", "click"]},
            CLICKS,
            AnomalyKind.ROW_TYPE,
            "type 'click', by its payload",
            "_type 'view' in the folder of 'click'",
        ),
        (
            {
                "payloads": [GOOD, GOOD.replace(b'"click"', b"true"), GOOD],
                "types": ["click", "true", "click"],
            },
            MANY,
            AnomalyKind.ROW_TYPE,
            "type None, by its payload",
            "_type 'true' in the folder of '_overflow'",
        ),
        (
            {"payloads": [GOOD, GOOD.replace(b"T10", b"T11"), GOOD]},
            CLICKS,
            AnomalyKind.ROW_HOUR,
            "event hour 2026-11-20T11, by its payload",
            "2026-11-20T10",
        ),
        (
            {"payloads": [GOOD, b'{"type": "click"}', GOOD]},
            CLICKS,
            AnomalyKind.ROW_HOUR,
            "event hour none, by its payload",
            "2026-11-20T10",
        ),
        (
            {"times": [TIME, TIME + 1, TIME]},
            CLICKS,
            AnomalyKind.ROW_HOUR,
            "event time 2026-11-20 10:15:00+00:00, by its payload",
            "_event_time 2026-11-20 10:15:00.001000+00:00",
        ),
        ({"clusters": ["dc1", "dc2", "dc1"]}, CLICKS, AnomalyKind.ROW_IDENTITY, "cluster dc1", "dc2"),
    ],
)
def test_the_first_wrong_row_is_told(columns: dict, folder: str, kind: AnomalyKind, expected: str, seen: str):
    assert told(rows(**columns), folder=folder) == [WrongRows(kind, expected, seen, ("bids", 0), 1)]


def test_an_offset_is_told_with_the_units_own():
    assert told(rows(offsets=[0, 1, 10])) == [
        WrongRows(AnomalyKind.ROW_IDENTITY, "offsets in [0, 10)", "offset 10 of bids/0", ("bids", 0), 10)
    ]
    assert told(rows(topics=["other", "bids", "bids"])) == [
        WrongRows(AnomalyKind.ROW_IDENTITY, "offsets in [0, 0)", "offset 0 of other/0", ("other", 0), 0)
    ]


def test_a_file_without_types_is_wrong_in_each_row():
    seen = "_type None in the folder of 'click'"
    assert told(rows(types=None)) == [
        WrongRows(AnomalyKind.ROW_TYPE, "type 'click', by its payload", seen, ("bids", 0), 0, rows=3)
    ]


def test_rows_and_types_are_counted():
    judge = FileJudge([EVENT], MANIFEST, TypeFolder.of(MANY))
    assert judge.rows == 0
    view = GOOD.replace(b"click", b"view")
    judge.take(rows(2, payloads=[GOOD, view], types=["click", "view"]))
    judge.take(rows(3, payloads=[DEEP, GOOD, DEEP]))
    assert (judge.rows, judge.types) == (5, Counter(click=4, view=1))
    [wrong] = judge.wrong.values()
    assert (wrong.kind, wrong.seen, wrong.rows) == (
        AnomalyKind.ROW_PAYLOAD,
        "it is nested deeper than what is landed",
        2,
    )


def test_fields_within_fields():
    event = Event.model_validate({"type": {"field": "is.a kind"}, "time": {"field": "at.the time"}})
    payload = b'{"is": {"a kind": "click"}, "at": {"the time": "2026-11-20T%d:00:00Z"}}'
    assert told(rows(payloads=[payload % 10] * 3, times=[to_ms(START)] * 3), event) == []
    late = told(rows(payloads=[payload % 10, payload % 12, payload % 12], times=[to_ms(START)] * 3), event)
    assert [(one.kind, one.offset, one.rows) for one in late] == [(AnomalyKind.ROW_HOUR, 1, 2)]


BY_HEADER = Event.model_validate({"type": {"header": "table"}, "time": {"record": True}})


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b"click"], "'click'"),
        ([b"a", b"b", b"c"], "'c'"),
        ([b"a", b"b", None], "None"),
        ([b"a", None, b"c"], "'c'"),
        ([b"\xff"], "'\ufffd'"),
        ([], "None"),
    ],
)
def test_the_last_header_of_the_name_is_the_type(values: list[bytes | None], kind: str):
    pairs = [*({"key": "table", "value": value} for value in values), {"key": "other", "value": b"x"}]
    given = rows(1, headers=[pairs], types=["?"], payloads=[b"{}"])
    assert [one.expected for one in told(given, BY_HEADER)] == [f"type {kind}, by its payload"]


@pytest.mark.parametrize("headers", [None, [None] * 3])
def test_records_without_headers_have_no_type(headers: list[None] | None):
    assert [(one.expected, one.rows) for one in told(rows(headers=headers), BY_HEADER)] == [
        ("type None, by its payload", 3)
    ]


def test_a_record_without_a_time_of_its_own_has_no_hour():
    by_topic = Event.model_validate({"type": {"topic": True}, "time": {"record": True}})
    given = rows(types=["bids"] * 3, stamps=[TIME, None, None])
    folder = CLICKS.replace("click", "bids")
    assert told(given, by_topic, folder) == [
        WrongRows(
            AnomalyKind.ROW_HOUR, "event hour none, by its payload", "2026-11-20T10", ("bids", 0), 1, rows=2
        )
    ]
    last = [to_ms(START.add(minutes=59))] * 3
    assert told(replace(given, stamps=last, times=last), by_topic, folder) == []


def test_a_row_without_a_payload_is_told_as_an_empty_one():
    assert wrong(rows(payloads=[GOOD, None, b""])) == [(AnomalyKind.ROW_PAYLOAD, 1, 2)]
