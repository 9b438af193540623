"""The whole flow of a case on real servers: resolve, land, load, verify, publish, and each of them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

import pendulum
import pytest

from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Conservation, RecordsExpired, ShardsRefused, SluiceError
from sluice.flow import steps
from sluice.flow.contents.compare import auditor
from sluice.flow.load.row_checks import RowsHeld
from sluice.flow.resolve.resolve import resolve
from sluice.flow.verify.audit import AuditScope, audit
from sluice.slices import SliceRange
from sluice.state.held import release
from tests.pairs.events import LENGTHS, SLICES, START
from tests.pairs.kafka import Log, land_in_process, world_of
from tests.pairs.log import expired_before
from tests.pairs.places import Home
from tests.pairs.rollups import rollups_of
from tests.support.landing_world import World

_READ_ROWS = 25  # in a read, where a task does not read all


@dataclass
class Flow:
    home: Home
    log: Log
    refused: dict[str, str] = field(default_factory=dict)  # tables that a load has refused, and why
    said: list[str] = field(default_factory=list)  # what clusters wait for

    @cached_property
    def world(self) -> World:
        return world_of(self.log)

    @property
    def pipeline(self) -> Pipeline:
        return self.home.pipeline

    @cached_property
    def lake(self) -> Lake:
        return open_lake(self.pipeline)

    @cached_property
    def slices(self) -> SliceRange:
        case = self.home.case
        length = timedelta(minutes=LENGTHS[case.slice])
        start = pendulum.instance(START)
        return SliceRange(start, start + length * SLICES[case.slice], length)

    def first(self) -> None:
        """The first run: in all, or slice by slice as an hourly run does it."""
        case = self.home.case
        self.resolve()
        if case.expired != "nothing":
            place, start = expired_before(self.log, case)
            self.world.expire(*place, start)
        steps.check_targets(self.pipeline)
        for number, part in enumerate(self._parts() if case.one_by_one else [self.slices]):
            mode, token = case.mode, f"first{number}"
            self.land(part, mode, token)
            if mode == "reland" and self._expires(part):
                assert not list(self.lake.list("_slices/")), "a reland that is refused has landed something"
                mode = "fill"
                self.land(part, mode, token)
            self._load(part, mode, token)

    def resolve(self) -> None:
        resolve(self.pipeline, self.lake, list(self.slices), pendulum.now("UTC"), self.world.topics_of)

    def again(self, mode: str) -> None:
        """`reload` or `reland` of all slices."""
        if mode == "reland":
            self.land(self.slices, mode, mode)
        self._load(self.slices, mode, mode)

    def _parts(self) -> Iterator[SliceRange]:
        for piece in self.slices:
            yield SliceRange(piece.start, piece.end, self.slices.length)

    def land(self, slices: SliceRange, mode: str, token: str) -> None:
        rows = 10_000 if self.home.case.batch != "off" else _READ_ROWS  # copies are told apart within a read
        with pytest.raises(RecordsExpired) if self._expires(slices) else nullcontext():
            landed = land_in_process(
                self.log, self.pipeline, self.lake, slices, mode, token, self.world, rows, self._say
            )
            for error in landed.failed.values():
                raise error

    def _say(self, line: str) -> None:
        """Keeps why a cluster has not landed: where records have expired, too, the landing raises that."""
        if "waits:" in line:
            self.said.append(line)

    def _expires(self, slices: SliceRange) -> bool:
        """Whether records of the slices have expired and may not be left out: a landing says so at its end,
        and a `reland` does nothing then."""
        return self.home.case.expired == "fail" and slices.start == self.slices.start

    def _load(self, slices: SliceRange, mode: str, token: str) -> None:
        narrow = {f"{self.home.db}.{one.name}" for one in rollups_of(self.home.case) if not one.fits}
        for target in self.pipeline.targets:
            try:
                self._load_table(target, slices, mode, token)
            except SluiceError as error:
                may = target.table in narrow or (
                    self.home.case.target == "narrow view" and target.name == "main" and mode != "fill"
                )
                if error.retryable or not may:
                    raise
                self.refused[target.table] = str(error)

    def _load_table(self, target: Target, slices: SliceRange, mode: str, token: str) -> None:
        """Hours that a check holds are released, and then loaded as if there were none."""
        try:
            steps.load_table(self.pipeline, target.table, slices, mode, token, lambda line: None)
        except (RowsHeld, ShardsRefused):
            if not release(self.lake, slices, target.table, "me"):
                raise
            steps.load_table(self.pipeline, target.table, slices, mode, token, lambda line: None)

    @property
    def main_refused(self) -> bool:
        return f"{self.home.db}.main" in self.refused

    def publish(self) -> dict[tuple[str, int], int]:
        """Rows that became available, by table and slice. An incomplete hour is not published."""
        if self.home.case.expired == "fail":
            return {}
        told = steps.publish_range(self._loadable, self.slices)
        starts = {piece.id: int(piece.start.timestamp()) for piece in self.slices}
        return {(one["table"].partition(".")[2], starts[one["slice"]]): one["rows"] for one in told}

    def verify_contents(self) -> None:
        """Everything that verify looks at, over all that the lake and the tables hold, row by row."""
        units, counted, *_ = audit(self._loadable, self.slices, AuditScope(True, whole=True, checksums=True))
        found = [*counted, *auditor(self._loadable, known=counted).whole(units).anomalies]
        if self.home.case.expired == "fail":
            found = [one for one in found if "incomplete" not in str(one.kind)]
        if found:
            raise Conservation("; ".join(map(str, found)))

    @property
    def _loadable(self) -> Pipeline:
        """Without rollups that cannot be made."""
        fits = {f"{self.home.db}.{one.name}" for one in rollups_of(self.home.case) if one.fits}
        kept = {table: one for table, one in self.pipeline.rollups.items() if table in fits}
        return self.pipeline.model_copy(update={"rollups": kept})
