"""What a pipeline file says, as a text that may be kept and shown: no comment, no secret, no environment."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import BaseModel

from sluice.config.defaults import defaults_file, load_defaults, merged
from sluice.config.keys import keys
from sluice.config.pipeline import Pipeline
from sluice.config.secrets import assigns_secret, names_secret, takes_secret
from sluice.config.yaml_text import NotYaml, load, parse

HIDDEN = "(hidden)"
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


def file_text(path: Path) -> str:
    """Returns the file at `path` with what the folder's defaults add to it, as YAML of one form. Variables
    stay as they are written: `${NAME}`. Raises OSError, NotYaml."""
    return text_of(merged(load_defaults(defaults_file(path)), load(path)))


@lru_cache(maxsize=64)
def without_secrets(text: str) -> str:
    """Returns a text that an older version has kept without what may be a secret; nothing of one that cannot
    be read, as where its end is cut off. Pure."""
    try:
        return text_of(parse(text))
    except NotYaml:
        return f"{HIDDEN}\n"


def text_of(content: Any) -> str:
    """Returns the content as YAML without what may be a secret. Pure."""
    text: str = yaml.safe_dump(
        _shown(content, Pipeline), sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )
    return text


def _shown(value: Any, hint: Any, place: tuple[str, ...] = ()) -> Any:
    """Returns the value that stands where the model has `hint`."""
    if isinstance(value, dict):
        return {k: _shown(v, _below(hint, str(k)), (*place, str(k))) for k, v in value.items()}
    if isinstance(value, list):
        return [_shown(item, _below(hint, None), place) for item in value]
    if (isinstance(value, str | bytes) and takes_secret(hint)) or _of_spark(place, value):
        return HIDDEN
    return _LOGIN.sub(f"{HIDDEN}@", value) if isinstance(value, str) else value


def _below(hint: Any, name: str | None) -> Any:
    """Returns what the model has under a key of the mapping, or in the list (None), that stands at `hint`:
    `Any` for a key that it does not know. What it reads in a form of its own, such as `format`, stays."""
    arguments = [argument for argument in get_args(hint) if argument not in (NoneType, ...)]
    origin = get_origin(hint)
    if origin is Annotated:
        return _below(arguments[0], name)
    if origin in (Union, UnionType):
        return next((below for one in arguments if (below := _below(one, name)) is not one), hint)
    if inspect.isclass(origin) and arguments:
        single = name is not None and not issubclass(origin, Mapping)  # one instead of a list of them
        return _below(arguments[-1], name) if single else arguments[-1]
    if name is None or not inspect.isclass(hint):
        return hint
    if is_dataclass(hint):
        return get_type_hints(hint, include_extras=True).get(name, Any)
    known = {key.name: key.hint for key in keys(hint)} if issubclass(hint, BaseModel) else {}
    return known.get(name, Any) if known else hint


def _of_spark(place: tuple[str, ...], value: Any) -> bool:
    """Settings of Spark go by their names, as they do where the file is read."""
    return place[:1] == ("spark",) and (names_secret(place[-1]) or assigns_secret(str(value)))
