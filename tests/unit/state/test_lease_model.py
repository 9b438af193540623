"""Every interleaving of two attempts in a model of the lease (three: tests/faults/test_races_model.py)."""

from __future__ import annotations

from itertools import product

import pytest

from sluice.crash_points import TableLoad
from tests.models.lease_model import COMMITTED, EMPTY, WHOLE, Model, State, wrong
from tests.models.lease_program import Rule, program
from tests.support.exhaustive import Found, search

EVERYTHING = frozenset()
STARTS = {"empty": EMPTY, "committed": COMMITTED}
FILLS, RELOADS = ("fill", "fill"), ("reload", "reload")


def explore(start: State, modes: tuple[str, ...], *off: Rule) -> Found[State]:
    found = search([start], Model(modes, frozenset(off)).moves, wrong)
    print(f"without {[rule.value for rule in off]}, {' then '.join(modes)}:\n{found}")
    return found


def test_every_step_of_the_code_is_in_the_model():
    assert list(dict.fromkeys(act.step for act in program(EVERYTHING))) == list(TableLoad)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("modes", list(product(("fill", "reload"), repeat=2)))
def test_two_attempts_never_reach_a_wrong_state(start: str, modes: tuple[str, str]):
    assert explore(STARTS[start], modes).trace == ()


@pytest.mark.parametrize("generation", [0, 1])
def test_the_model_gets_to_the_end(generation: int):
    """It would be right also if no attempt could commit: each of the two can."""

    def committed(state: State) -> bool:
        return state.ledger == (generation, True) and state.chunks == WHOLE

    assert search([COMMITTED], Model(RELOADS).moves, committed).trace != ()


# The moves of the shortest way to a wrong state without the rule.
NEEDED = [
    (Rule.REVOKE_FIRST, COMMITTED, RELOADS, 22),
    (Rule.DROP, EMPTY, FILLS, 51),
    (Rule.KILL, EMPTY, FILLS, 55),
    (Rule.CONDITION, EMPTY, FILLS, 61),
    (Rule.OWN_TABLES, EMPTY, FILLS, 59),
    (Rule.LEDGER_CONDITION, EMPTY, FILLS, 59),
    (Rule.RENEWAL, EMPTY, FILLS, 59),
    (Rule.DROP_FIRST, EMPTY, FILLS, 59),
    (Rule.KILL_MUTATIONS, COMMITTED, RELOADS, 70),
]


@pytest.mark.parametrize(
    ("rule", "start", "modes", "moves"), NEEDED, ids=lambda value: getattr(value, "name", None)
)
def test_without_a_rule_a_wrong_state_is_reached(
    rule: Rule, start: State, modes: tuple[str, ...], moves: int
):
    found = explore(start, modes, rule)
    assert found.last is not None
    assert found.last.ledger[1] and found.last.chunks != WHOLE
    assert len(found.trace) == moves


COUNTS = (Rule.COUNT_AFTER_DELETE, Rule.COUNT_BEFORE_COMMIT)


@pytest.mark.parametrize("off", [(Rule.DELETE, count) for count in COUNTS], ids=lambda rules: rules[1].name)
def test_one_count_alone_sees_that_nothing_was_deleted(off: tuple[Rule, ...]):
    assert explore(COMMITTED, RELOADS, *off).trace == ()


def test_without_both_counts_a_delete_that_did_nothing_is_not_seen():
    assert explore(COMMITTED, RELOADS, Rule.DELETE, *COUNTS).trace != ()


def test_every_rule_is_tried():
    assert {rule for rule, *_ in NEEDED} | {Rule.DELETE, *COUNTS} == set(Rule)
