"""Opens the lake that a pipeline file names."""

from __future__ import annotations

from pathlib import Path

from sluice.clients.lake.base import Lake
from sluice.clients.lake.folder import FolderLake
from sluice.clients.lake.settings import S3Settings, settings_for
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.runtime import PROJECT


def open_lake(pipeline: Pipeline) -> Lake:
    """Returns the pipeline's lake, at `<root>/<pipeline>/`. Nothing is read or made yet; it can be pickled.

    Raises WrongUse when the pipeline's `lake` or `lake_connection` cannot be used.
    """
    return open_lake_at(pipeline.lake, pipeline.name, settings_for(pipeline), pipeline.config)


def brief_lake(pipeline: Pipeline) -> Lake:
    """Returns the pipeline's lake for somebody who waits at a screen: a store that hangs is given up after
    ten seconds. Raises as `open_lake`."""
    return open_lake_at(pipeline.lake, pipeline.name, settings_for(pipeline), pipeline.config, brief=True)


def open_lake_at(
    url: str,
    pipeline_name: str,
    settings: S3Settings | None = None,
    config: Path | None = None,
    brief: bool = False,
) -> Lake:
    """`file://PATH` (a relative one counts from the project's folder) or `s3://bucket[/prefix]`.

    Without `settings` an S3 store is found as the environment says (AWS_…).
    """
    scheme, _, location = url.partition("://")
    if scheme == "file" and location:
        return FolderLake(PROJECT / Path(location) / pipeline_name, config=config)
    bucket, _, prefix = location.partition("/")
    if scheme == "s3" and bucket:
        from sluice.clients.lake.s3 import (
            S3Lake,  # boto3 takes a third of a second, which a folder need not pay
        )

        parts = [part for part in prefix.split("/") if part] + [pipeline_name]
        reached = settings or S3Settings.from_environment()
        return S3Lake(bucket, "/".join(parts) + "/", reached.brief() if brief else reached, config)
    raise WrongUse(f"{url!r} names no lake: expected file://PATH or s3://bucket/prefix")
