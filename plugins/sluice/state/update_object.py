"""Changes an object of the lake that several write to."""

from __future__ import annotations

from collections.abc import Callable

from sluice.clients.lake.base import Lake


def update_object(lake: Lake, key: str, change: Callable[[bytes | None], bytes]) -> None:
    """Changes an object by compare-and-set; `change` gets its content, None where there is none yet."""
    while True:
        stored = lake.read(key)
        data = change(None if stored is None else stored.data)
        if stored is None:
            if lake.create(key, data):
                return
        elif data == stored.data or lake.replace(key, data, stored.version):
            return
