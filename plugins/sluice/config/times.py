"""How times are written: `format` and `zone` of the pipeline file. The reference is made of the models."""

from __future__ import annotations

from pydantic import field_validator, model_validator

from sluice.config.types import Section
from sluice.time_grammar import EPOCHS, Spelled, TimeFormat, zone_of


class TimeSpelling(Section):
    """How times are written. [Times](#times) lists the spellings."""

    format: TimeFormat | None = None
    """Texts, or numbers of this unit, quoted or not. Without it a time is a text, or a number whose size says
    the unit. Example: `epoch_ms`"""
    zone: str | None = None
    """IANA time zone of texts without an offset; else they are UTC. Example: `Europe/Berlin`"""

    @property
    def spelled(self) -> Spelled:
        return Spelled(self.format, self.zone)

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str | None) -> str | None:
        if zone is not None:
            zone_of(zone)
        return zone

    @model_validator(mode="after")
    def _of_texts(self) -> TimeSpelling:
        if self.zone is not None and self.format in EPOCHS:
            raise ValueError(f"`zone` is for texts, and `format: {self.format}` for numbers, which have none")
        return self
