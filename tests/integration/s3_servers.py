"""S3 servers for tests: moto's (Python, in memory) and versitygw (Go, on a folder)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest

from local.environment import HOST
from local.fetch import cache_folder
from local.readiness import free_port, listens, wait_until
from local.services import die_with_parent
from sluice.lake.settings import S3Settings

VERSITYGW = "v1.8.0"
START_SECONDS = 60
KEY, SECRET = "tester", "not-a-secret"


@contextmanager
def running(command: Sequence[str], port: int, log: Path) -> Iterator[S3Settings]:
    """The settings that reach the server `command`, which listens on `port`."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=die_with_parent)
    try:
        wait_until(lambda: listens(port), f"{command[0]} (see {log})", START_SECONDS)
        yield S3Settings(f"http://{HOST}:{port}", "us-east-1", KEY, SECRET)
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
def versitygw(folder: Path) -> Iterator[S3Settings]:
    port, data = free_port(), folder / "objects"
    data.mkdir()
    command = [versitygw_program(), "--access", KEY, "--secret", SECRET, "--port", f"{HOST}:{port}"]
    with running([*command, "--quiet", "posix", str(data)], port, folder / "versitygw.log") as settings:
        yield settings


def versitygw_program() -> str:
    """Built once with Go, and kept in the cache. Skips the test when there is no Go to build it with."""
    program = cache_folder() / f"versitygw-{VERSITYGW}" / "versitygw"
    if program.exists():
        return str(program)
    if shutil.which("go") is None:
        pytest.skip("versitygw is built with Go, and there is none: install Go 1.24 or newer")
    built = subprocess.run(
        ["go", "install", f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"],
        env={**os.environ, "GOBIN": str(program.parent)},
        capture_output=True,
        text=True,
    )
    if built.returncode:
        pytest.skip(f"versitygw could not be built: {built.stderr.strip().splitlines()[-1]}")
    return str(program)


def make_bucket(settings: S3Settings, bucket: str) -> None:
    boto3.client(
        "s3",
        endpoint_url=settings.endpoint_url,
        region_name=settings.region,
        aws_access_key_id=settings.key,
        aws_secret_access_key=settings.secret,
    ).create_bucket(Bucket=bucket)
