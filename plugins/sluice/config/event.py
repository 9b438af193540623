"""The pipeline file's `event` block: how a message becomes rows. The reference is made of the models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationInfo, model_validator

from sluice.config.types import DottedPath, Section

# The pipeline file's `event.format` and `event.registry`: how a message's bytes become an event. The
# reference is made of the models.

JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"


@dataclass(frozen=True)
class _Kind:
    """`keys` are those of a schema's file, and `written` is the form with one; empty: it needs no schema."""

    keys: frozenset[str] = frozenset()
    written: str = ""


_KINDS = {
    JSON: _Kind(),
    AVRO: _Kind(frozenset({"file"}), "{avro: FILE}"),
    PROTOBUF: _Kind(frozenset({"file", "message"}), "{protobuf: {file: FILE, message: NAME}}"),
}
KINDS = tuple(_KINDS)
DECODED = tuple(kind for kind in _KINDS if kind != JSON)
WITH_SCHEMA = tuple(kind for kind, form in _KINDS.items() if form.keys)
FORMS = (*_KINDS, *(_KINDS[kind].written for kind in WITH_SCHEMA))
"""All that `event.format` may be."""
_EXPECTED = f"expected {', '.join(FORMS[:-1])} or {FORMS[-1]}"


class RegistrySettings(Section):
    """A schema registry (Confluent's REST API); its address and login are an Airflow connection."""

    connection: str
    """Airflow connection of type `http`. Example: `schema_registry`"""


class MessageFormat(Section):
    """`schema_file` is an Avro schema (.avsc), or a .proto file of which `message` is meant. In the pipeline
    file its path counts from the pipeline file's folder.
    """

    kind: str = JSON
    schema_file: Path | None = None
    message: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any, info: ValidationInfo) -> Any:
        """Takes the forms of the pipeline file."""
        if isinstance(value, str):
            value = {value: None}
        if not isinstance(value, Mapping) or len(value) != 1:
            raise ValueError(_EXPECTED)
        [(kind, schema)] = value.items()
        if kind == AVRO and isinstance(schema, str):
            schema = {"file": schema}
        if kind not in _KINDS or (schema is not None and not _holds(schema, _KINDS[kind].keys)):
            raise ValueError(_EXPECTED)
        folder = Path((info.context or {}).get("folder", "."))
        schema_file = dict(schema or {})
        # Normalized, not resolved: the folder may come later.
        file = Path(os.path.normpath(folder / schema_file["file"])) if schema_file else None
        if file is not None and not os.path.isfile(file):
            there = os.path.lexists(file)
            raise ValueError(f"{file} is not a regular file" if there else f"there is no schema file {file}")
        return {"kind": kind, "schema_file": file, "message": schema_file.get("message")}

    @property
    def decoded(self) -> bool:
        """Whether the lake's `_payload` is made here, and the message's own bytes are kept beside it."""
        return self.kind in DECODED

    @property
    def has_schema(self) -> bool:
        return self.kind in WITH_SCHEMA


def _holds(schema: object, names: frozenset[str]) -> bool:
    if not isinstance(schema, Mapping):
        return False
    texts = all(isinstance(text, str) and text for text in schema.values())
    return texts and bool(names) and set(schema) == names


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
