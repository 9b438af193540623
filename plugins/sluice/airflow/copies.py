"""Refuses two copies of the library: which one a process imports would depend on its `sys.path`.

Every process of Airflow loads this file with the plugin when it starts, and keeps it for all its tasks. So it
imports no other of Sluice's, which an upgrade would leave old beside new ones.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from airflow.configuration import conf

PACKAGE = Path(__file__).resolve().parents[1]


def refuse_second_copy() -> None:
    """Raises WrongUse where Airflow's plugins folder has one, and another is installed."""
    other = second_copy(Path(conf.get("core", "plugins_folder") or "."), PACKAGE, _installed())
    if other is not None:
        from sluice.errors import WrongUse

        raise WrongUse(
            f"two copies of sluice: {PACKAGE} is imported, and there is {other}; install the wheel only, and "
            "delete the folder in Airflow's plugins folder"
        )


def second_copy(plugins: Path, imported: Path, installed: Path | None) -> Path | None:
    """Returns the copy that is not `imported`, of those in Airflow's `plugins` folder and in
    site-packages."""
    for other in (plugins / "sluice", installed):
        if other and (other / "__init__.py").is_file() and not other.samefile(imported):
            return other
    return None


def _installed() -> Path | None:
    """Returns where a wheel is unpacked; the folder of an editable install does not exist."""
    try:
        return Path(str(distribution("sluice").locate_file("sluice")))
    except PackageNotFoundError:
        return None
