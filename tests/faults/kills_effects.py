"""Notes what a flow writes, beside the points that it reaches: where two different effects have no point
between them, a step has been forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import wraps
from pathlib import Path

from sluice import concurrency
from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.folder import FolderLake
from sluice.flow.load.writer import Writer
from tests.faults.kills_points import note

EFFECT = "effect "
WRITES = ("create", "replace", "put", "delete", "finish", "move")
REPLACING = "put"  # FolderLake.replace calls it: one effect
# Renewals come at any moment; the others are notes for people, which no step depends on.
IGNORED = ("_leases", "_timings", "_verify", "_summary", "_history")
# One step, though it takes several statements of different kinds.
FENCING_OFF = ("DROP", "KILL")


def record(folder: Path) -> None:
    """Also lets units go one after another: side by side, one's effect may come between another's and its
    point."""
    concurrency._SIDE_BY_SIDE = 1
    for name in WRITES:
        _wrap_lake(name, folder)
    _wrap_create_each(folder)
    _wrap_writer(folder)
    _wrap_client(folder)


def without_point(trace: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of different effects that follow each other with no point between."""
    found, last = [], None
    for line in trace:
        if not line.startswith(EFFECT):
            last = None
            continue
        if last is not None and last != line:
            found.append((last, line))
        last = line
    return found


def room(key: str) -> str:
    """The kind of object, not which: `_slices manifest.json`, `_attempts`, `a landed file`."""
    first, last = key.partition("/")[0], key.rpartition("/")[2]
    if last.endswith(".parquet") and first != "_attempts":
        return "a landed file"
    first = first.partition("=")[0]
    return f"{first} {last}" if first == "_slices" or last == "_SUCCESS" else first


def _wrap_lake(name: str, folder: Path) -> None:
    real = getattr(FolderLake, name)

    @wraps(real)
    def write(self: FolderLake, *given: object) -> object:
        keys = list(given[0]) if name == "delete" else [given[-1] if name == "move" else given[0]]
        found = real(self, keys if name == "delete" else given[0], *given[1:])
        if found is False:  # another writer's bytes are there: nothing was written
            return found
        for kind in sorted({room(key) for key in keys}):
            if not kind.startswith(IGNORED):
                note(folder, f"{EFFECT}{REPLACING if name == 'replace' else name} {kind}")
        return found

    setattr(FolderLake, name, write)


def _wrap_create_each(folder: Path) -> None:
    real = FolderLake.create_each

    @wraps(real)
    def create_each(self: FolderLake, objects: Iterable[tuple[str, bytes]]) -> Iterator[bool]:
        written = list(objects)
        for (key, _), created in zip(written, real(self, written), strict=True):
            if created:
                note(folder, f"{EFFECT}create {room(key)}")
            yield created

    FolderLake.create_each = create_each


def _wrap_writer(folder: Path) -> None:
    real = Writer.run

    @wraps(real)
    def run(self: Writer, step: str, *given: object, **more: object) -> None:
        note(folder, f"{EFFECT}load {step}")
        real(self, step, *given, **more)

    Writer.run = run


def _wrap_client(folder: Path) -> None:
    real = Client.run

    @wraps(real)
    def run(self: Client, sql: str, *given: object, **more: object) -> None:
        settings = given[1] if len(given) > 1 else more.get("settings") or {}
        if "query_id" not in settings:  # else it is the writer's
            word = next(line for line in sql.splitlines() if not line.startswith("--")).split()[0].upper()
            note(folder, f"{EFFECT}ClickHouse {'fence off' if word in FENCING_OFF else word}")
        real(self, sql, *given, **more)

    Client.run = run
