"""A target table, its columns, and the views that it feeds, as ClickHouse has them (inspect_tables.py)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.clients.clickhouse.engine import Engine, engine_of
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal
from sluice.clients.clickhouse.types import parse

_VIEW = re.compile(
    r"CREATE MATERIALIZED VIEW (?:`(?:\\.|[^`])*`|[^\s`.])+\.(?:`(?:\\.|[^`])*`|[^\s`])+"
    r"(?: UUID '[^']*')?(?P<refresh> REFRESH )?.*?"
    r"(?: TO (?P<database>`(?:\\.|[^`])*`|[^\s`.]+)\.(?P<table>`(?:\\.|[^`])*`|[^\s`(]+))?(?= |$)",
    re.DOTALL,
)
# Between REFRESH and TO stands the schedule, without brackets.
_REFRESHING = re.compile(
    r" REFRESH [^(]*? TO (?P<database>`(?:\\.|[^`])*`|[^\s`.]+)\.(?P<table>`(?:\\.|[^`])*`|[^\s`(]+)"
)

_CONTAINERS = ("Array", "Map", "Tuple")

_OWN = ".inner_id."  # how the server names the table of a view without TO


@dataclass(frozen=True)
class ViewTable:
    """A materialized view, and the table that it writes to when rows are inserted into its `source`.

    `view_columns` are the SELECT's, which is `select`. A table that two views write to is there twice.
    """

    view: str
    table: str
    engine: str
    sorting_key: str
    columns: tuple[Column, ...]
    view_columns: frozenset[str]
    projections: bool
    source: str = ""
    select: str = ""
    engine_full: str = ""

    @property
    def called(self) -> str:
        return called(self.table, self.view)

    @property
    def storage(self) -> Engine:
        return engine_of(self.engine, self.engine_full)

    @property
    def counted(self) -> bool:
        """Whether as many rows stay as were inserted."""
        return self.storage.keeps and " TTL " not in self.engine_full

    def as_merged(self, name: Sql) -> Sql:
        """Returns the rows of a table of this engine as merges put them together."""
        return _as_merged(self.storage, name)


def _as_merged(engine: Engine, name: Sql) -> Sql:
    return Sql(f"{name} FINAL") if engine.merges else name


@dataclass(frozen=True)
class OtherReader:
    """Something that gets the rows of `source`, and that is no materialized view; `engine` is empty where the
    user may not see what it is."""

    source: str
    view: str
    engine: str


@dataclass(frozen=True)
class TargetTable:
    """A target as it is now; `view_tables` are its views and the views of their tables, with the tables."""

    table: str
    uuid: str
    engine: str
    engine_full: str
    columns: tuple[Column, ...]
    projections: bool
    view_tables: tuple[ViewTable, ...]
    unseen: tuple[OtherReader, ...] = ()
    partition_key: str = ""
    sorting_key: str = ""
    expiring: tuple[str, ...] = ()  # columns whose TTL a temporary copy does not get
    ddl: tuple[str, ...] = ()  # the CREATE statements of it, its views and their tables

    @property
    def ttl(self) -> bool:
        """Whether rows may vanish by themselves."""
        return " TTL " in self.engine_full

    @property
    def storage(self) -> Engine:
        return engine_of(self.engine, self.engine_full)

    @property
    def counted(self) -> bool:
        """Whether the table keeps every row that is inserted."""
        return not self.ttl and not self.storage.merges

    def as_merged(self, name: Sql) -> Sql:
        """Returns the rows of a table of this engine as merges put them together."""
        return _as_merged(self.storage, name)

    @property
    def stored(self) -> tuple[ViewTable, ...]:
        """The tables in which the views' rows stay, each once."""
        stored = (view_table for view_table in self.view_tables if view_table.storage.stores)
        return tuple({view_table.table: view_table for view_table in stored}.values())

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of all tables in which a load's rows stay."""
        return (self.table, *(view_table.table for view_table in self.stored))

    @property
    def attachable(self) -> bool:
        """Whether parts may be handed over whole: no replica has to have them before the statement ends (a
        quorum is for INSERT only)."""
        engines = (self.storage, *(view_table.storage for view_table in self.view_tables))
        return not any(engine.replicated for engine in engines)

    @property
    def filled(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.filled)


def called(name: str, view: str) -> str:
    """Returns what a person calls the table that `view` writes to: one of its own has the view's name."""
    return view if name.partition(".")[2].startswith(_OWN) else name


def view_target(database: str, uuid: str, text: str) -> tuple[str, str] | None:
    """Returns (database, table) that a view of this definition writes to; None for one that refreshes by
    itself."""
    match = _VIEW.match(text)
    return None if match is not None and match["refresh"] else written_by(database, uuid, text)


def written_by(database: str, uuid: str, text: str) -> tuple[str, str]:
    """Returns what `view_target` does, also for a view that refreshes by itself."""
    match = _VIEW.match(text)
    if match is not None and match["refresh"]:
        match = _REFRESHING.search(text, match.start("refresh"))
    if match is not None and match["table"]:
        return _unquoted(match["database"]), _unquoted(match["table"])
    return database, f"{_OWN}{uuid}"


def schedule_of(text: str) -> str:
    """Returns how a view refreshes by itself, up to its columns; empty for one that INSERTs feed."""
    match = _VIEW.match(text)
    return "" if match is None or not match["refresh"] else text[match.start("refresh") :].partition("(")[0]


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith("`") else name


@dataclass(frozen=True)
class Column:
    """A row of system.columns; `default` is the DEFAULT's (or MATERIALIZED's …) expression.

    `reads` are the other columns that the default uses, where it is `computed`: only the server behind an
    INSERT can evaluate it, and it must not for rows that have a value, or NULL cannot ask for it. So what the
    rows are inserted into has two columns more, what the event gives and whether that is nothing, and the
    default reads these. Their names begin with `own` (sql.py). `altered`: the expression is not the
    table's, so that a table like it needs the change. `null`: the expression for a value that
    is missing or null, if neither NULL nor the DEFAULT of the table stands for it; both become `of_null`.
    """

    name: str
    type: str
    kind: str = ""
    default: str = ""
    computed: bool = field(default=False, compare=False)
    reads: tuple[str, ...] = field(default=(), compare=False)
    own: str = field(default="sluice_", compare=False)
    altered: bool = field(default=False, compare=False)
    null: str = field(default="", compare=False)
    of_null: str = field(default="", compare=False)

    @property
    def filled(self) -> bool:
        """Whether an INSERT may name it and stores it."""
        return self.kind in ("", "DEFAULT")

    @property
    def taken(self) -> bool:
        """Whether an INSERT may name it. EPHEMERAL ones are not stored; the DEFAULTs of others read them."""
        return self.filled or self.kind == "EPHEMERAL"

    @property
    def stored(self) -> bool:
        """Whether the table has values of it."""
        return self.filled or self.kind == "MATERIALIZED"

    @property
    def may_be_null(self) -> bool:
        return parse(self.type).stored.nullable

    @property
    def needs_constant(self) -> bool:
        """Whether its DEFAULT has to be constant, to be evaluated by the load, or `computed`."""
        by_itself = self.kind == "EPHEMERAL" or parse(self.type).stored.shape.name in _CONTAINERS
        return bool(self.default) and (self.may_be_null or by_itself)

    @property
    def given(self) -> str:
        return f"{self.own}given {self.name}"

    @property
    def missing(self) -> str:
        return f"{self.own}missing {self.name}"

    def inserted(self, value: Sql) -> Sql:
        """`value`, which is NULL for "take the DEFAULT". The server knows that of columns that it stores;
        DEFAULTs that read an EPHEMERAL one would get the NULL."""
        if self.null and not self.computed:
            return self._without_null(value)
        if self.may_be_null or (self.filled and not self.computed):
            return value
        if self.computed and parse(self.type).stored.shape.name in _CONTAINERS:
            return value
        nothing = f"defaultValueOfTypeName({literal(self.type)})"
        return Sql(f"ifNull({value}, {self._evaluated if self.default and not self.computed else nothing})")

    def _without_null(self, value: Sql) -> Sql:
        """The server brings two types under one only if one of them holds the other's values."""
        of_null = parse(self.of_null).stored
        nothing = f"CAST({self.null}, {literal(self.of_null)})"
        if self.of_null != self.type and of_null.shape.name not in _CONTAINERS:
            value = Sql(f"CAST({value}, {literal(f'Nullable({of_null.plain.text})')})")
        return Sql(f"ifNull({value}, {nothing})")

    @property
    def definition(self) -> Sql:
        added = "".join(f"{column}, " for column in self.added)
        return Sql(f"{added}{self._own}")

    @property
    def added(self) -> tuple[Sql, ...]:
        """The definitions of the two columns more."""
        if not self.computed:
            return ()
        given = Sql(f"{identifier(self.given)} {self.type} EPHEMERAL {blank(self.type)}")
        return given, Sql(f"{identifier(self.missing)} UInt8 EPHEMERAL {blank('UInt8')}")

    @property
    def changes(self) -> tuple[Sql, ...]:
        """What makes a table like the target one that the rows can be inserted into."""
        if not self.computed and not self.altered:
            return ()
        return (*(Sql(f"ADD COLUMN {column}") for column in self.added), Sql(f"MODIFY COLUMN {self._own}"))

    @property
    def _evaluated(self) -> str:
        return f"CAST({self.default}, {literal(self.type)})"

    @property
    def _own(self) -> Sql:
        default = self.default
        if self.computed:
            missing, given = identifier(self.missing), identifier(self.given)
            default = where(missing, self._evaluated, self.reads, given)
        return Sql(f"{identifier(self.name)} {self.type}" + (f" {self.kind} {default}" if self.kind else ""))


_SETTINGS = re.compile(r" SETTINGS \w+ = ")
# With a TTL a merge forgets rows. These stop every merge of a table.
_NO_MERGES = (
    "max_number_of_merges_with_ttl_in_pool = 0, max_bytes_to_merge_at_max_space_in_pool = 1, "
    "max_bytes_to_merge_at_min_space_in_pool = 1"
)


def staged_engine(table: TargetTable | ViewTable) -> Sql:
    """Returns the engine of a table of this server alone that keeps its rows, and whose parts fit `table`."""
    engine = table.storage.full
    if " TTL " not in engine:
        return Sql(engine)
    return Sql(f"{engine}{',' if _SETTINGS.search(engine) else ' SETTINGS'} {_NO_MERGES}")


# DEFAULT expressions that a load writes itself (tables.py).
def blank(kind: str) -> str:
    """Returns the type's default value, as no constant: of constants the server computes at once what other
    DEFAULTs make of them, and where that fails refuses the table."""
    return f"materialize(defaultValueOfTypeName({literal(kind)}))"


def where(condition: str, value: str, reads: Sequence[str], otherwise: str) -> str:
    """`value`, which reads these columns, where the condition (0 or 1) holds.

    In a DEFAULT the server evaluates both branches of if() for all rows, but a lambda for items that are
    there only. So the columns are arrays of one item or none, under their own names.
    """
    if reads:
        names = [identifier(name) for name in reads]
        items = listed(f"arrayResize([{name}], {condition})" for name in names)
        value = f"arrayElement(arrayMap(({listed(names)}) -> {value}, {items}), 1)"
    return f"if({condition}, {value}, {otherwise})"


# What a commit says of the materialized views whose rows it holds. Pure.
def view_stamps(target_table: TargetTable) -> dict[str, str]:
    """By table in which the views' rows stay 16 hexadecimal digits that stand for the table and for all
    SELECTs through which rows come to it."""
    return {view_table.table: _stamp(target_table, view_table.table) for view_table in target_table.stored}


def _stamp(target_table: TargetTable, name: str) -> str:
    upstream: set[str] = set()
    waiting = {name}
    while waiting:
        upstream |= waiting
        waiting = {
            view_table.source for view_table in target_table.view_tables if view_table.table in upstream
        } - upstream
    views = sorted(
        {
            (view_table.source, view_table.table, view_table.select)
            for view_table in target_table.view_tables
            if view_table.table in upstream
        }
    )
    return hashlib.sha256(repr((name, views)).encode()).hexdigest()[:16]
