"""Makes docs/guide/reference/pipeline-file.md from the models of sluice.config."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from local.documents.markdown import code, table
from local.documents.since import current
from sluice.config.event import CHANGES, FORMS, ChangeForm, MessageFormat
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
  mark mistakes (include/pipelines/pipeline.schema.json, made from the same models).

## Times

Event times, columns, and whatever in a column has a type of time (elements, typed paths of a JSON) have one
grammar; whatever else is a rejected record or row. An untyped path of a JSON and a Dynamic have no such type:
they keep a time as the value that it is. `Time` and `Time64` are no instants: they take `10:00:00` alone.

| spelling | example |
| --- | --- |
| extended | `2026-11-20T10:00:00.123Z`, `2026-11-20 10:00`, `2026-11-20T10` |
| basic | `20261120T100000Z`, `20261120T1000` |
| a day | `2026-11-20` |
| fraction, any digits | `10:00:00.5`, `10:00:00,5` |
| offset, also behind a space | `Z`, `UTC`, `+02`, `+0200`, `+02:00`, `+02:00:30` |
| number, in quotes or not | `1795168800`, `1795168800.25`, `1795168800123`, `-946684800` |

- Without a `format` a number counts what its size says: 9 or 10 digits seconds, 12 or 13 milliseconds, 15
  or 16 microseconds, 18 or 19 nanoseconds. 0 is 1970. Others (`2026`, `20261120`, `-86400`) may be anything:
  they need a `format`, with which each is a time.
- Without an offset a text is UTC, or in the `zone`. Of a local time that is there twice (the clock goes back)
  the first counts; one that is skipped has the offset from before (RFC 5545). A Date takes the day as it is
  written.
- An event time in another unit than its `format` says, decades from its record, is a rejected record."""


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
    if hint is ChangeForm:
        return ", ".join(map(code, CHANGES))
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
