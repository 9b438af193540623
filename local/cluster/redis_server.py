"""Redis, from Debian's package: what carries tasks to Airflow's workers.

    python -m local.cluster.redis_server --data DIR --port 16379        password: SLUICE_REDIS_PASSWORD

It writes every command to its disk before it answers: a task that was sent survives a kill.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from local.environment import HOST
from local.secret_file import PRIVATE, write


def configuration(data: Path, port: int, password: str) -> str:
    return "\n".join(
        [
            f"bind {HOST}",
            f"port {port}",
            f"dir {data}",
            f"requirepass {password}",
            "appendonly yes",
            "appendfsync always",
            'save ""',
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    os.umask(PRIVATE)
    program = shutil.which("redis-server")
    if program is None:
        print("Redis is not installed (Debian: apt-get install redis-server)", file=sys.stderr)
        return 3
    folder = options.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "redis.conf"
    write(settings, configuration(folder, options.port, os.environ["SLUICE_REDIS_PASSWORD"]))
    sys.stdout.flush()
    os.execv(program, [program, str(settings)])


if __name__ == "__main__":
    sys.exit(main())
