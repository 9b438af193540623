"""`keep:` in the pipeline file: how long the lake holds files of an hour, and the tables its rows."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from pydantic import Field, field_validator

from sluice.config.section import Section, WrongKey
from sluice.config.types import Duration, OptionalDuration

EVERY_TABLE = "*"


class Keep(Section):
    """Ages count from the hour's end, whenever it landed. Nothing is forgotten before every table has the
    hour and verify finds nothing wrong with it. Manifests stay."""

    lake: OptionalDuration = None
    """How long the lake keeps the files of an hour; without it for ever. `reload` and `remake` read them.
    Example: `400d`"""
    rejected: OptionalDuration = None
    """How long the lake keeps the bytes of rejected records (`_rejected/`), without it as long as `lake`.
    `remake` reads them as long; later it counts them as they were. Example: `30d`"""
    tables: Mapping[str, Duration] = Field(default_factory=dict)
    """How long a table keeps the rows of an hour, by the table's own TTL; `"*"` stands for every table, and a
    duration alone is short for that. Sluice deletes no row for its age: `verify` takes missing rows of older
    hours for expired, and `doctor` compares the TTL.
    Example: `{events.clicks: 730d}`"""

    @field_validator("tables", mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return value if isinstance(value, Mapping) else {EVERY_TABLE: value}

    @property
    def forgets(self) -> bool:
        """Whether the lake forgets anything."""
        return self.lake is not None or self.rejected is not None

    @property
    def rejected_for(self) -> timedelta | None:
        """How long files of `_rejected/` are kept."""
        return self.lake if self.rejected is None else self.rejected

    def of_table(self, table: str) -> timedelta | None:
        """Returns how long the table keeps rows, None where the file does not say."""
        return self.tables.get(table, self.tables.get(EVERY_TABLE))

    def began_before(self, table: str, now: datetime) -> datetime | None:
        """Returns the instant before which an hour began whose rows the table may have deleted: a TTL by
        `_slice` counts from an hour's begin."""
        kept = self.of_table(table)
        return None if kept is None else datetime.__sub__(now, kept)

    def may_lack(self, table: str, start: datetime, now: datetime) -> bool:
        """Returns whether the table may have deleted rows of an hour that began at `start` for its age."""
        before = self.began_before(table, now)
        return before is not None and start <= before

    def check(self, least: timedelta, tables: AbstractSet[str]) -> None:
        """Raises WrongKey for what the other keys contradict: hourly runs read hours as old as `least`."""
        for name, kept in (("lake", self.lake), ("rejected", self.rejected), *self.tables.items()):
            if kept is not None and kept < least:
                key_place = ("keep", name) if name in ("lake", "rejected") else ("keep", "tables", name)
                expected = f"expected at least {_text(least)}: hourly runs go back so far (`lookback`)"
                raise WrongKey(key_place, expected)
        if self.lake is not None and self.rejected is not None and self.rejected > self.lake:
            raise WrongKey(("keep", "rejected"), "expected no more than `keep.lake`: they go with the hour")
        for name in self.tables:
            if name != EVERY_TABLE and name not in tables:
                raise WrongKey(("keep", "tables", name), 'expected a table of this file, or "*"')


def _text(length: timedelta) -> str:
    """`1d`, `26h` or `1475m`."""
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if length.total_seconds() % seconds == 0:
            return f"{int(length.total_seconds()) // seconds}{unit}"
    return f"{int(length.total_seconds())}s"
