"""Trials on a server that is killed at one of its file operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from local.readiness import wait_until
from sluice.errors import SluiceError
from tests.faults.inserver import Operation, Shimmed
from tests.faults.inserver_load import NEW, UNITS, Commit, Trials, expected
from tests.integration.landed import World, client_of

DEATH_SECONDS = 30


@dataclass
class Rig:
    """A shimmed server, a lake, and a load that is tried again after each kill."""

    shimmed: Shimmed
    root: Path
    commit: Commit
    trials: Trials = field(init=False)

    def __post_init__(self) -> None:
        self.trials = Trials(self._connect(), self.commit)

    def count(self) -> list[Operation]:
        """The file operations of the load when nothing is killed."""
        table, pipeline, manifests = self.trials.prepare()
        with self.shimmed.armed(0):
            self.trials.world.load(pipeline, *UNITS)
        assert self.trials.differences(table, expected(NEW, manifests, self.trials.commit)) == []
        return self.shimmed.operations()

    def trial(self, at: int, phase: int) -> tuple[Operation | None, list[str]]:
        """Where the server was killed (None: the load ended before), and what is wrong after one retry."""
        table, pipeline, manifests = self.trials.prepare()
        wrong = []
        with self.shimmed.armed(at, phase):
            try:
                self.trials.world.load(pipeline, *UNITS)
            except SluiceError as error:
                wrong += [] if error.retryable else [f"not to be retried: {error}"]
            struck = next((o for o in self.shimmed.operations() if o.number == at), None)
            if struck:
                wait_until(lambda: self.shimmed.dead, "the server's death", DEATH_SECONDS)
        if struck:
            self.restart()
            self.trials.world.load(pipeline, *UNITS)
        return struck, [*wrong, *self.trials.differences(table, expected(NEW, manifests, self.trials.commit))]

    def restart(self) -> None:
        self.trials.world.client.close()
        self.shimmed.server.kill()
        self.shimmed.start()
        self.trials.world = self._connect()

    def _connect(self) -> World:
        return World(self.root, client_of(self.shimmed.server), "inserver")
