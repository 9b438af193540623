"""Reads the lake: manifests that may be damaged, listings by prefix, checksums."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import pendulum

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.layout import parse_name
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, WrongUse
from sluice.flow.verify.facts import LakeFacts
from sluice.manifest import LandedFile, Manifest
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.attempts import attempts_of, is_old
from sluice.state.manifests import read_manifest, units_in

_PREFIXES = 400  # more of them take longer than listing everything
_CHUNK = 1 << 20
EVERYWHERE = ("type=", f"{layout.REJECTED}/", layout.COUNTS)


def read_all(lake: Lake, units: Iterable[Unit]) -> tuple[dict[Unit, Manifest], dict[Unit, str]]:
    """Returns the manifests that can be read, and of the others why not. Raises LakeUnavailable."""

    def read(unit: Unit) -> Manifest | str | None:
        try:
            return read_manifest(lake, unit)
        except SluiceError as error:
            if error.retryable:
                raise
            return str(error)

    units = list(units)
    outcomes = dict(zip(units, each_if_slow(read, units), strict=True))
    manifests = {unit: m for unit, m in outcomes.items() if isinstance(m, Manifest)}
    return manifests, {unit: m for unit, m in outcomes.items() if isinstance(m, str)}


def list_files(lake: Lake, prefixes: Iterable[str] = EVERYWHERE) -> dict[str, int]:
    """Returns the bytes of every data file, by key."""
    listings = each_if_slow(lambda prefix: list(lake.list(prefix)), prefixes)
    return {i.key: i.size for items in listings for i in items if not i.key.endswith("/_SUCCESS")}


def read_lake(
    pipeline: Pipeline,
    lake: Lake,
    slices: SliceRange,
    manifests: Mapping[Unit, Manifest],
    listing: Mapping[str, int] | None,
    whole: bool,
    checksums: bool,
) -> LakeFacts:
    """Reads the lake's facts. Without a `listing`, made before the manifests were read, only the range's own
    folders are listed.

    A file is never visible before the manifest that lists it: so a manifest read after the listing knows
    every file in it. One read before is read again where the listing has a file that it does not list.
    """
    listed = {f.key: f for m in manifests.values() for f in m.held_files}
    listed_after = listing is None
    if listing is None:
        in_folders = list_files(lake, folders(pipeline, slices, manifests.values()))
        strange = own({key: in_folders[key] for key in in_folders.keys() - listed.keys()}, slices)
        listing = {key: in_folders[key] for key in in_folders.keys() & listed.keys()} | strange
    sizes = {**listing, **_sizes_of(lake, [key for key in listed if key not in listing])}
    units = _units(pipeline, sizes.keys() - listed.keys())
    read, _ = read_all(lake, [unit for unit in units.values() if listed_after or unit not in manifests])
    missing = [f for f in listed.values() if f.key not in sizes]
    return LakeFacts(
        sizes=sizes,
        named=_by_name({**manifests, **read}, units),
        unmoved=frozenset(f.key for f in missing if lake.size(f.attempt_key) is not None),
        checksums=_checksums(lake, [f for f in listed.values() if sizes.get(f.key) == f.bytes])
        if checksums
        else {},
        attempts=_old_attempts(pipeline, lake) if whole else (),
    )


def folders(pipeline: Pipeline, slices: SliceRange, manifests: Iterable[Manifest]) -> list[str]:
    """Returns the prefixes that hold what the slices brought, and all else of the hours' own days."""
    days = {slice_.start.strftime("%Y-%m-%d") for slice_ in slices}
    event_folders = {
        layout.event_folder(name, day + "T00") for name in (*pipeline.types, None) for day in days
    }
    event_folders |= {file.key.rpartition("/")[0] + "/" for m in manifests for file in m.files}
    dates = {prefix[: prefix.rindex("hour=")] for prefix in event_folders}
    flat = [f"{layout.REJECTED}/", *(layout.counts_folder(counts.table) for counts in pipeline.counts)]
    rejected = [folder + day for folder in flat for day in sorted(days)]
    return [*(sorted(dates) if len(dates) <= _PREFIXES else ["type="]), *rejected]


def own(sizes: Mapping[str, int], slices: SliceRange) -> dict[str, int]:
    """Leaves out the files that other slices brought."""
    first, end = _id(slices.start, slices), _id(slices.end, slices)
    names = {key: parse_name(key) for key in sizes}
    return {k: sizes[k] for k, name in names.items() if name is None or first <= name.slice < end}


def _id(instant: pendulum.DateTime, slices: SliceRange) -> str:
    return Slice(instant, slices.length).id


def _sizes_of(lake: Lake, keys: Sequence[str]) -> dict[str, int]:
    """Returns the bytes of files that came after the listing, or lie outside of the listed folders."""
    sizes = zip(keys, each_if_slow(lake.size, keys), strict=True)
    return {key: size for key, size in sizes if size is not None}


def _by_name(
    manifests: Mapping[Unit, Manifest], units: Mapping[tuple[str, str], Unit]
) -> dict[tuple[str, str], Manifest | None]:
    by_name: dict[tuple[str, str], Manifest | None] = {
        (u.slice.id, u.cluster): m for u, m in manifests.items()
    }
    return by_name | {pair: manifests.get(unit) for pair, unit in units.items()}


def _units(pipeline: Pipeline, keys: Iterable[str]) -> dict[tuple[str, str], Unit]:
    """Returns the units that the files' names say they are of, by slice id and cluster."""
    names = {(n.slice, n.cluster) for n in map(parse_name, keys) if n is not None}
    return {pair: unit for pair in names if (unit := _unit(pipeline, *pair)) is not None}


def _old_attempts(pipeline: Pipeline, lake: Lake) -> tuple[str, ...]:
    """Returns the files of attempts that died a week ago, named by no manifest. In doubt an attempt stays."""
    now = pendulum.now("UTC")
    old = {
        name: items for name, items in attempts_of(lake.list(layout.ATTEMPTS)).items() if is_old(items, now)
    }
    slices = [unit.slice for slice_id, _ in old if (unit := _unit(pipeline, slice_id, ""))]
    units = units_in(lake, slices)
    manifests, unreadable = read_all(lake, units)
    doubtful = {unit.slice.id for unit in unreadable}
    named = {(unit.slice.id, manifest.attempt) for unit, manifest in manifests.items()}
    forgotten = [items for name, items in old.items() if name not in named and name[0] not in doubtful]
    return tuple(item.key for items in forgotten for item in items if layout.is_own(item.key))


def _unit(pipeline: Pipeline, slice_id: str, cluster: str) -> Unit | None:
    try:
        return Unit(Slice.from_id(slice_id, pipeline.slice), cluster)
    except WrongUse:
        return None


def _checksums(lake: Lake, files: Sequence[LandedFile]) -> dict[str, str]:
    def checksum(file: LandedFile) -> str:
        sha = hashlib.sha256()
        with lake.local(file.key) as path, path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                sha.update(chunk)
        return sha.hexdigest()

    return dict(zip((f.key for f in files), each_if_slow(checksum, files), strict=True))
