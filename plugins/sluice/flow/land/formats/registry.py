"""Reads schemas from a schema registry, by two calls of Confluent's REST API that others offer, too.

    GET /schemas/ids/{id}                              GET /subjects/{subject}/versions/{version}

An unknown id is a 404 with the error code 40403, and an unknown subject or version one with 40401 or 40402.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from sluice.clients.connections import Connection
from sluice.concurrency import Deadline
from sluice.errors import RegistryRefused, RegistryUnavailable, SluiceError, WrongUse
from sluice.flow.land.reject_reasons import BadSchema

SECONDS = 20
"""For an answer, from the connection to its last byte."""
WAITS = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try of a call that failed with a retryable error."""
_LOOPBACK = ("localhost", "127.0.0.1")
_TRY_LATER = (408, 429)
_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA = 40401, 40402, 40403
_LARGEST_ID = (1 << 31) - 1  # ids are Java's int: asked for a larger one, a registry has no such path
_ADDRESS = "check the address in its connection, with its base path"
MOST_BYTES = 4 << 20
"""Of an answer: Confluent's registry takes schemas of about a million characters."""
MOST_REFERENCES, MOST_REFERRED = 500, 4 << 20
"""Schemas that one refers to, and their bytes."""
# An answer that is compressed has no size before it is held.
_PLAIN = {"Accept-Encoding": "identity"}


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


_SCHEMA = msgspec.json.Decoder(_Schema)
_REFUSAL = msgspec.json.Decoder(_Refusal)
_NO_ANSWER = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


@dataclass(frozen=True)
class Address:
    """Where a registry is, and how to log in to it; it travels to the workers. The repr shows no secret.

    `ca` is a file of certificates to trust, `certificate` and `key` the client's own.
    """

    url: str
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class StoredSchema:
    """A schema as the registry holds it, and the texts of those that it refers to, which come first. With
    Protobuf the texts are descriptors in base64; `names` are those by which the references are imported."""

    kind: str
    text: str
    references: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def address_of(connection: Connection) -> Address:
    """Reads an Airflow connection: host with or without http(s)://, port, login, password; in its extra `ca`,
    `certificate` and `key`. Raises WrongUse."""
    if not connection.host:
        raise WrongUse(f"connection {connection.conn_id!r}: its host is missing, for example http://registry")
    if "@" in connection.host:  # errors show the address
        own = "write it as its login and password"
        raise WrongUse(f"connection {connection.conn_id!r}: its host holds a login: {own}")
    scheme, _, rest = connection.host.rpartition("://")
    scheme = scheme or connection.schema or ""
    if connection.login and not scheme and rest.split(":")[0] not in _LOOPBACK:
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
    extra = {name: connection.extra.get(name) for name in ("ca", "certificate", "key")}
    return Address(url, connection.login, connection.password, **extra)


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
        self._client = httpx.Client(
            base_url=address.url,
            auth=login,
            timeout=SECONDS,
            verify=_trust(address),
            trust_env=False,
            headers=_PLAIN,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def schema(self, number: int) -> StoredSchema | None:
        """Returns the schema; None where the registry knows no such id. Raises RegistryUnavailable,
        RegistryRefused, and BadSchema for what it refers to."""
        schema = self._of_id(number) if number <= _LARGEST_ID else None
        if schema is None:
            return None
        references: dict[str, str] = {}
        self._refer(schema, references, frozenset())
        kind = schema.schema_type or "AVRO"
        return StoredSchema(kind, schema.schema, tuple(references.values()), tuple(references))

    def check(self) -> None:
        """Asks what a landing asks. Raises RegistryUnavailable, RegistryRefused."""
        self._of_id(1)

    def _of_id(self, number: int) -> _Schema | None:
        """Returns None where the registry has no such id. A 404 without its error code may be another
        server's, or another path's: it says nothing of the schema."""
        answer = self._get(f"/schemas/ids/{number}")
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
                referred = self._schema(self._get(path))
                self._refer(referred, texts, paths | {path})
                texts[reference.name] = referred.schema
                if sum(map(len, texts.values())) > MOST_REFERRED:
                    raise BadSchema(
                        f"{path}: a schema refers to more than {MOST_REFERRED >> 20} MiB of others"
                    )

    def _get(self, path: str) -> httpx.Response:
        """Returns the first answer that another try would not change. Raises RegistryUnavailable after the
        last."""
        reason = ""
        for wait in (*WAITS, None):
            try:
                with whole_answer(self._client, path, self._format, SECONDS) as answer:
                    if answer.status_code < 500 and answer.status_code not in _TRY_LATER:
                        return self._held(answer)
                reason = f"status {answer.status_code} of {path}"
            except httpx.InvalidURL as error:  # of a subject that a schema refers to
                raise BadSchema(f"{path[:80]}: {error}") from error
            except httpx.RequestError as error:
                reason = str(error) or type(error).__name__
            if wait is not None:
                self._sleep(wait)
        raise RegistryUnavailable(self._address.url, _one_line(reason))

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
            raise self._refused(reason, "check the login in its connection")
        if code in (_NO_SUBJECT, _NO_VERSION):
            raise self._refused(reason, "register again what a schema refers to")
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


def _error_code(answer: httpx.Response) -> int | None:
    """Returns the registry's own code, which says more than the status; None for another server's answer."""
    try:
        return _REFUSAL.decode(answer.content).error_code
    except _NO_ANSWER:
        return None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _trust(address: Address) -> ssl.SSLContext:
    """Raises WrongUse for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=address.ca)
        if address.certificate:
            context.load_cert_chain(address.certificate, address.key)
    except (OSError, ssl.SSLError) as error:
        raise WrongUse(
            f"schema registry {address.url}: its certificate files cannot be read ({error})"
        ) from error
    return context


@contextmanager
def whole_answer(
    client: httpx.Client, path: str, params: Mapping[str, str], seconds: float
) -> Iterator[httpx.Response]:
    """Yields the answer to a GET as it comes; what reads it does so inside. `client` keeps no connections.

    Raises httpx.RequestError, also when the answer is not whole in time.
    """
    late = f"no whole answer of {path} within {seconds} s"
    deadline = Deadline(seconds)
    try:
        with deadline:
            traced = {"trace": deadline.trace}
            with client.stream("GET", path, params=params, extensions=traced) as answer:
                yield answer
    except httpx.RequestError as error:
        raise httpx.ReadTimeout(late) if deadline.over else error from None
    if deadline.over:
        raise httpx.ReadTimeout(late)
