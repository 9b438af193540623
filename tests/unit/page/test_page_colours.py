"""Contrast of the page's colours, by WCAG's formula: 4.5 for text, 3 for what only has to be found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice import page

CSS = (Path(page.__file__).parent / "static" / "page.css").read_text()
CELLS = ["verified", "loaded", "landed", "waiting", "landing", "late", "stale", "lossy", "failed", "broken"]
TEXT = [
    *((f"{cell}-text", cell) for cell in CELLS),
    *((sign, ground) for sign in ("text", "quiet", "accent", "bad", "warn") for ground in ("card", "ground")),
    ("accent-text", "accent"),
    ("bad", "bad-ground"),
    ("warn", "warn-ground"),
    ("text", "bad-ground"),
    ("text", "warn-ground"),
    ("quiet", "bad-ground"),
    ("quiet", "warn-ground"),
]
FOUND = [
    *((sign, ground) for sign in ("focus", "edge") for ground in ("card", "ground")),
    *((f"plot-{number}", "card") for number in range(7)),
]


def themes() -> dict[str, dict[str, str]]:
    """The colours of each scheme, by name."""
    blocks = re.findall(r":root(\[data-theme=\"dark\"\])? \{([^}]*)\}", CSS)
    found: dict[str, dict[str, str]] = {"light": {}, "dark": {}}
    for dark, body in blocks:
        found["dark" if dark else "light"].update(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", body))
    return found


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula():
    """WCAG's own examples: black on white, and the grey that just passes."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrasts(scheme: str):
    colours = themes()[scheme]
    pairs = [(*pair, 4.5) for pair in TEXT] + [(*pair, 3.0) for pair in FOUND]
    low = {
        (one, other): round(contrast(colours[one], colours[other]), 2)
        for one, other, least in pairs
        if contrast(colours[one], colours[other]) < least
    }
    assert low == {}
