"""Opens the lake that a pipeline file names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.folder import FolderLake
from sluice.clients.lake.settings import S3Settings, settings_for
from sluice.config.pipeline import Pipeline
from sluice.errors import LakeRefused, LakeTaken, SluiceError, WrongUse
from sluice.runtime import PROJECT

# Whether a pipeline's folder in the lake is its own: in no other's, with nothing foreign in it.


def check_new(pipeline: Pipeline, lake: Lake) -> None:
    """Raises LakeTaken where the pipeline has no boundaries yet, and its folder is not its own."""
    if next(lake.list(layout.BOUNDARIES), None) is not None:
        return
    check_above(pipeline, lake)
    for item in lake.list(""):
        if layout.is_foreign(item.key):
            raise LakeTaken(lake.url, f"has {item.key}, which is not the pipeline's")


def check_above(pipeline: Pipeline, lake: Lake) -> None:
    """Raises LakeTaken where the pipeline's folder is in another pipeline's."""
    for above in _above(pipeline, lake):
        with suppress(LakeRefused):  # who may not read it can neither have landed there
            for folder in (layout.BOUNDARIES, layout.SLICES):
                if next(above.list(folder), None) is not None:
                    raise LakeTaken(lake.url, f"is in the folder of another pipeline, {above.url}")


def _above(pipeline: Pipeline, lake: Lake) -> Iterator[Lake]:
    """Yields what would be lakes of pipelines, if these had the folders above."""
    if isinstance(lake, FolderLake):
        yield from (FolderLake(folder) for folder in Path(lake.root).resolve().parents)
        return
    scheme, _, location = pipeline.lake.partition("://")
    bucket, *parts = [part for part in location.split("/") if part]
    settings = settings_for(pipeline)
    for depth, name in enumerate(parts):
        yield open_lake_at(f"{scheme}://{'/'.join([bucket, *parts[:depth]])}", name, settings)


# The one place where objects of the lake are deleted: only those that have a name of Sluice's own.
#
# Whatever else lies in a pipeline's folder (another pipeline's lake, a person's copy) is somebody's, and
# stays.
def delete_own(lake: Lake, keys: Iterable[str]) -> None:
    """Removes the objects; those already gone are no error. Raises SluiceError, before any is removed, for a
    name that Sluice doesn't give to what it deletes."""
    keys = list(keys)
    for key in keys:
        if not layout.is_own(key):
            raise SluiceError(
                f"{lake.url}/{key} was to be deleted, and has no name that Sluice gives: correct what "
                "names it, its manifest"
            )
    lake.delete(keys)


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
