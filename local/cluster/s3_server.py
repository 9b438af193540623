"""An S3 server on a folder: versitygw, built once with Go and kept in .deps.

    python -m local.cluster.s3_server --data DIR --port 17070

The keys that it takes are those in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

from local import fetched
from local.environment import HOST
from local.secret_file import PRIVATE
from local.versions import FETCHED

VERSION = "v1.8.0"
SOURCES = "h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc="  # as sum.golang.org has them
_FOLDER = FETCHED / f"versitygw-{VERSION}"
_THERE = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")


class CannotBuild(Exception):
    """There is no versitygw and no way to make one; the message says why."""


def program() -> str:
    """Build it if it is not there; another process that wants it meanwhile waits. Raises CannotBuild."""
    with (FETCHED / "versitygw.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _FOLDER.exists():
            with tempfile.TemporaryDirectory(dir=FETCHED) as work:
                made = Path(work, _FOLDER.name)
                build(made)
                fetched.note(made, _FOLDER)
                made.rename(_FOLDER)
    return str(fetched.require(_FOLDER, "start it again: it is built anew") / "versitygw")


def build(into: Path) -> None:
    """Go checks each module by its hash; that of the program itself is pinned here. Raises CannotBuild."""
    if shutil.which("go") is None:
        raise CannotBuild("versitygw is built with Go, and there is none: install Go 1.24 or newer")
    go("install", f"github.com/versity/versitygw/cmd/versitygw@{VERSION}", GOBIN=str(into))
    found = re.search(r"\n\tmod\t\S+\t\S+\t(\S+)", go("version", "-m", str(into / "versitygw")))
    if found is None or found[1] != SOURCES:
        raise CannotBuild(f"the sources of versitygw {VERSION} are {found and found[1]}, not {SOURCES}")


def go(*words: str, **variables: str) -> str:
    done = subprocess.run(["go", *words], env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode:
        raise CannotBuild(f"versitygw could not be built: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


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
    except (CannotBuild, fetched.NotAsPinned) as error:
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
