"""Variables of the environment in pipeline files: `${NAME}` and `${NAME:-default}`.

Whoever may see a pipeline sees its topics, tables and places, and whoever writes its file need not know the
secrets of the machine that reads it. So a file can name only what was set for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.config.keys import below
from sluice.config.secrets import names_secret, takes_secret
from sluice.errors import WrongPipeline

PREFIX = "SLUICE_VAR_"
LISTED = "SLUICE_VARIABLES"
_OWN = ("SLUICE_LAKE", "SLUICE_HOME")
_LOGIN = re.compile(r"(^|_)(CONN|DSN)(_|$)")  # AIRFLOW_CONN_… is a connection with its password
VARIABLE = re.compile(r"\$\{(\w+)(?::-((?:[^{}]|\$\{[^{}]*\})*))?\}")


def refusal(name: str, hidden: bool, environment: Mapping[str, str]) -> str | None:
    """Returns why a pipeline file may not name the variable, or None. `hidden`: where it stands, values are
    never shown. Pure."""
    listed = re.split(r"[\s,]+", environment.get(LISTED, ""))
    if not (name.startswith(PREFIX) or name in _OWN or name in listed):
        return (
            f"${{{name}}} is not for pipeline files: call it {PREFIX}…, or have whoever runs Sluice list it "
            f"in the variable {LISTED}"
        )
    if not hidden and (names_secret(name) or _LOGIN.search(name)):
        return (
            f"${{{name}}} is called like a secret, which all who see the pipeline would see: secrets "
            "come from connections"
        )
    return None


def expand(
    value: Any, environment: Mapping[str, str], path: Path, hint: Any, place: tuple[str, ...] = ()
) -> Any:
    """Replaces the variables in every text of a file's `value`, which stands at `place` where the model has
    `hint`; a default may hold one again. Raises WrongPipeline."""
    if isinstance(value, dict):
        return {
            k: expand(v, environment, path, below(hint, str(k)), (*place, str(k))) for k, v in value.items()
        }
    if isinstance(value, list):
        return [expand(item, environment, path, below(hint, None), place) for item in value]
    if not isinstance(value, str):
        return value
    hidden = takes_secret(hint)

    def replace(variable: re.Match[str]) -> str:
        refused = refusal(variable[1], hidden, environment)
        if refused:
            raise WrongPipeline(str(path), ".".join(place), refused)
        if variable[1] in environment:
            return environment[variable[1]]
        if variable[2] is None:
            raise WrongPipeline(str(path), ".".join(place), f"the environment has no {variable[1]}")
        return VARIABLE.sub(replace, variable[2])

    return VARIABLE.sub(replace, value)
