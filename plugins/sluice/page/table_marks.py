"""How each table of a pipeline does in a range, in a word and a number. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.facts import targets_of
from sluice.flow.verify.verdict import OpenAnomaly
from sluice.page.models import TableMark, TableState, due_by
from sluice.slices import Slice


def table_marks(
    pipeline: Pipeline,
    lacking: Iterable[tuple[Slice, frozenset[str]]],
    anomalies: Iterable[OpenAnomaly],
    gone: Collection[str],
    slices: Collection[str],
    now: datetime,
) -> list[TableMark]:
    """Returns a mark for each table, in the order of the pipeline file. `lacking`: of units that landed
    the tables that lack them; `slices` are the ids of the range. An hour that need not be complete yet is not
    behind."""
    targets, due = targets_of(pipeline), due_by(pipeline.settle, pipeline.slice, now)
    lacked: dict[str, set[str]] = {name: set() for name in targets}
    overdue: dict[str, set[str]] = {name: set() for name in targets}
    wrong: dict[str, set[str]] = {name: set() for name in targets}
    for slice_, tables in lacking:
        for name in tables:
            lacked[name].add(slice_.id)
            if slice_.end < due:
                overdue[name].add(slice_.id)
    for one in anomalies:
        if one.breaks and one.table in wrong:
            wrong[one.table].update(name for name in one.slices if name in slices)
    return [
        _mark(name, name in gone, len(lacked[name]), len(overdue[name]), len(wrong[name])) for name in targets
    ]


def _mark(table: str, gone: bool, lacked: int, overdue: int, wrong: int) -> TableMark:
    if gone:
        return TableMark(table=table, state=TableState.MISSING, hours=lacked)
    if wrong:
        return TableMark(table=table, state=TableState.WRONG, hours=wrong)
    return TableMark(table=table, state=TableState.BEHIND if overdue else TableState.HEALTHY, hours=overdue)
