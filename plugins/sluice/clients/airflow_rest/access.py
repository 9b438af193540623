"""Where Airflow's API is, and who calls.

The connection `sluice_airflow` says it; one without a host takes the address of Airflow's own configuration,
`[api] base_url`. Where there is no connection, that address is tried without a login, and the embedded stack
has an address and a login of its own.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from sluice.clients.connections.find import (
    Connection,
    airflow_base_url,
    embedded_home,
    embedded_port,
    known,
    read_object,
)
from sluice.errors import WrongUse
from sluice.safe_text import line

CONNECTION = "sluice_airflow"
BASE_URL = "`[api] base_url` of Airflow's configuration"
_TOKEN_PATH = "/auth/token"  # noqa: S105 - where a token is asked for
_NOT_IN_A_TOKEN = re.compile(r"[^!-~]")
_EXTRA = ("verify", "token_path")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Access:
    """`source` names what says it. A `password` without a `login` is a token; with neither there is no login.

    `verify`: whether the server's certificate is checked; `ca` is a file of certificates to trust.
    """

    url: str
    source: str
    login: str = ""
    password: str = field(default="", repr=False)
    token_path: str = _TOKEN_PATH
    verify: bool = True
    ca: str = ""
    embedded: bool = False

    @property
    def token(self) -> str:
        return "" if self.login else self.password

    @property
    def remedy(self) -> str:
        """For a server that does not answer."""
        return "start it with `make up`" if self.embedded else f"check the address in {self.source}"

    def trust(self) -> ssl.SSLContext | bool:
        """What httpx takes. Raises WrongUse for a file that cannot be used."""
        if not self.verify:
            return False
        try:
            return ssl.create_default_context(cafile=self.ca or None)
        except (OSError, ssl.SSLError) as error:
            raise WrongUse(
                f"{self.source}: `verify` names {self.ca}, which is no readable file of certificates "
                f"({error.strerror or error})"
            ) from error


def access(environment: Mapping[str, str] = os.environ) -> Access:
    """Raises WrongUse where nothing says where Airflow is, or what says it cannot be used."""
    named = named_access(environment)
    if named is not None:
        return named
    base = airflow_base_url(environment).rstrip("/")
    if base:
        return Access(_checked(base, BASE_URL), BASE_URL)
    raise WrongUse(
        f"nothing says where Airflow is: set AIRFLOW_CONN_{CONNECTION.upper()} (JSON or URI) with host, "
        "login and password"
    )


def named_access(environment: Mapping[str, str] = os.environ) -> Access | None:
    """Returns what the connection names, else the embedded stack's Airflow, unless Airflow's configuration
    has another address. Raises WrongUse for a connection that cannot be used."""
    connection = known(CONNECTION, environment)
    if connection is not None:
        return access_of(connection, "" if connection.host else airflow_base_url(environment))
    embedded = _embedded(environment)
    base = "" if embedded is None else airflow_base_url(environment).rstrip("/")
    return embedded if embedded is not None and base in ("", embedded.url) else None


def access_of(connection: Connection, base_url: str = "") -> Access:
    """Reads a connection: host with or without http(s):// and a base path, else `base_url`; port; login and
    password, or the password alone, a token; in its extra `verify` and `token_path`. Raises WrongUse."""
    source = f"connection {connection.conn_id!r}"
    if connection.login and not connection.password:
        raise WrongUse(
            f"{source}: its password is missing; a token goes there, too, and then without a login"
        )
    if not connection.login and _NOT_IN_A_TOKEN.search(connection.password or ""):
        raise WrongUse(
            f"{source}: its password, a token without a login, has a space, a line break or the like"
        )
    _refuse_unknown(connection.extra, source)
    verify = connection.extra.get("verify", True)
    if not isinstance(verify, bool | str) or verify == "":
        raise WrongUse(f"{source}: `verify` in its extra is true, false or a file of certificates")
    url = _url(connection, source) if connection.host else _checked(base_url, source)
    return Access(
        url,
        source,
        connection.login or "",
        connection.password or "",
        _path(connection.extra, source),
        verify is not False,
        verify if isinstance(verify, str) else "",
    )


def _refuse_unknown(extra: Mapping[str, Any], source: str) -> None:
    """Raises WrongUse for a key that would have no effect."""
    for name in sorted(set(extra) - set(_EXTRA)):
        near = get_close_matches(name, _EXTRA, 1)
        meant = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(_EXTRA)}"
        raise WrongUse(f"{source}: no such key in its extra: {line(name)}; {meant}")


def _path(extra: Mapping[str, Any], source: str) -> str:
    path = extra.get("token_path", _TOKEN_PATH)
    if not isinstance(path, str) or not path.startswith("/"):
        raise WrongUse(f"{source}: `token_path` in its extra is a path, for example {_TOKEN_PATH}")
    return path


def _url(connection: Connection, source: str) -> str:
    host = str(connection.host)
    scheme, _, rest = host.rpartition("://")
    scheme = scheme or connection.schema or ("http" if rest.split(":")[0] in _LOOPBACK else "https")
    address, _, path = rest.partition("/")
    if ":" in address and not address.startswith("[") and address.count(":") > 1:
        address = f"[{address}]"  # Airflow's URI form leaves the brackets out
    port = f":{connection.port}" if connection.port else ""
    return _checked(f"{scheme}://{address}{port}/{path}", source)


def _checked(url: str, source: str) -> str:
    """Without the slash at its end. What is wrong is not quoted: it may hold a password."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        sound = sound and parts.username is None and not parts.query and not parts.fragment
    except ValueError:
        sound = False
    if not sound:
        expected = "http(s)://host, with a port and a base path where there are, and without a login"
        raise WrongUse(f"{source}: expected Airflow's address as {expected}")
    return url.rstrip("/")


def _embedded(environment: Mapping[str, str]) -> Access | None:
    """Returns the embedded stack's Airflow, with the password that its auth manager made at its first
    start."""
    path = embedded_home(environment) / "airflow" / "simple_auth_manager_passwords.json.generated"
    try:
        passwords: dict[str, str] = read_object(path)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise WrongUse(
            f"{path} is another user's: set AIRFLOW_CONN_{CONNECTION.upper()} (JSON or URI)"
        ) from None
    url = f"http://127.0.0.1:{embedded_port(environment, 'SLUICE_AIRFLOW_PORT', 8080)}"
    accesses = (Access(url, "the embedded stack", *login, embedded=True) for login in passwords.items())
    return next(accesses, None)
