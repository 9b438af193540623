"""The keys that a person may write into a pipeline file: those whose field has a docstring below it.

What follows `Example:` in it is a value of the key. A field without a docstring is set by the reader.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class ConfigKey:
    """One key of a model; `example` is YAML, empty where the key has a section of its own."""

    name: str
    field: FieldInfo
    hint: Any
    meaning: str
    example: str


@cache
def keys(model: type[BaseModel]) -> tuple[ConfigKey, ...]:
    """Returns the keys of the model's part of the file, in the model's order."""
    hints = get_type_hints(model, include_extras=True)
    return tuple(
        ConfigKey(field.alias or name, field, hints[name], *_parts(field.description))
        for name, field in model.model_fields.items()
        if field.description
    )


def inner_model(hint: Any) -> tuple[type[BaseModel] | None, str]:
    """Returns the model that a field holds, and how its place goes on: `[]` in a list, `.<name>` in a
    mapping."""
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        return (hint if keys(hint) else None), ""
    origin = get_origin(hint)
    arguments = [argument for argument in get_args(hint) if argument not in (NoneType, ...)]
    if origin is Annotated:
        return inner_model(arguments[0])
    if origin in (Union, UnionType):
        return next((candidate for candidate in map(inner_model, arguments) if candidate[0]), (None, ""))
    if not inspect.isclass(origin) or not arguments:
        return None, ""
    inner, suffix = inner_model(arguments[-1])
    return inner, (".<name>" if issubclass(origin, Mapping) else "[]") + suffix


def below(hint: Any, name: str | None) -> Any:
    """Returns what the model has under a key of the mapping, or in the list (None), that stands at `hint`:
    `Any` for a key that it does not know. What it reads in a form of its own, such as `format`, stays."""
    arguments = [argument for argument in get_args(hint) if argument not in (NoneType, ...)]
    origin = get_origin(hint)
    if origin is Annotated:
        return below(arguments[0], name)
    if origin in (Union, UnionType):
        return next((found for one in arguments if (found := below(one, name)) is not one), hint)
    if inspect.isclass(origin) and arguments:
        single = name is not None and not issubclass(origin, Mapping)  # one instead of a list of them
        return below(arguments[-1], name) if single else arguments[-1]
    if name is None or not inspect.isclass(hint):
        return hint
    if is_dataclass(hint):
        return get_type_hints(hint, include_extras=True).get(name, Any)
    known = {key.name: key.hint for key in keys(hint)} if issubclass(hint, BaseModel) else {}
    return known.get(name, Any) if known else hint


def _parts(docstring: str) -> tuple[str, str]:
    """Returns both parts of a field's docstring, each on one line."""
    meaning, _, example = " ".join(docstring.split()).partition(" Example: ")
    return meaning, example.strip("`")
