"""Which settings a statement carries to servers of different age."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluice.clients.clickhouse.client import NEWER, WRITE, Client


class Driver:
    """Keeps the settings of what it is asked."""

    def __init__(self, known: set[str]) -> None:
        self.server_settings = dict.fromkeys(known)
        self.carried: list[dict[str, Any]] = []

    def query(self, _: str, *, settings: dict[str, Any], **__: object) -> SimpleNamespace:
        self.carried.append(settings)
        return SimpleNamespace(result_rows=[])

    command = query


@pytest.mark.parametrize("known", [set(), {"deduplicate_insert"}, set(NEWER)])
def test_what_a_server_does_not_know_is_not_sent(known: set[str]):
    driver = Driver(known)
    client = Client(driver, "ch:8123")
    client.run("INSERT INTO t VALUES (1)", settings=WRITE)
    client.rows("SELECT 1", settings=WRITE)
    wanted = {name: value for name, value in WRITE.items() if name in known or name not in NEWER}
    assert driver.carried == [wanted, wanted]
