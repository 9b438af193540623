"""`tables:` in the pipeline file: the table of a type, and what fills its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator

from sluice.config.rollups import Rollup
from sluice.config.section import Section
from sluice.config.types import DottedPath, QualifiedTable

TARGET_KEYS = ("table", "columns", "evolve", "evolve_rows")
"""What of a target stands in the file; the rest is made of other keys."""


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
    evolve: Literal["off", "add"] = "off"
    """`add`: a field that no column takes gets one when a slice is loaded. Example: `add`"""
    evolve_rows: int = Field(10, ge=1)
    """With `evolve: add`: rows of one slice that have to have a value in the field. Example: `100`"""
    types: tuple[str, ...] = ()
    catch_all: bool = False
    counted: bool = False
    rollup: Rollup | None = None

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
