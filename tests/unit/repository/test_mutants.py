"""The rooms of `make mutants` and its list of equal mutants name what is there; of one room, two sources are
judged."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.mutants.equal import equal
from tests.mutants.rooms import ROOMS, ROOT


def test_rooms_are_files_with_tests_that_judge_them():
    for name, room in ROOMS.items():
        assert room.path.is_file(), name
        assert room.tests and all((ROOT / test).is_file() for test in room.tests), name


def test_what_acts_in_a_room_is_there():
    for name, room in ROOMS.items():
        source = room.path.read_text()
        assert [one for one in room.acts if not re.search(rf"^(class|def) {one}\b", source, re.M)] == [], name


def test_every_listed_mutant_has_its_room_and_its_reason():
    reasons = equal()
    assert {room for room, _, _ in reasons} <= ROOMS.keys()
    assert all(" → " in change for _, _, change in reasons)
    assert all(len(reason.split()) > 3 for reason in reasons.values())


def test_every_listed_mutant_changes_lines_that_its_room_has():
    sources = {name: " ".join(room.path.read_text().split()) for name, room in ROOMS.items()}
    stale = []
    for room, function, change in equal():
        names = [name for name in function.split(".") if name]
        there = [re.search(rf"(class|def) {name}\b", sources[room]) for name in names]
        if not all(there) or change.split(" → ")[0] not in sources[room]:
            stale.append((room, function, change))
    assert stale == []


_JUDGED = """
from tests.mutants.judge import judge, warm
from tests.mutants.rooms import ROOMS
room = ROOMS["slices"]
source = room.path.read_text()
limit = 3 + 5 * warm(room)
for text in (source, source.replace("hour", "day")):
    print(judge(room, text, limit, []).outcome)
"""


def test_a_source_with_a_mistake_is_killed_and_the_right_one_survives():
    done = subprocess.run([sys.executable, "-c", _JUDGED], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["survived", "killed"], "")
