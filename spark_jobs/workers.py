"""What a Spark worker need not load."""

from __future__ import annotations

import sys


class _NoPandas:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("landing goes without pandas", name=name)


def without_pandas() -> None:
    """pyarrow imports pandas when it first meets a list: a second in each worker, for nothing here."""
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())
