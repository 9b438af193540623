from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.clients.lake import s3_client
from sluice.clients.lake.folder import FolderLake
from sluice.clients.lake.open import brief_lake, open_lake, open_lake_at
from sluice.clients.lake.s3 import S3Lake
from sluice.clients.lake.settings import S3Settings, settings_for
from sluice.config import files
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse

SECRETS = S3Settings("http://127.0.0.1:9", "eu-west-1", "AKIAKEY", "topsecret", "sessiontoken")


def pipeline(lake: str, **changes: str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "github",
            "kafka": [{"cluster": "dc1", "bootstrap": "b:1", "topics": ["events"]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": lake,
        }
        | changes
    )


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("file:///data/lake", Path("/data/lake/github")),
        ("file://lake", files.PROJECT / "lake" / "github"),
        ("file://./var/lake", files.PROJECT / "var" / "lake" / "github"),
        ("file:///data/with space/%20", Path("/data/with space/%20/github")),
    ],
)
def test_folders(url: str, root: Path) -> None:
    lake = open_lake(pipeline(url))
    assert lake == FolderLake(root)
    assert lake.url == f"file://{root}"


@pytest.mark.parametrize(
    ("url", "bucket", "prefix", "shown"),
    [
        ("s3://b", "b", "github/", "s3://b/github"),
        ("s3://b/a/c", "b", "a/c/github/", "s3://b/a/c/github"),
        ("s3://b//a/", "b", "a/github/", "s3://b/a/github"),
    ],
)
def test_buckets(url: str, bucket: str, prefix: str, shown: str) -> None:
    lake = open_lake_at(url, "github", SECRETS)
    assert lake == S3Lake(bucket, prefix, SECRETS)
    assert lake.url == shown


@pytest.mark.parametrize("url", ["", "lake", "file://", "s3://", "s3:///x", "gs://b", "/data"])
def test_what_is_no_lake(url: str) -> None:
    with pytest.raises(WrongUse, match=r"names no lake: expected file://PATH or s3://bucket/prefix"):
        open_lake_at(url, "github")


def test_lakes_travel_and_keep_their_secrets() -> None:
    for lake in (open_lake_at("file://lake", "github"), open_lake_at("s3://b", "github", SECRETS)):
        assert pickle.loads(pickle.dumps(lake)) == lake
        assert not any(secret in repr(lake) for secret in ("AKIAKEY", "topsecret", "sessiontoken"))


def test_settings_from_the_environment() -> None:
    found = S3Settings.from_environment(
        {
            "AWS_ENDPOINT_URL": "http://general",
            "AWS_ENDPOINT_URL_S3": "http://s3",
            "AWS_DEFAULT_REGION": "us-west-1",
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_SESSION_TOKEN": "t",
        }
    )
    assert found == S3Settings("http://s3", "eu-west-1", "k", "s", "t")
    assert S3Settings.from_environment({}) == S3Settings()
    assert S3Settings.from_environment(
        {"AWS_ENDPOINT_URL": "http://general", "AWS_ENDPOINT_URL_S3": "", "AWS_DEFAULT_REGION": "us-west-1"}
    ) == S3Settings("http://general", "us-west-1")


def test_settings_from_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_for(pipeline("s3://b")) is None
    monkeypatch.setenv(
        "AIRFLOW_CONN_MY_LAKE",
        '{"conn_type": "aws", "login": "k", "password": "p/+w", "extra": '
        '{"endpoint_url": "http://store:9000", "region_name": "eu-west-1", "aws_session_token": "t"}}',
    )
    found = open_lake(pipeline("s3://b/a", lake_connection="my_lake"))
    assert found == S3Lake("b", "a/github/", S3Settings("http://store:9000", "eu-west-1", "k", "p/+w", "t"))


def test_a_role_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", "aws://?region_name=eu-west-1")
    found = settings_for(pipeline("s3://b", lake_connection="aws_default"))
    assert found == S3Settings(region="eu-west-1")


def test_keys_come_before_a_profile() -> None:
    profile = {"AWS_PROFILE": "lake", "AWS_REGION": "eu-west-1"}
    assert S3Settings.from_environment(profile) == S3Settings(region="eu-west-1", profile="lake")
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    assert S3Settings.from_environment(profile | keys).profile is None


@pytest.mark.parametrize(
    ("extra", "profile", "addressing"),
    [
        ({}, None, None),
        ({"profile_name": "lake"}, "lake", None),
        ({"session_kwargs": {"profile_name": "lake"}}, "lake", None),
        ({"config_kwargs": {"s3": {"addressing_style": "virtual"}}}, None, "virtual"),
        ({"config_kwargs": '{"s3": {"addressing_style": "path"}}'}, None, "path"),
    ],
)
def test_what_a_connection_says_beside_keys(extra: dict, profile: str | None, addressing: str | None) -> None:
    found = S3Settings.from_connection(None, None, extra)
    assert (found.profile, found.addressing) == (profile, addressing)


def test_what_airflows_own_hook_takes_has_its_meaning() -> None:
    """An `aws` connection that other DAGs use, too: what is for S3 applies, and what is not is no mistake."""
    config = {"retries": {"mode": "adaptive", "max_attempts": 9}, "read_timeout": 70, "tcp_keepalive": True}
    config["proxies"] = {"http": "http://me:hush@p:1"}
    extra = {
        "session_kwargs": {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "here"},
        "service_config": {"s3": {"endpoint_url": "http://127.0.0.1:1", "bucket_name": "b"}, "sts": {"x": 1}},
        "endpoint_url": "http://127.0.0.1:2",
        "assume_role_method": "assume_role",
        "assume_role_kwargs": {"ExternalId": "x"},
        "config_kwargs": {**config, "s3": {"payload_signing_enabled": True}},
    }
    settings = S3Settings.from_connection(None, None, extra)
    assert (settings.key, settings.secret, settings.region) == ("k", "s", "here")
    assert "hush" not in repr(settings) and pickle.loads(pickle.dumps(settings)) == settings
    made = s3_client.client(settings)
    assert made.meta.endpoint_url == "http://127.0.0.1:1"
    used = made.meta.config
    assert (used.read_timeout, used.connect_timeout, used.tcp_keepalive) == (70, 3, True)
    assert used.retries["mode"] == "adaptive" and used.retries["total_max_attempts"] == 10
    assert used.proxies == {"http": "http://me:hush@p:1"}
    assert used.s3["payload_signing_enabled"] and used.s3["addressing_style"] == "path"


def test_without_anything_said_the_client_is_as_sluice_wants_it() -> None:
    used = s3_client.client(S3Settings("http://127.0.0.1:3", "eu-west-1", "k", "s")).meta.config
    assert (used.read_timeout, used.connect_timeout) == (s3_client.READ_SECONDS, 3)
    assert used.retries["mode"] == "standard" and used.retries["total_max_attempts"] == 4


@pytest.mark.parametrize(
    ("given", "verify"),
    [(None, None), (True, True), (False, False), ("False", False), ("true", True), (__file__, __file__)],
)
def test_the_certificate_is_verified_as_the_connection_says(given: object, verify: object) -> None:
    settings = S3Settings.from_connection("k", "s", {"verify": given, "endpoint_url": "https://127.0.0.1:1"})
    assert settings.verify == verify
    used = s3_client.client(settings)._endpoint.http_session._verify
    assert used == verify or verify is None


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"config_kwargs": {"s3": {"addressing_style": "host"}}}, "expected path, virtual or auto, not host"),
        ({"role_arn": "arn:aws:iam::1:role/x"}, "role_arn is not supported: write the role into a profile"),
        ({"region": "eu-west-1"}, "region is not supported: expected endpoint_url, region_name"),
        ({"s3_config_file": "x"}, "s3_config_file is not supported: expected endpoint_url"),
        ({"service_config": {"s3": {"endpoint": "x"}}}, "service_config.s3.endpoint is not supported"),
        ({"config_kwargs": {"proxy": {}}}, "config_kwargs: .*unexpected keyword argument 'proxy'"),
        ({"config_kwargs": {"retries": {"mode": "often"}}}, "config_kwargs: .*often"),
        ({"session_kwargs": {"botocore_session": 1}}, "session_kwargs.botocore_session is not supported"),
        ({"verify": "/no/such.pem"}, "verify: expected true, false or a file, not '/no/such.pem'"),
        ({"config_kwargs": "{"}, "config_kwargs: expected a JSON object"),
        ({"config_kwargs": {"s3": []}, "session_kwargs": [1]}, "session_kwargs: expected a JSON object"),
    ],
)
def test_mistakes_in_a_connection_are_told(extra: dict, told: str) -> None:
    with pytest.raises(WrongUse, match=told):
        S3Settings.from_connection("k", "s", extra)


def test_who_waits_at_a_screen_waits_for_a_hanging_store_for_ten_seconds(monkeypatch: pytest.MonkeyPatch):
    """Twice five, also where the connection says that others wait longer; what else it says stays."""
    given = json.dumps({"read_timeout": 900, "retries": {"total_max_attempts": 9}, "max_pool_connections": 3})
    brief = S3Settings(key="k", config=given).brief()
    assert (brief.key, json.loads(brief.config)) == (
        "k",
        {
            "read_timeout": 5,
            "connect_timeout": 3,
            "retries": {"mode": "standard", "total_max_attempts": 2},
            "max_pool_connections": 3,
        },
    )
    spec = pipeline(lake="s3://bucket/lake")
    assert brief_lake(spec) == replace(open_lake(spec), settings=open_lake(spec).settings.brief())
    folder = pipeline(lake="file:///lake")
    assert brief_lake(folder) == open_lake(folder)
