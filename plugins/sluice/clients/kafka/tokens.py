"""Tokens with which Python's clients log in to a cluster (SASL OAUTHBEARER), one for all of a process.

A token is asked for once, and again when most of its time is over; while the endpoint fails, the old one
serves to its end. Spark's Java client asks for its own, with what `OAuthClient` says. A message names the
endpoint's host, and shows nothing that it answers.

Sources: RFC 6749, 4.4 (client credentials); RFC 7628 (the mechanism); AWS Signature Version 4, in a query.
"""

from __future__ import annotations

import base64
import math
import os
import ssl
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar
from urllib.parse import quote, quote_plus, urlsplit

import httpx
import msgspec
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth

from sluice.errors import KafkaLoginFails, SluiceError
from sluice.proxies import by_proxy
from sluice.whole_answer import Request, whole_answer

SECONDS = 10
"""For an answer of the endpoint, from the connection to its last byte."""
WAITS = (0.5, 1.0)
"""Seconds before each further try, where the endpoint does not answer or fails by itself."""
_MOST_BYTES = 1 << 20
_SERVED = 0.8  # of its time, then the next one is asked for
_LONGEST = 3600.0  # for a token that does not say how long it lasts
_AWS_SECONDS = 900
_TRY_LATER = (408, 429)

_CREDENTIALS = "check client id, client secret, scope and token endpoint in the connection's extra"
_ENDPOINT = "check that it runs, and sasl.oauthbearer.token.endpoint.url in the connection's extra"
_CA = "let https.ca.location in the connection's extra name the authority that signed its certificate"
_CLOCKS = "set the clocks of this machine and the endpoint, or the lifetime of its tokens"
_REFUSED = "the brokers refuse it"
_BROKERS = "compare scope, audience, issuer and keys of its tokens with what the brokers expect"
_AWS = (
    "give this machine a role, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, that may kafka-cluster:Connect"
)


@dataclass(frozen=True)
class Token:
    """`expires` is in seconds since the epoch; `renewed` by this process's monotonic clock."""

    text: str = field(repr=False)
    expires: float
    renewed: float

    @classmethod
    def lasting(cls, text: str, seconds: float) -> Token:
        return cls(text, time.time() + seconds, time.monotonic() + _SERVED * seconds)


@dataclass(frozen=True)
class _Issuer:
    """Who gives tokens for a cluster. `if_refused` says what to do if the brokers refuse one."""

    if_refused: ClassVar[str] = _BROKERS
    cluster: str
    bootstrap: str

    @abstractmethod
    def ask(self) -> Token:
        """Raises KafkaLoginFails."""

    @abstractmethod
    def name(self) -> str:
        """Returns what a message calls it."""

    def fails(self, reason: str, remedy: str) -> KafkaLoginFails:
        reason = " ".join(reason.split())[:300]
        return KafkaLoginFails(self.cluster, self.bootstrap, reason, self.name(), remedy)


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


class _Claims(msgspec.Struct):
    exp: float | None = None


_ANSWER, _CLAIMS = msgspec.json.Decoder(_Answer, strict=False), msgspec.json.Decoder(_Claims)


@dataclass(frozen=True)
class OAuthClient(_Issuer):
    """A client of a token endpoint, which gives a token for its id and secret."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    ca_file: str | None = None

    def name(self) -> str:
        return urlsplit(self.url).netloc

    def ask(self) -> Token:
        """Tries again where that may help, at most for half a minute."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise self.fails(f"{self.ca_file} holds no certificates in PEM", _CA) from error
        limits = httpx.Limits(max_keepalive_connections=0)
        reason = ""
        with httpx.Client(timeout=SECONDS, verify=context, limits=limits) as client:
            for wait in (*WAITS, None):
                try:
                    return self._token(self._posted(client))
                except _Passing as error:
                    reason = str(error)
                if wait is not None:
                    time.sleep(wait)
        raise self.fails(by_proxy(self.url, reason), _ENDPOINT)

    def _posted(self, client: httpx.Client) -> bytes:
        """Raises _Passing where another try may get another answer."""
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.secret)}"
        login = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Accept": "application/json",
        }
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        try:
            with whole_answer(client, Request("POST", self.url, {}, login, form), SECONDS) as answer:
                if answer.status_code >= 500 or answer.status_code in _TRY_LATER:
                    raise _Passing(f"it answers with status {answer.status_code}")
                if not answer.is_success:
                    raise self.fails(f"it answers with status {answer.status_code}", _CREDENTIALS)
                return self._bounded(answer)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            if isinstance(_lowest(error), ssl.SSLCertVerificationError):
                raise self.fails("its certificate is not trusted", _CA) from None
            if isinstance(error, httpx.TimeoutException):
                raise _Passing(f"no whole answer within {SECONDS} s") from None
            raise _Passing(str(error) or type(error).__name__) from None

    def _bounded(self, answer: httpx.Response) -> bytes:
        content = bytearray()
        for piece in answer.iter_bytes():
            content += piece
            if len(content) > _MOST_BYTES:
                raise self.fails("its answer is too long for a token", _ENDPOINT)
        return bytes(content)

    def _token(self, content: bytes) -> Token:
        try:
            answer = _ANSWER.decode(content)
        except (ValueError, msgspec.DecodeError):
            raise self.fails("its answer holds no token", _ENDPOINT) from None
        text, now = answer.access_token, time.time()
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise self.fails("its answer holds no token", _ENDPOINT)
        until = _expiry(text)
        left = min(math.inf if answer.expires_in is None else answer.expires_in, until - now)
        if left <= 0:
            raise self.fails("its token has expired already", _CLOCKS)
        return Token.lasting(text, min(left, _LONGEST))


class _Passing(Exception):
    """A failure that the next try may not meet."""


def _expiry(token: str) -> float:
    """Returns when a JWT expires, in seconds since the epoch; infinity where it does not say."""
    payload = [*token.split("."), ""][1]
    try:
        claims = _CLAIMS.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, msgspec.DecodeError):
        return math.inf
    return math.inf if claims.exp is None else claims.exp


def _lowest(error: BaseException) -> BaseException:
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    return error


@dataclass(frozen=True)
class AwsSigner(_Issuer):
    """Signs tokens for Amazon MSK with the credentials that this machine has, as botocore finds them.

    The token is a signed URL of `kafka-cluster:Connect`, as aws-msk-iam-sasl-signer makes it.
    """

    if_refused: ClassVar[str] = _AWS
    region: str
    extensions: tuple[tuple[str, str], ...] = ()

    def name(self) -> str:
        return f"AWS IAM in {self.region}"

    def ask(self) -> Token:
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session

        try:
            found = get_session().get_credentials()
            credentials = found and found.get_frozen_credentials()
        except BotoCoreError as error:
            raise self.fails(str(error), _AWS) from None
        if not credentials or not credentials.access_key or not credentials.secret_key:
            raise self.fails("this machine has no AWS credentials", _AWS)
        url = f"https://kafka.{self.region}.amazonaws.com/"
        request = AWSRequest("GET", url, params={"Action": "kafka-cluster:Connect"})
        SigV4QueryAuth(credentials, "kafka-cluster", self.region, expires=_AWS_SECONDS).add_auth(request)
        signed = f"{request.url}&User-Agent={quote('sluice')}"
        return Token.lasting(base64.urlsafe_b64encode(signed.encode()).decode().rstrip("="), _AWS_SECONDS)


Issuer = OAuthClient | AwsSigner


class TokenSource:
    """Keeps the token of one issuer. `trouble` is why the last question got none, `refusal` that the brokers
    refuse what it got."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.trouble: KafkaLoginFails | None = None
        self.refusal: KafkaLoginFails | None = None
        self._lock = threading.Lock()
        self._token: Token | None = None

    def token(self) -> Token:
        """Raises KafkaLoginFails."""
        with self._lock:
            if self._token is None or time.monotonic() >= self._token.renewed:
                try:
                    self._token, self.trouble = self.issuer.ask(), None
                except KafkaLoginFails as error:
                    self.trouble = error
                    if self._token is None or time.time() >= self._token.expires:
                        raise
            return self._token

    def refused(self) -> None:
        """Lets another token be asked for."""
        with self._lock:
            self._token, self.refusal = None, self.issuer.fails(_REFUSED, self.issuer.if_refused)


@lru_cache(maxsize=64)
def source_of(issuer: Issuer) -> TokenSource:
    """Returns the one source of this process."""
    return TokenSource(issuer)


# A thread of the parent that held a lock does not exist in the child.
os.register_at_fork(after_in_child=source_of.cache_clear)


class Provider(AbstractTokenProvider):
    """Gives kafka-python the token of each connection, and of each time that it logs in again."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    @property
    def source(self) -> TokenSource:
        return source_of(self._issuer)

    def token(self) -> str:
        """Raises what kafka-python gives up at: it tries again after any other error."""
        try:
            return self.source.token().text
        except SluiceError as error:
            raise SaslAuthenticationFailedError(str(error)) from error

    def extensions(self) -> dict[str, str]:
        return dict(self._issuer.extensions)


class _Mechanism(SaslMechanismOAuth):
    """Hears what the broker says of a token: kafka-python only says that no broker answers."""

    token_provider: Provider

    def receive(self, auth_bytes: bytes) -> None:
        if auth_bytes:
            self.token_provider.source.refused()
        super().receive(auth_bytes)


register_sasl_mechanism("OAUTHBEARER", _Mechanism, overwrite=True)

LibrdkafkaToken = tuple[str, float, str, dict[str, str]]


def oauth_callback(issuer: Issuer) -> Callable[[str], LibrdkafkaToken]:
    """Returns what librdkafka calls for a token, by itself before it expires: text, expiry, principal,
    extensions."""

    def given(_config: str) -> LibrdkafkaToken:
        token = source_of(issuer).token()
        return token.text, token.expires, "", dict(issuer.extensions)

    return given
