"""Whether a number's text says what the event says: JSON numbers with a point or an exponent are doubles to
ClickHouse's parser, and beyond 15 digits a double's text may be another number's."""

from __future__ import annotations

import json

from sluice.load.sql import Sql, literal

SHORT = 15  # digits that a double always keeps (DBL_DIG of IEEE 754)
_NUMBERS = Sql(literal(r"-?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?"))


def exact(x: str, key: str) -> str:
    """The condition on `x`, the text of the field `key` (empty: not known, an element of a container).

    A long `x` that stands in the payload as the value of the only such key is exact: that is quickly seen.
    Else no number in the payload may be the same double in another spelling with a point or an exponent.
    """
    text = f"assumeNotNull({x})"
    spelled = f"t != {text} AND match(t, '[.eE]') AND JSONExtractFloat(t) = JSONExtractFloat({text})"
    slow = f"NOT arrayExists(t -> {spelled}, extractAll(_payload, {_NUMBERS}))"
    return (
        f"(length({x}) <= {SHORT} OR {_literally(text, key)} OR {slow})"
        if key
        else (f"(length({x}) <= {SHORT} OR {slow})")
    )


def _literally(text: str, key: str) -> str:
    """With a backslash in the payload, a key may be there in another spelling."""
    name = json.dumps(key, ensure_ascii=False)
    needles = [
        f"concat({literal(name + before)}, {text}, {literal(after)})"
        for before, after in ((":", ","), (":", "}"), (": ", ","), (": ", "}"), (':"', '"'), (': "', '"'))
    ]
    once = f"countSubstrings(_payload, {literal(name)}) = 1 AND position(_payload, {literal(chr(92))}) = 0"
    return f"({once} AND multiSearchAny(_payload, [{', '.join(needles)}]))"
