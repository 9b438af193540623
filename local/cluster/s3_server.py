"""An S3 server on a folder: versitygw, built once with Go and kept in the cache.

    python -m local.cluster.s3_server --data DIR --port 17070

The keys that it takes are those in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

from local.environment import HOST
from local.fetch import cache_folder
from local.secret_file import PRIVATE

VERSION = "v1.8.0"
_THERE = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")


class CannotBuild(Exception):
    """There is no versitygw and no way to make one; the message says why."""


def program() -> str:
    """Raises CannotBuild."""
    built = cache_folder() / f"versitygw-{VERSION}" / "versitygw"
    if built.exists():
        return str(built)
    if shutil.which("go") is None:
        raise CannotBuild("versitygw is built with Go, and there is none: install Go 1.24 or newer")
    done = subprocess.run(
        ["go", "install", f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"],
        env={**os.environ, "GOBIN": str(built.parent)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise CannotBuild(f"versitygw could not be built: {done.stderr.strip().splitlines()[-1]}")
    return str(built)


def make_bucket(environment: dict[str, str], bucket: str) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_DEFAULT_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )
    try:
        client.create_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _THERE:
            raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    os.umask(PRIVATE)
    try:
        address, folder = f"{HOST}:{options.port}", str(options.data.resolve())
        words = [program(), "--port", address, "--quiet", "posix", folder]
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 3
    options.data.mkdir(parents=True, exist_ok=True)
    keys = {
        "ROOT_ACCESS_KEY": os.environ["AWS_ACCESS_KEY_ID"],
        "ROOT_SECRET_KEY": os.environ["AWS_SECRET_ACCESS_KEY"],
    }
    sys.stdout.flush()
    os.execve(words[0], words, {**os.environ, **keys})


if __name__ == "__main__":
    sys.exit(main())
