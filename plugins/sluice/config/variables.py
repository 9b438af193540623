"""Variables of the environment in pipeline files: `${NAME}` and `${NAME:-default}`.

Whoever may see a pipeline sees its topics, tables and places, and whoever writes its file need not know the
secrets of the machine that reads it. So a file can name only what was set for it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import SecretBytes, SecretStr

from sluice.config.keys import below
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


# Recognizes what holds a secret: keys by what the model says, settings of others by their names. Pure.
ON_COMMAND_LINE = (
    "would stand on Spark's command line, which `ps` shows to everybody on the machine: put it into "
    "spark-defaults.conf, in the folder that SPARK_CONF_DIR names, where only its owner can read it"
)
_SECRET = re.compile(
    r"password|passwd|passphrase|secret|token|credential|(access|account|private|api)[._-]?key"
    r"|(^|[._-])(key|sas)([._-]|$)|(?<!by)pass([._-]|$)|(?<=.)(?<!old)pwd([._-]|$)|auth$",
    re.IGNORECASE,
)
# A place where a secret is, or a fact about one, is none itself. `PWD` and `OLDPWD` are a shell's folders.
_ABOUT = re.compile(
    r"(file|path|location|provider|class|principal|enabled|required|length|bits|size|type|format|interval"
    r"|ratio|limit|client[._-]?auth)$",
    re.IGNORECASE,
)
# From the beginning of each word, and never back: linear in the text.
_ASSIGNED = re.compile(r"(?<![\w.-])([\w.-]++)\s*+=")


def takes_secret(hint: Any) -> bool:
    """Returns whether a text that stands where the model has `hint` may be a secret: it says so
    (`SecretStr`), or takes anything (`Any`). A model says it of each of its own keys."""
    if hint is Any:
        return True
    if not inspect.isclass(hint):
        return any(map(takes_secret, get_args(hint)))
    if is_dataclass(hint):
        return any(map(takes_secret, get_type_hints(hint, include_extras=True).values()))
    return issubclass(hint, SecretStr | SecretBytes)


def names_secret(name: str) -> bool:
    """`spark.hadoop.fs.s3a.secret.key`, but not `spark.authenticate.secret.file`."""
    return _SECRET.search(name) is not None and _ABOUT.search(name) is None


def assigns_secret(text: str) -> bool:
    """`-Djavax.net.ssl.trustStorePassword=…`."""
    return any(names_secret(name) for name in _ASSIGNED.findall(text))
