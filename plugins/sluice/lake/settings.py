"""How an S3 store is reached: from the environment (AWS_…), or from an Airflow connection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.pipeline import Pipeline


@dataclass(frozen=True)
class S3Settings:
    """None leaves a setting to boto3's own search: environment, ~/.aws, the machine's role."""

    endpoint_url: str | None = None
    region: str | None = None
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> S3Settings:
        """The AWS SDKs' variables: AWS_ENDPOINT_URL_S3 before AWS_ENDPOINT_URL, and the key pair.

        Source: https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html
        """
        get = {name: value for name, value in environment.items() if value}.get
        return cls(
            endpoint_url=get("AWS_ENDPOINT_URL_S3") or get("AWS_ENDPOINT_URL"),
            region=get("AWS_REGION") or get("AWS_DEFAULT_REGION"),
            key=get("AWS_ACCESS_KEY_ID"),
            secret=get("AWS_SECRET_ACCESS_KEY"),
            token=get("AWS_SESSION_TOKEN"),
        )

    @classmethod
    def from_connection(cls, login: str | None, password: str | None, extra: Mapping[str, Any]) -> S3Settings:
        """An Airflow `aws` connection: key and secret as login and password, the rest in `extra`."""
        return cls(
            endpoint_url=extra.get("endpoint_url"),
            region=extra.get("region_name"),
            key=login or extra.get("aws_access_key_id"),
            secret=password or extra.get("aws_secret_access_key"),
            token=extra.get("aws_session_token"),
        )


def settings_for(pipeline: Pipeline) -> S3Settings | None:
    """The settings of the pipeline's `lake_connection`, or None when it names none."""
    if pipeline.lake_connection is None:
        return None
    from sluice import connections

    found = connections.find(pipeline.lake_connection)
    return S3Settings.from_connection(found.login, found.password, found.extra)
