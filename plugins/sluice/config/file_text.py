"""What a pipeline file says, as a text that may be kept and shown: no comment, no secret, no environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sluice.config.defaults import defaults_file, load_defaults, merged
from sluice.config.secrets import assigns_secret, names_secret
from sluice.config.yaml_text import load

HIDDEN = "(hidden)"
_ARGUMENTS = "arguments"
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


def file_text(path: Path) -> str:
    """Returns the file at `path` with what the folder's defaults add to it, as YAML of one form. Variables
    stay as they are written: `${NAME}`. Raises OSError, NotYaml."""
    return text_of(merged(load_defaults(defaults_file(path)), load(path)))


def text_of(content: Any) -> str:
    """Returns the content as YAML without what may be a secret. Pure."""
    text: str = yaml.safe_dump(
        _without_secrets(content), sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )
    return text


def _without_secrets(value: Any, place: tuple[str, ...] = ()) -> Any:
    if isinstance(value, dict):
        return {k: _without_secrets(v, (*place, str(k))) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item, place) for item in value]
    if _may_be_secret(place, value):
        return HIDDEN
    return _LOGIN.sub(f"{HIDDEN}@", value) if isinstance(value, str) else value


def _may_be_secret(place: tuple[str, ...], value: Any) -> bool:
    """A notifier takes any argument, an address with a token in it, too. Settings of Spark go by their names,
    as they do where the file is read."""
    if _ARGUMENTS in place and isinstance(value, str):
        return True
    return place[:1] == ("spark",) and (names_secret(place[-1]) or assigns_secret(str(value)))
