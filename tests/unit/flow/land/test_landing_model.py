"""Every interleaving of a bounded model of the landing's commit and move (tests/models/landing_model.py)."""

from __future__ import annotations

import pytest

from sluice.clients.lake import layout
from sluice.flow.land.commit import commit_again
from sluice.manifest import LandedFile, Manifest
from sluice.slices import Unit
from sluice.state.file_moves import move
from sluice.state.manifests import read_manifest
from tests.models.landing_model import (
    Model,
    Rule,
    State,
    alarmed,
    lost,
    mixed,
    start,
    start_landed,
    unmarked,
)
from tests.support.exhaustive import Found, search
from tests.support.fakes import MemoryLake
from tests.support.landing_world import hours
from tests.support.manifests import made_manifest

FILLS, RELANDS = ("fill", "fill", "reland"), ("reland", "reland")
THREE = ("fill", "reland", "reland")
REMAKES = (("remake", "reland"), ("remake", "remake"), ("remake", "fill"), ("remake", "remake", "reland"))
ERASES = (
    ("erase", "reland"),
    ("erase", "erase"),
    ("erase", "fill"),
    ("erase", "remake"),
    ("erase", "erase", "reland"),
)


def wrong(state: State) -> bool:
    return lost(state) or mixed(state) or alarmed(state) or unmarked(state)


def explore(modes: tuple[str, ...], *off: Rule) -> Found[State]:
    found = search([start(len(modes))], Model(modes, frozenset(off)).moves, wrong)
    print(f"without {[rule.value for rule in off]}, {', '.join(modes)}:\n{found}")
    return found


@pytest.mark.parametrize("modes", [RELANDS, FILLS])
def test_landers_never_reach_a_wrong_state(modes: tuple[str, ...]):
    assert explore(modes).trace == ()


def stale(state: State) -> bool:
    """Records that a `reland` has brought since are gone."""
    return state.stale


def explore_landed(modes: tuple[str, ...], *off: Rule) -> Found[State]:
    """With a first generation of somebody else."""
    begin, model = start_landed(len(modes)), Model(modes, frozenset(off))
    found = search([begin], model.moves, lambda state: wrong(state) or stale(state))
    print(f"without {[rule.value for rule in off]}, {', '.join(modes)}:\n{found}")
    return found


@pytest.mark.parametrize("modes", [*REMAKES, *ERASES])
def test_a_remake_among_others_never_reaches_a_wrong_state(modes: tuple[str, ...]):
    assert explore_landed(modes).trace == ()


def test_a_remake_that_replaced_what_it_has_not_read_would_lose_records():
    found = explore_landed(("remake", "reland"), Rule.MADE_OF)
    assert found.last is not None
    assert stale(found.last)
    assert len(found.trace) == 21


def test_a_move_that_removed_what_its_manifest_has_kept_would_lose_it():
    found = explore_landed(("erase", "fill"), Rule.KEEP)
    assert found.last is not None
    assert lost(found.last)


def test_an_erasure_gets_to_a_second_generation_that_has_kept_a_file():
    def complete(state: State) -> bool:
        return state.manifest == state.mark == (2, 0) and state.files == {(2, 0)} and state.kept

    assert search([start_landed(2)], Model(("erase", "fill")).moves, complete).trace != ()


def test_a_remake_gets_to_a_second_generation_that_is_complete():
    def complete(state: State) -> bool:
        return state.manifest == state.mark == (2, 0) and state.files == {(2, 0)}

    assert search([start_landed(2)], Model(("remake", "fill")).moves, complete).trace != ()


def test_the_model_gets_to_a_second_generation_that_is_complete():
    def complete(state: State) -> bool:
        return state.manifest == state.mark == (2, 1) and state.files == {(2, 1)}

    assert search([start(2)], Model(("fill", "reland")).moves, complete).trace != ()


# The moves of the shortest way to a wrong state without the rule.
NEEDED = [
    (Rule.ASK_WHO_WON, RELANDS, lost, 3),
    (Rule.NOT_DELETE, RELANDS, lost, 7),
    (Rule.CREATE, RELANDS, lost, 10),
    (Rule.FINISH_FIRST, RELANDS, mixed, 16),
    (Rule.MARK_NAMES, RELANDS, lost, 16),
    (Rule.MARK_LAST, RELANDS, mixed, 17),
    (Rule.COPY_FIRST, RELANDS, mixed, 18),
    (Rule.LOOK_BACK, RELANDS, lost, 22),
    (Rule.MARK_COMPARED, ("fill", "reland"), unmarked, 24),
    (Rule.COMPARE_AND_SET, THREE, lost, 26),
]


@pytest.mark.parametrize(
    ("rule", "modes", "harm", "moves"), NEEDED, ids=lambda value: getattr(value, "name", None)
)
def test_without_a_rule_a_wrong_state_is_reached(rule: Rule, modes: tuple[str, ...], harm, moves: int):
    found = explore(modes, rule)
    assert found.last is not None
    assert harm(found.last)
    assert len(found.trace) == moves


def test_every_rule_is_tried():
    assert {rule for rule, *_ in NEEDED} | {Rule.MADE_OF, Rule.KEEP} == set(Rule)


def test_a_slow_copy_brings_an_older_file_back_and_loses_none():
    """In S3 a move is no rename. No manifest names what comes back, so no load reads it."""
    model = Model(("fill", "reland"), slow_copies=True)
    assert search([start(2)], model.moves, mixed).trace != ()
    assert search([start(2)], model.moves, lambda state: lost(state) or alarmed(state)).trace == ()


def drafted(lake: MemoryLake, attempt: str):
    """A draft of one unit whose one file is in the attempt."""
    unit = Unit(next(iter(hours(1))), "dc1")
    lake.put(f"_attempts/{unit.slice.id}/{attempt}/0.parquet", attempt.encode())

    def draft(generation: int) -> Manifest:
        folder = layout.event_folder("a", unit.slice.start.strftime("%Y-%m-%dT%H"))
        keys = (
            f"{folder}{unit.slice.id}-dc1-{generation}-0.parquet",
            f"_attempts/{unit.slice.id}/{attempt}/0.parquet",
        )
        files = (LandedFile(*keys, type="a", hour="2026-01-01T00", rows=1, bytes=1, sha256=""),)
        return made_manifest(
            "demo", unit.slice.id, "dc1", generation, attempt, (), files, (), 1, {}, 0, token=attempt
        )

    return unit, draft


@pytest.mark.parametrize("write", ["create", "replace"])
def test_a_reland_whose_answer_was_lost_is_not_written_over_a_later_one(write: str):
    """The trace that the model prints without LOOK_BACK, on the code itself."""
    lake = MemoryLake()
    if write == "replace":
        _, before = drafted(lake, "before")
        move(lake, [commit_again(lake, before)])
    unit, first = drafted(lake, "first")
    _, second = drafted(lake, "second")
    real = getattr(lake, write)

    def write_and_be_overtaken(*arguments) -> bool:
        setattr(lake, write, real)
        assert real(*arguments)
        move(lake, [commit_again(lake, second)])
        return False

    setattr(lake, write, write_and_be_overtaken)
    stands = commit_again(lake, first)
    move(lake, [stands])
    assert read_manifest(lake, unit) == stands
    assert {key: data[0] for key, data in lake.objects.items() if "type=" in key} == {
        stands.files[0].key: b"second"
    }
