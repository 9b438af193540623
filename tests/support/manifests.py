"""Manifests of which a test gives only what it is about."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sluice.manifest import Manifest

REQUIRED = [field.name for field in fields(Manifest)][:11]
"""From `pipeline` to `gaps`."""
LANDED_AT = "2026-11-20T11:05:00Z"


def made_manifest(*values: Any, **more: Any) -> Manifest:
    """Returns the manifest of the values, in the order of its fields up to `gaps`. The others
    that each manifest has say nothing, except when it landed."""
    given = dict(zip(REQUIRED, values, strict=False))
    others = {"token": "", "landed_at": LANDED_AT, "counts": (), "times": (), "long_numbers": False}
    return Manifest(**{**others, "rules": "", "isolation": "read_committed", **given, **more})
