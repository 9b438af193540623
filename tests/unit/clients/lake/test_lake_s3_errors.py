from __future__ import annotations

import pytest
from botocore import exceptions as boto

from sluice.clients.lake.s3_client import explained
from sluice.errors import LakeRefused, LakeUnavailable

URL = "s3://bucket/demo"


def service_error(code: str, status: int) -> boto.ClientError:
    answer = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return boto.ClientError(answer, "PutObject")


@pytest.mark.parametrize(
    "error",
    [
        service_error("InternalError", 500),
        service_error("SlowDown", 503),
        service_error("503", 503),
        service_error("RequestTimeout", 400),
        boto.EndpointConnectionError(endpoint_url="http://s"),
        boto.ConnectTimeoutError(endpoint_url="http://s"),
        boto.ReadTimeoutError(endpoint_url="http://s"),
        boto.ConnectionClosedError(endpoint_url="http://s"),
        boto.SSLError(endpoint_url="http://s", error="handshake"),
        boto.ProxyConnectionError(proxy_url="http://p"),
        boto.ResponseStreamingError(error="cut"),
        boto.IncompleteReadError(actual_bytes=1, expected_bytes=2),
    ],
    ids=repr,
)
def test_unavailable(error: Exception) -> None:
    with pytest.raises(LakeUnavailable, match=URL) as raised, explained(URL):
        raise error
    assert raised.value.retryable
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (service_error("NoSuchBucket", 404), "make the bucket"),
        (service_error("AccessDenied", 403), "allow s3:GetObject"),
        (service_error("403", 403), "allow s3:GetObject"),
        (service_error("InvalidAccessKeyId", 403), "AWS_ACCESS_KEY_ID"),
        (service_error("SignatureDoesNotMatch", 403), "lake_connection"),
        (service_error("ExpiredToken", 400), "AWS_ACCESS_KEY_ID"),
        (service_error("RequestTimeTooSkewed", 403), "clock"),
        (service_error("PermanentRedirect", 301), "region"),
        (service_error("InvalidArgument", 400), "correct `lake`"),
        (boto.NoCredentialsError(), "AWS_ACCESS_KEY_ID"),
        (boto.ParamValidationError(report="Invalid bucket name"), "correct `lake`"),
    ],
    ids=repr,
)
def test_refused(error: Exception, remedy: str) -> None:
    with pytest.raises(LakeRefused, match=remedy) as raised, explained(URL):
        raise error
    assert not raised.value.retryable
    assert URL in str(raised.value)


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError), explained(URL):
        raise ZeroDivisionError
