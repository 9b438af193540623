"""What a stored batch holds, in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

StoredHeaders = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Part:
    """Some records of a batch, in their order. `headers` is None where a record has none. `too_large`: the
    size of the one record that there is then, and of which nothing else is held."""

    offsets: list[int]
    timestamps: list[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[StoredHeaders | None]
    too_large: int | None = None
