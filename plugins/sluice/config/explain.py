"""Lists each key of a pipeline file, its value and where that is from: the file, the defaults or Sluice."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from sluice.config.event import COMPACTED, DEBEZIUM, FORMS, WITH_SCHEMA, ChangeForm, MessageFormat
from sluice.config.files import defaults_file, load_defaults, merged
from sluice.config.mask import MaskRule
from sluice.config.mistakes import ConfigKey, KeyPlace, inner_model, keys
from sluice.config.pipeline import Pipeline, Target
from sluice.config.types import TEXT, OptionalDuration, Size
from sluice.config.types import VARIABLE as VARIABLE_SCHEMA
from sluice.config.yaml_text import VARIABLE, Nodes, expand, load, nodes, takes_secret

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


@dataclass(frozen=True)
class SettingInForce:
    """`source`: `default`, or `line 7`, with the variables that stand there; `_defaults.yaml line 3` where
    the folder's defaults say it."""

    key: str
    value: str
    source: str


def explain(path: Path, environment: Mapping[str, str] = os.environ) -> list[SettingInForce]:
    """Returns the settings of a pipeline file that can be read, in the order of the models.

    Raises WrongPipeline for a variable that is not there, OSError and NotYaml.
    """
    content, beside = load(path), defaults_file(path)
    common = load_defaults(beside)
    explained = _Explained(path, environment, content, nodes(path), nodes(beside) if common else Nodes(None))
    return list(explained.of(Pipeline, merged(common, content), ()))


@dataclass(frozen=True)
class _Explained:
    path: Path
    environment: Mapping[str, str]
    own: Any
    nodes: Nodes
    common: Nodes

    def of(self, model: type[BaseModel], content: Any, place: KeyPlace) -> Iterator[SettingInForce]:
        mapping = content if isinstance(content, dict) else {}
        for key in keys(model):
            yield from self._key(key, mapping.get(key.name), (*place, key.name))

    def _key(self, key: ConfigKey, content: Any, place: KeyPlace) -> Iterator[SettingInForce]:
        inner, suffix = inner_model(key.hint)
        if inner is None or (content is None and (suffix or key.field.default is None)):
            yield self._value(key, content, place)
        elif not suffix:
            yield from self._part(inner, key, content, place)
        else:
            inner_contents = content.items() if isinstance(content, dict) else enumerate(content)
            for name, inner_content in inner_contents:
                yield from self._part(inner, key, inner_content, (*place, name))

    def _part(
        self, model: type[BaseModel], key: ConfigKey, content: Any, place: KeyPlace
    ) -> Iterator[SettingInForce]:
        if content is None or isinstance(content, dict):
            yield from self.of(model, content, place)
        else:  # a short form
            yield self._value(key, content, place)

    def _value(self, key: ConfigKey, content: Any, place: KeyPlace) -> SettingInForce:
        name = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        if content is None:
            return SettingInForce(name, default(key), "default")
        variables = sorted({variable for variable, _ in VARIABLE.findall(str(content))})
        source = ", ".join([self._line(place), *variables])
        value = expand(content, self.environment, self.path, key.hint, (name,))
        # A notifier's argument may be a token, and a mask has a key: variables are shown by their names.
        return SettingInForce(name, _flow(content if takes_secret(key.hint) else value), source)

    def _line(self, place: KeyPlace) -> str:
        if _holds(self.own, place):
            return f"line {self.nodes.line_and_column(place)[0]}"
        return f"{defaults_file(self.path).name} line {self.common.line_and_column(place)[0]}"


def _holds(content: Any, place: KeyPlace) -> bool:
    """Returns whether the pipeline's own file has a value at `place`."""
    for part in place:
        try:
            content = content[part]
        except (LookupError, TypeError):
            return False
    return content is not None


def default(key: ConfigKey) -> str:
    """Returns the value of an absent key, as the file would write it; an empty text where there is none."""
    if key.field.is_required():
        return ""
    value = key.field.get_default(call_default_factory=True)
    if value is None and key.hint == OptionalDuration:
        return "none"
    if value is None or value in ((), {}, []):
        return ""
    return str(getattr(value, "kind", "")) if isinstance(value, BaseModel) else _written(value, key.hint)


def _written(value: Any, hint: Any) -> str:
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        divides = ((unit, size) for unit, size in _UNITS.items() if seconds and seconds % size == 0)
        unit, size = next(divides, ("s", 1))
        return f"{seconds // size}{unit}"
    if hint == Size:
        return f"{value >> 20}MiB"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flow(value: Any) -> str:
    width = 1 << 20  # no line is folded
    dumped: str = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=True, width=width, sort_keys=False
    )
    return dumped.strip().removesuffix("...").strip()


# The JSON Schema of a pipeline file, which pydantic makes of the models: editors complete keys with it and
# mark mistakes.
#
# It has what JSON Schema can express (https://json-schema.org/draft/2020-12); what holds between keys only
# the reader checks.

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
        if schema["cls"] is ChangeForm:
            return {"anyOf": [{"enum": [DEBEZIUM, COMPACTED]}, _object({COMPACTED: TEXT})]}
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
    return {"anyOf": [schema, VARIABLE_SCHEMA]}


def _message_format() -> JsonSchema:
    plain = [form for form in FORMS if not form.startswith("{")]
    files = {"avro": TEXT, "protobuf": _object({"file": TEXT, "message": TEXT})}
    return {"anyOf": [{"enum": plain}, *(_object({kind: files[kind]}) for kind in WITH_SCHEMA)]}


def _object(properties: JsonSchema) -> JsonSchema:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
