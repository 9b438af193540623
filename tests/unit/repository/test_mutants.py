"""How mutants are made, judged and listed (`make mutants`); no room is judged here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tests.mutants.__main__ import line, tally, together
from tests.mutants.equal import equal
from tests.mutants.imports import untouched
from tests.mutants.judge import KILLED, SURVIVED, Verdict
from tests.mutants.mutate import Mutant, mutants
from tests.mutants.rooms import ROOMS, ROOT
from tests.mutants.verdicts import Verdicts

SOURCE = dedent(
    '''
    """What it does."""

    from os import path

    Pairs = dict[str, int]
    LIMIT = 3


    class Box:
        size: int = 1

        @property
        def full(self) -> bool:
            """Whether nothing fits."""
            return self.size >= LIMIT


    def pairs(one, other):
        if not one:
            raise ValueError("no one")
        return list(zip(one, other, strict=True))
    '''
)


def changes(source: str, sql: bool = False) -> list[tuple[str, str]]:
    return [(mutant.function, mutant.change) for mutant in mutants("room", source, sql)]


def test_every_place_that_does_something_is_changed():
    assert changes(SOURCE) == [
        ("", "LIMIT = 3 → LIMIT = None"),
        ("", "LIMIT = 3 → LIMIT = 4"),
        ("Box", "size: int = 1 → size: int = None"),
        ("Box", "size: int = 1 → size: int = 2"),
        ("Box.full", "return self.size >= LIMIT → return self.size > LIMIT"),
        ("pairs", "if not one: → if one:"),
        ("pairs", 'raise ValueError("no one") → raise ValueError(None)'),
        ("pairs", "return list(zip(one, other, strict=True)) → return list(None)"),
        ("pairs", "return list(zip(one, other, strict=True)) → return list(zip(None, other, strict=True))"),
        ("pairs", "return list(zip(one, other, strict=True)) → return list(zip(one, None, strict=True))"),
    ]


def test_a_keyword_argument_is_left_out_and_a_positional_one_is_not():
    assert [
        change.split(" → ")[1] for _, change in changes("def f(x):\n    g(x, y=x)\n    h(*x, z=1)\n")
    ] == [
        "g(None, y=x)",
        "g(x, y=None)",
        "g(x, )",
        "h(*x, z=None)",
        "h(z=1)",
        "h(*x, )",
        "h(*x, z=2)",
    ]


def test_each_differs_from_the_source_in_its_change_alone():
    for mutant in mutants("room", SOURCE):
        before, after = mutant.change.split(" → ")
        assert SOURCE.replace(before, after) == mutant.source
        compile(mutant.source, "room", "exec")


def test_lines_that_move_keep_their_mutants_keys():
    moved = SOURCE.replace('"""What it does."""', '"""What it does,\nin two lines."""\n\nimport sys')
    assert [one.key for one in mutants("room", moved)] == [one.key for one in mutants("room", SOURCE)]


def test_the_same_change_twice_in_a_function_has_two_keys():
    assert changes("def f(x):\n    x += 1\n    x += 1\n") == [
        ("f", "x += 1 → x = 1"),
        ("f", "x += 1 → x -= 1"),
        ("f", "x += 1 → x += 2"),
        ("f", "x += 1 → x = 1 #2"),
        ("f", "x += 1 → x -= 1 #2"),
        ("f", "x += 1 → x += 2 #2"),
    ]


def test_sql_in_texts_is_changed_where_it_decides():
    source = "def f(x):\n    return f'if({x} >= 10 AND isNull({x}), x0 -> {x} + 1, NULL)'\n"
    assert [change.split(" → ")[1] for _, change in changes(source, sql=True)] == [
        "return f'if({x} > 10 AND isNull({x}), x0 -> {x} + 1, NULL)'",
        "return f'if({x} >= 11 AND isNull({x}), x0 -> {x} + 1, NULL)'",
        "return f'if({x} >= 10 OR isNull({x}), x0 -> {x} + 1, NULL)'",
        "return f'if({x} >= 10 AND isNull({x}), x0 -> {x} - 1, NULL)'",
        "return f'if({x} >= 10 AND isNull({x}), x0 -> {x} + 2, NULL)'",
    ]
    assert changes(source) == []


def test_rooms_are_files_with_tests_that_judge_them():
    for name, room in ROOMS.items():
        assert room.path.is_file(), name
        assert room.tests and all((ROOT / test).is_file() for test in room.tests), name


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


def test_what_is_listed_and_no_mutant_any_more_is_told():
    made = [Mutant("room", "f", "a → b", "b")]
    gone, other = ("room", "g", "a → b"), ("other", "f", "a → b")
    listed = {made[0].key: "it is the same", gone: "it was", other: "it is"}
    assert tally(made, [Verdict(SURVIVED, "", 1.0)], listed).stale == [gone]


def test_what_is_imported_before_the_forks_never_saw_the_room(tmp_path: Path):
    texts = {
        "p": "",
        "p.room": "",
        "p.direct": "from p.room import x",
        "p.indirect": "import p.direct",
        "p.late": "def f():\n    from p import room",
        "p.free": "import os\nfrom p import other",
        "p.other": "",
    }
    files = {name: tmp_path / f"{name}.py" for name in texts}
    for name, text in texts.items():
        files[name].write_text(text)
    assert untouched("p.room", files) == ["p", "p.free", "p.other"]


TEST = "tests/unit/test_slices.py::test_hour_is_the_default"
ONE = Mutant("slices", "f", "a → b", "b")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.jsonl"


def test_a_verdict_is_kept(store: Path):
    for verdict in (Verdict(SURVIVED, "", 1.0), Verdict(KILLED, TEST, 2.0)):
        Verdicts(store).put(ROOMS["slices"], ONE, verdict)
        assert Verdicts(store).get(ROOMS["slices"], ONE) == verdict
    assert Verdicts(store).by(ONE) == TEST
    assert Verdicts(store).get(ROOMS["slices"], replace(ONE, source="c")) is None
    assert [json.loads(text)["outcome"] for text in store.read_text().splitlines()] == [SURVIVED, KILLED]


def test_a_survivor_is_judged_again_by_other_tests(store: Path):
    Verdicts(store).put(ROOMS["slices"], ONE, Verdict(SURVIVED, "", 1.0))
    assert Verdicts(store).get(replace(ROOMS["slices"], judges=("unit/state/state",)), ONE) is None


def test_a_killed_one_is_judged_again_when_that_test_is_another(store: Path):
    Verdicts(store).put(ROOMS["slices"], ONE, Verdict(KILLED, TEST, 1.0))
    assert (
        Verdicts(store).get(replace(ROOMS["slices"], judges=("unit/slices", "unit/state/state")), ONE)
        is not None
    )
    said = json.loads(store.read_text())
    store.write_text(json.dumps({**said, "by": TEST.replace("hour", "day")}) + "\n")
    assert Verdicts(store).get(ROOMS["slices"], ONE) is None


def test_a_room_has_enough_when_nine_of_ten_are_killed_and_the_rest_is_listed():
    made = [Mutant("room", "f", f"{n} → x", str(n)) for n in range(10)]
    verdicts = [Verdict(KILLED if n else SURVIVED, "", 1.0) for n in range(10)]
    listed = {made[0].key: "it is the same"}
    counted = tally(made, verdicts, listed)
    assert (counted.mutants, counted.killed, counted.equal, counted.survived) == (10, 9, 1, [])
    assert counted.enough
    assert not tally(made, verdicts, {}).enough
    assert not tally(made[:9], verdicts[:9], listed).enough
    assert not tally(made, verdicts, {**listed, ("room", "g", "a → b"): "it was"}).enough
    assert tally([], [], {}).enough
    both = together([counted, tally(made, verdicts, {})])
    assert (both.mutants, both.killed, both.equal, len(both.survived)) == (20, 18, 1, 1)
    said = " ".join(line("all", both).split())
    assert said == "all 20 mutants 18 killed ( 90.0%) 1 equal 1 survived"


SMALL = """
TWO = 2


def one():
    return 1
"""
JUDGES = """
from little.small import TWO, one


def test_one():
    assert one() == 1


def test_two():
    assert TWO == 2
"""
# In a process of its own: it forgets what is imported, as no test may.
JUDGING = """
import json, sys
from pathlib import Path
from tests.mutants import judge
from tests.mutants.rooms import Room

judge.ROOT = Path(sys.argv[1])


class Small(Room):
    module = "little.small"
    path = judge.ROOT / "plugins/little/small.py"
    tests = ("tests/test_small.py",)


room = Small("small", ())
judge.warm(room)
for source in json.loads(sys.argv[2]):
    verdict = judge.judge(room, source, 2, [])
    print(verdict.outcome, verdict.by.rpartition("::")[2])
"""


def test_each_mutant_is_judged_by_itself(tmp_path: Path):
    """A package of one module, in place of Sluice's."""
    for place, text in (
        ("plugins/little/small.py", SMALL),
        ("tests/test_small.py", JUDGES),
        ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["plugins"]\n'),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    cases = [
        (SMALL, "survived "),
        (SMALL.replace("TWO = 2", "TWO = 3"), "killed test_two"),
        (SMALL.replace("TWO = 2", "TWO ="), "killed "),
        (SMALL.replace("return 1", "return 0"), "killed test_one"),
        (SMALL.replace("    return 1", "    while True:\n        pass"), "killed test_one"),
        (SMALL, "survived "),
    ]
    sources = json.dumps([source for source, _ in cases])
    command = [sys.executable, "-c", JUDGING, str(tmp_path), sources]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [said for _, said in cases], done.stderr
    assert (tmp_path / "plugins/little/small.py").read_text() == SMALL
