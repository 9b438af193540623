"""Checks that the lake takes writes, and honours conditional ones. Writes and removes a probe."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from sluice.clients.lake.base import Lake
from sluice.clients.lake.layout import PROBES
from sluice.clients.lake.owned import delete_own
from sluice.doctor.check import Area, Check, fail, ok, warn

_LITTLE = 10 << 30  # bytes: less is soon full
_FOLDER = "file://"


def lake_checks(lake: Lake) -> Iterator[Check]:
    """Raises LakeUnavailable and LakeRefused."""
    key = f"{PROBES}{uuid.uuid4().hex}.json"
    try:
        yield from _writes(lake, key)
    finally:
        delete_own(lake, [key])
    yield from _space(lake.url)


def _writes(lake: Lake, key: str) -> Iterator[Check]:
    first, second, third = (uuid.uuid4().hex.encode() for _ in range(3))
    if not lake.create(key, first):
        yield fail(
            Area.LAKE, lake.url, f"a new object {key} was refused", "find out what writes into _doctor/"
        )
        return
    yield ok(Area.LAKE, lake.url, "can be written")
    broken = []
    if lake.create(key, second):
        broken.append("a second `create` of one key (If-None-Match: *) was not refused")
    stored = lake.read(key)
    if stored is None or stored.data not in (first, second):
        broken.append("an object that was written cannot be read back")
    elif lake.replace(key, third, "not-its-version"):
        broken.append("a `replace` of another version (If-Match) was not refused")
    elif not lake.replace(key, third, stored.version):
        broken.append("a `replace` of the right version (If-Match) was refused")
    remedy = "exactly once rests on these writes: use S3 itself, or a store that has them"
    if broken:
        yield fail(Area.LAKE, lake.url, "; ".join(broken), remedy)
    else:
        yield ok(Area.LAKE, lake.url, "create-if-absent and compare-and-set hold")


def _space(url: str) -> Iterator[Check]:
    if not url.startswith(_FOLDER):
        return
    free = shutil.disk_usage(_existing(Path(url.removeprefix(_FOLDER)))).free
    finding = f"{free / (1 << 30):,.1f} GiB are free"
    if free < _LITTLE:
        yield warn(Area.LAKE, url, finding, "a full disk stops the landing: give it more room")
    else:
        yield ok(Area.LAKE, url, finding)


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)
