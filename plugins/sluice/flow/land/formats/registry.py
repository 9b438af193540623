"""Reads schemas from a schema registry, by calls of Confluent's REST API that others offer, too.

    GET /schemas/ids/{id}       GET /schemas/guids/{guid}       GET /subjects/{subject}/versions/{version}

An unknown id or GUID is a 404 with the error code 40403, an unknown subject or version one with 40401 or
40402.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from sluice.clients.connections import Connection
from sluice.errors import RegistryRefused, RegistryUnavailable, SluiceError, WrongUse
from sluice.flow.land.formats.framing import SchemaId
from sluice.flow.land.formats.registry_tls import FILES, check_files, context_of, refusal
from sluice.flow.land.reject_reasons import BadSchema
from sluice.proxies import by_proxy
from sluice.whole_answer import Request, whole_answer

SECONDS = 20
"""For an answer, from the connection to its last byte."""
WAITS = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try of a call that failed with a retryable error."""
_LOOPBACK = ("localhost", "127.0.0.1")
_TRY_LATER = (408, 429)
_NO_DESCRIPTORS = (400, 406, 422, 501)
"""What registries say that know no `format=serialized`."""
_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA = 40401, 40402, 40403
_LARGEST_ID = (1 << 31) - 1  # ids are Java's int: asked for a larger one, a registry has no such path
_ADDRESS = "check the address in its connection, with its base path"
_LOGIN = "check the login in its connection, or the `token` or `token_url` in its extra"
MOST_BYTES = 4 << 20
"""Of an answer: Confluent's registry takes schemas of about a million characters."""
MOST_REFERENCES, MOST_REFERRED = 500, 4 << 20
"""Schemas that one refers to, and their bytes."""
# An answer that is compressed has no size before it is held.
_PLAIN = {"Accept-Encoding": "identity"}
_HEADERS = {"logical_cluster": "target-sr-cluster", "identity_pool": "Confluent-Identity-Pool-Id"}
"""What Confluent Cloud wants beside a token, and its own client sends."""
_EXTRA = (*FILES, "token", "token_url", "scope", *_HEADERS)
_EARLY = 30  # seconds before a token ends


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Schema(msgspec.Struct, rename="camel"):
    schema: str
    schema_type: str | None = None
    references: list[_Reference] | None = None


class _Refusal(msgspec.Struct):
    error_code: int


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


_SCHEMA = msgspec.json.Decoder(_Schema)
_REFUSAL = msgspec.json.Decoder(_Refusal)
_TOKEN = msgspec.json.Decoder(_Token, strict=False)  # some write its seconds as text
_NO_ANSWER = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


@dataclass(frozen=True)
class Address:
    """Where a registry is, and how to log in to it; it travels to the workers. The repr shows no secret.

    `ca` is a file of certificates to trust, `certificate` and `key` the client's own. With a `token_url`,
    login and password are a client's id and secret there (OAuth's client credentials). `headers` go with
    every request.
    """

    url: str
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    token: str | None = field(default=None, repr=False)
    token_url: str | None = None
    scope: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class StoredSchema:
    """A schema as the registry holds it, and the texts of those that it refers to, which come first. With
    Protobuf the texts are descriptors in base64, if the registry has them; `names` are those by which the
    references are imported."""

    kind: str
    text: str
    references: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def address_of(connection: Connection) -> Address:
    """Reads an Airflow connection: host with or without http(s)://, port, login, password; in its extra `ca`,
    `certificate` and `key`, `token` or `token_url` and `scope`, and for Confluent Cloud `logical_cluster` and
    `identity_pool`. Raises WrongUse."""
    extra = _texts(connection)
    if not connection.host:
        raise WrongUse(f"connection {connection.conn_id!r}: its host is missing, for example http://registry")
    if "@" in connection.host:  # errors show the address
        own = "write it as its login and password"
        raise WrongUse(f"connection {connection.conn_id!r}: its host holds a login: {own}")
    scheme, _, rest = connection.host.rpartition("://")
    scheme = scheme or connection.schema or ""
    if (connection.login or "token" in extra) and not scheme and rest.split(":")[0] not in _LOOPBACK:
        raise WrongUse(
            f"connection {connection.conn_id!r}: its password would travel in the clear to {rest}: write "
            f"https://{rest} as its host, or http://{rest} if it may"
        )
    port = f":{connection.port}" if connection.port else ""
    try:
        address = urlsplit(f"{scheme or 'http'}://{rest}")
        url = address._replace(netloc=address.netloc + port).geturl()
        is_http = httpx.URL(url).scheme in ("http", "https")
    except (ValueError, httpx.InvalidURL):
        url, is_http = "", False
    if not is_http:
        raise WrongUse(f"connection {connection.conn_id!r}: expected http(s)://host as its host, and a port")
    headers = tuple((_HEADERS[name], extra.pop(name)) for name in sorted(_HEADERS) if name in extra)
    return Address(url, connection.login, connection.password, headers=headers, **extra)


def _texts(connection: Connection) -> dict[str, str]:
    """Returns what the extra says of the registry. Raises WrongUse."""
    extra = {name: connection.extra[name] for name in _EXTRA if connection.extra.get(name)}
    where = f"connection {connection.conn_id!r}"
    wrong = next((name for name, value in extra.items() if not isinstance(value, str)), None)
    if wrong is not None:
        raise WrongUse(f"{where}: {wrong} in its extra is no text")
    check_files(extra, where)
    if "token" in extra and (connection.login or "token_url" in extra):
        raise WrongUse(f"{where}: expected `token` in its extra, or a login, or a login with `token_url`")
    if "token_url" in extra:
        if not connection.login or not connection.password:
            raise WrongUse(f"{where}: `token_url` needs the client's id and secret as login and password")
        if not extra["token_url"].startswith(("https://", "http://")) or "@" in extra["token_url"]:
            raise WrongUse(f"{where}: expected http(s)://host/path as `token_url`, without a login")
    return extra


class SchemaRegistry:
    """One per task. An id never gets another schema: the caller caches what `schema` returns."""

    def __init__(
        self, address: Address, serialized: bool, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """`serialized`: schemas are Protobuf's, and wanted as descriptors. Raises WrongUse."""
        self._address = address
        self._format = {"format": "serialized"} if serialized else {}
        self._sleep = sleep
        login = (address.login, address.password or "") if address.login else None
        self._token, self._until = address.token, math.inf
        self._client = httpx.Client(
            base_url=address.url,
            auth=None if address.token_url else login,
            timeout=SECONDS,
            verify=context_of(address.url, address.ca, address.certificate, address.key),
            headers={**_PLAIN, **dict(address.headers)},
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def schema(self, number: SchemaId) -> StoredSchema | None:
        """Returns the schema; None where the registry knows no such id. Raises RegistryUnavailable,
        RegistryRefused, and BadSchema for what it refers to."""
        known = isinstance(number, str) or number <= _LARGEST_ID
        schema = self._of_id(number) if known else None
        if schema is None:
            return None
        references: dict[str, str] = {}
        self._refer(schema, references, frozenset())
        kind = schema.schema_type or "AVRO"
        return StoredSchema(kind, schema.schema, tuple(references.values()), tuple(references))

    def check(self) -> None:
        """Asks what a landing asks. Raises RegistryUnavailable, RegistryRefused."""
        self._of_id(1)

    def _of_id(self, number: SchemaId) -> _Schema | None:
        """Returns None where the registry has no such id. A 404 without its error code may be another
        server's, or another path's: it says nothing of the schema."""
        kind = "ids" if isinstance(number, int) else "guids"
        answer = self._answer(f"/schemas/{kind}/{number}")
        if answer.status_code == httpx.codes.NOT_FOUND and _error_code(answer) == _NO_SCHEMA:
            return None
        return self._schema(answer)

    def _refer(self, schema: _Schema, texts: dict[str, str], paths: frozenset[str]) -> None:
        """Adds the texts of the schemas that `schema` refers to, each after those it refers to itself."""
        for reference in schema.references or ():
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            if path in paths:
                raise BadSchema(f"{path} refers to itself")
            if reference.name not in texts:
                if len(texts) + len(paths) >= MOST_REFERENCES:
                    raise BadSchema(f"{path}: a schema refers to more than {MOST_REFERENCES} others")
                referred = self._schema(self._answer(path))
                self._refer(referred, texts, paths | {path})
                texts[reference.name] = referred.schema
                if sum(map(len, texts.values())) > MOST_REFERRED:
                    raise BadSchema(
                        f"{path}: a schema refers to more than {MOST_REFERRED >> 20} MiB of others"
                    )

    def _answer(self, path: str) -> httpx.Response:
        """Returns the answer; of a registry that refuses to give descriptors the one with the text."""
        answer = self._get(path, self._format)
        if not self._format or answer.status_code not in _NO_DESCRIPTORS:
            return answer
        text = self._get(path, {})
        if text.is_success:
            self._format = {}
        return text

    def _get(self, path: str, params: Mapping[str, str]) -> httpx.Response:
        """Returns the first answer that another try would not change. Raises RegistryUnavailable after the
        last, RegistryRefused for a login that gets no token."""
        answer = self._tried(Request("GET", path, params, self._login()))
        if answer.status_code == httpx.codes.UNAUTHORIZED and self._address.token_url:
            self._until = 0.0  # the token may have been withdrawn
            answer = self._tried(Request("GET", path, params, self._login()))
        return answer

    def _login(self) -> dict[str, str]:
        """Returns the header of a bearer's token; none without one."""
        if self._address.token_url is not None and (self._token is None or time.monotonic() > self._until):
            self._token, self._until = self._granted(self._address.token_url)
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def _granted(self, url: str) -> tuple[str, float]:
        """Returns a token, and until when it holds (RFC 6749, 4.4)."""
        login, secret = (quote(text or "", safe="") for text in (self._address.login, self._address.password))
        credentials = base64.b64encode(f"{login}:{secret}".encode()).decode()
        form = {"grant_type": "client_credentials"}
        if self._address.scope:
            form["scope"] = self._address.scope
        answer = self._tried(Request("POST", url, {}, {"Authorization": f"Basic {credentials}"}, form))
        reason = f"status {answer.status_code} of {url}"
        try:
            token = _TOKEN.decode(answer.content) if answer.is_success else None
        except _NO_ANSWER:
            token, reason = None, f"the answer of {url} holds no token"
        if token is None or not token.access_token.isprintable() or not token.access_token.isascii():
            raise self._refused(reason, "check token_url, scope, login and password of its connection")
        seconds = math.inf if token.expires_in is None else max(token.expires_in - _EARLY, 0)
        return token.access_token, time.monotonic() + seconds

    def _tried(self, request: Request) -> httpx.Response:
        reason, path = "", request.path
        asked = path if "://" in path else self._address.url
        for wait in (*WAITS, None):
            try:
                with whole_answer(self._client, request, SECONDS) as answer:
                    if not _passes(answer.status_code):
                        return self._held(answer)
                reason = f"status {answer.status_code} of {path}"
            except httpx.InvalidURL as error:  # of a subject that a schema refers to
                raise BadSchema(f"{path[:80]}: {error}") from error
            except httpx.RequestError as error:
                if refused := refusal(error):
                    raise self._refused(f"TLS with {_host(asked)}: {refused[0]}", refused[1]) from None
                reason = str(error) or type(error).__name__
            if wait is not None:
                self._sleep(wait)
        reason = _one_line(reason)
        raise RegistryUnavailable(self._address.url, by_proxy(asked, reason))

    def _held(self, answer: httpx.Response) -> httpx.Response:
        """Returns the answer with its content. Raises RegistryRefused for one that is larger than any schema,
        httpx.DecodingError for one that is compressed."""
        if "content-encoding" in answer.headers:
            raise httpx.DecodingError(f"the answer of {answer.url} is compressed, and was asked for as it is")
        content = bytearray()
        for piece in answer.iter_raw():
            content += piece
            if len(content) > MOST_BYTES:
                reason = f"the answer of {answer.url} is larger than {MOST_BYTES >> 20} MiB"
                raise self._refused(reason, _ADDRESS)
        return httpx.Response(
            answer.status_code, headers=answer.headers, content=bytes(content), request=answer.request
        )

    def _schema(self, answer: httpx.Response) -> _Schema:
        """Returns the schema in an answer. Raises RegistryRefused for any other answer."""
        status, code = answer.status_code, _error_code(answer)
        reason = f"status {status} of {answer.url}" + (f", error code {code}" if code else "")
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise self._refused(reason, _LOGIN)
        if code in (_NO_SUBJECT, _NO_VERSION):
            raise self._refused(reason, "register again what a schema refers to")
        if status == httpx.codes.NOT_IMPLEMENTED:
            raise self._refused(reason, "this registry has no descriptors, and no texts of schemas by id")
        if answer.has_redirect_location:
            reason += f", which is now at {_one_line(answer.headers['location'])}"
        if not answer.is_success:
            raise self._refused(reason, _ADDRESS)
        try:
            return _SCHEMA.decode(answer.content)
        except _NO_ANSWER as error:
            reason = f"the answer of {answer.url} is no schema: {_one_line(str(error))}"
            raise self._refused(reason, _ADDRESS) from error

    def _refused(self, reason: str, remedy: str) -> SluiceError:
        return RegistryRefused(self._address.url, reason, remedy)


def _passes(status: int) -> bool:
    """Returns whether another try may get another answer."""
    return (status >= 500 and status != httpx.codes.NOT_IMPLEMENTED) or status in _TRY_LATER


def _error_code(answer: httpx.Response) -> int | None:
    """Returns the registry's own code, which says more than the status; None for another server's answer."""
    try:
        return _REFUSAL.decode(answer.content).error_code
    except _NO_ANSWER:
        return None


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
