"""Where Sluice's own files are, and where its user's are: in the repository both are below one folder.

Installed from a wheel, the SQL, the Spark application and the alert rules lie inside the package; pipeline
files, data and relative paths then count from `SLUICE_PROJECT`, or from the working folder.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# pyproject.toml says what gets there.
_IN_WHEEL = PACKAGE / "_shipped"
_REPOSITORY = PACKAGE.parents[1]
# In the archive that travels to Spark there is nothing but Python.
_ARCHIVED = not PACKAGE.is_dir()
_INSTALLED = _IN_WHEEL.is_dir() or _ARCHIVED

SHIPPED = _IN_WHEEL if _INSTALLED else _REPOSITORY
PROJECT = Path(os.environ.get("SLUICE_PROJECT") or ".").resolve() if _INSTALLED else _REPOSITORY


# Python's own are 700, 10 and 10. A year of hours makes millions of objects that stay, and searches for
# cycles among them again and again: 8,760 manifests were read in 1.2 s with Python's, in 0.39 s with these,
# and in 0.36 s without any search.
_THRESHOLDS = (20_000, 20, 50)
_FRAMES = 5_000  # 900 levels of an event, by readers of a few frames a level; Airflow sets as many


def collect_seldom() -> None:
    """Makes Python collect garbage seldom, in the whole process: called where a command or a task begins."""
    gc.set_threshold(*_THRESHOLDS)


class _Depth:
    """`users`: how many have raised the recursion limit, which was `usual` before; it is the process's."""

    lock = threading.Lock()
    users = 0
    usual = 0


@contextmanager
def deeper() -> Iterator[None]:
    """Raises the recursion limit, so that an event is read whoever calls the reader, until the last thread
    that has raised it leaves. flow/land/expansion.py says how deep an event may be nested."""
    with _Depth.lock:
        if not _Depth.users:
            _Depth.usual = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_Depth.usual, _FRAMES))
        _Depth.users += 1
    try:
        yield
    finally:
        with _Depth.lock:
            _Depth.users -= 1
            if not _Depth.users:
                sys.setrecursionlimit(_Depth.usual)
