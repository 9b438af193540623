"""The thresholds of the inference, all in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
