"""The one place where objects of the lake are deleted: only those that have a name of Sluice's own.

Whatever else lies in a pipeline's folder (another pipeline's lake, a person's copy) is somebody's, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.errors import NotOwnFile


def delete_own(lake: Lake, keys: Iterable[str]) -> None:
    """Removes the objects; those already gone are no error. Raises NotOwnFile, before any is removed, for a
    name that Sluice doesn't give to what it deletes."""
    keys = list(keys)
    for key in keys:
        if not layout.is_own(key):
            raise NotOwnFile(f"{lake.url}/{key}")
    lake.delete(keys)
