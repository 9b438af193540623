"""Topics that slices landed without, in words: `status` and `verify` say the same of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Slice, SliceRange
from sluice.state.status import UnitStatus

BARRED = "topic {topic} was recreated, and what it had then is in the lake alone: no `reland` brings them"


@dataclass(frozen=True)
class LandedWithout:
    """A topic that `slices` of a cluster landed without; `offsets` is None where no boundary has it there:
    nobody has asked yet how many it has."""

    cluster: str
    topic: str
    slices: tuple[Slice, ...]
    offsets: int | None
    barred: str = ""

    @property
    def name(self) -> str:
        return f"{self.cluster}/{self.topic}"

    def line(self, pipeline: Pipeline) -> str:
        first, last = min(self.slices), max(self.slices)
        lack = "slice lacks" if len(self.slices) == 1 else "slices lack"
        brings = (
            BARRED.format(topic=self.barred)
            if self.barred
            else f"`{Repairs.of(pipeline).run([first, last], 'reland')}` brings it"
        )
        span = SliceRange(first.start, last.end, first.length)
        if self.offsets is None:
            offsets, counts = (
                "unknown offsets",
                f"`{pipeline.command('plan', *span.words)}` counts them, and ",
            )
        else:
            offsets, counts = f"{self.offsets:,} offsets", ""
        return (
            f"{len(self.slices):,} {lack} topic {self.name} ({offsets}), from {first.id} to {last.id}: "
            f"{counts}{brings}"
        )


def landed_without(statuses: Iterable[UnitStatus]) -> list[LandedWithout]:
    """Returns for each topic the slices in which its offsets are known, and those in which they are not; and
    apart from them those that cannot be landed again."""
    places: dict[tuple[str, str, bool, str], list[tuple[Slice, int]]] = {}
    for status in statuses:
        for lacks in status.lacking:
            place = (status.unit.cluster, lacks.topic, lacks.offsets is not None, lacks.barred)
            places.setdefault(place, []).append((status.unit.slice, lacks.offsets or 0))
    return [
        LandedWithout(
            cluster,
            topic,
            tuple(slice_ for slice_, _ in found),
            sum(offsets for _, offsets in found) if known else None,
            barred,
        )
        for (cluster, topic, known, barred), found in places.items()
    ]
