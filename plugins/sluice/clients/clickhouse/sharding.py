"""Which rows of a target belong on which of its shards. Pure.

Every row has exactly one place: the expression is the same on all shards, gives a number for every row (NULL
is 0), and each shard takes those of its own number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import Sql
from sluice.config.clickhouse import BY_PARTITION, ClickHouse, Shard


@dataclass(frozen=True)
class Placement:
    """The `number`-th of `count` shards; `sharding` is what the pipeline's ledger rows are stamped with."""

    shard: str = ""
    number: int = 0
    count: int = 1
    by: str = BY_PARTITION
    sharding: str = ""

    @property
    def alone(self) -> bool:
        """Whether every row belongs here."""
        return self.count == 1

    @property
    def by_partition(self) -> bool:
        return self.by == BY_PARTITION

    @property
    def stamp(self) -> str:
        """What the ledger says of the sharding that a unit was committed under; empty without shards."""
        return stamp(self.sharding, self.shard)

    def own(self, expression: Sql) -> Sql:
        """Returns the condition on a row that it belongs to this shard, by the integer that `expression`
        gives."""
        if self.alone:
            return Sql("1")
        return Sql(f"(ifNull(positiveModulo({expression}, {self.count}), 0) = {self.number})")

    @property
    def own_record(self) -> Sql:
        """The same by the Kafka partition, over the lake's columns."""
        return self.own(Sql("_partition"))

    @property
    def own_misfit(self) -> Sql:
        """The same over sluice.rejected: a misfit has no value to go by, so that its partition decides."""
        return self.own(Sql("partition"))

    @property
    def own_row(self) -> Sql:
        """The same over the target's columns, where an expression decides."""
        return self.own(Sql(f"({self.by})"))


ALONE = Placement()


_OF, _AND, _BY = " of ", ", ", " by "


def placement_in(stamp: str) -> Placement:
    """Returns the placement that a ledger row is stamped with: the unit's rows lie as it says, whatever
    shards the pipeline file lists now."""
    if not stamp:
        return ALONE
    shard, _, sharding = stamp.partition(_OF)
    listed = _listed(sharding)
    return Placement(shard, listed.index(shard), len(listed), sharding.partition(_BY)[2], sharding)


def absent(stamps: Iterable[str]) -> tuple[str, ...] | None:
    """Returns the shards that the placement of a unit's ledger rows names, and of which there is no row. None
    where the rows are not of one placement: they are being placed anew."""
    placements = [placement_in(stamp) for stamp in stamps]
    numbers = {placement.number for placement in placements}
    shardings = {placement.sharding for placement in placements}
    if len(shardings) != 1 or len(numbers) != len(placements):
        return None
    return tuple(name for n, name in enumerate(_listed(*shardings)) if n not in numbers)


def _listed(sharding: str) -> list[str]:
    return sharding.partition(_BY)[0].split(_AND)


def stamp(sharding: str, shard: str) -> str:
    return f"{shard}{_OF}{sharding}" if sharding else ""


def placement_of(clickhouse: ClickHouse, shard: Shard, table: str) -> Placement:
    """Returns the placement of the target `table` (database.table) on one of the shards."""
    if not clickhouse.shards:
        return ALONE
    number = clickhouse.shards.index(shard)
    by, sharding = clickhouse.placed_by(table), clickhouse.sharding(table)
    return Placement(shard.name, number, len(clickhouse.shards), by, sharding)
