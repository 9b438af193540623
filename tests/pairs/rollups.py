"""The rollups of a case: their SELECTs, their tables, and the rows that they have to hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.pairs.fitting import Fit
from tests.pairs.options import Case

_UNIT = "_slice DateTime('UTC'), _cluster LowCardinality(String)"


@dataclass(frozen=True)
class Rollup:
    """`columns` are its table's own. `fits`: whether they take what the SELECT gives."""

    name: str
    select: str
    columns: str
    fits: bool = True

    @property
    def definition(self) -> str:
        return (
            f"CREATE TABLE {{db}}.{self.name} ({self.columns}, {_UNIT}) ENGINE = MergeTree ORDER BY tuple()"
        )

    def spec(self, db: str) -> dict[str, str]:
        """What the pipeline file says of it."""
        return {"from": f"{db}.main", "sql": f"{self.name}.sql"}


# A value and a column that does not take it: the rollup's cast stops it, and its table stays as it is.
NARROW = {
    "toUInt32(300)": "UInt8",
    "toInt16(-1)": "UInt64",
    "toInt256(repeat('9', 41))": "Int128",
    "toFloat64(1e30)": "Int64",
    "'none'": "UInt8",
    "toInt64(-1)": "UInt8",
    "toFloat64(0.5)": "UInt8",
    "toUInt64(70000)": "UInt16",
}
_PARTS = 4  # of the narrow ones, each case has one part
_BY_COUNTRY = Rollup(
    "by_country",
    "SELECT ifNull(country, '') AS who, count() AS events, uniqExact(user) AS users, sum(n) AS total "
    "FROM {source} GROUP BY who",
    "who String, events UInt64, users UInt64, total UInt64",
)


def rollups_of(case: Case) -> tuple[Rollup, ...]:
    if case.rollups == "narrow":
        return tuple(
            Rollup(f"narrow{number}", _casting(value, column), f"x {column}", fits=False)
            for number, (value, column) in enumerate(NARROW.items())
            if number % _PARTS == case.number % _PARTS
        )
    return {"none": (), "slice": (_BY_COUNTRY,)}[case.rollups]


def _casting(value: str, column: str) -> str:
    return f"SELECT accurateCast(materialize({value}), '{column}') AS x FROM {{source}}"


def reading(rollup: Rollup) -> str:
    names = {"by_country": "who, events, users, total"}
    return (
        f"SELECT toUnixTimestamp(_slice), _cluster, {names.get(rollup.name, 'x')} FROM {{db}}.{rollup.name}"
    )


def expected(rollup: Rollup, fits: Sequence[Fit]) -> Counter[tuple]:
    """Its rows, of the main table's rows on all shards."""
    if not rollup.fits:
        return Counter()
    return _by_country(fits)


def _by_country(fits: Sequence[Fit]) -> Counter[tuple]:
    groups: dict[tuple, list[Fit]] = defaultdict(list)
    for fit in fits:
        groups[fit.shard, fit.row.slice, fit.row.place[0], fit.values["country"] or ""].append(fit)
    return Counter(
        (*key[1:], len(some), len({one.values["user"] for one in some}), sum(one.values["n"] for one in some))
        for key, some in groups.items()
    )
