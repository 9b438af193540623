"""What a load relies on, a case each: a function that tries it and says what it sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.engine import Family
from sluice.clients.clickhouse.errors import UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.inspect_tables import lacking
from sluice.clients.clickhouse.sql import Sql, identifier, literal, render, table
from sluice.conformance.scratch import (
    DATABASE,
    SLOW_SECONDS,
    STEPS,
    UNITS,
    Attempt,
    Place,
    Scratch,
)
from sluice.errors import ClickHouseUnavailable, Fenced, TargetRefused
from sluice.flow.load.abilities import check_reach
from sluice.flow.load.changes import DELETIONS


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "doesn't hold"
    UNTRIED = "couldn't be tried"


@dataclass(frozen=True)
class Outcome:
    """`why`: one line."""

    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Case:
    name: str
    attempt: Callable[[Scratch], Outcome]


def cases(family: Family) -> Iterator[Case]:
    """Yields those of a server whose tables are of the family."""
    for right, place in rights(family):
        yield Case(f"right: {right} ON {place}", partial(has_right, right, Sql(place)))
    yield Case("settings of each statement", takes_settings)
    if family is Family.SHARED:
        yield Case("kill on all servers", kills_everywhere)
    yield Case("a load, and another in its place", loads)
    yield Case("reads after writes", reads_after_writes)
    yield Case("an insert is whole", inserts_whole)
    yield Case("equal inserts", inserts_equal_rows)
    yield Case("counts are those of the contents", counts)
    yield Case("a dropped table is gone", drops)
    yield Case("partitions are attached whole", attaches)
    yield Case("deletes whose fence is missing", deletes_without_fence)
    for step in STEPS:
        yield Case(f"asleep and overtaken: {step}", partial(is_refused_late, step))
    for step in (step for step in STEPS if step != "attach"):  # it makes links, and is done in a moment
        yield Case(f"cut off and killed: {step}", partial(ends_when_killed, step))


# The rights and settings that a load needs.

_OWN = ("CREATE DATABASE", "CREATE TABLE", "CREATE VIEW", "DROP TABLE", "SELECT", "INSERT", "ALTER DELETE")
_SYSTEM = ("projections", "processes", "mutations", "parts")


def rights(family: Family) -> Iterator[tuple[str, str]]:
    """Yields each right and its place."""
    yield from ((right, "sluice.*") for right in _OWN)
    yield from ((right, f"{DATABASE}.*") for right in ("SELECT", "INSERT", "ALTER DELETE"))
    yield from (("SELECT", f"system.{name}") for name in _SYSTEM)
    if family is Family.SHARED:
        yield from ((right, "*.*") for right in ("REMOTE", "CLUSTER"))


def has_right(right: str, place: Sql, scratch: Scratch) -> Outcome:
    missing = lacking(scratch.client, [right], place)
    return _fails("the user of the connection lacks it") if missing else _holds("the user has it")


def takes_settings(scratch: Scratch) -> Outcome:
    settings = {**WRITE, **scratch.place().abilities.writes}
    scratch.client.rows(render("clickhouse/evaluate", expression=Sql("1")), settings=settings)
    return _holds(f"the user may set all {len(settings)}")


def kills_everywhere(scratch: Scratch) -> Outcome:
    try:
        check_reach(scratch.client, scratch.place().target)
    except TargetRefused as error:
        return _fails(f"{error.reason}; {error.remedy}")
    return _holds("statements of all servers are seen")


# What one statement after another does.


def loads(scratch: Scratch) -> Outcome:
    place = scratch.place()
    for generation in (1, 2, 3):
        attempt = place.attempt(generation)
        attempt.execute()
        rows, rejected, ledger = place.state()
        if (rows, rejected) != (attempt.numbers, attempt.numbers):
            return _fails(f"after load {generation} the tables have {len(rows)} rows, not its own {UNITS}")
        if [row for row in ledger if row[:2] == (generation, "committed")] != attempt.committed:
            return _fails(f"after load {generation} the ledger has other rows than its commit's")
    return _holds("each of 3 loads leaves its own rows, rejected rows and ledger rows, and no others")


def reads_after_writes(scratch: Scratch) -> Outcome:
    """Reads on two connections, right after each statement."""
    place = scratch.place()
    clients = (scratch.client, scratch.second)
    for generation in range(1, 6):
        attempt = place.attempt(generation)
        attempt.begin()
        for client in clients:
            staged = scratch.values("n", f"{DATABASE}.{attempt.writer.attempt.staging_name}", client=client)
            if staged != attempt.numbers:
                return _fails(f"{len(staged)} of {UNITS} staged rows are seen after their INSERT")
        for step, expected in ((Attempt.delete, []), (Attempt.move, attempt.numbers)):
            step(attempt)
            for client in clients:
                rows = place.state(client)[0]
                if rows != expected:
                    return _fails(f"after {step.__name__} {len(rows)} rows are seen, not {len(expected)}")
    return _holds("each of 5 rounds sees what was staged, deleted and moved before, on two connections")


def inserts_whole(scratch: Scratch) -> Outcome:
    rows = 200_000
    attempt = scratch.place().attempt(1)
    attempt.begin(rows)
    attempt.insert()
    [(first,)] = attempt.numbers[:1]
    expected = (rows, rows, sum(range(int(str(first)), int(str(first)) + rows)))
    for name in (attempt.writer.attempt.staging, table(attempt.place.name)):
        [found] = scratch.client.rows(render("conformance/fingerprint", table=name))
        if tuple(found) != expected:
            return _fails(f"{name} has {found[0]:,} rows, {found[1]:,} of them different, of {rows:,}")
    return _holds(f"{rows:,} rows came through two statements")


def inserts_equal_rows(scratch: Scratch) -> Outcome:
    attempt = scratch.place().attempt(1)
    attempt.begin()
    attempt.insert()
    attempt.insert()
    rows = attempt.place.state()[0]
    if rows != sorted([*attempt.numbers, *attempt.numbers], key=str):
        return _fails(f"{len(rows)} rows are there after two equal inserts of {UNITS}")
    return _holds("both of two equal inserts stay")


def counts(scratch: Scratch) -> Outcome:
    attempt = scratch.place().attempt(1)
    attempt.begin()
    attempt.move()
    rows = attempt.place.state()[0]
    name = table(attempt.place.name)
    [(total,)] = scratch.client.rows(render("clickhouse/count_table", table=name))
    by_unit = attempt.writer.count_rows(name)
    if total != len(rows) or by_unit != {work.unit: 1 for work in attempt.works}:
        return _fails(f"of {len(rows)} rows {total} are counted, {sum(by_unit.values())} by unit")
    return _holds(f"{total} rows are counted, one for each unit, and read")


def drops(scratch: Scratch) -> Outcome:
    attempt = scratch.place().attempt(1)
    attempt.begin()
    own = attempt.writer.attempt
    for name in (own.fence_name, own.staging_name):
        scratch.drop(identifier(DATABASE, name))
        for client in (scratch.client, scratch.second):
            if _is_there(scratch, client, name):
                return _fails("it is still read after its DROP")
        if name in scratch.tables():
            return _fails("system.tables still lists it after its DROP")
    return _holds("no connection reads it any more")


def _is_there(scratch: Scratch, client: Client, name: str) -> bool:
    try:
        scratch.values("1", f"{DATABASE}.{name}", client=client)
    except ServerError as error:
        if error.code != UNKNOWN_TABLE:
            raise
        return False
    return True


def attaches(scratch: Scratch) -> Outcome:
    """Also where rows come by INSERT: a rehearsal attaches a partition."""
    attempt = scratch.place().attempt(1)
    attempt.begin()
    attempt.attach()
    if attempt.place.state()[0] != attempt.numbers:
        return _fails("the target has other rows than the partitions that were attached")
    return _holds(f"the {UNITS} rows of 3 partitions are there")


def deletes_without_fence(scratch: Scratch) -> Outcome:
    """Tries each form of the statement: it names the fence, and no such table is there."""
    place = scratch.place()
    place.attempt(1).execute()
    before = place.state()
    attempt = place.attempt(2)
    fence, marker = attempt.writer.attempt.fence, literal(attempt.writer.attempt.fence_name)
    units = Sql("(toDateTime(0), '')")
    for (_, replicated), statement in DELETIONS.items():
        marked = {"units": units, "marker": marker} if replicated else {}
        try:
            attempt.writer.run("delete", render(statement, table=table(place.name), fence=fence, **marked))
        except Fenced:
            pass
        else:
            return _fails(f"{statement}.sql was answered as if it had been done")
        if unfinished := scratch.unfinished():
            return _fails(f"mutation {unfinished[0]} waits for a table that isn't there")
    return _unchanged(place, before, f"{len(DELETIONS)} forms of it are refused at once")


# A loader that is asleep, or has gone away, in the middle of a statement.


def is_refused_late(step: str, scratch: Scratch) -> Outcome:
    """A loader sleeps before a statement, and a successor has ended its attempt when it goes on."""
    place = scratch.place()
    place.attempt(1).execute()
    asleep = place.attempt(2)
    asleep.begin()
    before = place.state()
    place.end_attempts()
    try:
        STEPS[step](asleep)
    except Fenced:
        return _unchanged(place, before, "it is refused, and changes nothing")
    return _fails("it was carried out after its attempt had been ended")


def ends_when_killed(step: str, scratch: Scratch) -> Outcome:
    """A loader goes away while a statement runs, and a successor ends its attempt."""
    place = scratch.place()
    place.attempt(1).execute()
    in_blocks = step == "insert"  # some are there when it is killed
    place.attempt(2).begin(slow=not in_blocks)
    attempt = place.attempt(2, scratch.hasty, slow=in_blocks)
    with place.slow_inserts() if in_blocks else nullcontext():
        return _cut_off(place, attempt, step)


def _cut_off(place: Place, attempt: Attempt, step: str) -> Outcome:
    end = time.monotonic() + SLOW_SECONDS * _READS.get(step, 1) + _MORE_SECONDS
    try:
        STEPS[step](attempt)
    except ClickHouseUnavailable:
        place.end_attempts()
    else:
        return _untried("the server answered before the loader could go away")
    if place.changes_until(end):
        return _fails("rows changed after the statement had been killed")
    if unfinished := place.scratch.unfinished():
        return _fails(f"mutation {unfinished[0]} stays after it has been killed")
    return _holds("nothing changes any more once it is killed")


_READS = {"commit": 3}  # of the fence, by one statement
_MORE_SECONDS = 1.5  # for all else that it does


def _unchanged(place: Place, before: object, why: str) -> Outcome:
    return _holds(why) if place.state() == before else _fails("it was refused, and yet rows have changed")


def _holds(why: str) -> Outcome:
    return Outcome(Verdict.HOLDS, why)


def _fails(why: str) -> Outcome:
    return Outcome(Verdict.FAILS, why)


def _untried(why: str) -> Outcome:
    return Outcome(Verdict.UNTRIED, why)
