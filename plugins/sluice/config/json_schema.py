"""The JSON Schema of a pipeline file, which pydantic makes of the models: editors complete keys with it and
mark mistakes.

It has what JSON Schema can express (https://json-schema.org/draft/2020-12); what holds between keys only
the reader checks.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from sluice.config.event import FORMS, WITH_SCHEMA, MessageFormat
from sluice.config.mask import MaskRule
from sluice.config.pipeline import Pipeline, Target
from sluice.config.types import TEXT, VARIABLE

JsonSchema = dict[str, Any]

# What the reader takes as short for a whole part of the file.
_SHORT: dict[type, JsonSchema] = {Target: TEXT, MaskRule: {"enum": ["drop", "keep_first", "keep"]}}


def json_schema() -> JsonSchema:
    """Returns the schema of a whole file."""
    head = {"$schema": _FileSchema.schema_dialect, "title": "A pipeline of Sluice"}
    return {**head, **Pipeline.model_json_schema(schema_generator=_FileSchema)}


class _FileSchema(GenerateJsonSchema):
    """A variable may stand for any value. What the reader sets, defaults and null are no part of a file."""

    def model_schema(self, schema: Any) -> JsonSchema:
        if schema["cls"] is MessageFormat:
            return _message_format()
        made = super().model_schema(schema)
        made.pop("title", None)
        made.pop("description", None)
        made["properties"] = {key: one for key, one in made["properties"].items() if "description" in one}
        made["required"] = [key for key in made.get("required", ()) if key in made["properties"]]
        short = _SHORT.get(schema["cls"])
        return {"anyOf": [short, made]} if short else made

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def nullable_schema(self, schema: Any) -> JsonSchema:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchema:
        return self.generate_inner(schema["schema"])

    def int_schema(self, schema: Any) -> JsonSchema:
        return _or_variable({"type": "integer"})

    def float_schema(self, schema: Any) -> JsonSchema:
        return _or_variable({"type": "number"})

    def bool_schema(self, schema: Any) -> JsonSchema:
        return _or_variable({"type": "boolean"})

    def literal_schema(self, schema: Any) -> JsonSchema:
        return _or_variable({"enum": list(schema["expected"])})


def _or_variable(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, VARIABLE]}


def _message_format() -> JsonSchema:
    plain = [form for form in FORMS if not form.startswith("{")]
    files = {"avro": TEXT, "protobuf": _object({"file": TEXT, "message": TEXT})}
    return {"anyOf": [{"enum": plain}, *(_object({kind: files[kind]}) for kind in WITH_SCHEMA)]}


def _object(properties: JsonSchema) -> JsonSchema:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
