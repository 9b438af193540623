"""What Sluice keeps in ClickHouse beside the targets: the ledger, rejected rows, claims and views."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.engine import Family, engine_of
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.hidden_rows import check_visible
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, literal, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import SluiceError, TargetRefused, TargetTaken

# state/create_ledger.sql writes it into the table's comment.
LEDGER_FORMAT = 1
_FORMAT = re.compile(r"format (\d+)")
_TABLES = {
    "ledger": "state/create_ledger",
    "rejected": "state/create_rejected",
    "targets": "state/create_targets",
}
# The server's own macros {shard} and {replica}, as in ClickHouse's documentation of ReplicatedMergeTree.
_REPLICATED = "ReplicatedMergeTree('/clickhouse/tables/{{shard}}/sluice/{name}', '{{replica}}')"


class _OwnTable(NamedTuple):
    engine: str
    comment: str


def create_system_tables(client: Client, verify: str, replicated: bool = False) -> None:
    """Creates the missing tables; repeatable. `verify`: the command that names what a new ledger lacks.
    `replicated`: each replica of the shard has the same ledger.

    Raises SluiceError for a newer Sluice's ledger, and TargetRefused for one that is not replicated, or
    hidden in part.
    """
    tables = _own_tables(client)
    _check_format(client, tables.get("ledger"))
    if missing := _TABLES.keys() - tables.keys():
        client.run(render("state/create_database"))
        for name in sorted(missing):
            engine = _REPLICATED.format(name=name) if replicated else "MergeTree"
            client.run(render(_TABLES[name]).replace("ENGINE = MergeTree", f"ENGINE = {engine}"))
        tables = _own_tables(client)
    if replicated:
        _check_replicated(client, verify, tables)
    _check_visible(client, tables)


def check_system_tables_visible(client: Client) -> None:
    """Raises TargetRefused where the user sees a part of the tables alone. Some may not be there yet."""
    _check_visible(client, _own_tables(client))


def _check_visible(client: Client, tables: Iterable[str]) -> None:
    check_visible(client, [f"{SYSTEM}.{name}" for name in tables if name in _TABLES])


def _own_tables(client: Client) -> dict[str, _OwnTable]:
    return {name: _OwnTable(*row) for name, *row in client.rows(render("state/own_tables"))}


def _check_replicated(client: Client, verify: str, tables: Mapping[str, _OwnTable]) -> None:
    for name, own_table in tables.items():
        if engine_of(own_table.engine).family is not Family.REPLICATED:
            raise TargetRefused(
                f"{SYSTEM}.{name}",
                f"its engine is {own_table.engine} on {client.address}, and the shard has replicas: the next "
                "one would not know what is committed",
                f"RENAME TABLE {SYSTEM}.{name} TO {SYSTEM}.{name}_old on each replica; it is made anew, and "
                f"`{verify}` names what fills it",
            )


def _check_format(client: Client, ledger: _OwnTable | None) -> None:
    """Raises SluiceError when a newer Sluice has changed what the ledger's rows mean; its comment says so."""
    stated = _FORMAT.search(ledger.comment) if ledger else None
    if stated and int(stated[1]) > LEDGER_FORMAT:
        raise SluiceError(
            f"sluice.ledger in ClickHouse {client.address} has format {stated[1]}, newer than this Sluice's "
            f"{LEDGER_FORMAT}: upgrade"
        )


@dataclass(frozen=True)
class Claims:
    """Which of some tables are `own`, and the refusals of those that are another pipeline's. A table that is
    nobody's is in neither: the first load claims it, and no row of it is the pipeline's before."""

    own: frozenset[str]
    taken: tuple[TargetTaken, ...]


def read_claims(client: Client, pipeline: Pipeline, lake_root: str, tables: Iterable[str]) -> Claims:
    """Asks whose the tables are: who reads rows of a table, or writes them, asks first."""
    own, taken = set[str](), []
    asked = {"targets": sorted(set(tables))}
    for name, owner, lake in _unless_new(client, render("state/read_claims"), asked):
        if (owner, lake) == (pipeline.name, lake_root):
            own.add(name)
        else:
            taken.append(_taken(name, owner, lake, pipeline, lake_root))
    return Claims(frozenset(own), tuple(taken))


def _unless_new(client: Client, sql: Sql, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """Returns nothing of a server that was never loaded."""
    try:
        return client.rows(sql, parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return ()
        raise


def _taken(name: str, owner: str, lake: str, pipeline: Pipeline, lake_root: str) -> TargetTaken:
    return TargetTaken(
        name,
        f"it belongs to pipeline {owner!r} with lake {lake}, not to {pipeline.name!r} with {lake_root}",
        "list the topics in one pipeline, or give this one a table of its own; if the other one is gone: "  # noqa: S608 - printed, and quoted
        f"DELETE FROM sluice.targets WHERE target = {literal(name)}",
    )


def check_owner(client: Client, pipeline: Pipeline, lake_root: str, target: Target) -> bool:
    """Returns whether the target is this pipeline's already, or none's. Raises TargetTaken for another's."""
    return target.table in own_tables(client, pipeline, lake_root, [target.table])


def own_tables(client: Client, pipeline: Pipeline, lake_root: str, tables: Iterable[str]) -> frozenset[str]:
    """Returns those that are this pipeline's already. Raises TargetTaken for another's."""
    claims = read_claims(client, pipeline, lake_root, tables)
    for error in claims.taken:
        raise error
    return claims.own


def read_rejected_rows(
    client: Client, statement: str, pipeline: Pipeline, own: Collection[str], parameters: Mapping[str, Any]
) -> Sequence[Sequence[Any]]:
    """Runs a statement of include/sql over the pipeline's rows of sluice.rejected in its `own` tables.
    Returns nothing where there is no such table yet."""
    if not own:
        return ()
    asked = {**parameters, "targets": sorted(own), "pipeline": pipeline.name}
    return _unless_new(client, render(statement), asked)


def lease_of(client: Client, target: Target, shard: str) -> str:
    """Returns what the lease of the target on this server is named after: the table, and on a shard its name.

    It stays what the first load made it, so that a shard of another name, or none, waits for its predecessor.
    """
    rows = client.rows(render("state/read_lease"), {"target": target.table})
    name = rows[0][0] if rows else _new_lease(target, shard)
    return name or target.table


def _new_lease(target: Target, shard: str) -> str:
    return f"{target.table}@{shard}" if shard else ""


def claim(client: Client, pipeline: Pipeline, lake_root: str, target: Target, shard: str = "") -> None:
    """Makes the target this pipeline's. Raises TargetTaken when another claim came first."""
    if not check_owner(client, pipeline, lake_root, target):
        parameters = {"target": target.table, "pipeline": pipeline.name, "lake": lake_root}
        client.run(render("state/claim_target"), {**parameters, "lease": _new_lease(target, shard)})
        check_owner(client, pipeline, lake_root, target)


def create_view(client: Client, target_table: TargetTable) -> None:
    """Creates sluice.`database.table`, the view of committed slices only. Replaces one that selects anything
    else, or was made for another shape of the table."""
    shape = repr((target_table.uuid, [(c.name, c.type, c.kind) for c in target_table.columns]))
    digest = hashlib.sha256(shape.encode()).hexdigest()[:16]
    comment = f"committed slices of {target_table.table}; made for {digest}"
    if _view(client, target_table) != [(1, comment)]:
        view, select = identifier(SYSTEM, target_table.table), _committed_slices(target_table)
        sql = render("state/create_view", view=view, select=select, comment=literal(comment))
        client.run(sql, settings=WRITE)


def view_stands(client: Client, target_table: TargetTable) -> bool:
    """Returns whether readers see the committed slices, and nothing else."""
    return [stands for stands, _ in _view(client, target_table)] == [1]


def _view(client: Client, target_table: TargetTable) -> list[tuple[int, str]]:
    """Returns (whether it selects what it should, comment) of the readers' view; nothing where there is
    none."""
    asked = {"database": SYSTEM, "name": target_table.table, "select": _committed_slices(target_table)}
    return [(stands, comment) for stands, comment in client.rows(render("state/view_stands"), asked)]


def _committed_slices(target_table: TargetTable) -> Sql:
    target, units = target_table.as_merged(table(target_table.table)), committed_units(target_table)
    return render("state/committed_slices", target=target, units=units)


def committed_units(target_table: TargetTable) -> Sql:
    """Returns the SELECT of the slices and clusters that are committed in the table, for it to be read by."""
    name, uuid = literal(target_table.table), literal(target_table.uuid)
    return render("state/committed_units", target_name=name, table_uuid=uuid)
