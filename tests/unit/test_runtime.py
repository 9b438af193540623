"""The depth to which events are read where several threads read them: its limit is the process's."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from sluice.field_path import read_event
from sluice.runtime import deeper

DEEPEST = b'{"a":' + b"[" * 899 + b"]" * 899 + b"}"


def keys_below(frames: int) -> list[str]:
    """Reads the deepest event with so many more frames on the stack."""
    return keys_below(frames - 1) if frames else list(read_event(DEEPEST))


@pytest.mark.parametrize("other_comes_first", [True, False])
def test_a_thread_that_has_read_takes_no_depth_from_another(other_comes_first: bool):
    usual = sys.getrecursionlimit()
    with ThreadPoolExecutor(1) as pool, ExitStack() as ours, ExitStack() as other:
        if other_comes_first:
            pool.submit(other.enter_context, deeper()).result()
        ours.enter_context(deeper())
        if not other_comes_first:
            pool.submit(other.enter_context, deeper()).result()
        assert pool.submit(keys_below, 200).result() == ["a"]
        pool.submit(other.close).result()
        assert keys_below(200) == ["a"]
        ours.close()
        assert sys.getrecursionlimit() == usual


def test_a_limit_that_is_higher_stays():
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(9_000)
    try:
        with deeper(), deeper():
            assert sys.getrecursionlimit() == 9_000
        assert sys.getrecursionlimit() == 9_000
    finally:
        sys.setrecursionlimit(usual)
