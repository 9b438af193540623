"""How an S3 store is reached: from the environment (AWS_…), or from an Airflow connection."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse

_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# By place in the extra; of config_kwargs all that botocore's Config takes.
_UNDERSTOOD = {
    "": ("endpoint_url", "region_name", *_KEYS, "profile_name", "verify"),
    "session_kwargs": (*_KEYS, "profile_name", "region_name"),
    "service_config.s3": ("endpoint_url", "bucket_name"),
}
_INNER = ("config_kwargs", "session_kwargs", "service_config")
# Airflow reads these only where there is a role_arn.
_OF_A_ROLE = ("assume_role_method", "assume_role_kwargs")
_BRIEF = {"read_timeout": 5, "connect_timeout": 3, "retries": {"mode": "standard", "total_max_attempts": 2}}

_WHOLE_SECONDS = 15.0


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
    verify: bool | str | None = None  # of the store's certificate: whether, or with which CA file
    config: str = field(default="", repr=False)  # more of botocore's Config, as JSON; a proxy has a login
    whole_seconds: float | None = None  # for all of an answer, whatever comes of it meanwhile

    def brief(self) -> S3Settings:
        """Returns the settings with two tries of five seconds, whatever the connection says of waiting; a try
        whose answer goes on ends after three times as many."""
        more = json.loads(self.config or "{}") | _BRIEF
        return replace(self, config=json.dumps(more), whole_seconds=_WHOLE_SECONDS)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> S3Settings:
        """Returns the AWS SDKs' variables: AWS_ENDPOINT_URL_S3 before AWS_ENDPOINT_URL, keys before
        AWS_PROFILE.

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
        """Returns an Airflow `aws` connection: key and secret as login and password, the rest in `extra`.

        Source: apache-airflow-providers-amazon, aws/utils/connection_wrapper.py. Raises WrongUse for an
        addressing style that boto3 does not know, and for what would silently not apply.
        """
        _refuse_unknown(extra)
        config, session = _inner(extra, "config_kwargs"), _inner(extra, "session_kwargs")
        addressing = _inner(config, "s3").get("addressing_style")
        if addressing not in (None, "path", "virtual", "auto"):
            raise WrongUse(
                f"config_kwargs.s3.addressing_style: expected path, virtual or auto, not {addressing}"
            )
        key_values = [extra.get(name) or session.get(name) for name in _KEYS]
        return cls(
            endpoint_url=_service(extra).get("endpoint_url") or extra.get("endpoint_url"),
            region=extra.get("region_name") or session.get("region_name") or config.get("region_name"),
            key=login or key_values[0],
            secret=password or key_values[1],
            token=key_values[2],
            profile=extra.get("profile_name") or session.get("profile_name"),
            addressing=addressing,
            verify=_verify(extra.get("verify")),
            config=_config(config),
        )


def _refuse_unknown(extra: Mapping[str, Any]) -> None:
    """Raises WrongUse for a setting without effect. What the extra holds for other services than S3 is left
    alone."""
    names = {name for name, value in extra.items() if value not in (None, "", {}, "{}")} - set(_INNER)
    if "role_arn" not in names:
        names -= set(_OF_A_ROLE)
    unknown = sorted(names - set(_UNDERSTOOD[""]))
    for section, options in {
        "session_kwargs": _inner(extra, "session_kwargs"),
        "service_config.s3": _service(extra),
    }.items():
        unknown += [f"{section}.{name}" for name in options if name not in _UNDERSTOOD[section]]
    for name in sorted(unknown, key=lambda name: "role" not in name):
        raise WrongUse(f"the extra of the lake's connection: {name} is not supported: {_remedy(name)}")


def _service(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    return _inner(_inner(extra, "service_config"), "s3")


def _config(config: Mapping[str, Any]) -> str:
    """Raises WrongUse for what botocore does not take."""
    if not config:
        return ""
    from sluice.clients.lake.s3_client import check_config

    s3 = _inner(config, "s3")
    text = json.dumps({**config, **({"s3": dict(s3)} if s3 else {})}, sort_keys=True)
    check_config(text)
    return text


def _remedy(name: str) -> str:
    if "role" in name:
        return (
            "write the role into a profile of ~/.aws/config (role_arn, source_profile) and name that as "
            "profile_name, which boto3 takes with all that AWS knows"
        )
    understood = [
        ".".join(filter(None, (section, option)))
        for section, names in _UNDERSTOOD.items()
        for option in names
    ]
    return f"expected {', '.join(understood)}, or config_kwargs; a profile of ~/.aws/config takes more"


def _verify(value: object) -> bool | str | None:
    """Returns whether the certificate is verified, or a file of certificates. Raises WrongUse."""
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not Path(text).is_file():
        raise WrongUse(
            f"the extra of the lake's connection: verify: expected true, false or a file, not {text!r}"
        )
    return text


def _inner(extra: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns an object in `extra`, which Airflow keeps as it is or as its JSON text. Raises WrongUse."""
    content = extra.get(name) or {}
    try:
        content = json.loads(content) if isinstance(content, str) else content
    except json.JSONDecodeError:
        content = None
    if not isinstance(content, Mapping):
        raise WrongUse(f"the extra of the lake's connection: {name}: expected a JSON object")
    return content


def settings_for(pipeline: Pipeline) -> S3Settings | None:
    """Returns the settings of the pipeline's `lake_connection`, or None when it names none."""
    return settings_of(pipeline.lake_connection)


def settings_of(connection: str | None) -> S3Settings | None:
    """Returns the settings that a connection has; None without one. Raises WrongUse for an unknown one."""
    if connection is None:
        return None
    from sluice.clients import connections

    s3_connection = connections.find(connection)
    return S3Settings.from_connection(s3_connection.login, s3_connection.password, s3_connection.extra)
