"""How the tests log in to a ClickHouse of theirs, of which they may know only the port."""

from __future__ import annotations

import os

from local.clickhouse_config import PASSWORD
from local.services import ClickHouseAt


def at(port: int) -> ClickHouseAt:
    """tests/conftest.py gives all servers of a session one password."""
    return ClickHouseAt(port, os.environ[PASSWORD])
