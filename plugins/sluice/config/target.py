"""`tables:` in the pipeline file: the table of a type, and what fills its columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from sluice.config.types import DottedPath, QualifiedTable, Section
from sluice.named_file import read_named_text

TARGET_KEYS = ("table", "columns", "evolve", "evolve_rows", "missing")
"""What of a target stands in the file; the rest is made of other keys."""


Missing = Literal["default", "reject"]


class Target(Section):
    """One target table: the types that it takes, and where a column is not named like its field.

    `counted`: it takes no events, but the traffic counts that the landing made for it; `rollup`: what its
    SELECT gives of another target.
    """

    table: QualifiedTable
    """The table, as `database.table`. Example: `events.clicks`"""
    columns: Mapping[str, DottedPath] = Field(default_factory=dict)
    """Field of each column that is not named like its field, a dotted path.
    Example: `{country: device.geo.country}`"""
    missing: Missing | Mapping[str, Missing] = "default"
    """What becomes of a row whose event lacks a column's field, or has null there: the column takes its
    default, or the row is rejected. `reject` is for columns that can't be NULL and declare no DEFAULT; by
    column it is for any. Example: `{amount: reject}`"""
    evolve: Literal["off", "add"] = "off"
    """`add`: a field that no column takes gets one when a slice is loaded. Example: `add`"""
    evolve_rows: int = Field(10, ge=1)
    """Expert. With `evolve: add`: rows of one slice that have to have a value in the field. Example: `100`"""
    types: tuple[str, ...] = ()
    catch_all: bool = False
    counted: bool = False
    rollup: Rollup | None = None

    def may_reject(self, column: str) -> bool:
        """Returns whether a row without a value for the column may be rejected: its type decides, too, if
        `missing` names no columns."""
        missing = self.missing
        return (missing if isinstance(missing, str) else missing.get(column)) == "reject"

    @property
    def database(self) -> str:
        return self.table.split(".")[0]

    @property
    def name(self) -> str:
        return self.table.split(".")[1]

    @field_validator("evolve", mode="before")
    @classmethod
    def _plain_off(cls, value: object) -> object:
        """YAML reads `off` as false."""
        return "off" if value is False else value

    @property
    def evolves(self) -> bool:
        """Whether its loads may add columns."""
        return self.evolve == "add"

    def difference(self, other: Target) -> str:
        """Returns the first key, beside its table's name, in which a line of the same table differs."""
        return next((key for key in TARGET_KEYS if getattr(self, key) != getattr(other, key)), "")


# `rollups:` in the pipeline file: tables that a SELECT derives from a target.
SOURCE = "{source}"


class Rollup(BaseModel):
    """One rollup: a SELECT over the rows that one unit has in the table `from`."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, use_attribute_docstrings=True
    )

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
    def digest(self) -> str:
        """Eight hexadecimal digits that stand for all that decides a row: another source or SELECT makes its
        commits stale."""
        return hashlib.sha256(repr((self.source, self.select)).encode()).hexdigest()[:8]
