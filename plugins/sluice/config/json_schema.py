"""The JSON Schema of a pipeline file, made from the models: editors complete keys with it and mark mistakes.

It has what JSON Schema can express (https://json-schema.org/draft/2020-12); what holds between keys only
the reader checks.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from sluice.config.alarms import Channel
from sluice.config.counts import Counts
from sluice.config.keys import ConfigKey, keys
from sluice.config.mask import HashKeys, MaskRule
from sluice.config.message_format import FORMS, WITH_SCHEMA, MessageFormat
from sluice.config.pipeline import Pipeline, Target
from sluice.config.types import Duration, Instant, OptionalDuration, PlainName, Size, Timeout

JsonSchema = dict[str, Any]

_TEXT: JsonSchema = {"type": "string"}
_VARIABLE: JsonSchema = {"type": "string", "pattern": r"\$\{"}
_DURATION: JsonSchema = {"type": "string", "pattern": r"^[0-9]+[smhd]$|\$\{"}
_KEY: JsonSchema = {
    "anyOf": [
        _TEXT,
        {"type": "object", "properties": {"connection": _TEXT}, "additionalProperties": False},
    ]
}
_NAMED: list[tuple[Any, JsonSchema]] = [
    (Duration, _DURATION),
    (OptionalDuration, {"type": "string", "pattern": r"^([0-9]+[smhd]|none)$|\$\{"}),
    (Timeout, {"type": "string", "pattern": r"^([0-9]+[smhd]|auto|none)$|\$\{"}),
    (Instant, _TEXT),
    (PlainName, {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.]{0,62}$|\$\{"}),
    (Size, {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"^[0-9]+([KMG]iB)?$|\$\{"}]}),
    (HashKeys, {"anyOf": [_KEY, {"type": "array", "items": _KEY}]}),
    (Any, {}),
    (str, _TEXT),
    (int, {"anyOf": [{"type": "integer"}, _VARIABLE]}),
    (float, {"anyOf": [{"type": "number"}, _VARIABLE]}),
    (bool, {"anyOf": [{"type": "boolean"}, _VARIABLE]}),
]
# What the reader takes as short for a part of the file: a whole model, or one key of it.
_SHORT: dict[tuple[type[BaseModel], str], JsonSchema] = {
    (Target, ""): _TEXT,
    (MaskRule, ""): {"enum": ["drop", "keep_first", "keep"]},
    (Channel, "to"): _TEXT,
    (Counts, "by"): {"type": "array", "items": _TEXT},
}
_PLAIN_FORMS = [form for form in FORMS if not form.startswith("{")]


def json_schema() -> JsonSchema:
    """Returns the schema of a whole file."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A pipeline of Sluice"}
    return {**head, **_of_model(Pipeline)}


def _of_model(model: type[BaseModel]) -> JsonSchema:
    model_keys = keys(model)
    schema: JsonSchema = {
        "type": "object",
        "properties": {key.name: _of_key(model, key) for key in model_keys},
        "required": [key.name for key in model_keys if key.field.is_required()],
        "additionalProperties": False,
    }
    return _or_short(model, "", schema)


def _of_key(model: type[BaseModel], key: ConfigKey) -> JsonSchema:
    return {"description": key.meaning, **_or_short(model, key.name, _of_hint(key.hint))}


def _or_short(model: type[BaseModel], name: str, schema: JsonSchema) -> JsonSchema:
    short = _SHORT.get((model, name))
    return {"anyOf": [short, schema]} if short else schema


def _of_hint(hint: Any) -> JsonSchema:
    named = next((schema for named_hint, schema in _NAMED if hint == named_hint), None)
    if named is not None:
        return named
    if hint is MessageFormat:
        files = {"avro": _TEXT, "protobuf": _object({"file": _TEXT, "message": _TEXT})}
        return {"anyOf": [{"enum": _PLAIN_FORMS}, *(_object({kind: files[kind]}) for kind in WITH_SCHEMA)]}
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        return _of_model(hint)
    arguments = [argument for argument in get_args(hint) if argument not in (NoneType, ...)]
    return _of_parts(get_origin(hint), arguments)


def _object(properties: JsonSchema) -> JsonSchema:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _of_parts(origin: Any, arguments: list[Any]) -> JsonSchema:
    if origin is Annotated:
        return _of_hint(arguments[0])
    if origin is Literal:
        return {"anyOf": [{"enum": arguments}, _VARIABLE]}
    if origin in (Union, UnionType):
        return _of_hint(arguments[0]) if len(arguments) == 1 else {"anyOf": [*map(_of_hint, arguments)]}
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of_hint(arguments[-1])}
    return {"type": "array", "items": _of_hint(arguments[0])}
