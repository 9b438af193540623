"""Which cases of a family every commit tries: the others take --long (`make faults`)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest


def per_commit(cases: Iterable[Any], keep: int = 1) -> list[Any]:
    """Marks all cases but the first `keep` as long. A tuple holds the values of several arguments."""
    remaining = iter(cases)
    return [*islice(remaining, keep), *map(_long, remaining)]


def _long(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.long)
