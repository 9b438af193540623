"""PostgreSQL, from Debian's package, with Airflow's database in it.

    python -m local.cluster.postgres --data DIR --port 15432        password: SLUICE_POSTGRES_PASSWORD

PostgreSQL refuses to run as root, so root starts it as the user `postgres` (or `nobody`). That user keeps
the one right to pass through folders that are root's alone, for the data may lie below one.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from local.environment import HOST
from local.secret_file import PRIVATE

USER = "airflow"
PASSWORD = "SLUICE_POSTGRES_PASSWORD"  # noqa: S105 - a variable's name


class PostgresMissing(Exception):
    def __str__(self) -> str:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"


def program(name: str) -> str:
    """Debian keeps the server's programs off the PATH. Raises PostgresMissing."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[-3]))
    path = str(versions[-1]) if versions else shutil.which(name)
    if path is None:
        raise PostgresMissing
    return path


def account() -> str | None:
    """Whom to become; None when we are not root."""
    if os.geteuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def as_account(name: str | None) -> list[str]:
    if name is None:
        return []
    group = str(pwd.getpwnam(name).pw_gid)
    rights = [f"--{kind}-caps=-all,+dac_override" for kind in ("inh", "ambient")]
    who = ["--reuid", name, "--regid", group, "--clear-groups", *rights]
    return ["setpriv", *who, "--no-new-privs", "--pdeathsig", "KILL"]


def initialise(data: Path, name: str | None) -> None:
    """A new database cluster, all or nothing: it is made beside its place."""
    partial = data.with_name(data.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    with tempfile.NamedTemporaryFile("w", dir=data.parent) as password:
        password.write(os.environ[PASSWORD])
        password.flush()
        if name:
            shutil.chown(partial, name)
            shutil.chown(password.name, name)
        words = [program("initdb"), "-D", partial, "-U", USER, "--auth=scram-sha-256", "--pwfile"]
        subprocess.run(
            [*as_account(name), *words, password.name, "--encoding=UTF8", "--locale=C"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    partial.rename(data)


def serve(data: Path, port: int) -> int:
    """Runs the server until a signal, which ends its clients' sessions; returns its exit code."""
    name = account()
    if not data.exists():
        initialise(data, name)
    options = [f"-h{HOST}", "-p", str(port), "-c", "unix_socket_directories="]
    server = subprocess.Popen([*as_account(name), program("postgres"), "-D", data, *options])
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.send_signal(signal.SIGINT))  # "fast shutdown"
    return server.wait()


def create_database(port: int, password: str) -> None:
    import psycopg2
    from psycopg2 import errors

    connection = psycopg2.connect(host=HOST, port=port, user=USER, password=password, dbname="postgres")
    connection.autocommit = True  # CREATE DATABASE runs in no transaction
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {USER}")
    except errors.DuplicateDatabase:
        return
    finally:
        connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    os.umask(PRIVATE)
    try:
        return serve(options.data.resolve(), options.port)
    except (PostgresMissing, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
