"""Values of a strategy, the same in every run."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st


def generate(tokens: st.SearchStrategy[Any], count: int, seed: int | None) -> list[Any]:
    """The same values in every run, unless there is a seed. One load judges them all: nothing is shrunk."""
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
