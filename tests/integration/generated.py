"""Values of a strategy, the same each time the same tests run."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st


def generate(tokens: st.SearchStrategy[Any], count: int, seed: int | None) -> list[Any]:
    """Without a seed they are the same in every run of the same tests: hypothesis draws on the constants of
    the modules that are loaded, too. One load judges them all: nothing is shrunk."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        derandomize=seed is None,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(tokens)
    def gather(token: Any) -> None:
        found.append(token)

    (gather if seed is None else seeded(seed)(gather))()
    return list(dict.fromkeys(found))
