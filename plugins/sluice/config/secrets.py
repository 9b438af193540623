"""Recognizes settings that hold a secret, by their names. Pure."""

from __future__ import annotations

import re

ON_COMMAND_LINE = (
    "would stand on Spark's command line, which `ps` shows to everybody on the machine: put it into "
    "spark-defaults.conf, in the folder that SPARK_CONF_DIR names, where only its owner can read it"
)
_SECRET = re.compile(
    r"password|passwd|passphrase|secret|token|credential|(access|account|private|api)[._-]?key"
    r"|(^|[._-])(key|sas)([._-]|$)",
    re.IGNORECASE,
)
# A place where a secret is, or a fact about one, is none itself.
_ABOUT = re.compile(
    r"(file|path|location|provider|class|principal|enabled|required|length|bits|size|type|format|interval"
    r"|ratio|limit)$",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"([\w.-]+)\s*=")


def names_secret(name: str) -> bool:
    """`spark.hadoop.fs.s3a.secret.key`, but not `spark.authenticate.secret.file`."""
    return _SECRET.search(name) is not None and _ABOUT.search(name) is None


def assigns_secret(text: str) -> bool:
    """`-Djavax.net.ssl.trustStorePassword=…`."""
    return any(names_secret(name) for name in _ASSIGNED.findall(text))
