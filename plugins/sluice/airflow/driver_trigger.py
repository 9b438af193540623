"""Waits in Airflow's triggerer for the end of a Spark driver, by its record in the lake.

It asks no host and no cluster manager: every triggerer that reads the lake can wait, wherever the driver is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake_at
from sluice.clients.lake.settings import settings_of
from sluice.errors import Unavailable
from sluice.safe_text import line
from sluice.state.driver_record import BEAT_SECONDS, DriverState, observe, state_of
from sluice.state.driver_store import read_driver, stop_driver


@dataclass(frozen=True)
class WatchedDriver:
    """The driver that one try of a task waits for: what trigger and resumed task know of it.

    `lake`, `pipeline` and `lake_connection` say where its record is, `key` which one it is. `host` and
    `since`, an ISO 8601 instant, are where and when it was started.
    """

    lake: str
    pipeline: str
    lake_connection: str | None
    key: str
    driver: str
    host: str
    since: str

    def opened(self) -> Lake:
        return open_lake_at(self.lake, self.pipeline, settings_of(self.lake_connection))


class DriverTrigger(BaseTrigger):
    """Fires when the driver has ended, is lost, or was replaced: the event says which."""

    def __init__(self, **driver: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watched = WatchedDriver(**driver)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", asdict(self.watched)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        lake, watch, last_logged = await asyncio.to_thread(self.watched.opened), None, ""
        self.log.info("waiting for the driver on %s, started at %s", self.watched.host, self.watched.since)
        while True:
            read_at = time.monotonic()
            try:
                record = await asyncio.to_thread(read_driver, lake, self.watched.key)
            except Unavailable as error:  # it says nothing of the driver
                self.log.warning("%s", line(str(error)))
                await asyncio.sleep(BEAT_SECONDS)
                continue
            watch = observe(watch, record, time.monotonic())
            state = state_of(record, self.watched.driver, watch, read_at)
            if state is not DriverState.RUNNING:
                outcome = {"state": state.value, "driver": asdict(self.watched)}
                yield TriggerEvent(outcome)  # type: ignore[no-untyped-call]
                return
            if record is not None and record.said not in ("", last_logged):
                last_logged = record.said
                self.log.info("%s", last_logged)
            await asyncio.sleep(BEAT_SECONDS)

    async def on_kill(self) -> None:
        """Ends the driver of a task that was cleared or marked, where no later try has replaced it yet."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        watched = self.watched
        if stop_driver(watched.opened(), watched.key, watched.driver):
            self.log.info("the driver on %s is to end", watched.host)
