"""Answers that are kept for some seconds, and errors for fewer."""

from __future__ import annotations

import pytest

from sluice.errors import SluiceError
from sluice.page.status_cache import TimedCache


def test_an_answer_is_kept_longer_than_an_error():
    now, asked = [0.0], []
    cache: TimedCache[int] = TimedCache(300, clock=lambda: now[0], error_seconds=10)

    def away() -> int:
        asked.append("away")
        raise SluiceError("away")

    def there() -> int:
        asked.append("there")
        return len(asked)

    for now[0] in (0.0, 9.9):
        with pytest.raises(SluiceError, match="away"):
            cache.get("a", away)
    now[0] = 10.0
    assert cache.get("a", there) == 2
    now[0] = 309.9
    assert cache.get("a", there) == 2
    now[0] = 310.0
    assert (cache.get("a", there), asked) == (3, ["away", "there", "there"])
