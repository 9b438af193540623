"""Reads and writes verify's verdict in the lake."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from sluice.clients.lake.base import Lake, update_object
from sluice.flow.verify import verdict as verdicts
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.verdict import CoveredUnits, OpenAnomaly, UncomparedTables, Verdict, Verification
from sluice.slices import SliceRange
from sluice.state.months import merge_months
from sluice.state.status import UnitStatus


def read_verdict(lake: Lake) -> Verdict:
    stored = lake.read(verdicts.KEY)
    return Verdict() if stored is None else verdicts.decode(stored.data, f"{lake.url}/{verdicts.KEY}")


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
    opened = [verdicts.opened(anomaly, verification) for anomaly in broken]
    open_now: list[OpenAnomaly] = []

    def change(data: bytes | None) -> bytes:
        old = Verdict() if data is None else verdicts.decode(data, f"{lake.url}/{verdicts.KEY}")
        verdict = verdicts.after(old, verification, opened, covered, pending, uncompared)
        open_now[:] = verdicts.within(verdict, slices).anomalies
        return verdicts.encode(verdict)

    update_object(lake, verdicts.KEY, change)
    merge_months(lake, statuses, _broken_units(statuses, [*opened, *open_now]))


def opened_all(
    slices: SliceRange, statuses: Sequence[UnitStatus], broken: Sequence[Anomaly], now: datetime
) -> list[OpenAnomaly]:
    """Returns the anomalies as they are stored."""
    verification = _verification(slices, statuses, broken, now)
    return [verdicts.opened(anomaly, verification) for anomaly in broken]


def _verification(
    slices: SliceRange, statuses: Sequence[UnitStatus], broken: Sequence[Anomaly], now: datetime
) -> Verification:
    records = sum(status.manifest.read for status in statuses if status.manifest)
    return verdicts.verification_of(slices, len(statuses), records, len(broken), now)


def _broken_units(
    statuses: Iterable[UnitStatus], opened: Iterable[OpenAnomaly]
) -> frozenset[tuple[str, str]]:
    """Returns the units with anomalies, as (slice id, cluster); one without a cluster concerns all."""
    named = {(name, anomaly.cluster) for anomaly in opened for name in anomaly.slices}
    units = {(status.unit.slice.id, status.unit.cluster) for status in statuses}
    return frozenset((name, c) for name, c in units if {(name, c), (name, "")} & named)
