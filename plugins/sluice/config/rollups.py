"""`rollups:` in the pipeline file: tables that a SELECT derives from a target."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from sluice.named_file import read_named_text

SOURCE = "{source}"


class Rollup(BaseModel):
    """One rollup: a SELECT over the rows that one unit has in the table `from`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

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
