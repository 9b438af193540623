"""The table that traffic counts are loaded into."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.counts.spec import OWN
from sluice.errors import TargetRefused
from sluice.load.columns import Column
from sluice.load.sql import identifier, table
from sluice.load.types import parse
from sluice.pipeline import Pipeline

_TYPES = {"hour": "DateTime('UTC')", "type": "LowCardinality(String)", "count": "UInt64"}
_HELD_BY = {"hour": ("DateTime", "DateTime64"), "type": ("String",), "count": ("UInt64", "Int64")}


def check_counts(name: str, columns: Iterable[Column]) -> None:
    """Raises TargetRefused unless the table can say what was counted: verify and the view need it."""
    known = {column.name: column for column in columns if column.filled}
    missing = [column for column in OWN if column not in known]
    if missing:
        added = ", ".join(f"ADD COLUMN {identifier(column)} {_TYPES[column]}" for column in missing)
        reason = f"it takes traffic counts and has no column {' and '.join(missing)}"
        raise TargetRefused(name, reason, f"ALTER TABLE {table(name)} {added}")
    for column in OWN:
        if parse(known[column].type).plain.name not in _HELD_BY[column]:
            reason = f"column {column} of traffic counts has type {known[column].type}"
            remedy = f"ALTER TABLE {table(name)} MODIFY COLUMN {identifier(column)} {_TYPES[column]}"
            raise TargetRefused(name, reason, remedy)


def creation_of(pipeline: Pipeline, name: str) -> str:
    """A CREATE TABLE for the counts as the pipeline file asks for them."""
    spec = next(one for one in pipeline.counts if one.table == name)
    by = dict.fromkeys(spec.by, "LowCardinality(Nullable(String))")
    own = {"_slice": "DateTime('UTC')", "_cluster": "LowCardinality(String)"}
    columns = ", ".join(f"{identifier(n)} {kind}" for n, kind in {**_TYPES, **by, **own}.items())
    return (
        f"create it: CREATE TABLE {table(name)} ({columns}) ENGINE = MergeTree PARTITION BY toYYYYMM(_slice) "
        "ORDER BY (hour, type, _slice)"
    )
