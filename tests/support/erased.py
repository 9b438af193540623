"""The erasure list of a test, made by hand, and what has to be left of records: by Python's own json."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sluice.clients.lake.base import Lake
from sluice.state.erasures import LIST_KEY, Erasure, ErasureList, encode, read_erasures

SALT = "5a" * 32


def digest(value: str) -> str:
    return hashlib.blake2b(value.encode(), key=bytes.fromhex(SALT), digest_size=16).hexdigest()


def entry(*wheres: str, kind: str = "", start: str = "", until: str = "9999") -> Erasure:
    pairs = [where.partition("=") for where in wheres]
    bare = ErasureList(SALT)
    values = tuple(bare.asked(tuple(path.split(".")), value.encode()) for path, _, value in pairs)
    return Erasure(values, kind, start, until, "", "asked for", "2026-01-01T00:00:00Z", "me")


def ask(lake: Lake, *entries: Erasure) -> None:
    """Adds entries to the list."""
    before = read_erasures(lake)
    lake.put(LIST_KEY, encode(ErasureList(SALT, (*before.entries, *entries))))


def value_at(event: Any, path: str) -> Any:
    for name in path.split("."):
        event = event.get(name) if isinstance(event, dict) else None
    return event


def is_of(text: bytes | None, path: str, value: str) -> bool:
    """Whether an event has the value; False for what is none."""
    try:
        return str(value_at(json.loads(text or b"null"), path)) == value
    except ValueError:
        return False
