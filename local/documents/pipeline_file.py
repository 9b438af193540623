"""Makes docs/guide/reference/pipeline-file.md from the models of sluice.config."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from local.documents.markdown import code, table
from local.documents.since import current
from sluice.config.event import FORMS, MessageFormat
from sluice.config.explain import default
from sluice.config.mask import HashKeys
from sluice.config.mistakes import ConfigKey, inner_model, keys
from sluice.config.pipeline import Pipeline
from sluice.config.types import Duration, Instant, OptionalDuration, PlainName, Size, Timeout

_EXPERT = "Expert. "
"""Begins the meaning of a key that no guide needs."""
_COLUMNS = ("key", "type", "default", "meaning", "example", "since")
_NAMED = {
    Duration: "duration",
    OptionalDuration: "duration or `none`",
    Timeout: "duration, `auto` or `none`",
    Instant: "instant",
    PlainName: "name",
    Size: "size",
}
_PLAIN = {str: "text", int: "integer", float: "number", bool: "`true`", Any: "any"}
_INTRODUCTION = """# The pipeline file

Every key of `include/pipelines/<name>.yaml`; the pipeline's name is the file's. This page is made from the
models that read the file (`python -m local.documents.generated`). [Recipes](../recipes.md) has examples.

- A **duration** is a number with `s`, `m`, `h` or `d`: `90s`, `15m`, `1h`, `7d`; at most 36,500 days.
- A **size** is a number of bytes, or one with `KiB`, `MiB` or `GiB`: `64MiB`.
- An **instant** is ISO 8601: `2026-11-01T00:00Z`; without a zone it is UTC.
- A **name** has letters, digits, `_` and `.`, at most 63.
- `${NAME}` and `${NAME:-default}` in any text are taken from the environment: variables called
  `SLUICE_VAR_…`, `SLUICE_LAKE`, `SLUICE_HOME`, and those that the variable `SLUICE_VARIABLES` lists. All
  others are refused. One that is called like a secret stands only where no value is shown: as the key of a
  hash under `mask`, or among a notifier's `arguments`.
- Addresses and passwords are Airflow connections; the file names the connection.
- `_defaults.yaml` in the same folder has `airflow` only: what holds for every pipeline of the folder.
- Keys **for experts** are those that no guide needs: leave them out until something measured asks for one.
- A mistake is reported with its line, its key and what was expected.
- With `# yaml-language-server: $schema=pipeline.schema.json` as its first line, editors complete keys and
  mark mistakes (include/pipelines/pipeline.schema.json, made from the same models)."""


def sections(model: type[BaseModel] = Pipeline, place: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """(dotted place, model) of each part of the file, the whole file first."""
    yield place, model
    for key in keys(model):
        inner, suffix = inner_model(key.hint)
        if inner is not None:
            yield from sections(inner, f"{place}.{key.name}".lstrip(".") + suffix)


def type_name(hint: Any) -> str:
    """A field's type in words of the file."""
    for named_hint, name in _NAMED.items():
        if hint == named_hint:
            return name
    if hint == HashKeys:
        return "text, mapping or list of these"
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is MessageFormat:
        return ", ".join(map(code, FORMS))
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        return "mapping"
    origin = get_origin(hint)
    arguments = [argument for argument in get_args(hint) if argument not in (NoneType, ...)]
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is Literal:
        return ", ".join(code(str(argument)) for argument in arguments)
    if origin in (Union, UnionType):
        return " or ".join(map(type_name, arguments))
    if issubclass(origin, Mapping):
        return f"mapping of names to {_of_many(arguments[-1])}"
    return f"list of {_of_many(arguments[0])}"


def _of_many(hint: Any) -> str:
    return {"text": "texts", "mapping": "mappings"}.get(name := type_name(hint), name)


def shown_default(key: ConfigKey) -> str:
    """Returns the value of an absent key."""
    if key.field.is_required():
        return "**required**"
    return code(text) if (text := default(key)) else "–"


def since() -> dict[str, str]:
    """The version of each key of the file, by its dotted place."""
    return current(_place(place, key) for place, model in sections() for key in keys(model))


def page() -> str:
    blocks, versions = [_INTRODUCTION], since()
    for place, model in sections():
        blocks.append(f"## {_heading(place)}")
        for expert in (False, True):
            chosen = [key for key in keys(model) if key.meaning.startswith(_EXPERT) is expert]
            rows = [(*_row(key), versions[_place(place, key)]) for key in chosen]
            blocks += ["For experts:"] if rows and expert else []
            blocks += [table(_COLUMNS, rows)] if rows else []
    return "\n\n".join(blocks) + "\n"


def _place(section: str, key: ConfigKey) -> str:
    return f"{section}.{key.name}".lstrip(".")


def _heading(place: str) -> str:
    return code(place) if place else "The whole file"


def _row(key: ConfigKey) -> tuple[str, ...]:
    example = code(key.example) if key.example else "–"
    return code(key.name), type_name(key.hint), shown_default(key), key.meaning.removeprefix(_EXPERT), example
