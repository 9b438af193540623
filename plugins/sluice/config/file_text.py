"""What a pipeline file says, as a text that may be kept and shown: no comment, no secret, no environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sluice.config.files import defaults_file, load_defaults, merged
from sluice.config.keys import below
from sluice.config.pipeline import Pipeline
from sluice.config.variables import assigns_secret, names_secret, takes_secret
from sluice.config.yaml_text import load

HIDDEN = "(hidden)"
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


def file_text(path: Path) -> str:
    """Returns the file at `path` with what the folder's defaults add to it, as YAML of one form. Variables
    stay as they are written: `${NAME}`. Raises OSError, NotYaml."""
    return text_of(merged(load_defaults(defaults_file(path)), load(path)))


def text_of(content: Any) -> str:
    """Returns the content as YAML without what may be a secret. Pure."""
    text: str = yaml.safe_dump(
        _shown(content, Pipeline), sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )
    return text


def _shown(value: Any, hint: Any, place: tuple[str, ...] = ()) -> Any:
    """Returns the value that stands where the model has `hint`."""
    if isinstance(value, dict):
        return {k: _shown(v, below(hint, str(k)), (*place, str(k))) for k, v in value.items()}
    if isinstance(value, list):
        return [_shown(item, below(hint, None), place) for item in value]
    if (isinstance(value, str | bytes) and takes_secret(hint)) or _of_spark(place, value):
        return HIDDEN
    return _LOGIN.sub(f"{HIDDEN}@", value) if isinstance(value, str) else value


def _of_spark(place: tuple[str, ...], value: Any) -> bool:
    """Settings of Spark go by their names, as they do where the file is read."""
    return place[:1] == ("spark",) and (names_secret(place[-1]) or assigns_secret(str(value)))
