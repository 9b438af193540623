"""One ClickHouse for all mutants of a room whose texts are SQL: starting one for each would take longer than
the tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local import services
from local.clickhouse_config import PASSWORD
from tests.mutants.rooms import Room

ADDRESS = "SLUICE_TESTS_CLICKHOUSE"
"""The port where tests that only evaluate find a server that is kept running."""


@contextmanager
def serving(room: Room) -> Iterator[None]:
    if not room.sql:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        server = services.clickhouse_server(Path(folder, "clickhouse"))
        os.environ |= {ADDRESS: str(server.port), PASSWORD: server.password}
        try:
            yield
        finally:
            del os.environ[ADDRESS], os.environ[PASSWORD]
            server.kill()
