"""Keys of landed files, manifests, boundaries, attempts and leases, relative to `<root>/<pipeline>/`. Pure.

The key of a small state file is in the module that reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

# What Hive escapes in partition values (org.apache.hadoop.hive.common.FileUtils, charToEscape), and the
# two more that end a name in ClickHouse's lists of files, {a,b}.
_HIVE_SPECIAL = set("\"#%'*/:=?\\\x7f{[]^" + "},") | {chr(code) for code in range(0x20)}
# What XML cannot hold, in which S3 is asked to delete: https://www.w3.org/TR/xml/#charsets
_NOT_IN_XML = "\ufffe\uffff"

OVERFLOW = "_overflow"
BOUNDARIES = "_boundaries/"
ATTEMPTS = "_attempts/"
SLICES = "_slices/"
REJECTED = "_rejected"
SHARDS = "_shards.json"
SERVERS = "_servers.json"
ADDITIONS = "_added_columns.json"
COUNTS = "_counts/"
PROBES = "_doctor/"

_SLICE = r"(?P<slice>\d{4}-\d\d-\d\dT\d\d(?:\d\d)?Z)"
_HOUR = r"type=[^/]+/date=\d{4}-\d\d-\d\d/hour=\d\d/"
_FILE = rf"{_SLICE}-(?P<cluster>[\w.]+)-(?P<generation>\d+)-\d+\.parquet"
_DATA = re.compile(rf"(?:{_HOUR}|{REJECTED}/|{COUNTS}[^/]+/){_FILE}", re.ASCII)
_PASSING = re.compile(
    rf"{ATTEMPTS}{_SLICE}/[^/]+/[^/]+\.parquet|{_HOUR}_SUCCESS|{PROBES}[0-9a-f]{{32}}\.json",
    re.ASCII,
)
_NESTED = tuple(f"/{part}" for part in (BOUNDARIES, SLICES, ATTEMPTS))


@dataclass(frozen=True)
class FileName:
    slice: str
    cluster: str
    generation: int


def parse_name(key: str) -> FileName | None:
    """Returns what a data file's key says; None for a key that Sluice does not give."""
    found = _DATA.fullmatch(key)
    return FileName(found["slice"], found["cluster"], int(found["generation"])) if found else None


def is_own(key: str) -> bool:
    """Returns whether the key is one that Sluice gives to what it may delete: data files, their marks, files
    of attempts, probes."""
    return bool(_DATA.fullmatch(key) or _PASSING.fullmatch(key))


def is_foreign(key: str) -> bool:
    """Returns whether the key is of another pipeline's lake in this folder, or of something else in the
    folders that files of this one go to."""
    if key.endswith("/"):  # S3's consoles make such an object of a folder
        return False
    in_files = key.startswith(("type=", f"{REJECTED}/", COUNTS, ATTEMPTS))
    return any(part in key for part in _NESTED) or (in_files and not is_own(key))


def hive_escape(value: str) -> str:
    """Returns a value as part of a folder name: Hive's escaping, `%2F` for `/` and so on."""
    escaped = "".join(f"%{ord(c):02X}" if c in _HIVE_SPECIAL else c for c in value)
    for character in _NOT_IN_XML:
        escaped = escaped.replace(character, quote(character))
    return escaped


def boundary_entry(number: int) -> str:
    return f"{BOUNDARIES}{number:010d}.json"


def manifest(slice_id: str, cluster: str) -> str:
    return f"{SLICES}{slice_id}/{cluster}/manifest.json"


def superseded_manifest(slice_id: str, cluster: str, generation: int) -> str:
    """Returns a copy of a manifest that a `reland` replaced: what names the files of that generation."""
    return f"{SLICES}{slice_id}/{cluster}/manifest-{generation}.json"


def slice_success(slice_id: str, cluster: str) -> str:
    return f"{SLICES}{slice_id}/{cluster}/_SUCCESS"


def attempt(slice_id: str, attempt_id: str) -> str:
    """Returns the folder (with its trailing `/`) that one attempt at one slice writes into."""
    return f"{ATTEMPTS}{slice_id}/{attempt_id}/"


def event_folder(type_name: str | None, hour: str) -> str:
    """Returns `type=…/date=YYYY-MM-DD/hour=HH/` of an event hour such as `2026-11-20T10`; None is the
    overflow."""
    folder = OVERFLOW if type_name is None else hive_escape(type_name)
    if type_name == OVERFLOW:
        folder = OVERFLOW.replace("_", "%5F")
    return f"type={folder}/date={hour[:10]}/hour={hour[11:13]}/"


def data_file(folder: str, slice_id: str, cluster: str, generation: int, number: int) -> str:
    return f"{folder}{slice_id}-{cluster}-{generation}-{number}.parquet"


def rejected_file(slice_id: str, cluster: str, generation: int, number: int) -> str:
    return f"{REJECTED}/{slice_id}-{cluster}-{generation}-{number}.parquet"


def counts_folder(table: str) -> str:
    return f"{COUNTS}{hive_escape(table)}/"


def counts_file(table: str, slice_id: str, cluster: str, generation: int) -> str:
    return f"{counts_folder(table)}{slice_id}-{cluster}-{generation}-0.parquet"


def hour_success(type_name: str, hour: str) -> str:
    """Returns the `_SUCCESS` that says an event hour of a type is complete."""
    return event_folder(type_name, hour) + "_SUCCESS"


def lease(table: str) -> str:
    return f"_leases/{hive_escape(table)}.json"
