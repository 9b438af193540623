"""S3 servers for tests: moto's (Python, in memory) and versitygw (Go, on a folder)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest

from local.cluster import s3_server
from local.environment import HOST
from local.leash import leashed
from local.readiness import free_port, listens, wait_until
from sluice.clients.lake.settings import S3Settings

VERSITYGW = s3_server.VERSION
START_SECONDS = 60
KEY, SECRET = "tester", "not-a-secret"
DOMAIN = "s3.test"


@contextmanager
def running(command: Sequence[str], port: int, log: Path, secret: str = SECRET) -> Iterator[S3Settings]:
    """The settings that reach the server `command`, which listens on `port`."""
    known = {**os.environ, "ROOT_ACCESS_KEY_ID": KEY, "ROOT_SECRET_ACCESS_KEY": secret}
    with log.open("wb") as output:
        process = subprocess.Popen(leashed(command), env=known, stdout=output, stderr=output)
    try:
        wait_until(lambda: listens(port), f"{command[0]} (see {log})", START_SECONDS)
        yield S3Settings(f"http://{HOST}:{port}", "us-east-1", KEY, secret)
    finally:
        process.kill()
        process.wait()


@contextmanager
def moto(folder: Path) -> Iterator[S3Settings]:
    port = free_port()
    with running(
        [sys.executable, "-m", "moto.server", "-p", str(port)], port, folder / "moto.log"
    ) as settings:
        yield settings


@contextmanager
def versitygw(folder: Path, secret: str = SECRET) -> Iterator[S3Settings]:
    """Its objects are files below `folder`/objects; a bucket may be asked for as a host below DOMAIN, too."""
    port, data, versions = free_port(), folder / "objects", folder / "versions"
    for made in (data, versions):
        made.mkdir()
    command = [versitygw_program(), "--port", f"{HOST}:{port}"]
    command += ["--virtual-domain", DOMAIN, "--quiet", "posix", "--versioning-dir", str(versions), str(data)]
    with running(command, port, folder / "versitygw.log", secret) as settings:
        yield settings


def versitygw_program() -> str:
    """Built once with Go, and kept in the cache. Skips the test when there is no Go to build it with."""
    try:
        return s3_server.program()
    except s3_server.CannotBuild as error:
        pytest.skip(str(error))


def make_bucket(settings: S3Settings, bucket: str) -> None:
    boto3.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        region_name=settings.region,
        aws_access_key_id=settings.key,
        aws_secret_access_key=settings.secret,
    ).create_bucket(Bucket=bucket)
