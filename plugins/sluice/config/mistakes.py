"""Says what is wrong in a pipeline file: at which key, and what was expected there. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sluice.config.types import WrongKey

# The keys that a person may write into a pipeline file: those whose field has a docstring below it.
#
# What follows `Example:` in it is a value of the key. A field without a docstring is set by the reader.


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


KeyPlace = tuple[int | str, ...]
"""Keys, and positions in lists, from the file's top to a value."""

# By the kind of pydantic's error (https://docs.pydantic.dev/latest/errors/validation_errors/).
_EXPECTED = {
    "missing": "is missing",
    "string_type": "expected a text",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping",
    "mapping_type": "expected a mapping",
    "model_type": "expected a mapping",
    "model_attributes_type": "expected a mapping",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "literal_error": "expected {expected}",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than": "expected less than {lt}",
    "less_than_equal": "expected at most {le}",
    "too_short": "expected at least {min_length}",
    "too_long": "expected at most {max_length}",
    "string_too_short": "expected at least {min_length} characters",
    "string_too_long": "expected at most {max_length} characters",
}
_UNKNOWN = "extra_forbidden"


@dataclass(frozen=True)
class Mistake:
    place: KeyPlace
    expected: str

    @property
    def key(self) -> str:
        """`kafka[0].topic`; nothing for the file as a whole."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
        return "".join(parts).lstrip(".")


def first_mistake(model: type[BaseModel], error: ValidationError) -> Mistake:
    """Returns the first mistake. An unknown key comes first: what is missing is often that, misspelled."""
    errors = error.errors()
    chosen = next((candidate for candidate in errors if candidate["type"] == _UNKNOWN), errors[0])
    raised = chosen.get("ctx", {}).get("error")
    if isinstance(raised, WrongKey):
        return Mistake((*chosen["loc"], *raised.place), raised.expected)
    return Mistake(chosen["loc"], _expected(model, chosen))


def _expected(model: type[BaseModel], error: Mapping[str, Any]) -> str:
    if error["type"] == _UNKNOWN:
        return _unknown(str(error["loc"][-1]), sorted(_known(model, error["loc"][:-1])))
    template = _EXPECTED.get(error["type"])
    return (
        template.format_map(error.get("ctx", {})) if template else error["msg"].removeprefix("Value error, ")
    )


def _unknown(key: str, names: list[str]) -> str:
    near = get_close_matches(key, names, 1)
    return (
        f"no such key: did you mean `{near[0]}`?" if near else f"no such key; there are: {', '.join(names)}"
    )


def _known(model: type[BaseModel], place: KeyPlace) -> Iterator[str]:
    """Yields the keys of the mapping at `place`."""
    for part in place:
        hints = {key.name: key.hint for key in keys(model)}
        inner, _ = inner_model(hints.get(str(part)))
        model = inner or model  # else `part` is a position, or a name that a person has chosen
    return (key.name for key in keys(model))
