"""The types that the inference proposes, as values, and their names in ClickHouse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.sql import identifier, listed, literal


@dataclass(frozen=True)
class Leaf:
    """A type without elements; `digits` are precision and scale, or those of a fraction of a second."""

    name: str
    digits: tuple[int, ...] = ()
    nullable: bool = False
    dictionary: bool = False

    @property
    def text(self) -> str:
        arguments = [*map(str, self.digits), *([literal("UTC")] if self.name == "DateTime64" else [])]
        text = f"{self.name}({listed(arguments)})" if arguments else self.name
        text = f"Nullable({text})" if self.nullable else text
        return f"LowCardinality({text})" if self.dictionary else text


@dataclass(frozen=True)
class ArrayOf:
    element: Inferred

    @property
    def text(self) -> str:
        return f"Array({self.element.text})"


@dataclass(frozen=True)
class MapOf:
    """A Map of texts to values of one type."""

    value: Inferred

    @property
    def text(self) -> str:
        return f"Map(String, {self.value.text})"


@dataclass(frozen=True)
class TupleOf:
    elements: tuple[tuple[str, Inferred], ...]

    @property
    def text(self) -> str:
        return f"Tuple({listed(f'{identifier(name)} {kind.text}' for name, kind in self.elements)})"


Inferred = Leaf | ArrayOf | MapOf | TupleOf

STRING = Leaf("String")
JSON = Leaf("JSON")


def holds_null(kind: Inferred) -> bool:
    return isinstance(kind, Leaf) and kind.nullable


def is_container(kind: Inferred) -> bool:
    """Returns whether ClickHouse has no Nullable of it. A JSON counts as one: its empty value says enough."""
    return not isinstance(kind, Leaf) or kind.name == "JSON"


def may_lack(kind: Inferred) -> Inferred | None:
    """Returns the type for a field that some events lack: NULL, or an object whose every element is NULL. An
    array, a Map and a JSON are empty then; a Tuple that holds one cannot be, and there is None."""
    if not isinstance(kind, TupleOf):
        return nullable(kind)
    elements = [(name, None if _is_array(inner) else may_lack(inner)) for name, inner in kind.elements]
    possible = tuple((name, inner) for name, inner in elements if inner is not None)
    return TupleOf(possible) if len(possible) == len(elements) else None


def nullable_inside(kind: Inferred) -> Inferred:
    """Returns the type with NULL where it can be; of an object each element, as deep as there are objects."""
    if not isinstance(kind, TupleOf):
        return nullable(kind)
    return TupleOf(tuple((name, nullable_inside(inner)) for name, inner in kind.elements))


def _is_array(kind: Inferred) -> bool:
    return is_container(kind) and not isinstance(kind, TupleOf)


def nullable(kind: Inferred) -> Inferred:
    """Returns the type with NULL beside its values; a container stays as it is."""
    return replace(kind, nullable=True) if isinstance(kind, Leaf) and not is_container(kind) else kind


# The thresholds of the inference, all in one place.
def any_type(_: str) -> bool:
    return True


MISFITS = 0.001


@dataclass(frozen=True)
class Rules:
    """What counts as few, many and stable.

    Args:
        certain: Sampled events from which on a field that all of them have is taken never to be missing, if
            its name says that it is an identifier or a time.
        misfits: Share of a field's values that a type may refuse; beyond it the type is widened.
        sure: Objects, or values, that have to agree before a Tuple relies on an element to be there.
        dictionary: Values that a LowCardinality needs; the different ones are at most a tenth of them.
        most_texts: Different texts that a LowCardinality has at most.
        map_keys: Different keys from which on objects with few keys each are a Map.
        tuple_keys: Different keys that a Tuple has at most.
        levels: Containers in containers; deeper ones are JSON or String.
        fills: Whether a load fills columns of a type. Types that it does not are not proposed.
    """

    certain: int = 10_000
    misfits: float = MISFITS
    sure: int = 100
    dictionary: int = 20
    most_texts: int = 1_000
    map_keys: int = 20
    tuple_keys: int = 100
    levels: int = 5
    fills: Callable[[str], bool] = any_type

    def may_refuse(self, count: int) -> int:
        """Returns how many of `count` values a type may refuse."""
        return int(count * self.misfits)
