"""Wheels of the tree, and environments with a stock Airflow in them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from local import release
from local.release import LIBRARY, PINS, build
from local.versions import ROOT

UV = Path(sys.executable).with_name("uv")
PARTS = ("plugins", "include", "monitoring", "spark_jobs", "pyproject.toml", "README.md", PINS)
# What a later version may bring: a name in a file that all of the library imports, and its use in every task.
LATER = {
    "plugins/sluice/errors.py": "class OfLaterVersion(SluiceError):\n    pass\n",
    "plugins/sluice/flow/steps.py": "from sluice.errors import OfLaterVersion  # noqa: E402, F401\n",
}
DRIVERS = ("psycopg2-binary", "asyncpg")  # Airflow's own, for PostgreSQL


def version_of(root: Path) -> str:
    found = re.search(r'__version__ = "(.+)"', (root / LIBRARY).read_text())
    assert found
    return found[1]


def later(version: str) -> str:
    """The next one."""
    *first, last = version.split(".")
    return ".".join([*first, str(int(last) + 1)])


def wheel(into: Path, version: str) -> Path:
    """The tree's wheel, as `make release` builds it, with its constraints; another version has more in it."""
    tree = into / f"tree-{version}"
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    for name, more in LATER.items() if version != version_of(ROOT) else ():
        with (tree / name).open("a") as file:
            file.write(f"\n\n{more}")
    library = tree / LIBRARY
    library.write_text(library.read_text().replace(f'"{version_of(ROOT)}"', f'"{version}"'))
    return next(path for path in build(tree, version, into) if path.suffix == ".whl")


def tried(constraints: Path) -> str:
    """The version of Airflow in them."""
    (found,) = re.findall(r"(?m)^apache-airflow==(.+)$", constraints.read_text())
    return found


def stock_airflow(
    venv: Path, version: str, constraints: Path | None, python: Path = Path(sys.executable)
) -> None:
    """Airflow and PostgreSQL's drivers in a new environment of `python` with pip, and nothing else."""
    run(python, "-m", "venv", "--clear", venv)
    cluster = release.constraints((ROOT / "requirements-cluster.txt").read_text())
    pins = venv / "pins.txt"
    pins.write_text(f"{constraints.read_text()}{cluster}" if constraints else "")
    asked = [f"apache-airflow=={version}", *DRIVERS]
    run(UV, "-q", "pip", "install", "--python", venv / "bin/python", *asked, "-c", pins)


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout
