"""The S3 client, and what its failures mean."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict

import boto3
from botocore import UNSIGNED
from botocore import exceptions as boto
from botocore.config import Config
from botocore.session import get_session
from s3transfer.exceptions import RetriesExceededError

from sluice.clients.lake.settings import S3Settings
from sluice.concurrency import bound_answers
from sluice.errors import LakeRefused, LakeUnavailable, SluiceError, WrongUse
from sluice.metrics import meter

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Credentials that are looked up on the machine's metadata server can fail for a moment, too.
_UNAVAILABLE = (
    boto.HTTPClientError,
    boto.ResponseStreamingError,
    boto.IncompleteReadError,
    boto.FlexibleChecksumError,
    boto.CredentialRetrievalError,
    boto.MetadataRetrievalError,
    RetriesExceededError,
)
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html; all others below 500 are final.
_RETRYABLE = {"SlowDown", "RequestTimeout", "OperationAborted", "ConditionalRequestConflict", "429"}
# A copy in parts whose last answer was lost is asked for again, and is over by then.
_RETRYABLE |= {"NoSuchUpload"}
_CREDENTIALS = (
    "give its credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or an Airflow "
    "connection that `lake_connection` in the pipeline file names"
)
_RIGHTS = "allow s3:GetObject, PutObject, DeleteObject and ListBucket below it to these credentials"
# Without a byte of an answer; then the request is repeated, and what it had done is found.
READ_SECONDS = 30
_DIGITS = 16  # of a size: no body has an exabyte
_ANY_REGION = "us-east-1"  # a store with an address of its own has none, but a signature needs one
_REGION = "set the bucket's region (AWS_REGION, or region_name in the connection)"
_REMEDIES = {
    "NoSuchBucket": "make the bucket, or correct `lake` in the pipeline file",
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "AccessDenied": _RIGHTS,
    "403": _RIGHTS,
    "PermanentRedirect": _REGION,
    "301": _REGION,
    "RequestTimeTooSkewed": "set this machine's clock",
    "NotImplemented": "use a store that knows conditional writes (If-None-Match and If-Match)",
}


class S3Object(TypedDict):
    """The arguments of a call that name an object."""

    Bucket: str
    Key: str


class _Making:
    """Making a client takes a second of computing: sixteen threads that begin at once wait for one."""

    lock = threading.Lock()

    @classmethod
    def forked(cls) -> None:
        cls.lock = threading.Lock()


# A thread of the parent that held the lock does not exist in the child.
os.register_at_fork(after_in_child=_Making.forked)


def client(settings: S3Settings) -> S3Client:
    """Returns a client of this process: a connection that a fork inherits would mix two processes' answers.

    Raises WrongUse when the endpoint is no URL.
    """
    try:
        with _Making.lock:
            return _client(settings, os.getpid())
    except ValueError as error:
        raise WrongUse(f"the S3 endpoint {settings.endpoint_url!r} is no URL: {error}") from error


@lru_cache(maxsize=8)
def _client(settings: S3Settings, _process: int) -> S3Client:
    session = boto3.session.Session(profile_name=settings.profile)
    s3_client = session.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        region_name=settings.region
        or (_ANY_REGION if settings.endpoint_url and not settings.profile else None),
        aws_access_key_id=settings.key,
        aws_secret_access_key=settings.secret,
        aws_session_token=settings.token,
        verify=settings.verify,
        config=_config(settings.config, _addressing(settings)),
    )
    if settings.whole_seconds is not None:
        endpoint: Any = getattr(s3_client, "_endpoint")  # noqa: B009 - its stub has none
        bound_answers(endpoint.http_session._manager, settings.whole_seconds)
    s3_client.meta.events.register("before-send.s3", _sent)
    s3_client.meta.events.register("after-call.s3", _received)
    return s3_client


def _sent(request: Any, event_name: str, **_: object) -> None:
    """Counts one try of a request. The event is named `before-send.s3.PutObject`."""
    meter.add("bucket_requests", operation=event_name.rpartition(".")[2])
    meter.add("bucket_bytes_sent", _length(request.headers))


def _received(http_response: Any, **_: object) -> None:
    meter.add("bucket_bytes_received", _length(http_response.headers))


def _length(headers: Mapping[str, Any]) -> int:
    """Returns the size that a body has by its header; 0 where it says none."""
    value = headers.get("Content-Length", b"0")
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else 0


def _config(text: str, addressing: dict[str, str] | None = None) -> Config:
    """Returns the settings in `text`, a JSON object, over Sluice's own defaults."""
    more: dict[str, Any] = json.loads(text or "{}")
    if more.get("signature_version") == "unsigned":  # as Airflow's own hook reads it
        more["signature_version"] = UNSIGNED
    retries = {"mode": "standard", "total_max_attempts": 4}
    defaults = {"connect_timeout": 3, "read_timeout": READ_SECONDS, "retries": retries}
    return Config(**{**defaults, **more, "s3": {**(addressing or {}), **more.get("s3", {})} or None})


def check_config(text: str) -> None:
    """Raises WrongUse for settings that botocore's Config does not take."""
    try:
        _config(text)
    except (TypeError, AttributeError, ValueError, boto.BotoCoreError) as error:
        reason = " ".join(str(error).split())
        raise WrongUse(f"the extra of the lake's connection: config_kwargs: {reason}") from error


def _addressing(settings: S3Settings) -> dict[str, str] | None:
    """Returns the addressing style; None leaves it to the profile's own `s3 = addressing_style = …`, and to
    boto3's choice.

    A store with an address of its own seldom has a name for each bucket.
    """
    if settings.addressing:
        return {"addressing_style": settings.addressing}
    profiles = get_session()
    profiles.set_config_variable("profile", settings.profile)
    profile_settings = profiles.get_scoped_config().get("s3", {})
    return (
        {"addressing_style": "path"}
        if settings.endpoint_url and "addressing_style" not in profile_settings
        else None
    )


def code(error: boto.ClientError) -> str:
    """Returns the service's error code; a HEAD's answer has no body, so there it is the HTTP status."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status(error: boto.ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def refusal(url: str, reason: str, number: int, message: str = "") -> SluiceError:
    """Returns what a service's error code and HTTP status mean: LakeUnavailable or LakeRefused."""
    text = f"{reason}: {message}" if message else reason
    if number >= 500 or reason in _RETRYABLE or reason in ("InternalError", "ServiceUnavailable"):
        return LakeUnavailable(url, text)
    return LakeRefused(url, text, _REMEDIES.get(reason, "correct `lake` or its credentials"))


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Raises LakeUnavailable for retryable failures, LakeRefused for permanent ones."""
    try:
        yield
    except boto.ClientError as error:
        message = error.response.get("Error", {}).get("Message", "")
        raise refusal(url, code(error), status(error), message) from error
    except _UNAVAILABLE as error:
        raise LakeUnavailable(url, str(error)) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError) as error:
        raise LakeRefused(url, str(error), _CREDENTIALS) from error
    except boto.ConnectionError as error:
        raise LakeUnavailable(url, str(error)) from error
    except boto.BotoCoreError as error:
        raise LakeRefused(url, str(error), "correct `lake`, or the settings of its connection") from error
