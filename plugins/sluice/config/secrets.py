"""Recognizes what holds a secret: keys by what the model says, settings of others by their names. Pure."""

from __future__ import annotations

import inspect
import re
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from pydantic import SecretBytes, SecretStr

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
