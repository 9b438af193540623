"""Whether the OpenLineage client is configured, without importing it, and what its variables say of names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from sluice.clients.openlineage.values import Parent, RunOfJob

_FILE = "openlineage.yml"


def configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a transport or a file is named, in the client's own ways:
    https://openlineage.io/docs/client/python#configuration"""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() in ("true", "1", "t"):
        return False
    named = [
        name for name, value in environment.items() if value and name.startswith("OPENLINEAGE__TRANSPORT")
    ]
    if named or environment.get("OPENLINEAGE_URL"):
        return True
    config_file = environment.get("OPENLINEAGE_CONFIG")
    config_files = [Path(config_file)] if config_file else []
    return any(path.is_file() for path in (*config_files, Path(_FILE), Path.home() / ".openlineage" / _FILE))


def namespace(environment: Mapping[str, str] = os.environ) -> str:
    """Of jobs; `default` as in the OpenLineage integrations of Airflow and dbt."""
    return environment.get("OPENLINEAGE_NAMESPACE") or "default"


def parent(environment: Mapping[str, str] = os.environ) -> Parent | None:
    """The run that started this process, as Airflow's macros `lineage_parent_id` and `lineage_root_parent_id`
    write it; None where none is named, or not in that form."""
    run = _run(environment.get("OPENLINEAGE_PARENT_ID", ""))
    root = _run(environment.get("OPENLINEAGE_ROOT_PARENT_ID", ""))
    return None if run is None else Parent(run, root or run)


def _run(text: str) -> RunOfJob | None:
    """`namespace/job/run`; a namespace may hold slashes."""
    parts = text.rsplit("/", 2)
    try:
        return RunOfJob(parts[0], parts[1], str(UUID(parts[2])))
    except (IndexError, ValueError):
        return None
