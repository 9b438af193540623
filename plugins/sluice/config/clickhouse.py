"""The pipeline file's `clickhouse`: where the rows go, and which of several servers has which. The reference
is made of the models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from sluice.config.types import Duration, PlainName, Section, WrongKey

BY_PARTITION = "partition"
# What stands before a function's bracket: its name's quote, spaces, and comments, also one in another.
_BRACKET = r"""["`]?(?>\s|[\u200b-\u200d\u2060\ufeff]|/\*(?>[^*]|\*(?!/))*+\*/|\*/|(?:--|\#)[^\n]*+)*+\("""
# What may answer otherwise for the same row: on another server, another day, in another order. Of a word
# nothing is tried twice.
_UNSURE = re.compile(
    r"\b(SELECT|OVER|(?:rand\w*+|now\w*+|today|yesterday|generate\w++|dict\w++|joinGet\w*+|(?>\w*?UUID)\w*+"
    r"|hostName|FQDN|getMacro|getSetting|current\w++|rowNumber\w++|running\w++|neighbor|arrayJoin|block\w++"
    r"|uptime|version|tcpPort"
    rf"|shardNum)(?={_BRACKET}))",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"'(?:\\.|[^'\\])*'|`((?:\\.|[^`\\])+)`|\"((?:\\.|[^\"\\])+)\"|([A-Za-z_]\w*)\s*(\(?)|[\d.]+\w*"
)


def columns_in(expression: str) -> frozenset[str]:
    """Returns the names in an expression that are no functions."""
    return frozenset(
        quoted or double or word
        for quoted, double, word, bracket in _WORD.findall(expression)
        if quoted or double or (word and not bracket)
    )


# Of an expression: behind each function in a comment the rest is looked through.
_MOST_CHARACTERS = 1_000


class Shard(Section):
    """One part of the rows, on one server or on replicas: they are written through the first that can."""

    name: PlainName
    """Name of the shard, in errors, the ledger and the lake's leases. Example: `s1`"""
    connection: str | None = None
    """Airflow connection of its one server. Example: `ch1`"""
    replicas: tuple[str, ...] = ()
    """Airflow connections of its replicas; rows are written through the first that answers.
    Example: `[ch1a, ch1b]`"""

    @model_validator(mode="after")
    def _one_address(self) -> Shard:
        if (self.connection is None) == (not self.replicas):
            raise ValueError("expected exactly one of `connection` and `replicas`")
        return self

    @property
    def connections(self) -> tuple[str, ...]:
        return self.replicas or (self.connection or "",)


class ClickHouse(Section):
    """How the tables are reached."""

    connection: str = "clickhouse_default"
    """Airflow connection of the one server. Example: `ch1`"""
    shards: tuple[Shard, ...] = ()
    """Servers that hold a part of every table each, instead of `connection`."""
    shard_by: str | Mapping[str, str] = BY_PARTITION
    """What places a row, for all tables or by table: `partition` (the Kafka partition), or an expression over
    the columns that gives an integer. Its remainder by the number of shards is the place in the list.
    Example: `{events.clicks: cityHash64(user_id)}`"""
    quorum: Literal["auto"] | Annotated[int, Field(ge=0, strict=True)] = "auto"
    """Expert. How many replicas an INSERT waits for (`insert_quorum`). Example: `2`"""
    takeover: Duration = timedelta(minutes=10)
    """Expert. After that long a server ends a write to replicas, and another replica may take over.
    Example: `20m`"""
    read: Literal["auto", "pull", "push"] = "auto"
    """Expert. Whether the server pulls the lake's files or they are pushed to it; `auto` pulls where it can.
    Example: `push`"""
    named_collection: PlainName | None = None
    """Named collection on the server, by which it reads a lake in S3. Example: `lake`"""
    lease: Duration = timedelta(seconds=30)
    """Expert. Term of a table's lease: a loader that stands still for so long is replaced. Example: `1m`"""

    @model_validator(mode="after")
    def _consistent(self) -> ClickHouse:
        set_keys = self.model_fields_set
        if self.shards and "connection" in set_keys:
            raise ValueError("expected `connection` or `shards`, not both")
        if "shard_by" in set_keys and not self.shards:
            raise ValueError("`shard_by` is for `shards`, and there are none")
        names = [shard.name for shard in self.shards]
        if len(set(names)) != len(names):
            raise WrongKey(("shards",), "a shard's name is used twice")
        connections = [connection for shard in self.shards for connection in shard.connections]
        if len(set(connections)) != len(connections):
            raise WrongKey(("shards",), "a connection is used twice, and each shard and replica is a server")
        return self

    @field_validator("shard_by")
    @classmethod
    def _sure(cls, value: str | Mapping[str, str]) -> str | Mapping[str, str]:
        for expression in [value] if isinstance(value, str) else value.values():
            if len(expression) > _MOST_CHARACTERS:
                raise ValueError(f"expected an expression of at most {_MOST_CHARACTERS:,} characters")
            unsure = _UNSURE.search(expression)
            if unsure:
                raise ValueError(
                    f"expected the same answer for a row on every shard and day, not {unsure[1]}"
                )
        return value

    def check(self, tables: AbstractSet[str]) -> None:
        """Raises WrongKey for a table that the file does not have."""
        for name in () if isinstance(self.shard_by, str) else self.shard_by:
            if name not in tables:
                raise WrongKey(("clickhouse", "shard_by", name), "expected a table of this file")

    @property
    def parts(self) -> tuple[Shard, ...]:
        """The shards in their order; one `connection` is a single shard without a name."""
        return self.shards or (Shard.model_construct(name="", connection=self.connection),)

    def placed_by(self, table: str) -> str:
        """Returns what decides the shard of a row of the target `table` (database.table)."""
        return self.shard_by if isinstance(self.shard_by, str) else self.shard_by.get(table, BY_PARTITION)

    def sharding(self, table: str) -> str:
        """Names all that decides the shard of a row of the target: empty with one `connection`."""
        names = ", ".join(shard.name for shard in self.shards)
        return f"{names} by {self.placed_by(table)}" if names else ""
