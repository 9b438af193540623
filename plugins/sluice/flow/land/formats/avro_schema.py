"""Cleans an Avro schema, so that fastavro sees what the specification gives a meaning, and nothing else.

fastavro takes properties of its own from a schema (`__fastavro_parsed`, `__named_schemas`), and raises while
it reads a message what a wrong `size` or a decimal without `precision` makes it raise. Source:
https://avro.apache.org/docs/1.12.0/specification/
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sluice.flow.land.formats.avro_values import LOGICAL_TYPES, logical_name
from sluice.flow.land.reject_reasons import BadSchema

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MOST_IN_NAME = 512
"""Characters of a name, and of a namespace: all names within inherit it."""
MOST_SCALE = 1_000
_LARGEST_SIZE = (1 << 31) - 1
_SHOWN = 80


def cleaned(schema: Any) -> Any:
    """Returns a schema as fastavro may see it. Raises BadSchema, RecursionError for one nested too deeply."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return [*map(cleaned, schema)]
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str):
        raise BadSchema(f"expected a type, not {shown(schema)}")
    if kind in PRIMITIVES:
        logical = _logical(kind, schema)
        return {"type": kind, **logical} if logical else kind
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {"type": kind, inner: cleaned(schema.get(inner))}
    if kind in ("record", "error"):
        fields = [*map(_field, _list(schema, "fields"))]
        return {"type": kind, **_names(schema), "fields": fields}
    if kind == "enum":
        default = {"default": _text(schema, "default")} if "default" in schema else {}
        return {"type": kind, **_names(schema), "symbols": _texts(schema, "symbols"), **default}
    if kind == "fixed":
        return {"type": kind, **_names(schema), "size": _size(schema), **_logical(kind, schema)}
    return kind


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _field(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict):
        raise BadSchema(f"expected a field, not {shown(part)}")
    clean = {"name": _text(part, "name"), "type": cleaned(part.get("type"))}
    if "aliases" in part:
        clean["aliases"] = _texts(part, "aliases")
    if "default" in part:
        clean["default"] = part["default"]
    return clean


def _names(schema: Mapping[str, Any]) -> dict[str, Any]:
    clean: dict[str, Any] = {"name": _text(schema, "name")}
    if schema.get("namespace") is not None:
        clean["namespace"] = _text(schema, "namespace")
    if "aliases" in schema:
        clean["aliases"] = _texts(schema, "aliases")
    if any(len(name) > MOST_IN_NAME for name in (clean["name"], clean.get("namespace", ""))):
        raise BadSchema(f"a name has more than {MOST_IN_NAME} characters: {shown(clean['name'])}")
    return clean


def _logical(kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the properties of a logical type. One that is unknown or invalid has no meaning, and its values
    are those of its `kind`."""
    name = schema.get("logicalType")
    if not isinstance(name, str) or (kind, name) not in LOGICAL_TYPES:
        return {}
    clean: dict[str, Any] = {"logicalType": logical_name(name)}
    if name != "decimal":
        return clean
    precision: Any = schema.get("precision")
    scale: Any = schema.get("scale", 0)
    if not _is_whole(precision) or not _is_whole(scale) or not 0 <= scale <= precision or precision == 0:
        return {}
    if kind == "fixed" and precision > math.floor(math.log10(2) * (8 * _size(schema) - 1)):
        return {}
    if scale > MOST_SCALE:
        raise BadSchema(f"a decimal has a scale of {shown(scale)}: expected at most {MOST_SCALE:,}")
    return {**clean, "scale": scale}


def _size(schema: Mapping[str, Any]) -> int:
    size: Any = schema.get("size")
    if not _is_whole(size) or not 0 <= size <= _LARGEST_SIZE:
        raise BadSchema(f"the size of a fixed type is {shown(size)}: expected a whole number of bytes")
    return int(size)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _list(schema: Mapping[str, Any], name: str) -> list[Any]:
    value = schema.get(name)
    if not isinstance(value, list):
        raise BadSchema(f"expected a list as {name}, not {shown(value)}")
    return value


def _texts(schema: Mapping[str, Any], name: str) -> list[str]:
    values = _list(schema, name)
    if not all(isinstance(value, str) for value in values):
        raise BadSchema(f"expected texts as {name}, not {shown(values)}")
    return values


def _text(schema: Mapping[str, Any], name: str) -> str:
    value = schema.get(name)
    if not isinstance(value, str):
        raise BadSchema(f"expected a text as {name}, not {shown(value)}")
    return value
