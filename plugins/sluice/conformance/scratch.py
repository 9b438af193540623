"""A scratch database with what a load keeps, and attempts at loads in it by the protocol's own statements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property

import pendulum

from sluice.clients.clickhouse.client import STEADY, WRITE, Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable, staged_engine
from sluice.clients.connections import Connection
from sluice.config.clickhouse import ClickHouse
from sluice.errors import WrongUse
from sluice.flow.load.abilities import Abilities, abilities_of
from sluice.flow.load.changes import Changes
from sluice.flow.load.fencing import LoadAttempt, Reach, end_attempts
from sluice.flow.load.protocol import create_fence
from sluice.flow.load.shard_filter import NONE_LACKING
from sluice.flow.load.work import LoadWork
from sluice.flow.load.writer import Destination, Writer
from sluice.slices import Slice, Unit, from_seconds

DATABASE = "sluice_conformance"
UNITS = 30
SLOW_SECONDS = 3.0
"""So long takes what is made slow: about a tenth of a second for each unit."""
# Blocks of one row, each of which is inserted by itself.
_BY_ROW: dict[str, object] = {
    "max_block_size": 1,
    "max_threads": 1,
    "min_insert_block_size_rows": 0,
    "min_insert_block_size_bytes": 0,
    "min_insert_block_size_rows_for_materialized_views": 0,
    "min_insert_block_size_bytes_for_materialized_views": 0,
}
_CLUSTER = "c"
_START = pendulum.datetime(2026, 1, 1, tz="UTC")
_PARTITIONS = 3  # as conformance/create_target.sql has it
_PATIENCE = timedelta(seconds=30)


@contextmanager
def scratch_database(connection: Connection) -> Iterator[Scratch]:
    """Yields it empty, and removes it at the end, however that comes.

    Raises WrongUse for one that isn't empty, and what the client raises.
    """
    with (
        closing(open_client(connection, alone=True)) as client,
        closing(open_client(connection, alone=True)) as second,
        closing(open_client(connection, answer_seconds=1, alone=True)) as hasty,
    ):
        scratch = Scratch(client, second, hasty)
        if scratch.tables():
            raise WrongUse(
                f"database {DATABASE} of {client.address} isn't empty: if no other run is using it, "
                f"DROP DATABASE {DATABASE}"
            )
        try:
            scratch.create()
            yield scratch
        finally:
            scratch.remove()


@dataclass
class Scratch:
    """`client` waits for answers, `second` is another connection, and `hasty` hangs up after a second."""

    client: Client
    second: Client
    hasty: Client
    places: list[Place] = field(default_factory=list)

    def tables(self) -> list[str]:
        rows = self.client.rows(render("conformance/tables"), {"database": DATABASE})
        return [name for (name,) in rows]

    def create(self) -> None:
        self.client.run(render("conformance/create_database", database=identifier(DATABASE)))
        for statement in ("state/create_ledger", "state/create_rejected"):
            self.client.run(Sql(render(statement).replace("sluice.", f"{identifier(DATABASE)}.")))

    def remove(self) -> None:
        """Ends all statements, then drops all tables."""
        for place in self.places:
            place.end_attempts()
        for name in self.tables():
            self.drop(identifier(DATABASE, name))
        self.client.run(render("conformance/drop_database", database=identifier(DATABASE)))

    def drop(self, name: Sql) -> None:
        self.client.run(render("clickhouse/drop_table", table=name), settings=WRITE)

    def place(self) -> Place:
        """Makes a target that no attempt was at."""
        name = f"target{len(self.places)}"
        place = Place(self, f"{DATABASE}.{name}")
        self.client.run(render("conformance/create_target", target=table(place.name)))
        self.places.append(place)
        return place

    def values(
        self, values: str, of: str, condition: str = "1", client: Client | None = None
    ) -> list[tuple[object, ...]]:
        parts = {"values": Sql(values), "table": table(of), "condition": Sql(condition)}
        rows = (client or self.client).rows(render("conformance/values", **parts), settings=STEADY)
        return [tuple(row) for row in rows]

    def unfinished(self) -> list[str]:
        """Returns the mutations that are not done."""
        rows = self.client.rows(render("conformance/unfinished"), {"database": DATABASE})
        return [mutation for (mutation,) in rows]


State = tuple[list[tuple[object, ...]], ...]
"""The target's rows, its rejected rows, and its ledger."""


@dataclass
class Place:
    """A target, and what the scratch database has of attempts at it."""

    scratch: Scratch
    name: str

    @cached_property
    def target(self) -> TargetTable:
        found = read_table(self.scratch.client, *self.name.split("."))
        if found is None:
            raise WrongUse(f"the server has lost table {self.name} right after its CREATE")
        return found

    @cached_property
    def abilities(self) -> Abilities:
        return abilities_of(self.target.storage.family, ClickHouse(), replicas=False)

    @property
    def reach(self) -> Reach:
        return replace(self.abilities.reach, database=DATABASE)

    def attempt(self, generation: int, client: Client | None = None, slow: bool = False) -> Attempt:
        attempt = LoadAttempt(self.name, generation, 1, database=DATABASE)
        works = tuple(
            LoadWork(Unit(Slice(_START.add(hours=n)), _CLUSTER), "m", (), (), 1, generation > 1)
            for n in range(UNITS)
        )
        settings = {**self.abilities.writes, **(_BY_ROW if slow else {})}
        chosen = (client or self.scratch.client).reading({**STEADY, **self.abilities.reads})
        units = frozenset(work.unit for work in works)
        return Attempt(self, works, Writer(chosen, attempt, lambda: None, _unit, units, settings))

    def end_attempts(self) -> None:
        """Does what a successor does first."""
        end_attempts(self.scratch.client, self.name, lambda: None, self.reach, _PATIENCE)

    def state(self, client: Client | None = None) -> State:
        """Reads what is there now."""
        own = f"target = {literal(self.name)}"
        asked = (("n", self.name, "1"), ("offset", f"{DATABASE}.rejected", own))
        ledger = ("generation, toString(state), toUnixTimestamp(slice), rows", f"{DATABASE}.ledger", own)
        return tuple(self.scratch.values(*one, client) for one in (*asked, ledger))

    def changes_until(self, end: float) -> bool:
        """Returns whether anything changes until then, by time.monotonic()."""
        before = self.state()
        while time.monotonic() < end:
            if self.state() != before:
                return True
        return False

    @contextmanager
    def slow_inserts(self) -> Iterator[None]:
        """Makes each INSERT into the target slow."""
        view = identifier(DATABASE, "slow")
        sql = render("conformance/slow_inserts", view=view, table=table(self.name))
        self.scratch.client.run(sql)
        try:
            yield
        finally:
            self.scratch.drop(view)


@dataclass(frozen=True)
class Attempt:
    """One attempt at a load of one row, and one rejected row, for each unit."""

    place: Place
    works: tuple[LoadWork, ...]
    writer: Writer

    @property
    def numbers(self) -> list[tuple[object, ...]]:
        """The rows that it brings: no other generation's."""
        return [(self._first + n,) for n in range(UNITS)]

    @property
    def committed(self) -> list[tuple[object, ...]]:
        generation = self.writer.attempt.generation
        starts = (int(work.unit.slice.start.timestamp()) for work in self.works)
        return [(generation, "committed", start, 1) for start in starts]

    @property
    def _first(self) -> int:
        return self.writer.attempt.generation * 1_000_000

    def begin(self, rows: int = UNITS, slow: bool = False) -> None:
        """Makes the fence, which is `slow` to read, and stages rows and rejected rows."""
        own, target = self.writer.attempt, self.place.target
        create_fence(self.writer, self.works)
        parts = {"target": table(target.table), "engine": staged_engine(target)}
        self.writer.run("stage", render("load/create_staging", staging=own.staging, **parts))
        values = {"first": self._first, "start": int(_START.timestamp()), "units": UNITS, "cluster": _CLUSTER}
        filled = render("conformance/fill_staging", staging=own.staging)
        self.writer.run("stage", filled, {**values, "rows": rows})
        rejected = render("conformance/fill_rejected_rows", rejected_rows=own.rejected_rows)
        self.writer.run("stage", rejected, {**values, "target": self.place.name})
        if slow:
            beside = identifier(own.database, f"{own.fence_name}_rows")
            for statement in ("conformance/rename_fence", "conformance/slow_fence"):
                self.writer.run("fence", render(statement, fence=own.fence, rows=beside))

    def execute(self) -> None:
        """Loads as flow/load/protocol.py does."""
        self.begin()
        for step in ("revoke", "delete", "delete rejected rows", "reject"):
            STEPS[step](self)
        self.move()
        self.commit()
        self.place.end_attempts()

    @property
    def changes(self) -> Changes:
        own = self.writer.attempt
        ledger_values = {
            "pipeline": DATABASE,
            "lake": "",
            "target": self.place.name,
            "table_uuid": self.place.target.uuid,
            "generation": own.generation,
            "attempt": own.number,
            "token": "",
            "sharding": "",
            "rules": "",
            "columns": [],
        }
        return Changes(
            works=self.works,
            writer=self.writer,
            marks=self.place.abilities.marks,
            ledger_values=ledger_values,
            views=render("load/view_rows", fence=own.fence, stamps=Sql(""), each=Sql("")),
            lacking=render("load/lacking_by_unit", lacking=NONE_LACKING),
            counted=False,
            ledger=identifier(DATABASE, "ledger"),
            rejected=identifier(DATABASE, "rejected"),
        )

    def delete(self) -> None:
        target = self.place.target
        replicated = target.storage.replicated
        destination = Destination(target.table, "", target.projections, replicated, counted=True)
        self.changes.delete(destination, table(target.table))

    def insert(self) -> None:
        own, columns = self.writer.attempt, listed(map(identifier, self.place.target.filled))
        parts = {"target": table(self.place.name), "staging": own.staging, "fence": own.fence}
        self.writer.run("move", render("load/move_rows", columns=columns, **parts))

    def attach(self) -> None:
        own = self.writer.attempt
        keys = (literal(str(n)) for n in range(_PARTITIONS))
        partitions = listed(f"ATTACH PARTITION ID {key} FROM {own.staging}" for key in keys)
        parts = {"target": table(self.place.name), "partitions": partitions}
        self.writer.run("move", render("load/attach_partitions", **parts))

    def move(self) -> None:
        """Puts the staged rows into the target, as a load of its family does."""
        if self.place.target.attachable:
            self.attach()
        else:
            self.insert()

    def commit(self) -> None:
        self.changes.commit(self.writer.rows_by_unit(self.writer.attempt.staging))


STEPS: Mapping[str, Callable[[Attempt], None]] = {
    "revoke": lambda attempt: attempt.changes.revoke(),
    "delete": Attempt.delete,
    "delete rejected rows": lambda attempt: attempt.changes.delete_rejected_rows(),
    "reject": lambda attempt: attempt.changes.reject(),
    "attach": Attempt.attach,
    "insert": Attempt.insert,
    "commit": Attempt.commit,
}
"""The statements that change what stays."""


def _unit(start: int, cluster: str) -> Unit:
    return Unit(Slice(from_seconds(start)), cluster)
