"""The ClickHouse server is killed at its file operations in the middle of a load; one retry sets all right.

A load of a unit that replaces an older commit, of one that is done, and of a new one. It strikes once in each
stretch of the operations; every run chooses others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fault_log import FaultLog
from tests.faults.inserver import AFTER, BEFORE, Operation, shimmed
from tests.faults.inserver_load import NEW, Commit
from tests.faults.inserver_rig import Rig
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

STRETCHES, OF_THE_LONG_FORM = 3, 100
# What makes something visible or gone: done, but nobody is told of it.
TELLING = {"rename", "renameat2", "symlink", "unlink"}


@pytest.fixture
def rig(commit: Commit, tmp_path: Path) -> Iterator[Rig]:
    with shimmed(tmp_path) as server:
        yield Rig(server, tmp_path / "lake", commit)


def points(operations: list[Operation], long_form: bool, seed: int) -> list[tuple[int, int]]:
    """(operation, before or after it)."""
    chance, count = random.Random(seed), OF_THE_LONG_FORM if long_form else STRETCHES
    stretch = len(operations) / count
    struck = [operations[int((n + chance.random()) * stretch)] for n in range(count)]
    if not long_form:
        return [(o.number, n % 2) for n, o in enumerate(struck)]
    after = [(o.number, AFTER) for o in struck if o.kind in TELLING and "/tmp" not in o.path]
    return [(o.number, BEFORE) for o in struck] + after


@pytest.mark.parametrize("commit", per_commit(Commit))
def test_killed_at_a_file_operation(rig: Rig, long_form: bool, seed: int, fault_log: FaultLog) -> None:
    operations = rig.count()
    assert {"write", "rename", "unlink", "fdatasync"} <= {o.kind for o in operations}
    struck, failures = 0, []
    for at, phase in points(operations, long_form, seed):
        operation, wrong = rig.trial(at, phase)
        if operation is not None:
            struck += 1
            where = f"{rig.commit}, {'after' if phase else 'before'} {at} {operation.kind}"
            fault_log.add("kill", where, bool(wrong), victim="ClickHouse server at a file operation")
            failures += [f"{where} {operation.path}: {line}" for line in wrong]
        elif wrong:
            failures += [f"{rig.commit}, not killed: {line}" for line in wrong]
    assert failures == []
    # Background work makes the loads' counts differ a little: the last points may lie behind the end.
    assert struck >= 0.8 * len(points(operations, long_form, seed))


@pytest.mark.parametrize("commit", [Commit.VIEW])
@pytest.mark.long
def test_the_comparison_sees_what_is_wrong(rig: Rig) -> None:
    """A row that is twice, one that is lost, a rejected row, a sum, a revoked commit: each is told."""
    trials = rig.trials
    table, pipeline, _ = trials.prepare()
    trials.world.load(pipeline, *NEW)
    right = trials.state(table)
    for statement, seen in (
        (f"INSERT INTO {{db}}.{table} SELECT * FROM {{db}}.{table} LIMIT 1", ["rows", "shown", "sums"]),
        (f"DELETE FROM {{db}}.{table} WHERE n = 8", ["rows", "shown", "sums"]),
        (f"DELETE FROM sluice.rejected WHERE value = 'y' AND target = '{{db}}.{table}'", ["rejected"]),
        (
            "INSERT INTO sluice.ledger SELECT * REPLACE ('revoked' AS state, 99 AS generation) FROM ("
            f"SELECT * FROM sluice.ledger WHERE target = '{{db}}.{table}' LIMIT 1)",
            ["ledger"],
        ),
    ):
        trials.world.sql(statement)
        told = {line.partition(":")[0] for line in trials.differences(table, right)}
        assert set(seen) <= told
