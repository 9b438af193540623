"""The pipeline file's `event` block: how a message becomes rows. The reference is made of the models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sluice.config.times import TimeSpelling
from sluice.config.types import DottedPath, Section
from sluice.field_path import header_of, names_of

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
    """Where a record's type is: a field of the event (a dotted path), a record header, its topic, or its
    schema."""

    field: DottedPath | None = None
    """Field of the event, a dotted path. Example: `meta.kind`"""
    header: str | None = None
    """Record header; the last of that name counts. Example: `table`"""
    topic: bool = False
    """The topic is the type. Example: `true`"""
    schema_name: bool = Field(default=False, alias="schema")
    """The type is the full name of the message's schema: of Avro's record, or Protobuf's message.
    Example: `true`"""

    @model_validator(mode="before")
    @classmethod
    def _header(cls, value: Any) -> Any:
        """Takes `{field: header:NAME}` for `{header: NAME}`."""
        field = value.get("field") if isinstance(value, Mapping) else None
        header = header_of((field,)) if isinstance(field, str) else None
        if not header or value.get("header") is not None:
            return value
        return {**value, "field": None, "header": header}

    @model_validator(mode="after")
    def _one_source(self) -> TypeSource:
        if sum([self.field is not None, self.header is not None, self.topic, self.schema_name]) != 1:
            expected = "{field: …}, {header: …}, {topic: true}, {schema: true}"
            raise ValueError(f"expected exactly one of {expected}")
        return self


class TimeSource(TimeSpelling):
    """Where a record's event time is: a field of the event, or the record's own timestamp."""

    field: DottedPath | None = None
    """Field of the event, a dotted path, or `header:NAME`. Example: `timestamp`"""
    record: bool = False
    """The record's own timestamp is the time. Example: `true`"""

    @property
    def header(self) -> str | None:
        """Returns the header that has the time; None where it is elsewhere."""
        return None if self.field is None else header_of(names_of(self.field))

    @model_validator(mode="after")
    def _one_source(self) -> TimeSource:
        if (self.field is None) != self.record:
            raise ValueError("expected exactly one of {field: …, format: …} and {record: true}")
        if self.record and (self.format or self.zone):
            raise ValueError("`format` and `zone` are for a `field`, not for {record: true}")
        return self


DEBEZIUM: Final = "debezium"
COMPACTED: Final = "compacted"
CHANGES = (DEBEZIUM, COMPACTED, "{compacted: FIELD}")
"""All that `event.change` may be."""


class ChangeForm(Section):
    """How messages say what changed in a table. `key`: the field that a key fills which is no object."""

    kind: str
    key: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        """Takes the forms of the pipeline file."""
        if value in (DEBEZIUM, COMPACTED):
            return {"kind": value}
        field = value.get(COMPACTED) if isinstance(value, Mapping) and len(value) == 1 else None
        if not isinstance(field, str) or not field or "." in field:
            raise ValueError(f"expected {', '.join(CHANGES[:-1])} or {CHANGES[-1]}, and in FIELD no dot")
        return {"kind": COMPACTED, "key": field}

    @property
    def text(self) -> str:
        return self.kind if self.key is None else f"{{{self.kind}: {self.key}}}"


class BatchSource(Section):
    """The header in which `sluice publish` names batch and line: of a line shipped twice, one lands."""

    header: str
    """Header in which `sluice publish` names batch and line; of copies of a line one lands.
    Example: `sluice_batch`"""


Codec = Literal["gzip", "zstd"]
DELIMITED: Final = "delimited"
ENVELOPE: Final = "envelope"


class RowsSource(Section):
    """A message is a JSON object, and each element of one of its fields is a row. The rest of the message is
    in each row, as a field of its own.
    """

    field: DottedPath
    """The field that holds the array. Example: `Records`"""
    envelope: str = Field(ENVELOPE, min_length=1)
    """The field of a row that has the rest of the message. Example: `message`"""


class Event(Section):
    """How a message becomes rows: `unpack` comes first, then `format`, then `rows`."""

    type: TypeSource
    """Where a record's type is. Example: `{field: type}`"""
    time: TimeSource
    """Where a record's event time is. Example: `{field: timestamp, format: epoch_ms}`"""
    unpack: Codec | None = None
    """How values are compressed. A value that is not compressed is read as it is. Example: `gzip`"""
    rows: Literal["one", "array", "lines", "delimited"] | RowsSource = "one"
    """`array`: a message is a JSON array, and each element is a row; `lines`: each line is one; `{field: …}`:
    each element of a field; `delimited`: each of several Protobuf messages with their lengths in front.
    Example: `array`"""
    format: MessageFormat = MessageFormat.model_validate(JSON)
    """The message's format. A schema file's path counts from the pipeline file's folder. Example: `json`"""
    surrogates: Literal["reject", "replace"] = "reject"
    """JSON with half a surrogate pair, which no text can hold: `reject` it, or `replace` the half by U+FFFD.
    Example: `replace`"""
    registry: RegistrySettings | None = None
    """Schema registry of the messages; of JSON, the schema id in front is left out.
    Example: `{connection: schema_registry}`"""
    change: ChangeForm | None = None
    """Messages are changes of a table's rows: Debezium's, or those of a compacted topic, in which null
    deletes a key. Example: `debezium`"""
    batch: BatchSource | None = None
    """Which lines were shipped twice; without it every copy lands. Example: `{header: sluice_batch}`"""

    @field_validator("rows", mode="before")
    @classmethod
    def _rows(cls, value: Any) -> Any:
        """Says what is expected in one sentence, not in one for each form."""
        if isinstance(value, RowsSource) or value in ("one", "array", "lines", DELIMITED):
            return value
        expected = "expected one, array, lines, delimited or {field: PATH}, and beside it envelope: NAME"
        if not isinstance(value, Mapping) or not {"field"} <= {*value} <= {"field", "envelope"}:
            raise ValueError(expected)
        names = names_of(value["field"]) if isinstance(value["field"], str) else ("",)
        envelope = value.get("envelope", ENVELOPE)
        if not all(names) or header_of(names) is not None or not isinstance(envelope, str) or not envelope:
            raise ValueError(expected)
        return value

    @property
    def arrays(self) -> bool:
        """Whether a message can give several rows."""
        return self.rows != "one"

    @property
    def unwraps(self) -> bool:
        """Whether the lake keeps only the event made of a change, and not the message."""
        return self.change is not None and not self.format.decoded

    @model_validator(mode="after")
    def _readable(self) -> Event:
        if self.format.decoded and self.surrogates == "replace":
            raise ValueError(f"`surrogates` is for messages in JSON, not in {self.format.kind}")
        if self.change is not None and self.arrays:
            raise ValueError("`change` and `rows` do not go together: a message is one change")
        if self.change is not None and self.change.kind == COMPACTED:
            if self.format.decoded:
                raise ValueError(f"`change: compacted` is for messages in JSON, not in {self.format.kind}")
            if self.type.field is not None or (self.time.field is not None and self.time.header is None):
                raise ValueError(
                    "`change: compacted` needs a type and a time that are no fields: a deleted row has "
                    "its key alone"
                )
        if self.rows == DELIMITED and (self.format.kind != PROTOBUF or self.registry is not None):
            form = _KINDS[PROTOBUF].written
            raise ValueError(
                f"`rows: {DELIMITED}` is for `format: {form}` without a registry: a schema id stands before "
                "one message"
            )
        if self.format.decoded and self.arrays and self.rows != DELIMITED:
            raise ValueError(f"`rows` is for messages in JSON, not in {self.format.kind}")
        if self.format.has_schema and self.registry is None and self.format.schema_file is None:
            raise ValueError(f"`format: {self.format.kind}` needs a schema file or a `registry`")
        if self.type.schema_name and not self.format.decoded:
            raise ValueError(f"`type: {{schema: true}}` is for Avro and Protobuf, not for {self.format.kind}")
        return self
