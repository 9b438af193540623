"""Some units of a range, and not all: what of a batch is landed and loaded. Pure.

As a word of a command line: `dc1=0-3,7;dc2=5` names slices of each cluster by their numbers in the range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.errors import WrongUse
from sluice.slices import Slice, SliceRange, Unit


def choice_text(units: Iterable[Unit], within: SliceRange) -> str:
    """Returns those of the units that lie in the range as text."""
    numbers: dict[str, list[int]] = {}
    for unit in sorted(set(units)):
        if within.start <= unit.slice.start < within.end:
            numbers.setdefault(unit.cluster, []).append(_number(unit.slice, within))
    return ";".join(
        f"{cluster}={','.join(_spans(slice_numbers))}" for cluster, slice_numbers in sorted(numbers.items())
    )


def read_choice(text: str, within: SliceRange) -> frozenset[Unit]:
    """Raises WrongUse for a text that `choice_text` does not make."""
    slices, units = list(within), set[Unit]()
    try:
        for part in filter(None, text.split(";")):
            cluster, _, numbers = part.rpartition("=")
            for span in numbers.split(","):
                first, _, last = span.partition("-")
                chosen = range(int(first), int(last or first) + 1)
                if not chosen:
                    raise IndexError(span)
                units.update(Unit(slices[number], cluster) for number in chosen)
    except (ValueError, IndexError):
        raise WrongUse(f"{text[:60]!r} names no units of {within}: expected such as dc1=0-3,7") from None
    return frozenset(units)


def _number(slice_: Slice, within: SliceRange) -> int:
    return int((slice_.start.timestamp() - within.start.timestamp()) // within.length.total_seconds())


def _spans(numbers: Iterable[int]) -> Iterator[str]:
    """Yields `0-3` for neighbours, and single numbers."""
    first = last = -2
    for number in numbers:
        if number != last + 1:
            if last >= 0:
                yield _span(first, last)
            first = number
        last = number
    yield _span(first, last)


def _span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}-{last}"
