"""Which version brought each key of the pipeline file: since.json, by the key's place.

A key that is new has the version that comes next, and `make release` fixes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from local.versions import ROOT
from sluice import __version__

FILE = ROOT / "local" / "documents" / "since.json"
_CHANGELOG = ROOT / "CHANGELOG.md"
_NEXT = "next"


def upcoming(changelog: str, version: str) -> str:
    """What new keys have: the tree's version until that is released, then `next`."""
    return _NEXT if f"\n## [{version}]" in changelog else version


def versions(places: Iterable[str], stored: Mapping[str, str], new: str) -> dict[str, str]:
    """Returns the version of each place; places that are gone are left out."""
    return {place: stored.get(place, new) for place in sorted(places)}


def current(places: Iterable[str]) -> dict[str, str]:
    """Returns the version of each place by since.json and the changelog."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    return versions(places, stored, upcoming(_CHANGELOG.read_text(encoding="utf-8"), __version__))


def text(version_by_key: Mapping[str, str]) -> str:
    return json.dumps(version_by_key, indent=1) + "\n"


def released(content: str, old: str, version: str) -> str:
    """since.json with `version` in place of what new keys had; `old` is `upcoming` before the release."""
    version_by_key = {
        place: version if since == old else since for place, since in json.loads(content).items()
    }
    return text(version_by_key)


def released_page(page: str, old: str, version: str) -> str:
    """The reference of the pipeline file, likewise; its last column is the version."""
    return page.replace(f"| {old} |\n", f"| {version} |\n")
