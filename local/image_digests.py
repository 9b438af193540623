"""Pins the images of Dockerfiles and docker-compose.yaml by what registries have now: `make pin-images`.

A version may be pushed again; a digest is the very bytes.
"""

import re
import subprocess
import sys
from pathlib import Path

from local.versions import ROOT

FILES = (ROOT / "Dockerfile", ROOT / "Dockerfile.job", ROOT / "docker-compose.yaml")
_OWN = "sluice:"  # built from the Dockerfile
_IMAGE = re.compile(rf"(?m)^(FROM | *image: )(?!{_OWN})([^\s@]+)(@\S+)?$")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class NoDigest(Exception):
    """An image has no digest that could be asked for; the message says why."""


def digest(image: str) -> str:
    """Raises NoDigest."""
    command = ["docker", "buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", image]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise NoDigest(f"docker cannot be run: {error}") from error
    if done.returncode or not _DIGEST.fullmatch(done.stdout.strip()):
        said = (done.stderr or done.stdout).strip().partition("\n")[0]
        raise NoDigest(f"docker knows no digest of {image}: {said}")
    return done.stdout.strip()


def pinned(text: str) -> str:
    """Returns the file with the digest of each image behind its version. Raises NoDigest."""
    return _IMAGE.sub(lambda found: f"{found[1]}{found[2]}@{digest(found[2])}", text)


def pin(files: tuple[Path, ...] = FILES) -> None:
    """All files or none."""
    new = {file: pinned(file.read_text()) for file in files}
    for file, text in new.items():
        file.write_text(text)


if __name__ == "__main__":
    try:
        pin()
    except NoDigest as error:
        sys.exit(f"sluice: {error}")
