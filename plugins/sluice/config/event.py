"""The pipeline file's `event` block: how a message becomes rows. The reference is made of the models."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from sluice.config.message_format import JSON, WITH_SCHEMA, MessageFormat, RegistrySettings
from sluice.config.section import Section
from sluice.config.types import DottedPath


class TypeSource(Section):
    """Where a record's type is: a field of the event (a dotted path), a record header, or its topic."""

    field: DottedPath | None = None
    """Field of the event, a dotted path. Example: `meta.kind`"""
    header: str | None = None
    """Record header; the last of that name counts. Example: `table`"""
    topic: bool = False
    """The topic is the type. Example: `true`"""

    @model_validator(mode="after")
    def _one_source(self) -> TypeSource:
        if sum([self.field is not None, self.header is not None, self.topic]) != 1:
            raise ValueError("expected exactly one of {field: …}, {header: …}, {topic: true}")
        return self


class TimeSource(Section):
    """Where a record's event time is: a field of the event, or the record's own timestamp."""

    field: DottedPath | None = None
    """Field of the event, a dotted path. Example: `timestamp`"""
    format: Literal["iso8601", "epoch_s", "epoch_ms"] = "iso8601"
    """How the field has the time. Example: `epoch_ms`"""
    record: bool = False
    """The record's own timestamp is the time. Example: `true`"""

    @model_validator(mode="after")
    def _one_source(self) -> TimeSource:
        if (self.field is None) != self.record:
            raise ValueError("expected exactly one of {field: …, format: …} and {record: true}")
        return self


class BatchSource(Section):
    """The header in which `sluice publish` names batch and line: of a line shipped twice, one lands."""

    header: str
    """Header in which `sluice publish` names batch and line; of copies of a line one lands.
    Example: `sluice_batch`"""


class Event(Section):
    """How a message becomes rows. `rows: array`: it is a JSON array, and each element is a row."""

    type: TypeSource
    """Where a record's type is. Example: `{field: type}`"""
    time: TimeSource
    """Where a record's event time is. Example: `{field: timestamp, format: epoch_ms}`"""
    rows: Literal["one", "array"] = "one"
    """`array`: a message is a JSON array, and each element is a row. Example: `array`"""
    format: MessageFormat = MessageFormat.model_validate(JSON)
    """The message's format. A schema file's path counts from the pipeline file's folder. Example: `json`"""
    registry: RegistrySettings | None = None
    """Schema registry of Avro and Protobuf messages. Example: `{connection: schema_registry}`"""
    batch: BatchSource | None = None
    """Which lines were shipped twice; without it every copy lands. Example: `{header: sluice_batch}`"""

    @property
    def arrays(self) -> bool:
        return self.rows == "array"

    @model_validator(mode="after")
    def _readable(self) -> Event:
        if self.format.decoded and self.arrays:
            raise ValueError(f"`rows: array` is for messages in JSON, not in {self.format.kind}")
        if self.format.has_schema and self.registry is None and self.format.schema_file is None:
            raise ValueError(f"`format: {self.format.kind}` needs a schema file or a `registry`")
        if self.registry is not None and not self.format.has_schema:
            kinds = " and ".join(f"`format: {kind}`" for kind in WITH_SCHEMA)
            raise ValueError(f"`registry` is for {kinds}")
        return self
