"""Attempts of landing: their folders, and when they are old."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from sluice.clients.lake.base import Item

OLD = timedelta(days=7)


def is_old(items: Iterable[Item], now: datetime) -> bool:
    """Judges by the newest object: an attempt that still writes is not old."""
    return max(item.modified for item in items) < now - OLD


def attempts_of(items: Iterable[Item]) -> Mapping[tuple[str, str], list[Item]]:
    """Groups objects by (slice id, attempt id)."""
    objects_by_attempt: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        _, *folders, _ = item.key.split("/")
        if len(folders) > 1:  # else no attempt has put it there
            objects_by_attempt.setdefault((folders[0], folders[1]), []).append(item)
    return objects_by_attempt
