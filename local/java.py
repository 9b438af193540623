"""Finds the Java runtime that Kafka and Spark run on."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from local.versions import JAVA_AT_LEAST


class JavaMissing(Exception):
    def __str__(self) -> str:
        return (
            f"no Java {JAVA_AT_LEAST} or newer found: install one (Debian: apt-get install "
            "openjdk-17-jre-headless) or set JAVA_HOME"
        )


def candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield Path(on_path).resolve()
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"))


def major_version(text: str) -> int:
    """The 17 of `openjdk version "17.0.15"`, the 8 of `java version "1.8.0"`, 0 of anything else."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else 0


def runs(java_binary: Path) -> bool:
    if not java_binary.is_file():
        return False
    done = subprocess.run([java_binary, "-version"], capture_output=True, text=True)
    return major_version(done.stderr) >= JAVA_AT_LEAST


@cache
def java_home() -> Path:
    for binary in candidates(os.environ):
        if runs(binary):
            return binary.parent.parent
    raise JavaMissing


def java() -> str:
    return str(java_home() / "bin" / "java")


if __name__ == "__main__":
    try:
        print(java_home())
    except JavaMissing as error:
        sys.exit(str(error))
