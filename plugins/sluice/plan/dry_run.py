"""What a run would do, as a value and in words, for `sluice plan`, the DAG's dry run and the page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.manifest import Loss, Manifest
from sluice.mask.mask_rules import said_by
from sluice.plan.estimate import TimeEstimate
from sluice.plan.modes import MISSING_COLUMNS
from sluice.plan.plan import PlannedWork, action, to_land, waits
from sluice.slices import SliceRange
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

MOST_LINES = 500
"""Hours that `sluice plan` prints one by one."""


@dataclass(frozen=True)
class DryRun:
    """`statuses` has every unit of the range; `work` and `time` are of all with work. `silent` has the error
    of each cluster that did not answer. `new_columns` has a line for each column that `evolve: add` would
    add, `mask` what is masked, `differences` for each rule in which units differ from the pipeline file, and
    `obstacles` for what would stop the run now, or hold it up."""

    statuses: Sequence[UnitStatus]
    silent: Mapping[str, SluiceError]
    mode: str
    on_expired: str
    work: PlannedWork
    time: TimeEstimate
    new_columns: Sequence[str] = ()
    mask: Sequence[str] = ()
    differences: Sequence[str] = ()
    obstacles: Sequence[str] = ()

    def does(self, status: UnitStatus) -> str:
        return action(status, self.mode, self.on_expired)

    @property
    def offsets(self) -> int:
        """Of the units that are read from Kafka."""
        return sum(status.offsets for status in to_land(self.statuses, self.mode, self.on_expired))

    @property
    def reads(self) -> int:
        return sum(status.reads for status in to_land(self.statuses, self.mode, self.on_expired))

    @property
    def waiting(self) -> list[str]:
        return [waits(cluster, error) for cluster, error in self.silent.items()]

    @property
    def hints(self) -> list[str]:
        """What a fill leaves out, though another mode would load it again."""
        lacking = (
            {s.unit.slice for s in self.statuses if s.later and s.state.done} if self.mode == "fill" else ()
        )
        some = f"{len(lacking):,} slice lacks" if len(lacking) == 1 else f"{len(lacking):,} slices lack"
        hint = f"{some} columns that were added: --mode {MISSING_COLUMNS}"
        return [*([hint] if lacking else []), *self.differences]

    @property
    def facts(self) -> dict[str, int | str]:
        return {
            "complete": sum(status.state.done for status in self.statuses),
            "offsets to land": self.offsets,
            "reads": self.reads,
            "records to load": self.work.rows,
            "batches": len(self.work.batches),
            "time": str(self.time),
        }

    @property
    def lines(self) -> list[str]:
        """One for each unit and each cluster that waits, and the facts."""
        facts = (f"{k}: {v:,}" if isinstance(v, int) else f"{k}: {v}" for k, v in self.facts.items())
        units = (unit_line(s, self.does(s)) for s in self.statuses)
        told = (*self.new_columns, *self.mask, *self.hints, *self.waiting, *self.obstacles)
        return [*units, *told, "; ".join(facts)]


def shortened(lines: Sequence[str], most: int = MOST_LINES) -> list[str]:
    """Returns the first lines, how many are left out, and the last one, which sums up."""
    if len(lines) <= most:
        return list(lines)
    left_out = f"… {len(lines) - most:,} more: the log of the task has them"
    return [*lines[: most - 1], left_out, lines[-1]]


def unit_line(status: UnitStatus, does: str) -> str:
    """Formats unit, state, action, offsets, reads, what Kafka no longer has."""
    expired = f", Kafka no longer has {lost(status.losses)}" if status.losses else ""
    barred = any(topic.barred for topic in status.lacking)
    brings = "no reland brings it" if barred else "reland brings it"
    lacking = f", {status.lacks}: {brings}" if status.lacking else ""
    if status.forgotten_on and status.state is not UnitState.FORGOTTEN:
        lacking += f", files forgotten on {status.forgotten_on[:10]}"
    gone = sum(status.manifest.forgotten_by_reason().values()) if status.manifest else 0
    if gone and does.startswith("make again"):
        lacking += f", {gone:,} rejected ones stay as they are (the lake forgot their bytes)"
    size = f"{status.offsets:,} offsets, {status.reads} reads"
    return f"{status.unit}: {status.seen} → {does}; {size}{expired}{lacking}"


def lost(losses: Iterable[Loss]) -> str:
    """Returns the lost offsets of each partition, in one range where they touch."""
    spans: list[Loss] = []
    for loss in sorted(losses, key=lambda loss: (loss.topic, loss.partition, loss.start)):
        last = spans[-1] if spans else None
        if last and (last.topic, last.partition) == (loss.topic, loss.partition) and loss.start <= last.until:
            until, exact = max(last.until, loss.until), last.exact and loss.exact
            spans[-1] = Loss(loss.topic, loss.partition, last.start, until, exact)
        else:
            spans.append(loss)
    return "; ".join(
        f"{'' if x.exact else 'at most '}{x.topic}/{x.partition} [{x.start}, {x.until})" for x in spans
    )


def unit_json(status: UnitStatus, does: str) -> dict[str, Any]:
    return {
        "slice": status.unit.slice.id,
        "cluster": status.unit.cluster,
        "state": str(status.state),
        "action": does,
        "offsets": status.offsets,
        "rows": status.manifest.read if status.manifest else status.offsets,
        "reads": status.reads,
        "ranges": [
            {"topic": r.topic, "partition": r.partition, "from": r.start, "until": r.until}
            for r in status.ranges or ()
        ],
        "expired": [
            {"topic": x.topic, "partition": x.partition, "from": x.start, "until": x.until, "exact": x.exact}
            for x in status.losses
        ],
        "lacking_topics": {lacking.topic: lacking.offsets for lacking in status.lacking},
        "uncounted": list(status.uncounted),
        "frozen": list(status.frozen),
        "forgotten": status.forgotten_on,
        "rejected_forgotten": dict(status.manifest.forgotten_by_reason()) if status.manifest else {},
    }


# What `plan` says of the mask: what it hides, and which units landed without it. Pure.
def mask_lines(pipeline: Pipeline, statuses: Iterable[UnitStatus]) -> Iterator[str]:
    """Yields what is masked, and how many landed units are not masked so."""
    rules = said_by(pipeline)
    if not rules:
        return
    yield f"mask: {'; '.join(f'{name}: {rule}' for name, rule in rules.items())}"
    others = [s.unit for s in statuses if s.manifest is not None and not masked_so(s.manifest, rules)]
    if others:
        units = "1 unit was" if len(others) == 1 else f"{len(others):,} units were"
        span = SliceRange(others[0].slice.start, others[-1].slice.end, pipeline.slice)
        command = pipeline.command("run", *span.words, "--mode", "remake")
        yield f"{units} landed without this mask, or with another: `{command}` masks them"


def masked_so(manifest: Manifest, rules: Mapping[str, str]) -> bool:
    """Returns whether the unit landed by these rules of a mask. Rules that the file no longer has do not
    count: what they have hidden stays hidden."""
    landed_rules = manifest.masked.rules if manifest.masked else {}
    return all(landed_rules.get(name) == rule for name, rule in rules.items())
