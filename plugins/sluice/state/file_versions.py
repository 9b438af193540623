"""Keeps in the lake what the pipeline file said, and which Sluice ran it: for who asks what has changed.

`_history/file.json` has the last `MOST` versions, the oldest first. Every run notes the file that it has
read; while nothing changes, nothing is written. It is no evidence of anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

import msgspec

from sluice import __version__
from sluice.clients.lake.base import Lake, update_object
from sluice.slices import utc
from sluice.stored_json import decode_stored

KEY = "_history/file.json"
MOST, MOST_BYTES = 50, 1 << 20
"""Versions that are kept, and bytes of their texts together; the newest is kept in any case."""
MOST_TEXT = 256 << 10
"""Characters of one text; of a longer one the beginning."""


@dataclass(frozen=True)
class FileVersion:
    """`at` is when a run saw it first (ISO 8601, UTC), `hash` that of the whole text, `text` what the file
    says without comments and secrets (sluice.config.files)."""

    at: str
    hash: str
    sluice: str
    text: str


_VERSIONS = msgspec.json.Decoder(tuple[FileVersion, ...])


def version_of(text: str, now: datetime) -> FileVersion:
    at = utc(now).isoformat(timespec="seconds")
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    return FileVersion(at, digest, __version__, text[:MOST_TEXT])


def read_versions(lake: Lake) -> tuple[FileVersion, ...]:
    """Returns what is known, the oldest first. Raises SluiceError for bytes that are none."""
    stored = lake.read(KEY)
    return _decoded(lake, None if stored is None else stored.data)


def note_version(lake: Lake, text: str, now: datetime) -> None:
    """Keeps what the file says now, by compare-and-set, where it or Sluice has changed."""
    new = version_of(text, now)
    update_object(lake, KEY, lambda data: _encoded(with_version(_decoded(lake, data), new)))


def with_version(versions: Sequence[FileVersion], new: FileVersion) -> tuple[FileVersion, ...]:
    """Returns the versions with the new one, where it differs from the newest. Pure."""
    if versions and (versions[-1].hash, versions[-1].sluice) == (new.hash, new.sluice):
        return tuple(versions)
    kept = [*versions, new][-MOST:]
    while len(kept) > 1 and sum(len(version.text) for version in kept) > MOST_BYTES:
        del kept[0]
    return tuple(kept)


def _encoded(versions: Sequence[FileVersion]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(versions), indent=1)


def _decoded(lake: Lake, data: bytes | None) -> tuple[FileVersion, ...]:
    if data is None:
        return ()
    place = f"{lake.url}/{KEY}"
    return decode_stored(
        _VERSIONS,
        data,
        lambda error: f"{place} holds no versions ({error}): delete it, runs begin anew",
        lambda versions: [version.at for version in versions],
    )
