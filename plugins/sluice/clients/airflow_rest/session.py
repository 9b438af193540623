"""Calls Airflow's REST API with a login, and logs in again when the server no longer accepts the token."""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from sluice.clients.connections import (
    Connection,
    airflow_base_url,
    embedded_home,
    embedded_port,
    known,
    read_object,
)
from sluice.concurrency import Deadline
from sluice.errors import SluiceError, Unavailable, WrongUse
from sluice.safe_text import line

# Where Airflow's API is, and who calls.
#
# The connection `sluice_airflow` says it; one without a host takes the address of Airflow's own
# configuration, `[api] base_url`. Where there is no connection, that address is tried without a login, and
# the embedded stack has an address and a login of its own.

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


# What Airflow or a proxy answers instead of what was asked: one line with the remedy. Pure.
_LATER = (408, 425, 429)
_MOST = 300
_OTHER_NAME = (62, 64)  # of host and of address: X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError)  # by a server that ends


@dataclass(frozen=True)
class Answer:
    """`request` is method and path; `location` where a redirect leads."""

    request: str
    status: int
    text: str
    location: str = ""

    def content(self) -> dict[str, Any] | None:
        """Returns the JSON object, or None where it is none."""
        try:
            content = json.loads(self.text or "{}")
        except (ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None

    @property
    def not_there(self) -> bool:
        """Whether Airflow itself says so: a gateway that has lost it answers 404, too, with other words."""
        return self.status == 404 and "detail" in (self.content() or {})


def refused(access: Access, answer: Answer, answered: bool = False) -> SluiceError | None:
    """Returns the error of an answer to a call, or None for what was asked for.

    `answered`: Airflow has answered before, so a proxy's page stands there while Airflow is away.
    """
    at = f"Airflow at {access.url}"
    if 300 <= answer.status < 400:
        return WrongUse(f"{at} redirects {answer.request} {_redirected(access, answer.location)}")
    if answer.status >= 500 or answer.status in _LATER:
        return Unavailable(f"{at} answered {answer.status} to {answer.request}: try again, or read its log")
    if no_login(answer):
        return WrongUse(
            f"{at} refuses the login ({answer.request}: {answer.status}): {_login_remedy(access)}"
        )
    if answer.content() is None or (answered and answer.status == 404 and not answer.not_there):
        return (Unavailable if answered else WrongUse)(
            f"{at} answered {answer.request} ({answer.status}) with what is not Airflow's: what answers "
            f"there is a proxy, or the base path is wrong; {access.remedy}"
        )
    if answer.status == 403:
        may_not = f"{access.login or 'the token'} may not do that; grant the right"
        return WrongUse(f"{at} refuses {answer.request} (403): {detail(answer)}; {may_not}")
    if answer.status >= 400:
        return WrongUse(f"{at} refused {answer.request} ({answer.status}): {detail(answer)}")
    return None


def no_login(answer: Answer) -> bool:
    """Returns whether the token is at fault. Airflow answers 401 for an expired one, and 403 for one that
    another server has signed (airflow/api_fastapi/core_api/security.py)."""
    return answer.status == 401 or (answer.status == 403 and detail(answer) == "Invalid JWT token")


def no_api(access: Access, answer: Answer) -> SluiceError | None:
    """Judges as `refused` does, for the version of the API, which needs no login."""
    content = answer.content() or {}
    if answer.status == 404 or (answer.status == 200 and "version" not in content):
        return WrongUse(
            f"no REST API of Airflow 3 (/api/v2) is below {access.url} ({answer.request}: {answer.status}): "
            f"give its base path, too; {access.remedy}"
        )
    return refused(access, answer)


def no_token(access: Access, answer: Answer) -> SluiceError | None:
    """Judges as `refused` does, for the login; nothing of the answer is quoted, for it may repeat the
    password."""
    at = f"Airflow at {access.url}"
    if answer.status in (404, 405):
        return WrongUse(
            f"{at} gives no token at {access.token_path} ({answer.status}): its auth manager has another "
            f"path (`token_path` in the extra of {access.source}) or none: then a token, without a login, "
            "is the connection's password"
        )
    if answer.status in (400, 401, 403, 422):
        return WrongUse(
            f"{at} refuses the login ({answer.request}: {answer.status}): {_login_remedy(access)}"
        )
    if answer.status < 300 and not isinstance((answer.content() or {}).get("access_token"), str):
        return WrongUse(f"{at} answered the login with no token: a proxy answers there; {access.remedy}")
    return refused(access, answer)


def no_answer(access: Access, error: Exception) -> SluiceError:
    """Returns the error of a server that could not be reached, or whose certificate is refused."""
    at, cause = f"Airflow at {access.url}", _root(error)
    if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code in _OTHER_NAME:
        why = line(cause.verify_message, _MOST)
        return WrongUse(
            f"{at} has a certificate for another name ({why}): correct the host in {access.source}"
        )
    if isinstance(cause, ssl.SSLCertVerificationError):
        return WrongUse(
            f"{at} has a certificate that is not trusted ({line(cause.verify_message, _MOST)}): let `verify` "
            f"in the extra of {access.source} name the file of its CA"
        )
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, _CUT_OFF):
        return WrongUse(
            f"{at} does not speak TLS as expected ({cause.reason}): is it http://? {access.remedy}"
        )
    why = line(str(error), _MOST) or type(error).__name__
    return Unavailable(f"{at} does not answer ({why}): {access.remedy}")


def detail(answer: Answer) -> str:
    """Returns what Airflow says; of a list of mistakes their messages, and not what was sent."""
    explanation = (answer.content() or {}).get("detail", "")
    if isinstance(explanation, list):
        explanation = "; ".join(
            str(mistake.get("msg", "")) for mistake in explanation if isinstance(mistake, dict)
        )
    return line(str(explanation), _MOST) or "it does not say why"


def _login_remedy(access: Access) -> str:
    if access.token:
        return f"the token has expired or is another Airflow's: put a new one into {access.source}"
    if access.login:
        return f"check login and password of {access.source}"
    return "make a connection 'sluice_airflow' with login and password, or with a token as its password"


def _redirected(access: Access, location: str) -> str:
    """Says where a redirect leads, without the query, in which login pages keep secrets."""
    asked, target = urlsplit(access.url), urlsplit(location)
    destination = line(
        f"{target.scheme}://{target.netloc}{target.path}" if target.netloc else target.path, _MOST
    )
    if (asked.scheme, target.scheme) == ("http", "https") and asked.hostname == target.hostname:
        return f"to {destination}: write https:// in {access.source}"
    return f"to {destination}, a login page or a proxy: name an address in {access.source} that takes tokens"


def _root(error: BaseException) -> BaseException:
    """Returns the TLS error below, or the error itself."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, ssl.SSLError):
            return below
        below = below.__cause__ or below.__context__
    return error


SECONDS = 30
"""For an answer, from the connection to its last byte."""
_API, PAGE_API = "/api/v2", "/sluice/api"

Judge = Callable[[Access, Answer], SluiceError | None]


class Session:
    """`call` and `read` raise Unavailable, and WrongUse for what is refused."""

    def __init__(self, client: httpx.Client, access: Access) -> None:
        self._client, self.access = client, access
        if access.token:  # a gateway may ask for it everywhere
            client.headers["Authorization"] = f"Bearer {access.token}"
        self._send("GET", f"{_API}/version", judge=no_api)
        if not access.token:
            self._login()

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Sends a request; `path` is below /api/v2."""
        return self._content(self._authorized(method, f"{_API}{path}", body))

    def read(self, path: str, api: str = _API) -> dict[str, Any] | None:
        """Sends a GET; returns None for what is not there. `api` is Airflow's, or the page's, PAGE_API."""
        answer = self._authorized("GET", f"{api}{path}", None)
        return None if answer.not_there else self._content(answer)

    def _content(self, answer: Answer) -> dict[str, Any]:
        if error := refused(self.access, answer, answered=True):
            raise error
        return answer.content() or {}

    def _authorized(self, method: str, path: str, body: Any) -> Answer:
        """A token lasts as long as Airflow's configuration says, and may not outlive the server."""
        answer = self._send(method, path, body)
        if self.access.token or not no_login(answer):
            return answer
        self._login()
        return self._send(method, path, body)

    def _login(self) -> None:
        self._client.headers.pop("Authorization", None)
        self._client.headers["Authorization"] = f"Bearer {self._new_token()}"

    def _new_token(self) -> str:
        path, login = self.access.token_path, self.access.login
        if login:
            body = {"username": login, "password": self.access.password}
            answer = self._send("POST", path, body, no_token)
        else:  # Airflow gives one without a login where all users are admins
            answer = self._send("GET", path, judge=no_token)
        return str((answer.content() or {})["access_token"])

    def _send(self, method: str, path: str, body: Any = None, judge: Judge = lambda *_: None) -> Answer:
        deadline = Deadline(SECONDS)
        try:
            with deadline:
                response = self._client.request(method, path, json=body, extensions={"trace": deadline.trace})
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise no_answer(self.access, _late(path) if deadline.over else error) from error
        if deadline.over:
            raise no_answer(self.access, _late(path))
        request = f"{method} {path.partition('?')[0]}"
        answer = Answer(request, response.status_code, response.text, response.headers.get("location", ""))
        if refusal := judge(self.access, answer):
            raise refusal
        return answer


def _late(path: str) -> httpx.ReadTimeout:
    return httpx.ReadTimeout(f"no whole answer of {path.partition('?')[0]} within {SECONDS} s")


@contextmanager
def open_session(access: Access) -> Iterator[Session]:
    """Yields a session that has logged in. Raises Unavailable and WrongUse."""
    new = httpx.Limits(max_keepalive_connections=0)  # a deadline sees a connection begin
    with httpx.Client(base_url=access.url, timeout=SECONDS, verify=access.trust(), limits=new) as client:
        yield Session(client, access)


# Which pools Airflow has, read over its REST API.
def existing(session: Session, names: Iterable[str]) -> frozenset[str]:
    """Returns those of `names` that are pools of Airflow. Raises Unavailable and WrongUse."""
    return frozenset(name for name in names if session.read(f"/pools/{quote(name, safe='')}") is not None)
