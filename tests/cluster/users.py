"""The user of tests/integration/land/test_main_job.py; the pipeline file has the wide stack's addresses."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.wide import CLICKHOUSE, LAKE, Everywhere, Wide
from tests.integration.land.test_main_job import User


class WideUser(User):
    def __init__(self, name: str, folder: Path, wide: Wide) -> None:
        super().__init__(name, folder, wide.env, wide.servers[0])
        self.wide = wide
        self.lake = wide.objects / name
        self.client.command(f"DROP DATABASE {name}")
        self.client = Everywhere(wide)
        self.client.command(f"CREATE DATABASE {name}")

    def write(self, **changes) -> None:
        super().write(**{"lake": LAKE, "clickhouse": CLICKHOUSE, **changes})
