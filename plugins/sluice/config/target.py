"""`tables:` in the pipeline file: the table of a type, and what fills its columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from sluice.config.times import TimeSpelling
from sluice.config.types import FirstField, PlainName, QualifiedTable, Section, WrongKey
from sluice.named_file import read_named_text
from sluice.time_grammar import Spelled

TARGET_KEYS = ("table", "columns", "evolve", "evolve_rows", "missing", "times", "checks", "latest")
"""What of a target stands in the file; the rest is made of other keys."""


Missing = Literal["object", "default", "reject"]
"""What has to be there for a column to take its default: the object that lacks the field, nothing, or no row
takes one."""
OTHERS = "*"


OnFail = Literal["warn", "reject", "hold"]
MOST_CHECKS = 50


class RowCheck(Section):
    """What every row of a table has to meet. A row fails where the condition is false or NULL."""

    sql: str = Field(min_length=1, max_length=2_000)
    """Condition on the columns of one row, in ClickHouse's SQL, of at most 2,000 letters.
    Example: `total >= 0`"""
    on_fail: OnFail
    """`warn` counts the rows that fail, `reject` makes them rejected rows, `hold` keeps the whole hour out of
    the table until somebody releases it. Example: `reject`"""

    @field_validator("sql")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("expected a condition")
        return value


class Latest(Section):
    """A second table with the newest row of each key, a ReplacingMergeTree that is read with FINAL. A column
    may be named by the field that fills it."""

    table: QualifiedTable
    """The table, as `database.table`. Example: `shop.customer`"""
    key: tuple[str, ...] = Field(min_length=1, max_length=16)
    """Columns whose values tell the keys apart, the table's ORDER BY. Example: `[id]`"""
    version: tuple[str, ...] = Field((), max_length=8)
    """Columns that say which row is newer, the first above all; null is oldest: Bool, integers of up to 64
    bits, dates, times, Enums. Rows that are the same in them, or all rows without it, count by hour, then by
    offset. Example: `[source.lsn]`"""
    deleted: str | None = None
    """Column that says whether the row deletes its key: true, a number other than 0, or the text `true` or
    `d`. Example: `__deleted`"""

    @model_validator(mode="after")
    def _names_once(self) -> Latest:
        for key, names in (("key", self.key), ("version", self.version)):
            if len(set(names)) != len(names):
                raise WrongKey((key,), "a column is named twice")
        return self


class Target(Section):
    """One target table: the types that it takes, and where a column is not named like its field.

    `counted`: it takes no events, but the traffic counts that the landing made for it; `rollup`: what is
    made of another target.
    """

    table: QualifiedTable
    """The table, as `database.table`: the first dot divides, and what follows is its name without quotes.
    Example: `events.clicks`"""
    columns: Mapping[str, FirstField] = Field(default_factory=dict)
    """Field of each column that is not named like its field, a dotted path. In a list the first field that is
    present and not null counts. Example: `{country: device.geo.country, rider: [customer, rider]}`"""
    times: Mapping[str, TimeSpelling] = Field(default_factory=dict)
    """Format and zone of times that do not say them, also inside arrays, maps and objects.
    Example: `{seen: {format: epoch_s}, at: {zone: Europe/Berlin}}`"""
    missing: Missing | Mapping[str, Missing] = "object"
    """What becomes of a row whose event lacks a column's field, or has null there, if the column can't be
    NULL and declares no DEFAULT: it takes its type's default, or the row is rejected. `object` rejects rows
    with null in place of an object on the field's path, `default` none, `reject` all; by column it is for
    any, and `"*"` stands for the others. Example: `{amount: reject}`"""
    evolve: Literal["off", "add"] = "off"
    """`add`: a field that no column takes gets one when a slice is loaded. Example: `add`"""
    evolve_rows: int = Field(10, ge=1)
    """Expert. With `evolve: add`: rows of one slice that have to have a value in the field. Example: `100`"""
    checks: Mapping[PlainName, RowCheck] = Field(default_factory=dict, max_length=MOST_CHECKS)
    """Conditions on each row, by names of letters, digits, `_` and `.`, tried while the rows are staged.
    Example: `{positive_total: {sql: total >= 0, on_fail: reject}}`"""
    latest: Latest | None = None
    """A second table that has only the newest row of each key.
    Example: `{table: shop.customer, key: [id], version: [source.lsn]}`"""
    types: tuple[str, ...] = ()
    catch_all: bool = False
    counted: bool = False
    rollup: Derived | None = None

    def demand(self, column: str) -> Missing:
        """Returns what the file says of rows without a value for the column: its type decides, too, unless
        `missing` names it."""
        missing = self.missing
        return missing if isinstance(missing, str) else missing.get(column, missing.get(OTHERS, "object"))

    @property
    def spelled(self) -> dict[str, Spelled]:
        """Returns what the file says of the columns' times."""
        return {name: of.spelled for name, of in self.times.items()}

    @property
    def rejecting(self) -> dict[str, str]:
        """Returns the SQL of the checks that reject rows, by name: they decide which rows there are. The
        first by name rejects a row, wherever they are kept."""
        return {name: check.sql for name, check in sorted(self.checks.items()) if check.on_fail == "reject"}

    @property
    def database(self) -> str:
        return self.table.partition(".")[0]

    @property
    def name(self) -> str:
        return self.table.partition(".")[2]

    @field_validator("evolve", mode="before")
    @classmethod
    def _plain_off(cls, value: object) -> object:
        """YAML reads `off` as false."""
        return "off" if value is False else value

    @property
    def evolves(self) -> bool:
        """Whether its loads may add columns."""
        return self.evolve == "add"

    def newest(self, by_row: bool) -> Newest | None:
        """Returns what its table of newest rows is made by, in columns. `by_row`: a message may be several
        rows."""
        if self.latest is None:
            return None
        latest, columns = self.latest, dict[str, str]()
        for name, field in self.columns.items():
            columns |= dict.fromkeys([field] if isinstance(field, str) else field, name)
        return Newest(
            source=self.table,
            key=tuple(columns.get(name, name) for name in latest.key),
            version=tuple(columns.get(name, name) for name in latest.version),
            deleted=latest.deleted and columns.get(latest.deleted, latest.deleted),
            by_row=by_row,
        )

    def difference(self, other: Target) -> str:
        """Returns the first key, beside its table's name, in which a line of the same table differs."""
        return next((key for key in TARGET_KEYS if getattr(self, key) != getattr(other, key)), "")


class Derived(BaseModel):
    """A table whose rows are made of those that the table `source` has committed."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True
    )

    source: str

    @property
    def definition(self) -> str:
        """All that decides a row, beside the source."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that stand for all that decides a row: another source or definition makes
        commits stale."""
        return hashlib.sha256(repr((self.source, self.definition)).encode()).hexdigest()[:8]

    def as_it_was(self, definition: str, source: str) -> Derived:
        """Returns what an earlier load made the rows by, and that a repair makes them by again."""
        raise NotImplementedError


class Newest(Derived):
    """The newest row of each key of the source, by columns of that (`latest:` of the target)."""

    key: tuple[str, ...]
    version: tuple[str, ...]
    deleted: str | None
    by_row: bool

    @property
    def definition(self) -> str:
        return repr((self.key, self.version, self.deleted, self.by_row))

    def as_it_was(self, definition: str, source: str) -> Newest:
        """Two kinds of versions can't be compared: all rows are by the pipeline file's."""
        return self


# `rollups:` in the pipeline file: tables that a SELECT derives from a target.
SOURCE = "{source}"


class Rollup(Derived):
    """One rollup: a SELECT over the rows that one unit has in the table `from`."""

    source: str = Field(alias="from")
    """The table of events or counts that it is made from. Example: `events.clicks`"""
    sql: str
    """File with one SELECT that reads `{source}`; its path counts from the pipeline file's folder.
    Example: `users.sql`"""
    select: str

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("sql"), str) or "select" in value:
            raise ValueError("expected {from: database.table, sql: FILE}")
        file = Path((info.context or {}).get("folder", "."), value["sql"])
        try:
            text = read_named_text(file).strip().removesuffix(";").strip()
        except OSError as error:
            raise ValueError(f"the SELECT {file} cannot be read: {error.strerror}") from error
        if SOURCE not in text:
            raise ValueError(f"the SELECT in {file} does not read {SOURCE}")
        return {**value, "select": text}

    @property
    def definition(self) -> str:
        return self.select

    def as_it_was(self, definition: str, source: str) -> Rollup:
        return self.model_copy(update={"select": definition, "source": source})
