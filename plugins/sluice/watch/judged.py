"""Which slices the watch judges by what they brought: each once, also those of hours without a watch. Pure.

known 09 … 20, judged before 18 19 20 → 18 19 20
known 10 … 21, judged before … 20     → 19 20 21
known 10 … 06, judged before … 20     → 21 22 … 06, and these once more with 07 and with 08
known 10 … 06, judged before nothing  → 04 05 06: an earlier watch may have judged the others
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from sluice.slices import Slice

JUDGED = 3
"""The newest slices, which are always judged: a problem of one hour is open until so many have come."""
CAUGHT_UP = timedelta(days=1)
"""So far back from the newest slice those are judged that no watch has judged."""

FirstJudged = Mapping[str, str]
"""By the id of a slice, that of the newest slice when it was judged first."""


def first_judged(known_slices: Iterable[Slice], before: FirstJudged) -> dict[str, str]:
    """Returns what the next watch gets as `before`; bounded to the slices of CAUGHT_UP."""
    slices = sorted(known_slices)
    if not slices:
        return dict(before)
    newest = slices[-1]
    recent = [
        slice_
        for number, slice_ in enumerate(reversed(slices))
        if number < JUDGED or newest.start - slice_.start < CAUGHT_UP
    ]
    return {slice_.id: before.get(slice_.id, newest.id if before else slice_.id) for slice_ in recent}


def to_judge(known_slices: Iterable[Slice], before: FirstJudged) -> list[Slice]:
    """Returns the newest JUDGED slices, and those that were first judged when one of these was the newest."""
    slices = sorted(known_slices)
    newest = {slice_.id for slice_ in slices[-JUDGED:]}
    first = first_judged(slices, before)
    return [slice_ for slice_ in slices if slice_.id in newest or first.get(slice_.id) in newest]
