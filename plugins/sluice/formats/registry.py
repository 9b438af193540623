"""Reads schemas from a schema registry, by two calls of Confluent's REST API that others offer, too.

    GET /schemas/ids/{id}                              GET /subjects/{subject}/versions/{version}

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from sluice.connections import Connection
from sluice.errors import RegistryOutOfReach, RegistryRefused, WrongUse

SECONDS = 20
_TRIES = 3
_NOT_FOUND = 404
_TRY_LATER = (408, 429)


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
class Stored:
    """A schema as the registry holds it, and the texts of those that it refers to, which come first. With
    Protobuf the texts are descriptors in base64; `names` are those by which the references are imported."""

    kind: str
    text: str
    references: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def address_of(connection: Connection) -> Address:
    """Of an Airflow connection: host with or without http(s)://, port, login, password; in its extra `ca`,
    `certificate` and `key`. Raises WrongUse."""
    if not connection.host:
        raise WrongUse(f"connection {connection.conn_id!r}: its host is missing, for example http://registry")
    scheme, _, rest = connection.host.rpartition("://")
    port = f":{connection.port}" if connection.port else ""
    url = f"{scheme or connection.schema or 'http'}://{rest}{port}"
    extra = {name: connection.extra.get(name) for name in ("ca", "certificate", "key")}
    return Address(url, connection.login, connection.password, **extra)


class Registry:
    """One per task. `schema` answers the same for ever: an id never gets another schema."""

    def __init__(self, address: Address, serialized: bool) -> None:
        """`serialized`: schemas are Protobuf's, and wanted as descriptors."""
        self._address = address
        self._format = {"format": "serialized"} if serialized else {}
        login = (address.login, address.password or "") if address.login else None
        self._client = httpx.Client(
            base_url=address.url, auth=login, timeout=SECONDS, verify=_trust(address), trust_env=False
        )

    def schema(self, number: int) -> Stored | None:
        """None: the registry knows no such id. Raises RegistryOutOfReach, RegistryRefused."""
        found = self._get(f"/schemas/ids/{number}")
        if found is None:
            return None
        references: dict[str, str] = {}
        self._refer(found, references)
        kind = found.get("schemaType", "AVRO")
        return Stored(kind, found["schema"], tuple(references.values()), tuple(references))

    def check(self) -> None:
        """Raises RegistryOutOfReach, RegistryRefused."""
        self._get("/schemas/types")

    def _refer(self, schema: Mapping[str, Any], known: dict[str, str]) -> None:
        """Adds what `schema` refers to, and that what it refers to itself, before it."""
        for reference in schema.get("references") or ():
            if reference["name"] not in known:
                place = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
                found = self._get(place)
                if found is None:
                    raise RegistryRefused(self._address.url, f"it has no {place}, which a schema refers to")
                self._refer(found, known)
                known[reference["name"]] = found["schema"]

    def _get(self, place: str) -> dict[str, Any] | None:
        for left in reversed(range(_TRIES)):
            try:
                answer = self._client.get(place, params=self._format)
            except httpx.TransportError as error:
                if not left:
                    raise RegistryOutOfReach(self._address.url, str(error) or type(error).__name__) from error
                continue
            if answer.status_code < 500 and answer.status_code not in _TRY_LATER:
                break
        return self._said(place, answer)

    def _said(self, place: str, answer: httpx.Response) -> dict[str, Any] | None:
        if answer.status_code >= 500 or answer.status_code in _TRY_LATER:
            raise RegistryOutOfReach(self._address.url, f"status {answer.status_code} of {place}")
        if answer.status_code == _NOT_FOUND:
            return None
        if not answer.is_success:
            raise RegistryRefused(self._address.url, f"status {answer.status_code} of {place}")
        try:
            return answer.json()
        except ValueError as error:
            raise RegistryRefused(self._address.url, f"its answer to {place} is not JSON") from error


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
