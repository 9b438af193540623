"""Fields that are missing and may be: what `sluice verify --accept` keeps in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sluice.clients.lake.base import Lake
from sluice.errors import SluiceError
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind

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
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError as error:
        raise SluiceError(
            f"{lake.url}/{KEY} holds no accepted anomalies ({error}): delete it, and accept them again"
        ) from error
