"""Reads the lake: manifests that may be damaged, listings by prefix, checksums."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pendulum

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.shards import Servers
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.layout import parse_name
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import SluiceError, WrongUse
from sluice.flow.verify.facts import LakeFacts
from sluice.manifest import LandedFile, Manifest
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.lease import LeaseState, LeaseWatch, decode, may_take, observe
from sluice.state.manifests import attempts_of, is_old, read_manifest, units_in
from sluice.state.system_tables import lease_of

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


# Watches whether the targets are being loaded: their leases, which a running load renews.
_PATIENCE_TERMS = 10


def leases_of(servers: Servers, pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """Returns the names of the leases under which each target is loaded, by table."""
    return {
        target.table: tuple({_lease(server.reached, target, server.shard.name) for server in servers})
        for target in pipeline.targets
    }


def _lease(client: Client, target: Target, shard: str) -> str:
    try:
        return lease_of(client, target, shard)
    except ServerError as error:
        if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            raise
        return f"{target.table}@{shard}" if shard else target.table  # never loaded


@dataclass
class LoadWatch:
    """What was seen of the leases in `names` (by table); the clock is the watcher's own, in seconds."""

    lake: Lake
    names: Mapping[str, tuple[str, ...]]
    term: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _watches: dict[str, LeaseWatch | None] = field(default_factory=dict)
    _holders: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deadline = self.clock() + _PATIENCE_TERMS * self.term

    def read(self) -> dict[str, tuple[str, ...]]:
        """Returns the versions of each table's leases, of the tables that are not being loaded."""
        names = sorted({name for lease_names in self.names.values() for name in lease_names})
        seen = dict(zip(names, each_if_slow(self._read, names), strict=True))
        return {
            table: tuple(version for name in lease_names if (version := seen[name]) is not None)
            for table, lease_names in self.names.items()
            if all(seen[name] is not None for name in lease_names)
        }

    def _read(self, name: str) -> str | None:
        """Returns the lease's version; None while it may be held."""
        read_at = self.clock()
        key = layout.lease(name)
        stored = self.lake.read(key)
        watch = observe(self._watches.get(name), stored, self.clock())
        self._watches[name] = watch
        state: LeaseState | None = None if stored is None else decode(stored.data, f"{self.lake.url}/{key}")
        free = may_take(state, watch, read_at)
        self._holders[name] = "" if free else str(state)
        return None if not free else ("" if stored is None else stored.version)

    def busy(self, tables: Iterable[str]) -> list[str]:
        """Returns a line for each of the tables that is being loaded, by the last read."""
        holders = {
            table: [h for name in self.names[table] if (h := self._holders.get(name))] for table in tables
        }
        return [f"table {table} is being loaded by {', '.join(by)}" for table, by in holders.items() if by]

    def wait(self) -> bool:
        """Waits a tenth of a term; False when patience is over."""
        if self.clock() >= self._deadline:
            return False
        self.sleep(self.term / 10)
        return True


def unmoved(before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Returns the tables that no attempt has loaded between two reads of the leases."""
    return frozenset(table for table, versions in before.items() if after.get(table) == versions)
