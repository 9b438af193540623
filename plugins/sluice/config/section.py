"""What every part of a pipeline file is: unknown keys are refused, and nothing changes it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
