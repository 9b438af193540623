"""Any JSON value at typed paths of a JSON, for a Nullable column with a DEFAULT, and on the way of a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.integration.fuzz_values import ANY, KINDS, Kind, Tokens
from tests.integration.generated import generate
from tests.integration.landed import Event, World, client_of, land, unit
from tests.integration.test_fuzz_columns import same
from tests.support.oracle import REJECTED, Expected, Verdict, loads, unreadable

pytestmark = pytest.mark.integration

VALUES = 120  # of each shape
MISSING = ""
BLANK = "1970-01-01 00:00:00.000"


def kind_of(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.type == name)


BYTE, MOMENT, SHORT = kind_of("UInt8"), kind_of("DateTime64(3, 'UTC')"), kind_of("UInt16")
PRICE, TEXT = kind_of("Decimal(18, 4)"), kind_of("String")


def at(names: tuple[str, ...], inner: Callable[[Any], Verdict], blank: Any, value: Any) -> Verdict:
    """What a path leads to: through objects only, and null or nothing is a missing field."""
    if value is None:
        return Expected(blank)
    if not names:
        return inner(value)
    return at(names[1:], inner, blank, value.get(names[0])) if isinstance(value, dict) else REJECTED


def document(value: Any) -> Verdict:
    """JSON(a UInt8, b.c DateTime64(3))."""
    if not isinstance(value, dict) or "b.c" in value:
        return REJECTED
    parts = [at(("a",), BYTE.oracle, 0, value), at(("b", "c"), MOMENT.oracle, BLANK, value)]
    if REJECTED in parts:
        return REJECTED
    certain = all(part.certain for part in parts) and not unreadable(value, 1 << 63)
    return Expected([part.value for part in parts], certain)


@dataclass(frozen=True)
class Shape:
    """`column` is filled by the event's `field`, which the tokens are values of; MISSING is none."""

    column: str
    definition: str
    field: str
    tokens: Tokens
    missing: Any
    null: Any
    oracle: Callable[[Any], Verdict]
    read: str = "{}"

    def expected(self, token: str) -> Verdict:
        if token == MISSING:
            return Expected(self.missing)
        value = loads(token)
        found = Expected(self.null) if value is None else self.oracle(value)
        return Expected(found.value, found.certain and not unreadable(value, 1 << 63)) if found else REJECTED


def objects(**fields: Tokens) -> Tokens:
    """JSON objects that have some of the fields."""
    parts = [st.one_of(st.just(MISSING), of.map(f'"{name}": {{}}'.format)) for name, of in fields.items()]
    return st.tuples(*parts).map(lambda found: "{" + ", ".join(part for part in found if part) + "}")


def often(aimed: Tokens) -> Tokens:
    return st.one_of(aimed, aimed, st.sampled_from([MISSING, "null"]), ANY)


def value(kind: Kind) -> Tokens:
    return st.one_of(kind.tokens, kind.tokens, st.just("null"), ANY)


_DOCUMENTS = objects(
    **{"a": value(BYTE), "b": st.one_of(objects(c=value(MOMENT), d=ANY), ANY), "b.c": st.just("1"), "z": ANY}
)
_PLAIN = objects(a=value(BYTE), b=objects(c=value(MOMENT)), z=st.just("1.5"))
SHAPES = [
    Shape(
        "j",
        "JSON(a UInt8, b.c DateTime64(3, 'UTC'))",
        "j",
        often(st.one_of(_PLAIN, _DOCUMENTS)),
        [0, BLANK],
        [0, BLANK],
        document,
        "[toString({}.a), toString({}.b.c)]",
    ),
    Shape("n", "Nullable(UInt16) DEFAULT 7", "n", often(value(SHORT)), 7, None, SHORT.oracle),
    Shape("s", "Nullable(String) DEFAULT 'x'", "s", often(value(TEXT)), "x", None, TEXT.oracle),
    Shape(
        "country",
        "Nullable(String)",
        "geo",
        often(st.one_of(objects(country=value(TEXT)), ANY)),
        None,
        None,
        partial(at, ("country",), TEXT.oracle, None),
    ),
    Shape(
        "price",
        "Decimal(18, 4)",
        "p",
        often(st.one_of(objects(q=st.one_of(objects(r=value(PRICE)), ANY)), ANY)),
        0,
        0,
        partial(at, ("q", "r"), PRICE.oracle, 0),
    ),
]
PATHS = {"country": "geo.country", "price": "p.q.r"}


@pytest.fixture
def world(clickhouse_server, tmp_path, name: str) -> World:
    made = World(tmp_path, client_of(clickhouse_server), name)
    made.sql("CREATE DATABASE {db}")
    return made


def payload(shape: Shape, token: str) -> str:
    return '{"type": "t"' + (f', "{shape.field}": {token}' if token else "") + "}"


def wrong(cases: list[tuple[Shape, str]], rows: dict[int, tuple], rejected: dict[int, str]) -> Iterator[str]:
    for number, (shape, token) in enumerate(cases):
        verdict, place = shape.expected(token), SHAPES.index(shape)
        named = rejected.get(number, "")
        if number in rejected and verdict is not None and verdict.certain:
            yield f"{shape.definition} of {token}: rejected, expected {verdict.value!r}"
        elif number in rejected and named.partition(".")[0] != shape.column and not unreadable(loads(token)):
            yield f"{shape.definition} of {token}: column {named!r} named"
        elif number in rows and verdict is None:
            yield f"{shape.definition} of {token}: became {rows[number][place]!r}, expected a rejection"
        elif number in rows and not same(texts(verdict.value), rows[number][place]):
            yield f"{shape.definition} of {token}: became {rows[number][place]!r}, not {verdict.value!r}"


def texts(value: Any) -> Any:
    return list(map(str, value)) if isinstance(value, list) else value


def test_every_value_is_exactly_there_or_rejected(world: World):
    cases = [(shape, token) for shape in SHAPES for token in generate(shape.tokens, VALUES, None)]
    columns = ", ".join(f"{shape.column} {shape.definition}" for shape in SHAPES)
    world.sql(
        f"CREATE TABLE {{db}}.t ({columns}, _offset Int64, _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )
    land(world.lake, unit(), [Event("t", payload(shape, token)) for shape, token in cases])
    world.load(world.pipeline({"t": {"table": "t", "columns": PATHS}}), unit())
    read = ", ".join(shape.read.replace("{}", shape.column) for shape in SHAPES)
    rows = {row[0]: row[1:] for row in world.sql(f"SELECT _offset, {read} FROM {{db}}.t")}
    rejected = dict(world.sql("SELECT offset, column FROM sluice.rejected WHERE target = '{db}.t'"))
    assert rows.keys() | rejected.keys() == set(range(len(cases)))
    assert len(rows) + len(rejected) == len(cases)
    for shape in SHAPES:
        numbers = {n for n, (of, _) in enumerate(cases) if of is shape}
        assert len(numbers & rows.keys()) > 10, shape.column
        assert len(numbers & rejected.keys()) > 5 or shape.column == "s"
    assert list(wrong(cases, rows, rejected)) == []
