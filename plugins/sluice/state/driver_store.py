"""Reads and changes records of drivers in the lake, by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.owned import delete_own
from sluice.state.attempts import is_old
from sluice.state.driver_record import DriverRecord, decode, encode


def read_driver(lake: Lake, key: str) -> DriverRecord | None:
    stored = lake.read(key)
    return None if stored is None else decode(stored.data, f"{lake.url}/{key}")


def change_driver(
    lake: Lake, key: str, change: Callable[[DriverRecord | None], DriverRecord | None]
) -> DriverRecord | None:
    """Writes what `change` makes of the record that stands, nothing where it returns None; returns what was
    written. `change` is called again when another has written meanwhile."""
    while True:
        stored = lake.read(key)
        old = None if stored is None else decode(stored.data, f"{lake.url}/{key}")
        new = change(old)
        if new is None or new == old:
            return new
        if stored is None:
            if lake.create(key, encode(new)):
                return new
        elif lake.replace(key, encode(new), stored.version):
            return new


def stop_driver(lake: Lake, key: str, driver: str) -> bool:
    """Asks the keeper of `driver` to end it; returns whether that is so now. One that has ended, or has
    replaced it, stays as it is."""

    def stop(record: DriverRecord | None) -> DriverRecord | None:
        running = record is not None and record.id == driver and record.end is None
        return record.stopped() if running and record else None

    return change_driver(lake, key, stop) is not None


def leave_driver(lake: Lake, key: str, driver: str) -> DriverRecord | None:
    """Notes that the task of `driver` is deferred from now on; None where another has replaced it."""

    def leave(record: DriverRecord | None) -> DriverRecord | None:
        return record.left() if record is not None and record.id == driver else None

    return change_driver(lake, key, leave)


def sweep_drivers(lake: Lake, now: datetime) -> None:
    """Removes records that nobody has renewed for a week."""
    records = [item for item in lake.list(layout.DRIVERS) if layout.is_own(item.key)]
    delete_own(lake, [item.key for item in records if is_old([item], now)])
