"""Stores as they are found outside: versioned buckets, names for buckets, many keys, credentials in files."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from local.environment import HOST
from sluice.clients.lake import layout, s3_client
from sluice.clients.lake.open import open_lake
from sluice.clients.lake.s3 import S3Lake
from sluice.clients.lake.settings import S3Settings
from sluice.errors import LakeRefused
from sluice.slices import Slice
from tests.integration import s3_servers
from tests.integration.land.test_s3_lake import new_lake
from tests.integration.landed import START
from tests.support.lake_contract import RACERS, LakeContract, keys
from tests.support.landing_world import pipeline

pytestmark = pytest.mark.integration
SLICES = 10_000
PAGE = 1000  # keys in an answer of S3, at most


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("versitygw")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[S3Settings]:
    with s3_servers.versitygw(folder) as settings:
        yield settings


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[S3Lake], Counter[str]]:
    """Counts the hosts that a lake's requests go to, from now on."""

    def watch(lake: S3Lake) -> Counter[str]:
        hosts: Counter[str] = Counter()

        def count(request, **_: object) -> None:
            hosts[urlsplit(request.url).hostname] += 1

        s3_client.client(lake.settings).meta.events.register("before-send.s3", count)
        return hosts

    return watch


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every host below the store's domain is this machine, as a DNS wildcard makes it."""
    real = socket.getaddrinfo
    here = {True: HOST}
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *more, **named: real(
            here.get(str(host).endswith(s3_servers.DOMAIN), host), *more, **named
        ),
    )


def keep_versions(lake: S3Lake) -> None:
    versions = {"Bucket": lake.bucket, "VersioningConfiguration": {"Status": "Enabled"}}
    s3_client.client(lake.settings).put_bucket_versioning(**versions)


def by_name(settings: S3Settings) -> S3Settings:
    port = urlsplit(settings.endpoint_url).port
    return replace(settings, endpoint_url=f"http://{s3_servers.DOMAIN}:{port}", addressing="virtual")


@pytest.mark.usefixtures("names")
class TestVersionedBucketByName(LakeContract):
    """Both at once: every version is kept, and the bucket is a part of the host's name."""

    no_races = "its processes are raced without versions"
    # Long, and nothing of them depends on versions or names.
    test_delete_more_than_a_page = test_large_file = test_threads_share_a_lake = None

    @pytest.fixture
    def lake(self, server: S3Settings) -> S3Lake:
        made = new_lake(server)
        keep_versions(made)
        return replace(made, settings=by_name(server))

    def test_the_bucket_is_in_the_name(self, lake: S3Lake, asked: Callable) -> None:
        hosts = asked(lake)
        lake.put("a", b"x")
        assert hosts == {f"{lake.bucket}.{s3_servers.DOMAIN}": 1}

    def test_deleted_versions_do_not_count(self, lake: S3Lake) -> None:
        for text in (b"one", b"two"):
            lake.put("s/a", text)
        lake.put("s/b", b"x")
        lake.delete(["s/a"])
        assert keys(lake, "s/") == ["s/b"]
        assert lake.read("s/a") is None and lake.size("s/a") is None
        client, place = s3_client.client(lake.settings), lake.prefix + "s/a"
        kept = client.list_object_versions(Bucket=lake.bucket, Prefix=place)
        assert len(kept["Versions"]) == 2 and len(kept["DeleteMarkers"]) == 1

    def test_one_of_many_threads_wins(self, lake: S3Lake) -> None:
        with ThreadPoolExecutor(RACERS) as pool:
            won = list(pool.map(lambda racer: lake.create("race", b"racer %d" % racer), range(RACERS)))
        assert won.count(True) == 1
        assert lake.read("race").data == b"racer %d" % won.index(True)


def test_a_deleted_key_of_a_versioned_bucket_is_free(tmp_path: Path) -> None:
    """As S3 has it; versitygw 1.8 refuses such a `create`. Sluice itself never makes a deleted key again."""
    with s3_servers.moto(tmp_path) as settings:
        lake = new_lake(settings)
        keep_versions(lake)
        for turn in (b"first", b"second"):
            assert lake.create("a", turn)
            assert not lake.create("a", b"late")
            version = lake.read("a").version
            assert lake.replace("a", turn + b"!", version) and not lake.replace("a", b"late", version)
            lake.move("a", "b")
            assert keys(lake) == ["b"] and lake.read("b").data == turn + b"!"
            lake.delete(["b"])
            assert keys(lake) == []


def test_an_address_is_asked_by_path(server: S3Settings, asked: Callable) -> None:
    lake = new_lake(server)
    hosts = asked(lake)
    lake.put("a", b"x")
    assert lake.read("a").data == b"x"
    assert hosts == {HOST: 2}


@pytest.mark.long
def test_ten_thousand_slices_are_listed_by_pages(server: S3Settings, folder: Path, asked: Callable) -> None:
    lake = new_lake(server)
    ids = [Slice(START - timedelta(hours=hours)).id for hours in range(SLICES)]
    for slice_id in ids:
        path = folder / "objects" / lake.bucket / lake.prefix / layout.manifest(slice_id, "dc1")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"{}")
    hosts = asked(lake)
    assert keys(lake, layout.SLICES) == sorted(layout.manifest(slice_id, "dc1") for slice_id in ids)
    assert hosts.total() == SLICES / PAGE
    day = keys(lake, f"{layout.SLICES}2026-03-05")
    assert day == [layout.manifest(f"2026-03-05T{hour:02}Z", "dc1") for hour in range(24)]
    assert hosts.total() == SLICES / PAGE + 1


PROFILES = """
[profile lake]
endpoint_url = {endpoint}
region = us-east-1
aws_access_key_id = {key}
aws_secret_access_key = {secret}
s3 =
  addressing_style = virtual
"""


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No credentials, but those that the test gives: the profiles are in the file that this returns."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3_client._client.cache_clear()
    return tmp_path / "config"


WAYS = {
    "environment": {
        "AWS_ENDPOINT_URL": "{endpoint}",
        "AWS_ACCESS_KEY_ID": "{key}",
        "AWS_SECRET_ACCESS_KEY": "{secret}",
    },
    "profile": {"AWS_PROFILE": "lake"},
    "connection": {"login": "{key}", "password": "{secret}", "extra": {"endpoint_url": "{endpoint}"}},
    "connection with a profile": {"extra": {"profile_name": "lake"}},
}


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("way", WAYS)
def test_credentials(server: S3Settings, nowhere: Path, way: str, monkeypatch, asked: Callable) -> None:
    bucket, given = new_lake(server).bucket, WAYS[way]
    named = by_name(server)
    known = {"endpoint": server.endpoint_url, "key": server.key, "secret": server.secret}
    nowhere.write_text(PROFILES.format(**known | {"endpoint": named.endpoint_url}))
    values = json.loads(_filled(json.dumps(given), known))
    connected = "connection" in way
    environment = {"AIRFLOW_CONN_STORE": json.dumps({"conn_type": "aws", **values})} if connected else values
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    lake = open_lake(pipeline(lake=f"s3://{bucket}", **({"lake_connection": "store"} if connected else {})))
    hosts = asked(lake)
    assert lake.create("a", b"x") and lake.read("a").data == b"x"
    # What the profile says of addresses counts, too.
    assert set(hosts) == {f"{bucket}.{s3_servers.DOMAIN}" if "profile" in way else HOST}
    assert server.secret not in repr(lake)


def _filled(text: str, known: dict[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def test_an_unknown_profile_is_named(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(LakeRefused, match="nobody"):
        open_lake(pipeline(lake="s3://bucket")).read("a")
