"""The version that brought a key stays what it was."""

from __future__ import annotations

import json

import pytest

from local.documents import since

FILE = json.dumps({"lake": "0.1.0", "slice": "next"})


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [
        ("# Changelog\n\n## [Unreleased]\n", "0.2.0"),
        ("## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n", "0.2.0"),
        ("## [Unreleased]\n\n## [0.2.0] - 2026-02-02\n", "next"),
    ],
)
def test_what_a_new_key_has(changelog: str, expected: str):
    assert since.upcoming(changelog, "0.2.0") == expected


def test_known_keys_keep_theirs_and_keys_that_are_gone_are_forgotten():
    known = {"lake": "0.1.0", "gone": "0.1.0"}
    assert since.versions(["slice", "lake"], known, "next") == {"lake": "0.1.0", "slice": "next"}


def test_a_release_fixes_new_keys_and_no_others():
    assert json.loads(since.released(FILE, "next", "0.3.0")) == {"lake": "0.1.0", "slice": "0.3.0"}
    page = "| `lake` | the next one | – | 0.1.0 |\n| `slice` | x | `next` | next |\n"
    assert since.released_page(page, "next", "0.3.0") == (
        "| `lake` | the next one | – | 0.1.0 |\n| `slice` | x | `next` | 0.3.0 |\n"
    )
