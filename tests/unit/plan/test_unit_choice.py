"""Units of a range as a word of a command line, and back."""

from __future__ import annotations

import pytest

from sluice.errors import WrongUse
from sluice.plan.batches import spells
from sluice.plan.unit_choice import choice_text, read_choice
from sluice.slices import Unit
from tests.support.landing_world import hours

DAY = hours(24)
SLICES = list(DAY)


def units(cluster: str, *numbers: int) -> set[Unit]:
    return {Unit(SLICES[number], cluster) for number in numbers}


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        (units("dc1", 0), "dc1=0"),
        (units("dc1", 0, 1, 2, 3, 7), "dc1=0-3,7"),
        (units("dc2", 5) | units("dc1", 23, 22), "dc1=22-23;dc2=5"),
        (units("a.b_c", *range(24)), "a.b_c=0-23"),
        (set(), ""),
    ],
)
def test_there_and_back(chosen: set[Unit], text: str):
    assert choice_text(chosen, DAY) == text
    assert read_choice(text, DAY) == chosen


def test_only_what_lies_in_the_range():
    assert choice_text(units("dc1", 1, 2, 9), hours(2, first=2)) == "dc1=0"


@pytest.mark.parametrize(
    "text",
    ["dc1", "dc1=", "dc1=24", "dc1=-1", "dc1=0-99999999999", "dc1=a", "dc1=1-x", "dc1=5-3", "dc1=2,5-3"],
)
def test_what_is_none(text: str):
    with pytest.raises(WrongUse, match="names no units of"):
        read_choice(text, DAY)


def test_spells_have_no_holes():
    found = spells([SLICES[n] for n in (0, 1, 4, 6, 7)])
    assert found == [hours(2), hours(1, first=4), hours(2, first=6)]
    assert {one.length for one in found} == {SLICES[0].length}
