"""Random types of any nesting, each with its oracle, and JSON values that nearly fit them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.integration.fuzz_values import ANY, KINDS, Kind, Tokens
from tests.integration.generated import generate
from tests.support import oracle_nested as nested
from tests.support.oracle import loads, unreadable

_OF_A_LEAF = 80
_NAMES = ("a", "b", "id", "b c", "it's", "x.y", "é", "A", "back\\slash", "ti`ck")
# Those that clickhouse-connect reads as they are, or whose text in UTC is the value.
_LEAVES = tuple(
    kind
    for kind in KINDS
    if "(" not in kind.type.replace("Decimal(", "").replace("DateTime64(", "").replace("FixedString(", "")
    .replace("Enum8(", "")
    .replace("LowCardinality(String)", "")
    and "Berlin" not in kind.type
)  # fmt: skip


def scalar(kind: Kind, nullable: bool = False) -> nested.Scalar:
    shown = "String" if kind.read != "{}" else ""
    return nested.Scalar(kind.type, kind.oracle, shown, nullable, kind.default)


_BY_TYPE = {kind.type: kind for kind in _LEAVES}


def _of(name: str) -> nested.Scalar:
    return scalar(_BY_TYPE[name])


_NUMBER, _STRING = ("number",), ("string",)
VARIANTS = (
    nested.Variant(((_NUMBER, _of("UInt64")), (_STRING, _of("String")))),
    nested.Variant(
        (
            (("array",), nested.ArrayOf(_of("UInt8"))),
            (("bool",), _of("Bool")),
            (_NUMBER, _of("Int32")),
            (_STRING, _of("String")),
        )
    ),
    nested.Variant(
        (
            (_STRING, _of("Date")),
            (("object",), nested.MapOf(_of("String"), _of("UInt8"))),
            (_STRING, _of("UUID")),
            (_STRING, _of("String")),
        )
    ),
)
POINT = nested.Unnamed((_of("Float64"), _of("Float64")), "Point")
_leaf = st.builds(scalar, st.sampled_from(_LEAVES), st.booleans())
_keys = st.sampled_from([_of(name) for name in ("String", "UInt16", "Int64", "UUID", "Date")])


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True)
    named = names.flatmap(
        lambda found: st.tuples(*[inner] * len(found)).map(
            lambda kinds: nested.Named(tuple(zip(found, kinds, strict=True)))
        )
    )
    return st.one_of(
        st.builds(nested.ArrayOf, inner),
        st.builds(nested.MapOf, _keys, inner),
        *(named, named),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: nested.Unnamed(tuple(parts))),
    )


def of_depth(depth: int) -> st.SearchStrategy[Any]:
    if depth == 0:
        odd = st.sampled_from([*VARIANTS, nested.Dynamic(), POINT])
        return st.one_of(_leaf, _leaf, _leaf, odd)
    return _around(st.integers(0, depth - 1).flatmap(of_depth))


TYPES = st.integers(1, 4).flatmap(of_depth)


@cache
def _texts(name: str) -> tuple[str, ...]:
    """Thirty that fit for each that does not."""
    kind = _BY_TYPE[name]
    found = [one for one in generate(kind.tokens, _OF_A_LEAF, None) if not unreadable(loads(one), 1 << 63)]
    good = [one for one in found if kind.oracle(loads(one)) is not None and one != "null"]
    bad = [*(one for one in found if one not in good), "null", "[]", "{}", '"{}"', '"[1]"', "true"]
    return (*good * (30 * len(bad) // len(good) + 1), *bad)


def _rarely(other: Tokens, usual: Tokens) -> Tokens:
    return st.integers(0, 40).flatmap(lambda n: other if n == 0 else usual)


def tokens(kind: Any) -> Tokens:
    """JSON texts, of which most fit."""
    if isinstance(kind, nested.Scalar):
        return st.sampled_from(_texts(kind.type))
    if isinstance(kind, nested.ArrayOf):
        usual = st.lists(tokens(kind.inner), max_size=4).map(_array)
    elif isinstance(kind, nested.Unnamed):
        usual = st.tuples(*map(tokens, kind.parts)).map(_array)
    elif isinstance(kind, nested.MapOf):
        keys = st.sampled_from(
            [one for one in _texts(kind.key.type) if one.startswith('"')] or ['"1"', '"22"', '"x"']
        )
        usual = st.lists(
            st.tuples(keys, tokens(kind.inner)), max_size=3, unique_by=lambda pair: loads(pair[0])
        ).map(_object)
    elif isinstance(kind, nested.Named):
        usual = _objects(kind)
    elif isinstance(kind, nested.Variant):
        usual = st.one_of([tokens(part) for _, part in kind.parts])
    else:
        usual = ANY
    return _rarely(ANY, usual)


def _objects(kind: nested.Named) -> Tokens:
    parts = [
        _rarely(st.just(""), tokens(of)).map(lambda text, name=name: (json.dumps(name), text))
        for name, of in kind.fields
    ]
    more = st.sampled_from([(), (('"zz"', "[1]"),), (('"zz"', '"{"'),)])
    return st.tuples(st.tuples(*parts), more).map(lambda found: _object([*found[0], *found[1]]))


def _array(parts: Any) -> str:
    return "[" + ", ".join(parts) + "]"


def _object(pairs: Any) -> str:
    return "{" + ", ".join(f"{name}: {text}" for name, text in pairs if text) + "}"
