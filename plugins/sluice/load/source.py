"""The lake's rows as a SELECT for a staging INSERT: which files, which columns, which slice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.load.columns import LAKE, Filling
from sluice.load.decide import Work
from sluice.load.sql import Sql, identifier, listed, literal, render
from sluice.pipeline import Pipeline, Target
from sluice.slices import HOUR, Slice, Unit

FILES_PER_STATEMENT = 2000
_GLOB = frozenset("{}*?,")


@dataclass(frozen=True)
class Source:
    """One INSERT's worth of rows: a SELECT, and with `body` the rows themselves as an Arrow stream."""

    select: Sql
    body: bytes | None = None

    @property
    def format(self) -> Sql:
        return Sql("" if self.body is None else "FORMAT ArrowStream")


def keys_of(works: Iterable[Work]) -> list[tuple[Unit, str]]:
    return [(work.unit, file.key) for work in works for file in work.files]


def needed(filling: Filling, filtered: bool) -> tuple[str, ...]:
    """The lake's columns that the target's rows are made of."""
    wanted = {"_cluster", *filling.columns} | ({"_payload"} if filling.named else set())
    return tuple(name for name in LAKE if name in wanted or (filtered and name == "_type"))


def overflowing(works: Iterable[Work]) -> bool:
    """Whether a file holds several types, so that its rows have to be chosen by type."""
    return any(file.type is None for work in works for file in work.files)


def routed(pipeline: Pipeline, target: Target) -> Sql:
    """The condition on `_type` that says what `Pipeline.routed` says."""
    if not target.catch_all:
        return Sql(f"_type IN ({listed(map(literal, target.types))})")
    others = sorted(set(pipeline.types) - set(target.types))
    return Sql(f"_type NOT IN ({listed(map(literal, others))})" if others else "1")


def selected(columns: Sequence[str], named: Sequence[str] = ()) -> Sql:
    return listed([*map(identifier, ["_slice", *columns]), *named])


def structure(columns: Sequence[str], with_slice: bool) -> Sql:
    kinds = [f"{name} {LAKE[name]}" for name in columns]
    return literal(", ".join([*kinds, *(["_slice DateTime('UTC')"] if with_slice else [])]))


def pullable(root: str, key: str) -> bool:
    """Whether file() can be told the file's name: it reads these characters as a pattern."""
    return not _GLOB & set(root + key)


def pull(root: str, keys: Sequence[tuple[Unit, str]], columns: Sequence[str]) -> Source:
    """The files below the folder `root`, read by the server. A missing one is skipped without a word."""
    names = ",".join(key for _, key in keys)
    one_slice = {unit.slice for unit, _ in keys}
    select = render(
        "source_pull",
        columns=listed(map(identifier, columns)),
        slice=_slice_of(next(iter(one_slice))) if len(one_slice) == 1 else _slice_in_name(keys[0][0].slice),
        files=literal(f"{root}/{{{names}}}" if len(keys) > 1 else f"{root}/{names}"),
        structure=structure(columns, with_slice=False),
    )
    return Source(select)


def pulls(root: str, keys: Sequence[tuple[Unit, str]], columns: Sequence[str]) -> Iterable[Source]:
    for start in range(0, len(keys), FILES_PER_STATEMENT):
        yield pull(root, keys[start : start + FILES_PER_STATEMENT], columns)


def pushed(columns: Sequence[str], body: bytes) -> Source:
    select = render(
        "source_push",
        columns=listed(map(identifier, columns)),
        structure=structure(columns, with_slice=True),
    )
    return Source(select, body)


def _slice_of(piece: Slice) -> Sql:
    return Sql(f"toDateTime({int(piece.start.timestamp())}, 'UTC')")


def _slice_in_name(piece: Slice) -> Sql:
    pattern = "%Y-%m-%dT%HZ" if piece.length >= HOUR else "%Y-%m-%dT%H%MZ"
    return Sql(f"parseDateTime(substring(_file, 1, position(_file, 'Z')), '{pattern}', 'UTC')")
