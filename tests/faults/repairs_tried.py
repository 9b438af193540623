"""Tries each repair that `verify` prints, as it would be pasted, and takes its effect back: whatever it does,
every row that was right before it is there after it, in the tables and in the lake."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from sluice.clients.clickhouse.sql import identifier, literal
from sluice.init.init import statements_in

if TYPE_CHECKING:
    from tests.faults.damage import Damaged

_SQL = re.compile(
    r"(?:CREATE (?:TABLE|MATERIALIZED VIEW)|DELETE FROM|ALTER TABLE|DROP (?:TABLE|VIEW)) .*", re.DOTALL
)
_THEN = re.compile(r"(?:; |^)(?:then|when [^;]+ is created): .*", re.DOTALL)
_COPY, _OWN = "copied_", "sluice"
Rows = Counter[tuple[str, ...]]

_VARYING = {"clocked"}
"""Tables whose rows hold the time at which they were made."""


@dataclass
class Repairs:
    """What of one pipeline's rows is right, by table, and which repairs were tried already."""

    right: Mapping[str, Rows] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)


def repairs_in(anomalies: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the commands and the statements that the anomalies print, each once."""
    found: dict[str, None] = {}
    for anomaly in anomalies:
        if anomaly["command"]:
            found[anomaly["command"]] = None
        if statement := _SQL.search(_THEN.sub("", anomaly["advice"])):
            found[statement[0]] = None
    return list(found)


def rows_of(damaged: Damaged) -> dict[str, Rows]:
    """Every row of the target tables, and of the lake's files what says which record it is."""
    rows = {
        name: Counter(map(tuple, damaged.sql(_texts(damaged, name))))
        for name in _tables(damaged, "MergeTree")
        if name not in _VARYING
    }
    lake: Rows = Counter()
    for path in damaged.root.glob("type=*/**/*.parquet"):
        try:
            table = pq.read_table(path, columns=["_topic", "_partition", "_offset", "_payload"])
        except (OSError, ValueError):  # it is the damage
            continue
        lake.update(tuple(map(str, row.values())) for row in table.to_pylist())
    return {**rows, "": Counter(dict.fromkeys(lake, 1))}


def try_repairs(damaged: Damaged, known: Repairs, anomalies: Iterable[Mapping[str, Any]]) -> None:
    for repair in repairs_in(anomalies):
        known.tried.append(repair)
        before = rows_of(damaged)
        with _taken_back(damaged):
            _paste(damaged, repair)
            after = rows_of(damaged)
        for name, rows in known.right.items():
            lost = (rows & before.get(name, Counter())) - after.get(name, Counter())
            assert not lost, f"{repair} has lost of {name or 'the lake'}: {lost}"
        assert rows_of(damaged) == before


def _paste(damaged: Damaged, repair: str) -> None:
    """Runs a command as a shell takes it. Kafka and Spark are in this process, and so is the command."""
    if not repair.startswith("sluice "):
        for statement in statements_in(repair):
            damaged.client.run(statement)
        return
    shell = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\n' {repair}"], capture_output=True, text=True, check=True
    )
    assert shell.stdout.splitlines() == shlex.split(repair)
    code, said = damaged.command(repair)
    assert code in (0, 1), said  # where several things are broken, the run finds the others


@contextmanager
def _taken_back(damaged: Damaged) -> Iterator[None]:
    """Copies the lake's folder and all tables, and puts them back."""
    lake, copy = damaged.folder / "lake", damaged.folder / "lake.copy"
    shutil.copytree(lake, copy)
    tables = _tables(damaged)
    _keep(damaged, tables)
    try:
        yield
    finally:
        shutil.rmtree(lake)
        copy.rename(lake)
        _restore(damaged, tables)


def _keep(damaged: Damaged, tables: list[str]) -> None:
    for name in tables:
        source, copy = identifier(damaged.database, name), identifier(damaged.database, _COPY + name)
        damaged.client.run(f"CREATE TABLE {copy} AS {source}")
        damaged.client.run(f"INSERT INTO {copy} SELECT * FROM {source}")
    for name in ("ledger", "rejected"):
        copy = identifier(damaged.database, f"{_COPY}own_{name}")
        damaged.client.run(f"CREATE TABLE {copy} AS {_OWN}.{name}")
        damaged.client.run(f"INSERT INTO {copy} SELECT * FROM {_OWN}.{name} WHERE {_mine(damaged)}")


def _restore(damaged: Damaged, tables: list[str]) -> None:
    for name in set(_tables(damaged)) - set(tables):
        damaged.client.run(f"DROP TABLE {identifier(damaged.database, name)} SYNC")
    for name in tables:
        source, copy = identifier(damaged.database, name), identifier(damaged.database, _COPY + name)
        damaged.client.run(f"TRUNCATE TABLE {source}")
        parts = (
            "SELECT DISTINCT partition_id FROM system.parts WHERE active AND database = '{db}' AND table = "
        )
        for (partition,) in damaged.sql(parts + literal(_COPY + name)):
            damaged.client.run(f"ALTER TABLE {source} ATTACH PARTITION ID {literal(partition)} FROM {copy}")
        damaged.client.run(f"DROP TABLE {copy} SYNC")
    for name in ("ledger", "rejected"):
        copy = identifier(damaged.database, f"{_COPY}own_{name}")
        damaged.client.run(f"DELETE FROM {_OWN}.{name} WHERE {_mine(damaged)}")
        damaged.client.run(f"INSERT INTO {_OWN}.{name} SELECT * FROM {copy}")
        damaged.client.run(f"DROP TABLE {copy} SYNC")


def _mine(damaged: Damaged) -> str:
    return f"startsWith(target, {literal(damaged.database + '.')})"


def _tables(damaged: Damaged, engine: str = "%MergeTree") -> list[str]:
    listed = damaged.sql(
        "SELECT name FROM system.tables WHERE database = '{db}' AND engine LIKE "
        f"{literal(engine)} AND NOT startsWith(name, {literal(_COPY)}) ORDER BY name"
    )
    return [name for (name,) in listed]


def _texts(damaged: Damaged, name: str) -> str:
    return f"SELECT toString(tuple(*)) FROM {identifier(damaged.database, name)}"
