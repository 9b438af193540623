"""How an S3 store is reached: from the environment (AWS_…), or from an Airflow connection."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.errors import WrongUse
from sluice.pipeline import Pipeline


@dataclass(frozen=True)
class S3Settings:
    """None leaves a setting to boto3's own search: environment, ~/.aws, the machine's role."""

    endpoint_url: str | None = None
    region: str | None = None
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    profile: str | None = None
    addressing: str | None = None  # path or virtual; None: path where the endpoint is given

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> S3Settings:
        """The AWS SDKs' variables: AWS_ENDPOINT_URL_S3 before AWS_ENDPOINT_URL, keys before AWS_PROFILE.

        Source: https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html
        """
        get = {name: value for name, value in environment.items() if value}.get
        return cls(
            endpoint_url=get("AWS_ENDPOINT_URL_S3") or get("AWS_ENDPOINT_URL"),
            region=get("AWS_REGION") or get("AWS_DEFAULT_REGION"),
            key=get("AWS_ACCESS_KEY_ID"),
            secret=get("AWS_SECRET_ACCESS_KEY"),
            token=get("AWS_SESSION_TOKEN"),
            profile=None if get("AWS_ACCESS_KEY_ID") else get("AWS_PROFILE"),
        )

    @classmethod
    def from_connection(cls, login: str | None, password: str | None, extra: Mapping[str, Any]) -> S3Settings:
        """An Airflow `aws` connection: key and secret as login and password, the rest in `extra`.

        Source: apache-airflow-providers-amazon, "Amazon Web Services Connection". Raises WrongUse for an
        addressing style that boto3 does not know.
        """
        addressing = _inner(_inner(extra, "config_kwargs"), "s3").get("addressing_style")
        if addressing not in (None, "path", "virtual", "auto"):
            raise WrongUse(
                f"config_kwargs.s3.addressing_style: expected path, virtual or auto, not {addressing}"
            )
        return cls(
            endpoint_url=extra.get("endpoint_url"),
            region=extra.get("region_name"),
            key=login or extra.get("aws_access_key_id"),
            secret=password or extra.get("aws_secret_access_key"),
            token=extra.get("aws_session_token"),
            profile=extra.get("profile_name") or _inner(extra, "session_kwargs").get("profile_name"),
            addressing=addressing,
        )


def _inner(extra: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Airflow keeps an object in `extra` as it is, or as its JSON text."""
    found = extra.get(name) or {}
    try:
        found = json.loads(found) if isinstance(found, str) else found
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, Mapping):
        raise WrongUse(f"the extra of the lake's connection: {name}: expected a JSON object")
    return found


def settings_for(pipeline: Pipeline) -> S3Settings | None:
    """The settings of the pipeline's `lake_connection`, or None when it names none."""
    if pipeline.lake_connection is None:
        return None
    from sluice import connections

    found = connections.find(pipeline.lake_connection)
    return S3Settings.from_connection(found.login, found.password, found.extra)
