"""Fields that are missing and may be: what `sluice verify --accept` keeps in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sluice.clients.lake.base import Lake
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.stored_json import decode_stored

KEY = "_verify/accepted.json"
_DECODER = msgspec.json.Decoder(list[str])


def read_accepted(lake: Lake) -> frozenset[str]:
    """Returns the keys of accepted anomalies. Raises SluiceError naming an object that holds none."""
    stored = lake.read(KEY)
    return frozenset() if stored is None else frozenset(_decode(stored.data, lake))


def accept(lake: Lake, anomalies: Iterable[Anomaly]) -> Sequence[Anomaly]:
    """Keeps those of a missing field, and returns them. Raises what the lake raises."""
    missing = [anomaly for anomaly in anomalies if anomaly.kind is AnomalyKind.FIELD_MISSING]
    while missing:
        stored = lake.read(KEY)
        stored_keys = [] if stored is None else _decode(stored.data, lake)
        data = msgspec.json.format(
            msgspec.json.encode(sorted({*stored_keys, *(anomaly.key for anomaly in missing)})), indent=1
        )
        done = lake.create(KEY, data) if stored is None else lake.replace(KEY, data, stored.version)
        if done:
            break
    return missing


def _decode(data: bytes, lake: Lake) -> list[str]:
    place = f"{lake.url}/{KEY}"
    return decode_stored(
        _DECODER,
        data,
        lambda error: f"{place} holds no accepted anomalies ({error}): delete it, and accept them again",
    )
