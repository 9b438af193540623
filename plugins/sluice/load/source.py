"""The lake's rows as a SELECT for a staging INSERT: which files, which columns, which slice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.load.columns import LAKE, Filling
from sluice.load.decide import Work
from sluice.load.place import Place
from sluice.load.sql import Sql, identifier, listed, literal, render
from sluice.pipeline import Pipeline, Target
from sluice.slices import HOUR, Slice, Unit

FILES_PER_STATEMENT = 2000


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


def needed(filling: Filling, filtered: bool, placed: bool = False) -> tuple[str, ...]:
    """The lake's columns that the target's rows are made of; `placed`: their partition decides the shard."""
    wanted = {"_cluster", *filling.columns} | ({"_payload"} if filling.named else set())
    wanted |= {"_partition"} if placed else set()
    return tuple(name for name in LAKE if name in wanted or (filtered and name == "_type"))


def overflowing(works: Iterable[Work]) -> bool:
    """Whether a file holds several types, so that its rows have to be chosen by type."""
    return any(file.type is None for work in works for file in work.files)


def routed(pipeline: Pipeline, target: Target) -> Sql:
    """The condition on `_type` that says what `Pipeline.routed` says."""
    if target.counted:
        return Sql("1")
    if not target.catch_all:
        return Sql(f"_type IN ({listed(map(literal, target.types))})")
    others = sorted(set(pipeline.types) - set(target.types))
    return Sql(f"_type NOT IN ({listed(map(literal, others))})" if others else "1")


def selected(columns: Sequence[str], named: Sequence[str] = ()) -> Sql:
    return listed([*map(identifier, ["_slice", *columns]), *named])


def structure(columns: Sequence[str], with_slice: bool) -> Sql:
    kinds = [f"{name} {LAKE[name]}" for name in columns]
    return literal(", ".join([*kinds, *(["_slice DateTime('UTC')"] if with_slice else [])]))


def pull(place: Place, keys: Sequence[tuple[Unit, str]], columns: Sequence[str]) -> Source:
    """The files, read by the server where it finds them."""
    one_slice = {unit.slice for unit, _ in keys}
    slice_ = _slice_of(next(iter(one_slice))) if len(one_slice) == 1 else _slice_in_name(keys[0][0].slice)
    names = [key for _, key in keys]
    asked = listed(map(identifier, columns))
    return Source(place.rows(names, asked, slice_, structure(columns, with_slice=False)))


def pulls(place: Place, keys: Sequence[tuple[Unit, str]], columns: Sequence[str]) -> Iterable[Source]:
    for start in range(0, len(keys), FILES_PER_STATEMENT):
        yield pull(place, keys[start : start + FILES_PER_STATEMENT], columns)


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
