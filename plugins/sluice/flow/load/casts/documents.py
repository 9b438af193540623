"""JSON columns: the strict judgement of their typed paths (flow/load/casts/casts.py).

ClickHouse casts what is there loosely: it has to be what the strict cast says. It takes a key `a.b` for the
path of two keys, too, and hides what is no object on the way; such events are rejected rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

from sluice.clients.clickhouse.sql import both, either, listed, literal, summed
from sluice.clients.clickhouse.types import Type, named
from sluice.flow.load.casts.judged import Cast, UnsupportedType, if_quoted

_NO_PATH = re.compile(r"SKIP |max_dynamic_(paths|types) ?=")  # the other arguments of a JSON
_MOST_KEYS = 6  # of one typed path: its spellings double with each


def paths_of(kind: Type) -> list[tuple[str, Type]]:
    """Returns (path, type) of a JSON's typed paths. Raises UnsupportedType."""
    paths = [named(argument) for argument in kind.arguments if not _NO_PATH.match(argument)]
    if any(name.count(".") >= _MOST_KEYS for name, _ in paths):
        raise UnsupportedType(kind.text)
    return paths


def text_at(x: str, name: str) -> str:
    return f"JSONExtract({_place(x, name.split('.'))}, 'Nullable(String)')"


def is_string(x: str, name: str) -> str:
    return f"JSONType({_place(x, name.split('.'))}) = 'String'"


def path_unfit(kind: Type, x: str, name: str, text: str, path_cast: Cast) -> str:
    keys = name.split(".")
    stored = f"getSubcolumn(accurateCastOrNull({x}, {literal(kind.text)}), {literal(name)})"
    # In an array two tuples with NULLs are the same; by themselves that is unknown.
    same = (f"[{stored}]", f"[{path_cast.value}]") if path_cast.container else (stored, path_cast.value)
    other = f"ifNull({same[0]} != {same[1]}, isNotNull({stored}))"
    odd = [f"JSONHas({_place(x, way)})" for way in _spellings(keys)]
    odd += [f"JSONType({_place(x, keys[:end])}) NOT IN ('Object', 'Null')" for end in range(1, len(keys))]
    return both(f"isNotNull({x})", either(both(f"isNotNull({text})", either(path_cast.unfit, other)), *odd))


def _place(x: str, keys: Sequence[str]) -> str:
    return f"assumeNotNull({x}), {listed(map(literal, keys))}"


def _spellings(keys: list[str]) -> list[list[str]]:
    """Returns the other ways to write a path of several keys: `a.b` as one key."""
    return [
        [".".join(keys[start:end]) for start, end in zip((0, *ends), (*ends, len(keys)), strict=True)]
        for count in range(len(keys) - 1)
        for ends in combinations(range(1, len(keys)), count)
    ]


def document(kind: Type, x: str, unfit_values: Sequence[str], quoted: str) -> str:
    """Returns the value of a JSON with these rejected rows of its typed paths."""
    value = f"accurateCastOrNull({x}, {literal(kind.text)})"
    wrong = [f"({summed(unfit_values)}) > 0"] if unfit_values else []
    wrong += if_quoted(quoted)
    return f"if({either(*wrong)}, NULL, {value})" if wrong else value
