"""Modes of a run, and which units need landing."""

from __future__ import annotations

from typing import Literal, get_args

from sluice.errors import WrongUse
from sluice.manifest import Manifest

Mode = Literal["fill", "repair", "reload", "remake", "reland", "reload --missing-columns", "retry", "amend"]
_ALL: tuple[Mode, ...] = get_args(Mode)
MISSING_COLUMNS: Mode = "reload --missing-columns"
"""A `reload` of what was loaded before a column was added, and may have its field; of all else a `fill`."""
MODES: tuple[Mode, ...] = tuple(mode for mode in _ALL if mode not in (MISSING_COLUMNS, "retry", "amend"))
"""Those that a person asks for. `sluice rejected --retry` loads by `retry`: again, and not where a row would
leave the table. `sluice erase` loads by `amend`: what is not loaded of a manifest yet."""
AGAIN: tuple[Mode, ...] = ("remake", "reland")
"""Those that replace what has landed: out of the lake itself, or out of Kafka."""
LOADS_AGAIN: tuple[Mode, ...] = ("repair", "reload", "retry")
"""Those that load again what is loaded: by the rules of each unit's last load, or by the pipeline file's."""
CHANGES_RULES: tuple[Mode, ...] = ("reload", "remake")
"""Those that apply the rules of the pipeline file, whatever rules a unit landed and was loaded by."""
KEEPS_RULES: tuple[Mode, ...] = ("repair", "reland", "retry", "amend")
"""Those that change no rules: a `reland` lands by those of the unit's landing, and all of them load by the
routes, the columns and the SELECT of its last load."""
KEEPS_PLACEMENT: tuple[Mode, ...] = ("repair", "retry", "amend")
"""Those that leave the rows of a unit on the shards that have them, whatever the pipeline file says."""
ADDS_COLUMNS: tuple[Mode, ...] = ("fill", MISSING_COLUMNS, "reload", "remake", "reland")
"""Those that may add columns to a table (`evolve`)."""
FROM_LAKE: tuple[Mode, ...] = ("repair", "reload", "retry", "remake")
"""Those that take all that has landed out of the lake, and ask Kafka only for the rest."""


def mode_of(text: str) -> Mode:
    """Raises WrongUse for what is none."""
    for mode in _ALL:
        if mode == text:
            return mode
    raise WrongUse(f"mode {text!r}: expected one of {', '.join(MODES)}")


def asked_mode(mode: str, missing_columns: bool) -> str:
    """Returns the mode with its flag. Raises WrongUse for a flag that the mode doesn't have."""
    if not missing_columns:
        return mode
    if mode != "reload":
        raise WrongUse(f"--missing-columns (missing_columns) is for the mode reload, not {mode}: change one")
    return MISSING_COLUMNS


def needs_landing(manifest: Manifest | None, mode: str, token: str) -> bool:
    """Returns whether a unit is landed: `reload` and `repair` do it only for what has never landed; a
    `reland` or a `remake` of this token is not repeated."""
    again = mode_of(mode) in AGAIN
    return manifest is None or (again and manifest.token != token)


def waits_for_kafka(manifest: Manifest | None, mode: str, token: str) -> bool:
    """Returns whether Kafka is read for it: a `remake` reads it only for what has never landed."""
    return manifest is None or (mode_of(mode) == "reland" and manifest.token != token)
