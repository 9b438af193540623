"""Any bytes and any JSON value as an event: one verdict, and the one that Python's own parser leads to."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.oracle import Number
from tests.unit.flow.land.test_parse import GOOD, HOUR, ISO, MS, NESTED, START, parse

_PATHS = {"type": ("type",), "at": ("at",)}
_NESTED_PATHS = {"type": ("meta", "kind", "name"), "at": ("meta", "at")}

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_moments = st.builds(
    lambda ms, form: form(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)),
    st.integers(-3 * HOUR, 4 * HOUR),
    st.sampled_from([datetime.isoformat, lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ"), lambda t: str(t)[:19]]),
)
_epochs = st.one_of(
    st.integers(START - 2 * HOUR, START + 3 * HOUR),
    st.integers(START // 1000 - 7200, START // 1000 + 10_800),
    st.floats(START / 1000 - 7200, START / 1000 + 10_800).map(lambda s: round(s, 3)),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(),
)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), _epochs, _texts, _moments, st.just("click"), st.just("")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(_texts, st.sampled_from(["type", "at", "meta", "kind", "name"])), inner),
    ),
    max_leaves=8,
)
_good = st.fixed_dictionaries(
    {"type": _texts | st.just("click"), "at": _moments | _epochs}, optional={"x": _values}
)
_flat = st.fixed_dictionaries(
    {}, optional={"type": _values | _texts, "at": _values | _moments | _epochs, "more": _values}
)
_kind = st.fixed_dictionaries({}, optional={"name": _values | _texts, "x": _values})
_meta = st.fixed_dictionaries({}, optional={"kind": _kind | _values, "at": _epochs | _values})
_good_meta = st.fixed_dictionaries({"kind": st.fixed_dictionaries({"name": _texts}), "at": _epochs})
_nested = st.fixed_dictionaries({}, optional={"meta": _good_meta | _meta | _values, "x": _values})
_spelled = st.sampled_from(['"type"', '"\\u0074ype"', '"at"', '"x"', '"name"', '"meta"'])
_again = st.builds(  # an event with one more member in front, which may be there already
    lambda data, name, value: data.replace(b"{", b"{%b:%b," % (name.encode(), value), 1),
    st.builds(lambda value: json.dumps(value).encode(), _good_meta.map(lambda meta: {"meta": meta}) | _good),
    _spelled,
    st.sampled_from([b"1", b'"a"', b"null", b'{"at":1}']),
)
_json = st.builds(
    lambda value, ascii_, gap: json.dumps(value, ensure_ascii=ascii_, indent=gap).encode(),
    st.one_of(_good, _flat, _good_meta.map(lambda meta: {"meta": meta}), _nested, _values),
    st.booleans(),
    st.sampled_from([None, None, 1]),
)


def _spoil(data: bytes, at: int, piece: bytes, cut: int) -> bytes:
    place = at % (len(data) + 1)
    return data[:place] + piece + data[place + cut :]


_pieces = st.one_of(
    st.just(b""), st.binary(max_size=3), st.sampled_from([b"\\ud800", b'"', b"}", b"NaN", b"\0"])
)
_spoiled = st.builds(_spoil, st.one_of(_json, st.just(GOOD)), st.integers(0, 400), _pieces, st.integers(0, 2))
RECORDS = st.lists(
    st.one_of(_json, _json, _again, _spoiled, st.binary(max_size=30), st.none()), min_size=1, max_size=12
)


def _refuse(name: str) -> None:
    raise ValueError(name)


def verdicts(data: bytes | None, paths: dict[str, tuple[str, ...]], form: str) -> set[Any]:
    """The verdicts that are right; more than one only where the JSON standard leaves it open."""
    if data is None:
        return {"no value"}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"not UTF-8"}
    try:
        event = json.loads(
            text, parse_constant=_refuse, parse_int=Number, parse_float=Number, object_pairs_hook=_Members
        )
    except ValueError:
        return {"not JSON"}
    found = _judge(event, paths, form)
    if any(_twice(event, path) for path in paths.values()):
        found = {verdict for verdict in found if isinstance(verdict, str)} | {"a field is there twice"}
    # RFC 8259, 8.2: what half a surrogate pair means is unpredictable.
    return found | {"half a surrogate pair"} if "\\ud" in text.lower() else found


class _Members(dict):
    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _twice(event: Any, path: tuple[str, ...]) -> bool:
    """Whether a name of the path is twice in one object, on the way that its last ones lead."""
    for name in path:
        if not isinstance(event, dict):
            return False
        if sum(own == name for own, _ in event.pairs) > 1:
            return True
        event = event.get(name)
    return False


def _judge(event: Any, paths: dict[str, tuple[str, ...]], form: str) -> set[Any]:
    if not isinstance(event, dict):
        return {"not an object"}
    kind, at = (_at(event, path) for path in paths.values())
    if kind is None:
        return {"no type"}
    if isinstance(kind, Number) and re.fullmatch(r"-?\d+", kind):
        kind = str(int(kind))
    if not isinstance(kind, str) or isinstance(kind, Number):
        return {"type is neither text nor a whole number"}
    if at is None:
        return {"no time", "no type"} if not kind else {"no time"}
    times = _times(at, form)
    if not kind:
        return {"no type"} | {t for t in times if isinstance(t, str)}
    return {t if isinstance(t, str) else (kind, t) for t in times}


def _at(event: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        event = event.get(name) if isinstance(event, dict) else None
    return event


def _times(value: Any, form: str) -> set[Any]:
    if not isinstance(value, str) or (isinstance(value, Number) and form == "iso8601"):
        return {"time not understood"}
    if form == "iso8601":
        return _iso(value)
    if not isinstance(value, Number) and not re.fullmatch(r"-?[0-9]{1,19}([.][0-9]+)?", value):
        return {"time not understood"}
    exact = Decimal(value) * (1000 if form == "epoch_s" else 1)
    near = {exact.to_integral_value(ROUND_FLOOR), (exact + Decimal("0.0005")).to_integral_value(ROUND_FLOOR)}
    double = {"time not understood"} if float(value) in (float("inf"), float("-inf")) else set()
    return {_ranged(int(max(min(ms, 10**18), -(10**18)))) for ms in near} | double


def _iso(text: str) -> set[Any]:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return {"time not understood"}
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    try:
        since = found - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError:
        return {"time out of range"}
    return {_ranged(since // timedelta(milliseconds=1))}


def _ranged(ms: int) -> Any:
    inside = START - HOUR <= ms <= START + 2 * HOUR
    return ms - START if inside else "time out of range"


FORMS = [(ISO, _PATHS, "iso8601"), (MS, _PATHS, "epoch_ms"), (NESTED, _NESTED_PATHS, "epoch_s")]


def test_every_record_has_the_verdict_that_pythons_parser_leads_to():
    met: Counter[tuple[str, str]] = Counter()

    @settings(max_examples=60, derandomize=True, database=None, deadline=None)
    @given(RECORDS)
    @example([b'{"type":"a","at":"2026-01-01T00:00:00Z","x":"\\ud800"}'])
    @example([b'{"type":"a","meta":{"kind":{"name":"b"}}}'])
    @example([b'{"type":"a","at":%d}' % START])
    @example([b'{"type":1,"at":1,"meta":{"kind":{"name":[]},"at":1}}'])
    @example([b'{"type":"a","at":"2027-01-01T00:00:00Z"}'])
    @example([b'{"type":"a","type":"b","at":1767225600}', b'{"type":"a","at":1e400}'])
    @example([b'{"type":"a","at":%d,"meta":{"kind":{"name":"b"},"at":%d}}' % (START - 2 * HOUR, 10**12)])
    def hold(values: list[bytes | None]) -> None:
        for event, paths, form in FORMS:
            found = parse(event, values)
            wanted = [verdicts(value, paths, form) for value in values]
            wrong = [(v, f, w) for v, f, w in zip(values, found, wanted, strict=True) if f not in w]
            assert wrong == []
            assert found == [parse(event, [value])[0] for value in values], "company makes a difference"
            met.update((form, f if isinstance(f, str) else "good") for f in found)

    hold()
    assert {form for form, verdict in met if verdict == "good"} == {form for _, _, form in FORMS}
    assert {verdict for _, verdict in met} >= {
        *("no value", "not UTF-8", "not JSON", "not an object", "no type"),
        *("type is neither text nor a whole number", "no time", "time not understood", "time out of range"),
    }
