"""Record times, keys and the topic of what is published."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sluice.clients.kafka.producer import TopicLimits
from sluice.config.event import Event
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.ship.publish import choose
from sluice.ship.record_times import RecordKeys, RecordTimes, SourceTimes

NOW = 1_795_000_000_000
HOUR = 3_600_000
FACTS = TopicLimits(partitions=4, before_ms=2**62, after_ms=HOUR)


def event(**time) -> Event:
    return Event.model_validate({"type": {"field": "type"}, "time": time})


def times(source: Event, events: list[bytes], lag: timedelta = timedelta(), facts: TopicLimits = FACTS):
    clock = RecordTimes(source, lag)
    return SourceTimes(clock).of(events, NOW, facts), clock.no_time, clock.refused


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        (event(field="at"), b'{"at": "2026-11-20T10:00:00Z"}', 1_795_168_800_000 - 0),
        (event(field="at"), b'{"at": "2026-11-18T10:00:00+01:00"}', 1_794_992_400_000),
        (event(field="e.at"), b'{"type": 5, "e": {"at": "2026-11-18T09:00:00.5"}}', 1_794_992_400_500),
        (event(field="at", format="epoch_s"), b'{"at": 1794992400.25}', 1_794_992_400_250),
        (event(field="at", format="epoch_ms"), b'{"at": 0}', 0),
        (event(record=True), b"anything", NOW),
    ],
)
def test_the_record_time_is_the_events(source: Event, line: bytes, expected: int):
    facts = TopicLimits(4, 2**62, 10**12)
    assert times(source, [line], facts=facts) == ([expected], 0, 0)


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b"{", b"[]", b"{}", b'{"at": null}', b'{"at": 5}', b'{"at": "soon"}', b"[" * 100_000],
)
def test_bad_events_get_the_time_of_the_line_before_and_harm_nobody(line: bytes):
    good, later = b'{"at": "2026-11-18T09:00:00Z"}', b'{"at": "2026-11-18T09:00:01Z"}'
    assert times(event(field="at"), [good, line, line, later]) == (
        [1_794_992_400_000] * 3 + [1_794_992_401_000],
        2,
        0,
    )
    assert times(event(field="at"), [line, good, later]) == (
        [1_794_992_400_000] * 2 + [1_794_992_401_000],
        1,
        0,
    )
    assert times(event(field="at"), [line, line]) == ([NOW] * 2, 2, 0)


def test_a_time_that_the_broker_would_refuse_is_none():
    lines = [b'{"at": %d}' % at for at in (NOW + 2 * HOUR, NOW - 5, NOW + 2 * HOUR, NOW - 7, -1)]
    found = times(event(field="at", format="epoch_ms"), lines)
    assert found == ([NOW - 5, NOW - 5, NOW - 5, NOW - 7, NOW - 7], 0, 3)


@pytest.mark.parametrize(
    ("at", "lag", "facts", "expected"),
    [
        (NOW + HOUR - 20_000, 0, FACTS, NOW + HOUR - 20_000),
        (NOW + HOUR + 1, 0, FACTS, NOW),
        (NOW, 7200, FACTS, NOW),
        (NOW - HOUR, 1800, FACTS, NOW - HOUR // 2),
        (-1, 0, FACTS, NOW),
        (NOW - HOUR - 1, 0, TopicLimits(4, HOUR, HOUR), NOW),
    ],
)
def test_a_time_that_the_broker_would_refuse(at: int, lag: int, facts: TopicLimits, expected: int):
    line = b'{"at": %d}' % at
    found = times(event(field="at", format="epoch_ms"), [line], timedelta(seconds=lag), facts)
    assert found == ([expected], 0, int(expected == NOW))


def arrays(**time) -> Event:
    return Event.model_validate({"type": {"field": "type"}, "time": time, "rows": "array"})


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        (arrays(field="at"), b'[{"at": "2026-11-18T09:00:00Z"}]', 1_794_992_400_000),
        (
            arrays(field="at"),
            b' [{"at": "2026-11-18T08:59:59Z"}, {"at": "2026-11-18T10:00:00+01:00"}, {"at": "2026-11-17"}] ',
            1_794_992_400_000,
        ),
        (
            arrays(field="e.at"),
            b'[{}, 5, null, [], {"e": {"at": "soon"}}, {"e": {"at": "2026-11-18T09:00:00.5"}}, {"e": 1}]',
            1_794_992_400_500,
        ),
        (arrays(field="at", format="epoch_s"), b'[{"at": 1794992400.25}, {"at": 7}]', 1_794_992_400_250),
        (arrays(field="at", format="epoch_ms"), b'[{"at": 0}, {"at": -1}]', 0),
        (arrays(field="at"), b'[{"x": "\xff"}, {"at": "2026-11-18T09:00:00Z"}]', 1_794_992_400_000),
        (arrays(record=True), b"[{}]", NOW),
    ],
)
def test_the_record_time_of_an_array_is_the_latest_of_its_elements(source: Event, line: bytes, expected: int):
    assert times(source, [line], facts=TopicLimits(4, 2**62, 10**12)) == ([expected], 0, 0)


@pytest.mark.parametrize(
    "line",
    [b"[]", b"[{}]", b'[{"at": "soon"}, 5]', b'{"at": "2026-11-18T09:00:07"}', b"[", b"\xff", b"[" * 100_000],
)
def test_an_array_without_a_time_gets_that_of_the_line_before(line: bytes):
    good, later = b'[{"at": "2026-11-18T09:00:00Z"}]', b'[{"at": "2026-11-18T09:00:01Z"}, {}]'
    found = times(arrays(field="at"), [line, good, line, later, line])
    assert found == ([1_794_992_400_000] * 3 + [1_794_992_401_000] * 2, 3, 0)
    assert times(arrays(field="at"), [line, line]) == ([NOW] * 2, 2, 0)


def test_of_an_array_a_time_that_the_broker_takes():
    """One element far ahead does not move the others out of their hours."""
    lines = [
        [NOW - 9, NOW + 2 * HOUR, NOW - 8],
        [NOW + 2 * HOUR],
        [-1, NOW - 7],
        [NOW - HOUR, NOW - 2 * HOUR],
    ]
    texts = [b"[%b]" % b",".join(b'{"at": %d}' % at for at in line) for line in lines]
    found = times(arrays(field="at", format="epoch_ms"), texts)
    assert found == ([NOW - 8, NOW - 8, NOW - 7, NOW - HOUR], 0, 1)
    late = times(arrays(field="at", format="epoch_ms"), texts[3:], timedelta(seconds=1800))
    assert late == ([NOW - HOUR // 2], 0, 0)


def pipeline_of(**clusters: list[str]) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "adx",
            "kafka": [{"cluster": c, "bootstrap": f"{c}:9092", "topics": t} for c, t in clusters.items()],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///lake",
        }
    )


@pytest.mark.parametrize(
    ("clusters", "topic", "expected"),
    [
        ({"dc1": ["bids"]}, None, ("dc1", "bids")),
        ({"dc1": ["bids", "clicks"]}, "clicks", ("dc1", "clicks")),
        ({"dc1": ["bids"], "dc2": ["bids"]}, "dc2/bids", ("dc2", "bids")),
    ],
)
def test_the_topic_that_is_meant(clusters, topic, expected):
    cluster, name = choose(pipeline_of(**clusters), topic)
    assert (cluster.cluster, name) == expected


@pytest.mark.parametrize(
    ("clusters", "topic", "message"),
    [
        ({"dc1": ["bids", "clicks"]}, None, "--topic chooses one of dc1/bids, dc1/clicks"),
        ({"dc1": ["bids"]}, "other", "has no such topic: --topic chooses one of dc1/bids"),
        ({"dc1": ["bids"], "dc2": ["bids"]}, "bids", "more than one such topic.*dc1/bids, dc2/bids"),
    ],
)
def test_a_topic_that_is_not_clear(clusters, topic, message):
    with pytest.raises(WrongUse, match=message):
        choose(pipeline_of(**clusters), topic)


@pytest.mark.parametrize(
    ("field", "line", "expected"),
    [
        ("user", b'{"user": "u1"}', b"u1"),
        ("user", b'{"user": "\\u00e9\\"", "a": [1]}', 'é"'.encode()),
        ("user.id", b'{"a": {}, "user": {"id": 17}}', b"17"),
        ("user", b'{"user": 1.50}', b"1.50"),
        ("user", b'{"user": true}', b"true"),
        ("user", b'{"user": {"a": [1, 2]}}', b'{"a": [1, 2]}'),
        ("user", b'{"user": ""}', b""),
        ("user", b'{"user": null}', None),
        ("user", b'{"other": 1}', None),
        ("user.id", b'{"user": 5}', None),
        ("user", b"[1]", None),
        ("user", b"{", None),
        ("user", b'{"user": "\xff"}', None),
    ],
)
def test_the_key_is_the_field(field: str, line: bytes, expected: bytes | None):
    keys = RecordKeys(field)
    assert keys.of([line, b'{"user": {"id": "x"}}'])[0] == expected
    assert keys.missing == (expected is None)


@pytest.mark.parametrize(
    ("field", "line", "expected"),
    [
        ("user", b'[{"user": "u1"}, {"user": "u2"}]', b"u1"),
        ("user.id", b'[5, {}, {"user": {"id": null}}, {"user": {"id": 17}}, {"user": {"id": 18}}]', b"17"),
        ("user", b'[{"user": ""}, {"user": "u2"}]', b""),
        ("user", b"[{}, {}]", None),
        ("user", b"[]", None),
        ("user", b'{"user": "u1"}', None),
        ("user", b"[", None),
    ],
)
def test_the_key_of_an_array_is_the_field_of_its_first_element_that_has_it(
    field: str, line: bytes, expected: bytes | None
):
    keys = RecordKeys(field, arrays=True)
    assert keys.of([line, b'[{"user": {"id": "x"}}]'])[0] == expected
    assert keys.missing == (expected is None)


def test_without_a_field_there_are_no_keys():
    keys = RecordKeys(None)
    assert (keys.of([b"{}", b"1"]), keys.missing) == ([None, None], 0)


@pytest.mark.parametrize("field", ["a..b", ".", "a."])
def test_a_key_that_is_no_field(field: str):
    with pytest.raises(WrongUse, match="--key"):
        RecordKeys(field)
