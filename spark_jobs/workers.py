"""What a Spark worker need not load."""

from __future__ import annotations

import sys


class _NoPandas:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("landing goes without pandas", name=name)


def without_pandas() -> None:
    """Keeps pyarrow from importing pandas when it first meets a list, which takes each worker a second."""
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())
