"""The open anomalies of a pipeline: found by verify, and not yet verified to be repaired.

`_verify/latest.json` holds them and the last verifications. One of a range replaces the anomalies of that
range only, so a broken hour stays visible until that very hour is verified again. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

import msgspec

from sluice.clients.lake.base import Lake, update_object
from sluice.flow.verify.anomaly import LAKE_ROW_KINDS, ROW_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.repairs import with_wait, without_wait
from sluice.slices import SliceRange, utc
from sluice.state.months import merge_months
from sluice.state.status import UnitStatus
from sluice.stored_json import decode_stored

KEY = "_verify/latest.json"
_EXACT = (AnomalyKind.INCOMPLETE, AnomalyKind.LOSS, AnomalyKind.LACKING)
_OF_NEIGHBOURS = (AnomalyKind.GAP, AnomalyKind.OVERLAP, AnomalyKind.BACKWARD)
MOST = 1000
MOST_VERIFICATIONS = 20
_SLICE = re.compile(r"\d{4}-\d\d-\d\dT\d\d(?:\d\d)?Z", re.ASCII)


CoveredUnits = Mapping[str, Collection[tuple[str, str]]]
"""The units, as (slice id, cluster), that were verified for a kind; for other kinds all of the range."""
UncomparedTables = Collection[tuple[str, str, str]]
"""Tables, as (slice id, cluster, table), whose values of such a unit were not compared all the same."""


@dataclass(frozen=True)
class OpenAnomaly:
    """A broken equation: where and what, and the command that repairs it; where there is none, `advice`.

    `slices` are the ids of the hours concerned, `start` and `until` the range in which it was found. The
    other fields are those of `Anomaly`.
    """

    kind: str
    place: str
    message: str
    command: str
    advice: str
    slices: tuple[str, ...]
    cluster: str
    start: str
    until: str
    found_at: str
    topic: str
    type: str
    table: str
    shard: str
    later: str
    cause: str

    @property
    def breaks(self) -> bool:
        """Returns whether a count is wrong. The state of an hour already says that it is not done, or lost; a
        missing table is one anomaly of its own; what landed without a topic is exact."""
        return not self.cause and self.kind not in _EXACT


@dataclass(frozen=True)
class Verification:
    """One verification of `[start, until)`: `found` anomalies, of which at most `MOST` are kept."""

    at: str
    start: str
    until: str
    units: int
    records: int
    found: int


@dataclass(frozen=True)
class Verdict:
    """`verifications` are in order, the newest last."""

    anomalies: tuple[OpenAnomaly, ...] = ()
    verifications: tuple[Verification, ...] = ()


_DECODER = msgspec.json.Decoder(Verdict)


def decode(data: bytes, place: str) -> Verdict:
    """Raises SluiceError naming `place`, and what to do."""
    return decode_stored(
        _DECODER,
        data,
        lambda error: f"{place} holds no verdict ({error}): delete it, the next verify writes it again",
        _instants,
    )


def _instants(verdict: Verdict) -> Iterator[str]:
    for anomaly in verdict.anomalies:
        yield from (anomaly.start, anomaly.until, anomaly.found_at)
    for verification in verdict.verifications:
        yield from (verification.at, verification.start, verification.until)


def encode(verdict: Verdict) -> bytes:
    return msgspec.json.format(msgspec.json.encode(verdict), indent=1)


def after(
    old: Verdict,
    verification: Verification,
    anomalies: Iterable[OpenAnomaly],
    covered: CoveredUnits | None = None,
    pending: Collection[tuple[str, str]] = (),
    uncompared: UncomparedTables = (),
) -> Verdict:
    """Returns what is open after a verification: its anomalies, and the old ones that it did not cover, or
    that concern a unit which it could not judge. `pending` are these; one without a slice stands for what
    belongs to none. `uncompared` are tables whose values it could not judge. Each verification asks for all
    tables, whatever its range: one that it does not report as missing is there. What is found again keeps
    the instant at which it was found first."""
    start, until = (utc(datetime.fromisoformat(text)) for text in (verification.start, verification.until))
    covered_units = covered or {}
    found = {(a.kind, a.place): a.found_at for a in old.anomalies}
    new = tuple(replace(a, found_at=found.get((a.kind, a.place), a.found_at)) for a in anomalies)
    new_places = {(a.kind, a.place) for a in new}
    kept = [
        a
        for a in old.anomalies
        if not (
            (a.kind == AnomalyKind.TABLE_MISSING or _seen(a, start, until)) and _covered(a, covered_units)
        )
        or (
            (a.kind, a.place) not in new_places
            and (
                any((name, a.cluster) in pending for name in a.slices or ("",)) or _uncompared(a, uncompared)
            )
        )
    ]
    missing = {a.table for a in (*kept, *new) if a.kind == AnomalyKind.TABLE_MISSING}
    kept = [by_tables(a, missing) for a in kept]
    return Verdict((*kept, *new)[:MOST], (*old.verifications, verification)[-MOST_VERIFICATIONS:])


def by_tables(anomaly: OpenAnomaly, missing: Collection[str]) -> OpenAnomaly:
    """Returns an anomaly that was not verified again by the tables that are `missing` now: a command that had
    to wait for others works, and a table that is there explains nothing."""
    anomaly = replace(anomaly, cause=anomaly.cause if anomaly.cause in missing else "")
    if not anomaly.later:
        return anomaly
    advice = without_wait(anomaly.advice, anomaly.later)
    if missing:
        return replace(anomaly, advice=with_wait(advice, missing, anomaly.later))
    return replace(anomaly, command=anomaly.later, advice=advice, later="")


def _covered(anomaly: OpenAnomaly, covered: CoveredUnits) -> bool:
    units = covered.get(anomaly.kind)
    return units is None or any((name, anomaly.cluster) in units for name in anomaly.slices)


def _uncompared(anomaly: OpenAnomaly, uncompared: UncomparedTables) -> bool:
    places = ((name, anomaly.cluster, anomaly.table) for name in anomaly.slices)
    return anomaly.kind == AnomalyKind.VALUES and any(place in uncompared for place in places)


def lake_damage(verdict: Verdict, covered: CoveredUnits = MappingProxyType({})) -> dict[str, tuple[str, str]]:
    """Returns the hours whose rows in the lake were wrong when they were last compared, with their repair;
    not those that were compared just now (`covered`)."""
    return {
        name: (a.command, a.advice)
        for a in verdict.anomalies
        if a.kind in LAKE_ROW_KINDS
        for name in a.slices
        if (name, a.cluster) not in covered.get(a.kind, ())
    }


def doubtful_units(verdict: Verdict) -> frozenset[tuple[str, str]]:
    """Returns the units, as (slice id, cluster), whose rows were wrong when they were last compared."""
    return frozenset((s, a.cluster) for a in verdict.anomalies if a.kind in ROW_KINDS for s in a.slices)


def _seen(anomaly: OpenAnomaly, start: datetime, until: datetime) -> bool:
    """Returns whether a verification of `[start, until)` covered all that the anomaly was about."""
    if anomaly.slices:
        ids = (f"{start:%Y-%m-%dT%H%MZ}", f"{until:%Y-%m-%dT%H%MZ}")
        return all(ids[0] <= _minutes(name) < ids[1] for name in anomaly.slices)
    then = (utc(datetime.fromisoformat(text)) for text in (anomaly.start, anomaly.until))
    return start <= next(then) and next(then) <= until


def _minutes(slice_id: str) -> str:
    """Rows of no slice may begin within a minute: `2026-11-20T10:20:05Z`."""
    return f"{slice_id.removesuffix('Z').replace(':', '')}00"[:15] + "Z"


def verification_of(
    slices: SliceRange, units: int, records: int, anomalies: int, now: datetime
) -> Verification:
    return Verification(_text(now), _text(slices.start), _text(slices.end), units, records, anomalies)


def opened_by(anomaly: Anomaly, verification: Verification) -> OpenAnomaly:
    """Returns an anomaly of verify's as it is kept. One between neighbours names two hours, one of a file has
    it in the file's name; a type that is called like an hour names none."""
    place = replace(anomaly, type="", table="", file=anomaly.file.rpartition("/")[2]).place
    message = anomaly.message if anomaly.kind in _OF_NEIGHBOURS else ""
    named = (anomaly.slice, *_SLICE.findall(place), *_SLICE.findall(message))
    return OpenAnomaly(
        kind=str(anomaly.kind),
        place=anomaly.place,
        message=anomaly.message,
        command=anomaly.command,
        advice=anomaly.advice,
        slices=tuple(dict.fromkeys(filter(None, named))),
        cluster=anomaly.cluster,
        start=verification.start,
        until=verification.until,
        found_at=verification.at,
        topic=anomaly.topic,
        type=anomaly.type,
        table=anomaly.table,
        shard=anomaly.shard,
        later=anomaly.later,
        cause=anomaly.cause,
    )


def within(verdict: Verdict, slices: SliceRange) -> Verdict:
    """Returns the anomalies of the range: one without an hour belongs to its verification's range."""
    mine = tuple(a for a in verdict.anomalies if _touches(a, slices))
    return replace(verdict, anomalies=mine)


def _touches(anomaly: OpenAnomaly, slices: SliceRange) -> bool:
    start, until = f"{slices.start:%Y-%m-%dT%H%MZ}", f"{slices.end:%Y-%m-%dT%H%MZ}"
    if anomaly.slices:
        return any(start <= _minutes(name) < until for name in anomaly.slices)
    first, end = (utc(datetime.fromisoformat(text)) for text in (anomaly.start, anomaly.until))
    return first < slices.end and slices.start < end


def _text(instant: datetime) -> str:
    return utc(instant).isoformat(timespec="seconds")


# Reads and writes verify's verdict in the lake.


def read_verdict(lake: Lake) -> Verdict:
    stored = lake.read(KEY)
    return Verdict() if stored is None else decode(stored.data, f"{lake.url}/{KEY}")


def note_verified(
    lake: Lake,
    slices: SliceRange,
    statuses: Sequence[UnitStatus],
    broken: Sequence[Anomaly],
    now: datetime,
    covered: CoveredUnits | None = None,
    pending: Collection[tuple[str, str]] = (),
    uncompared: UncomparedTables = (),
) -> None:
    """Stores what verify has found in `slices`: `broken` are its anomalies, and all other units are in order,
    but for open anomalies of kinds that were not verified (`covered`), of units that were not judged
    (`pending`), and of values in tables that were not compared (`uncompared`)."""
    verification = _verification(slices, statuses, broken, now)
    opened = [opened_by(anomaly, verification) for anomaly in broken]
    open_now: list[OpenAnomaly] = []

    def change(data: bytes | None) -> bytes:
        old = Verdict() if data is None else decode(data, f"{lake.url}/{KEY}")
        verdict = after(old, verification, opened, covered, pending, uncompared)
        open_now[:] = within(verdict, slices).anomalies
        return encode(verdict)

    update_object(lake, KEY, change)
    merge_months(lake, statuses, _broken_units(statuses, [*opened, *open_now]))


def opened_all(
    slices: SliceRange, statuses: Sequence[UnitStatus], broken: Sequence[Anomaly], now: datetime
) -> list[OpenAnomaly]:
    """Returns the anomalies as they are stored."""
    verification = _verification(slices, statuses, broken, now)
    return [opened_by(anomaly, verification) for anomaly in broken]


def _verification(
    slices: SliceRange, statuses: Sequence[UnitStatus], broken: Sequence[Anomaly], now: datetime
) -> Verification:
    records = sum(status.manifest.read for status in statuses if status.manifest)
    return verification_of(slices, len(statuses), records, len(broken), now)


def _broken_units(
    statuses: Iterable[UnitStatus], opened: Iterable[OpenAnomaly]
) -> frozenset[tuple[str, str]]:
    """Returns the units with anomalies, as (slice id, cluster); one without a cluster concerns all."""
    named = {(name, anomaly.cluster) for anomaly in opened for name in anomaly.slices}
    units = {(status.unit.slice.id, status.unit.cluster) for status in statuses}
    return frozenset((name, c) for name, c in units if {(name, c), (name, "")} & named)
