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


def merged(defaults: Mapping[str, Any], file_content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a pipeline file with what the folder's defaults add to its `airflow`."""
    common, own_section = defaults.get(SECTION), file_content.get(SECTION)
    if common is None or not isinstance(own_section, dict | None):
        return dict(file_content)  # the reader refuses what is no mapping
    return {**file_content, SECTION: _merged(common, own_section or {})}


def _merged(common: Mapping[str, Any], own_section: Mapping[str, Any]) -> dict[str, Any]:
    both = {**common, **own_section}
    common_steps, own_steps = common.get("steps"), own_section.get("steps")
    if isinstance(common_steps, dict) and isinstance(own_steps, dict):
        both["steps"] = {
            name: _step(common_steps.get(name), own_steps.get(name)) for name in {**common_steps, **own_steps}
        }
    return both


def _step(common_step: Any, own_step: Any) -> Any:
    both_mappings = isinstance(common_step, dict) and isinstance(own_step, dict)
    return {**common_step, **own_step} if both_mappings else common_step if own_step is None else own_step
