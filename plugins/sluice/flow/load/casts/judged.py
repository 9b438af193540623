"""What a cast is in SQL, and how SQL names a part of it once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import Sql, both, either, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.exact_numbers import FieldText


class UnsupportedType(ValueError):
    """A type that no JSON value fits, or that Sluice does not fill."""


@dataclass(frozen=True)
class Cast:
    """`unfit`: `x` does not fit. There, and where `x` is NULL, `value` is NULL (a container: empty).

    `judged` is a tuple of both, computed once; where `lacks`, it says third whether a part of the value is
    missing and became a default. `where` is, of a rejected row, a tuple of the path inside the value
    (`[3].price`), the type that is wanted there, and the text that is there. `scalar` is the cast that
    both `value` and `unfit` of a container's item contain: NULL where `x` is NULL or does not fit.
    """

    value: str
    unfit: str
    container: bool = False
    judged: str = ""
    where: str = ""
    lacks: bool = False
    scalar: str = ""

    @property
    def pair(self) -> str:
        return self.judged or f"tuple({self.value}, {self.unfit})"


def unfit_of(x: str, value: str) -> str:
    """`value` is NULL and `x` is not, as one comparison: AND and OR cost more, as they evaluate lazily."""
    return f"(isNull({value}) > isNull({x}))"


def of_pair(pair: str, where: str, lacks: bool = False) -> Cast:
    """Returns the cast of a container by its `judged` expression."""
    value, unfit = f"tupleElement({pair}, 1)", f"tupleElement({pair}, 2)"
    return Cast(value, unfit, container=True, judged=pair, where=where, lacks=lacks)


def let(names: Iterable[tuple[str, str]], body: str) -> str:
    """Returns `body`, in which each name stands for its expression; else the text would double with each
    level."""
    pairs = list(names)
    listed = ", ".join(f"[{expression}]" for _, expression in pairs)
    return f"arrayElement(arrayMap(({', '.join(name for name, _ in pairs)}) -> {body}, {listed}), 1)"


def here(text: str, x: str) -> str:
    """Returns the place of a rejected row that is the whole value."""
    return f"tuple('', {literal(text)}, CAST({x}, 'Nullable(String)'))"


def inside(prefix: str, where: str, depth: int) -> str:
    """Returns `where` with an expression of a path before its own."""
    name = f"w{depth}"
    path = f"concat({prefix}, tupleElement({name}, 1))"
    return let([(name, where)], f"tuple({path}, tupleElement({name}, 2), tupleElement({name}, 3))")


MISSING = "missing"
"""What stands for the type of a value that has to be there: a type of that name there is not."""


def if_quoted(condition: str) -> list[Sql]:
    """Returns the condition, asked only in events that hold a string which begins like an array or object."""
    return [Sql(both("quoted_brackets", condition))] if condition else []


TWICE = "there twice"
"""What stands for the type where an object has a key twice, or a path in two spellings."""


def repeats(values: str) -> str:
    """Returns the condition that an array has two of the same."""
    return f"arrayExists(n -> n > 1, arrayEnumerateUniq({values}))"


@dataclass(frozen=True)
class Field:
    """A value's place: `x`, the expression of its text; see `cast`.

    `required`: a null does not fit. `default` is what a null becomes instead, and `there` the condition that
    it is a null, where it may also be a field that is missing. `filled`: elements of a named Tuple that are
    missing or null become their types' defaults.
    """

    x: str
    depth: int = 0
    key: FieldText = ""
    quoted: str = ""
    default: str = ""
    there: str = "0"
    required: bool = False
    filled: bool = False

    @property
    def text(self) -> str:
        """The text, empty where there is none."""
        return f"ifNull({self.x}, '')"

    @property
    def inner_key(self) -> FieldText:
        """Of what the value contains."""
        return None if self.key is None else ""

    def unfit(self, *bad: str) -> str:
        """Any of the conditions holds for a value that is there, or it has to be there and is not."""
        return f"if(isNotNull({self.x}), {either(*bad)}, {int(self.required)})"

    def where(self, kind: str, place: str) -> str:
        """Returns `place`, or that of the whole value: where it is missing, and where it is a string that
        reads as a container."""
        if self.quoted:
            place = f"if({both('quoted_brackets', self.quoted)}, {here(kind, self.x)}, {place})"
        if not self.required:
            return place
        return f"if(isNull({self.x}), {here(MISSING, self.x)}, {place})"


Caster = Callable[[Type, Field], Cast]
