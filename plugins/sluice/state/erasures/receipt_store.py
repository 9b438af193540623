"""The receipt of an erasure: JSON in the lake, which whoever reads it can check without Sluice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sluice.clients.lake.base import Lake
from sluice.state.erasures.erasure_progress import folder_of
from sluice.state.update_object import update_object


def receipt_key(number: int) -> str:
    return f"{folder_of(number)}receipt.json"


def has_receipt(lake: Lake, number: int) -> bool:
    return lake.size(receipt_key(number)) is not None


def write_receipt(lake: Lake, number: int, receipt: Mapping[str, Any]) -> None:
    """Replaces an older one: a later call knows what has become of what was left then."""
    data = json.dumps(receipt, indent=1).encode()
    update_object(lake, receipt_key(number), lambda _: data)
