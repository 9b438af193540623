"""Takes pyspark from its package rather than from its archive; to be imported before it.

spark-submit puts `pyspark.zip` and `py4j-….zip` first on the path. Python stores no bytecode of what it
imports from an archive: the driver and each worker would compile pyspark anew, 0.8 s of a core each time.
Archives that lie within an installed pyspark hold the same modules as it does, and are left out of the path.
"""

from __future__ import annotations

import sys
from pathlib import Path


def without_archives(path: list[str]) -> list[str]:
    """Returns `path` with archives of installed packages replaced by the packages' folders, at its end."""
    archives = {entry for entry in path if _is_of_package(Path(entry))}
    folders = {str(Path(entry).parents[3]) for entry in archives}
    return [entry for entry in path if entry not in archives] + sorted(folders - set(path))


def _is_of_package(archive: Path) -> bool:
    """Returns whether it is `<site-packages>/pyspark/python/lib/<name>.zip`, as pip installs it."""
    return archive.suffix == ".zip" and archive.match("pyspark/python/lib/*.zip") and _installed(archive)


def _installed(archive: Path) -> bool:
    return (archive.parents[2] / "__init__.py").is_file()


sys.path[:] = without_archives(sys.path)
