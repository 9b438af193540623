"""`_defaults.yaml` beside the pipeline files: what a platform sets for all of them.

The file's `airflow` holds for each pipeline of its folder. A key of the pipeline's own file goes before it,
and so does a key of a step before the same key of that step.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sluice.config.airflow import AirflowSettings
from sluice.config.section import Section
from sluice.config.yaml_text import load

DEFAULTS = "_defaults"
SECTION = "airflow"


class FolderDefaults(Section):
    airflow: AirflowSettings = AirflowSettings()
    """What a platform sets of the DAGs of all pipelines of the folder. Example: `{owner: data-platform}`"""


def defaults_file(path: Path) -> Path:
    """Returns the file of defaults beside a pipeline file; it need not be there."""
    return path.with_name(f"{DEFAULTS}.yaml")


def load_defaults(path: Path) -> Any:
    """Returns the content of a file of defaults, an empty mapping where there is none. Raises OSError and
    NotYaml.

    It is read once for the many pipelines of a folder, and again when it has changed.
    """
    try:
        stat = path.stat()
    except FileNotFoundError:
        return {}
    return _content(path, (stat.st_ino, stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=16)
def _content(path: Path, _stamp: tuple[int, int, int]) -> Any:
    return load(path)


def merged(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a pipeline file with what the folder's defaults add to its `airflow`."""
    common, given = defaults.get(SECTION), own.get(SECTION)
    if common is None or not isinstance(given, dict | None):
        return dict(own)  # of what is no mapping the reader tells
    return {**own, SECTION: _merged(common, given or {})}


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    found = {**common, **own}
    theirs, mine = common.get("steps"), own.get("steps")
    if isinstance(theirs, dict) and isinstance(mine, dict):
        found["steps"] = {name: _step(theirs.get(name), mine.get(name)) for name in {**theirs, **mine}}
    return found


def _step(common: Any, own: Any) -> Any:
    both = isinstance(common, dict) and isinstance(own, dict)
    return {**common, **own} if both else common if own is None else own
