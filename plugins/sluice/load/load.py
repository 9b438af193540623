"""Loads landed slices into one target table: the lease, the choice, one protocol run after another."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial

from sluice import metrics_sink, points
from sluice.clickhouse.client import Client
from sluice.errors import Relanded, SluiceError
from sluice.lake.base import Lake
from sluice.lease import Lease
from sluice.load.check import inspect_target
from sluice.load.decide import Mode, Work, choose, cut
from sluice.load.fencing import fence_off
from sluice.load.ledger import LedgerRow, committed, unit_of
from sluice.load.names import Attempt
from sluice.load.protocol import Run
from sluice.load.reading import choose_reading
from sluice.load.result import LoadResult, UnitLoad
from sluice.load.sql import render
from sluice.load.staging import Staging
from sluice.load.steps import Step
from sluice.load.system import check_owner, claim, create_system_tables, create_view
from sluice.load.writer import Writer
from sluice.manifests import read_manifests
from sluice.pipeline import Pipeline, Target
from sluice.points import Load
from sluice.slices import Unit

Say = Callable[[str], None]

# A holder that died is noticed within one term; a second one is for the next in the queue.
_PATIENCE_TERMS = 3


def load(
    pipeline: Pipeline,
    target: Target,
    units: Iterable[Unit],
    lake: Lake,
    client: Client,
    *,
    mode: Mode,
    token: str = "",
    on_progress: Say = lambda _: None,
    patience: timedelta | None = None,
) -> LoadResult:
    """Brings those of `units` that have landed into the target, each exactly once, and says what it did.

    `fill` and `reland` load what the ledger does not hold with this manifest and these types; `reload`
    everything, except what a run of the same `token` has loaded before. Raises TargetRefused before
    anything is written, Busy when another attempt does not finish within `patience`, Fenced when one has
    taken over, Relanded when the slice was landed again meanwhile, Conservation when a count does not hold,
    ServerError and ClickHouseOutOfReach.
    """
    loading = _Loading(pipeline, target, lake, client, mode, token, on_progress)
    return loading.load(list(units), patience or _PATIENCE_TERMS * pipeline.clickhouse.lease)


class _Loading:
    """One call of `load`."""

    def __init__(
        self,
        pipeline: Pipeline,
        target: Target,
        lake: Lake,
        client: Client,
        mode: Mode,
        token: str,
        say: Say,
    ) -> None:
        self.pipeline, self.target, self.lake, self.client = pipeline, target, lake, client
        self.mode, self.token, self.say = mode, token, say

    def load(self, units: list[Unit], patience: timedelta) -> LoadResult:
        inspect_target(self.client, self.pipeline, self.target)
        create_system_tables(self.client)
        points.reached(Load.PREPARED)
        check_owner(self.client, self.pipeline, self.lake.url, self.target)
        with self._lease(patience) as lease:
            with lease.keep():
                points.reached(Step.LEASED)
                result = self._under(lease, units)
        points.reached(Step.RELEASED)
        return result

    def _lease(self, patience: timedelta) -> Lease:
        """Above every generation that the ledger knows, so that a lake made anew does not lose to the old."""
        [(newest,)] = self.client.rows(render("newest_generation"), {"target": self.target.table})
        term = self.pipeline.clickhouse.lease
        with metrics_sink.timed("lease_wait", pipeline=self.pipeline.name, table=self.target.table):
            return Lease.acquire(self.lake, self.target.table, uuid.uuid4().hex, term, patience, above=newest)

    def _under(self, lease: Lease, units: list[Unit]) -> LoadResult:
        claim(self.client, self.pipeline, self.lake.url, self.target)
        points.reached(Step.CLAIMED)
        fence_off(self.client, self.target.table, lease.renew)
        points.reached(Step.FENCED_OFF)
        ledger = committed(self.client, self.pipeline, self.lake.url, self.target)
        manifests = read_manifests(self.lake, units)
        todo, skipped = choose(self.pipeline, self.target, manifests, ledger, self.mode, self.token)
        points.reached(Step.CHECKED)
        loaded = self._runs(lease, todo) if todo else []
        return LoadResult(self.target.table, (*loaded, *map(_skipped, skipped)))

    def _runs(self, lease: Lease, todo: list[Work]) -> list[UnitLoad]:
        found, filling = inspect_target(self.client, self.pipeline, self.target)
        create_view(self.client, found)
        points.reached(Load.VIEWED)
        limit = self._partition_limit()
        reading = choose_reading(self.client, self.pipeline, self.lake, todo[0].unit)
        loaded: list[UnitLoad] = []
        for number, works in enumerate(cut(todo), start=1):
            attempt = Attempt(self.target.table, lease.generation, number)
            writer = Writer(self.client, attempt, lease.renew, partial(unit_of, self.pipeline))
            run = Run(
                pipeline=self.pipeline,
                target=self.target,
                found=found,
                works=works,
                staging=Staging(self.pipeline, self.target, found, filling, works, reading, writer),
                writer=writer,
                lake_root=self.lake.url,
                token=self.token,
                partition_limit=limit,
            )
            loaded += self._execute(run)
            self.say(f"{self.target.table}: {len(loaded)} of {len(todo)} slices loaded")
        return loaded

    def _execute(self, run: Run) -> list[UnitLoad]:
        """A `reland` may remove the files that are being loaded: then missing rows are nobody's fault."""
        try:
            return run.execute()
        except SluiceError as error:
            if error.retryable:
                raise
            now = read_manifests(self.lake, [work.unit for work in run.works])
            for work in run.works:
                if work.unit in now and now[work.unit].id != work.manifest:
                    raise Relanded(
                        f"table {run.target.table}: slice {work.unit} was landed again while it was loaded: "
                        "load it again"
                    ) from error
            raise

    def _partition_limit(self) -> int:
        found = self.client.rows(render("server_setting"), {"name": "max_partitions_per_insert_block"})
        return int(found[0][0]) if found else 0


def _skipped(row: LedgerRow) -> UnitLoad:
    return UnitLoad(row.unit, row.manifest, row.rows, row.misfits, loaded=False)
