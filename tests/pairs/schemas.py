"""Avro and Protobuf schemas of a case's events, the events in them, and what they say as JSON."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sluice.flow.land.formats.proto_source import compiled
from tests.pairs.columns import AMOUNTS, COMMON, REAL, SETS, TEXT, TEXTS, WHOLE
from tests.pairs.events import Tree, time_path, type_path
from tests.pairs.options import Case
from tests.support.registry_server import RegistryServer

SCHEMA_ID = 7
_AVRO = {
    TEXT: "string",
    WHOLE: "long",
    REAL: "double",
    TEXTS: {"type": "array", "items": "string"},
    AMOUNTS: {"type": "map", "values": "long"},
    "stamp": {"type": "long", "logicalType": "timestamp-millis"},
}
_PROTO = {
    TEXT: "optional string",
    WHOLE: "optional int64",
    REAL: "optional double",
    TEXTS: "repeated string",
    AMOUNTS: "map<string, int64>",
}


def fields_of(case: Case) -> Tree:
    """The events' fields as a tree; a leaf is a column's kind, and that of the event's time `stamp`."""
    tree: Tree = {}
    known = [(c.field, c.kind) for c in (*COMMON, *SETS[case.columns]) if c.kind in _PROTO]
    times = {"epoch_ms": WHOLE, "epoch_s": REAL}
    known.append((time_path(case), times.get(case.time, "stamp" if case.format == "avro" else TEXT)))
    if (path := type_path(case)) is not None:
        known.append((path, TEXT))
    for path, kind in known:
        place = tree
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = kind
    return tree


@dataclass(frozen=True)
class Schemas:
    """`folder` takes the schema's file."""

    case: Case
    folder: Path

    @cached_property
    def avro(self) -> dict[str, Any]:
        return _record("Event", fields_of(self.case))

    @cached_property
    def proto(self) -> str:
        return 'syntax = "proto3";\npackage pairs;\n' + _message("Event", fields_of(self.case))

    def write(self) -> None:
        if self.case.format == "avro":
            (self.folder / "event.avsc").write_text(json.dumps(self.avro))
        if self.case.format == "protobuf":
            (self.folder / "event.proto").write_text(self.proto)

    def register(self, registry: RegistryServer) -> None:
        """As the schema of SCHEMA_ID."""
        if self.case.format == "avro":
            registry.avro(SCHEMA_ID, self.avro)
        else:
            registry.protobuf(SCHEMA_ID, {"event.proto": self.proto})

    @cached_property
    def _class(self) -> Any:
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled(self.folder / "event.proto"))
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName("pairs.Event"))

    def encoded(self, tree: Tree) -> bytes:
        """The event's message, with the schema's id in front where a registry has it."""
        values = _values(tree)
        if self.case.format == "avro":
            out = io.BytesIO()
            fastavro.schemaless_writer(
                out, fastavro.parse_schema(self.avro), _dated(values, fields_of(self.case))
            )
            body, indexes = out.getvalue(), b""
        else:
            message = self._class()
            _fill(message, values)
            body, indexes = message.SerializeToString(), b"\0"
        return b"\0" + SCHEMA_ID.to_bytes(4, "big") + indexes + body if self.case.framed else body

    def said(self, tree: Tree) -> str:
        """The event as JSON, as docs/design/formats.md has it: what is absent is null in Avro; in Protobuf it
        is left out, and lists and maps are there."""
        shape = _avro_said if self.case.format == "avro" else _proto_said
        return json.dumps(shape(_values(tree), fields_of(self.case)))


def _values(tree: Tree) -> dict[str, Any]:
    return {k: _values(v) if isinstance(v, dict) else json.loads(v) for k, v in tree.items()}


def _record(name: str, fields: Tree) -> dict[str, Any]:
    made = []
    for key, kind in fields.items():
        inner = _record(f"{name}_{key}", kind) if isinstance(kind, dict) else _AVRO[kind]
        made.append({"name": key, "type": ["null", inner], "default": None})
    return {"type": "record", "name": name, "fields": made}


def _message(name: str, fields: Tree) -> str:
    lines, inner = [], []
    for number, (key, kind) in enumerate(fields.items(), start=1):
        if isinstance(kind, dict):
            inner.append(_message(f"M{key}", kind))
            lines.append(f"optional M{key} {key} = {number};")
        else:
            lines.append(f"{_PROTO[kind]} {key} = {number};")
    return f"message {name} {{ {' '.join([*inner, *lines])} }}"


def _dated(values: dict[str, Any], fields: Tree) -> dict[str, Any]:
    """For fastavro, which takes a datetime where the schema has a timestamp."""
    found = {}
    for key, value in values.items():
        kind = fields[key]
        if isinstance(kind, dict):
            found[key] = value and _dated(value, kind)
        else:
            found[key] = datetime.fromisoformat(value) if kind == "stamp" and value else value
    return found


def _fill(message: Any, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, list):
            getattr(message, key).extend(value)
        elif isinstance(value, dict) and message.DESCRIPTOR.fields_by_name[key].is_repeated:
            getattr(message, key).update(value)
        elif isinstance(value, dict):
            getattr(message, key).SetInParent()
            _fill(getattr(message, key), value)
        elif value is not None:
            setattr(message, key, value)


def _avro_said(values: dict[str, Any] | None, fields: Tree) -> dict[str, Any] | None:
    if values is None:
        return None
    return {
        key: _avro_said(values.get(key), kind) if isinstance(kind, dict) else values.get(key)
        for key, kind in fields.items()
    }


def _proto_said(values: dict[str, Any], fields: Tree) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, kind in fields.items():
        value = values.get(key)
        if isinstance(kind, dict):
            found |= {} if value is None else {key: _proto_said(value, kind)}
        elif kind in (TEXTS, AMOUNTS):
            found[key] = value or ([] if kind == TEXTS else {})
        elif value is not None:
            found[key] = value
    return found
